"""The message about missing dependencies."""

import time
import unittest

from zoscb_engine.dependencies import main, packages, settings


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


class OutputTest(unittest.TestCase):
    def test_server_that_was_not_reached(self):
        broken = "WARNING: Retrying after connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7f>: %s')': /x"
        for text in ("[Errno 111] Connection refused", "Failed to establish a new connection: [Errno -2] Name or service not known"):
            self.assertEqual("the server was not reached: " + text.rpartition(": ")[2], packages.gist(broken % text))

    def test_time_of_long_outputs(self):
        shown = settings.Settings.redact(Hidden, "see /root/x/ansible-local-17/tmp " + "x" * 200000)
        self.assertEqual("see tmp", shown[:7])
        for part in ("x", "connection broken by '", "connection broken by '" + "x" * 400):
            started = time.process_time()
            settings.Settings.redact(Hidden, part * (50000 // len(part)))
            packages.gist("connection broken by '" + part * (50000 // len(part)))
            self.assertLess(time.process_time() - started, 3, part)


class Hidden:
    @staticmethod
    def credentials():
        return {}
