"""The failure of a task, from its event."""

import os
import unittest

from zoscb_engine import failures
from zoscb_engine.redaction import Redaction

CONTENT = "/opt/ansible/content"


class FailedTaskTest(unittest.TestCase):
    def setUp(self):
        os.environ["ZOSCB_CONTENT_DIR"] = CONTENT

    def expect(self, result, message, **others):
        details = {"task": "It fails", "task_path": CONTENT + "/playbooks/main.yml:5", "res": {"failed": True, **result}}
        want = {"message": message + " (playbooks/main.yml:5)", "task": "It fails", "file": "playbooks/main.yml", "line": 5, **others}
        self.assertEqual(want, failures.failed_task(details, None, Redaction()))

    def test_the_last_program_that_failed(self):
        programs = [{"rc": 12, "stderr": "IDC3012I"}, {"rc": 0, "stdout": "listed"}]
        self.expect({"msg": "IDCAMS failed", "executions": programs}, "IDCAMS failed: IDC3012I", returnCode=12, output="IDC3012I")

    def test_crashed_module(self):
        result = {"module_stderr": "Shared connection to h closed.\r\n", "module_stdout": "Traceback\r\nNameError"}
        self.expect(result, "the task failed: Traceback | NameError", output="Traceback\nNameError")

    def test_end_of_the_output(self):
        lines = "\n".join(str(n) for n in range(1, 1001))
        self.expect({"msg": "failed", "rc": 4, "stdout": lines}, "failed: 998 | 999 | 1000", returnCode=4, output=lines[-2048:].strip())

    def test_secrets_where_texts_are_cut(self):
        text = "x" * 1000 + " PASSWORD=" + "s" * 3000
        failure = failures.failed_task({"res": {"failed": True, "msg": text, "rc": 8, "stdout": text}}, None, Redaction())
        self.assertNotIn("sss", failure["message"] + failure["output"])

    def test_secrets_in_messages_that_are_no_texts(self):
        secret = "PASSWORD=" + "s" * 5000
        for value in (["x", secret], {"a": secret}, {"password": "sss"}, "x\npassword: sss"):
            self.assertNotIn("sss", failures.failed_task({"res": {"failed": True, "msg": value}}, None, Redaction())["message"])

    def test_place_after_a_word_that_has_a_value(self):
        self.expect({"msg": "INVALID PASSWORD"}, "INVALID PASSWORD")

    def test_message_that_is_not_a_text(self):
        self.expect({"msg": ["a", {"b": "c"}]}, "a; {'b': 'c'}")
        self.expect({"msg": {"b": "c"}}, '{"b": "c"}')

    def test_message_is_bounded_and_one_line(self):
        self.expect({"msg": "ä" * 100000}, "ä" * 500)
        self.expect({"msg": "one\ntwo"}, "one two")

    def test_hidden_result(self):
        hidden = "the task failed; its output is hidden by no_log"
        self.expect({"censored": "x", "rc": 3, "stdout": "hunter2"}, hidden)
        self.expect({"results": [{"failed": True, "_ansible_no_log": True, "msg": "hunter2", "rc": 3}]}, hidden)

    def test_file_of_the_engine_and_of_others(self):
        engine = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(failures.__file__))))
        for path, file in ((engine + "/entry.yml", "entry.yml"), ("/usr/share/x/main.yml", "/usr/share/x/main.yml")):
            failure = failures.failed_task({"task": "t", "task_path": path + ":7", "res": {"msg": "m"}}, None, Redaction())
            self.assertEqual((file, 7), (failure["file"], failure["line"]))


class UnreachableTest(unittest.TestCase):
    def test_the_last_message_of_ssh_that_says_something(self):
        for text, want in (
            ("ssh: connect to host jump port 22: Connection refused\r\nConnection closed by UNKNOWN port 65535", "ssh: connect to host jump port 22: Connection refused"),
            ("kex_exchange_identification: read: Connection reset by peer\r\nConnection closed by UNKNOWN port 65535", "kex_exchange_identification: read: Connection reset by peer"),
            ("Connection closed by UNKNOWN port 65535", "Connection closed"),
        ):
            for prefix in ("", "Task failed: "):
                result = {"unreachable": True, "msg": prefix + "Failed to connect to the host via ssh: " + text}
                self.assertEqual(f"EndpointUnreachable: host h: {want}", failures.unreachable_message("h", None, result, Redaction()))

    def test_secrets(self):
        for text in ("Failed to connect to the host via ssh: proxy: password=hunter2", "cannot create: password: hunter2"):
            self.assertNotIn("hunter2", failures.unreachable_message("h", None, {"msg": text}, Redaction()))


class PlaybookErrorTest(unittest.TestCase):
    def expect(self, message, output):
        self.assertEqual("PlaybookError: " + message, failures.playbook_error(output, Redaction())["message"])

    def test_secrets(self):
        self.expect("bad value password: ***", "ERROR! bad value\npassword: hunter2\n")

    def test_place_that_cannot_be_a_path(self):
        for character in "\0\ud800":
            self.expect("/x/vars.yml, line 3: bad value", f"ERROR! bad value\n\nThe error appears to be in '/x/{character}vars.yml': line 3, column 4")
