"""Texts from playbooks and modules are bounded, and have no control characters."""

import unittest

from zoscb_engine.texts import one_line, printable, tail


class TextsTest(unittest.TestCase):
    def test_control_characters(self):
        self.assertEqual("a\tb\nc\nd", printable("a\tb\r\nc\rd\x00\x07\u202e\u200b"))
        self.assertEqual("red", printable("\x1b[31mred\x1b[0m"))

    def test_beginning(self):
        self.assertEqual("one two", one_line(" one\n\t two ", 100))
        self.assertEqual("ää", one_line("äää", 5))
        self.assertEqual("", one_line("", 5))

    def test_end(self):
        self.assertEqual("one\ntwo", tail("\n one\ntwo \n", 100))
        self.assertEqual("ää", tail("äää", 5))
