"""The message about missing dependencies."""

import unittest

from zoscb_engine.dependencies import main


class Settings:
    @staticmethod
    def redact(text):
        return text.replace("s3cret", "***")


class MessageTest(unittest.TestCase):
    def message(self, *problems):
        return main.message(Settings, problems)

    def test_one_line_without_secrets_and_repetition(self):
        self.assertEqual("a b; *** c", self.message("a\n  b", "s3cret c", "a\n  b"))
        self.assertEqual("", self.message())

    def test_kubernetes_keeps_4096_bytes(self):
        for problems in (["x" * 3000 + str(n) for n in range(3)], ["ä" * 5000, "b", "c"]):
            text = self.message(*problems)
            self.assertTrue(text.endswith("; and 2 more"), text[-20:])
            self.assertLessEqual(len((main.PREFIX + text).encode()), 4096)
