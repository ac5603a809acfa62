"""The failure of a task, from its event."""

import os
import unittest

from zoscb_engine import failures

CONTENT = "/opt/ansible/content"


class FailedTaskTest(unittest.TestCase):
    def setUp(self):
        os.environ["ZOSCB_CONTENT_DIR"] = CONTENT

    def expect(self, result, message, **others):
        details = {"task": "It fails", "task_path": CONTENT + "/playbooks/main.yml:5", "res": {"failed": True, **result}}
        want = {"message": message, "task": "It fails", "file": "playbooks/main.yml", "line": 5, **others}
        self.assertEqual(want, failures.failed_task(details, None))

    def test_the_last_program_that_failed(self):
        programs = [{"rc": 12, "stderr": "IDC3012I"}, {"rc": 0, "stdout": "listed"}]
        self.expect({"msg": "IDCAMS failed", "executions": programs}, "IDCAMS failed", returnCode=12, output="IDC3012I")

    def test_crashed_module(self):
        result = {"module_stderr": "Shared connection to h closed.\r\n", "module_stdout": "Traceback\r\nNameError"}
        self.expect(result, "the task failed without a message", output="Traceback\nNameError")

    def test_end_of_the_output(self):
        lines = "\n".join(str(n) for n in range(1, 1001))
        self.expect({"msg": "failed", "rc": 4, "stdout": lines}, "failed", returnCode=4, output=lines[-2048:].strip())

    def test_message_that_is_not_a_text(self):
        self.expect({"msg": ["a", {"b": "c"}]}, "a; {'b': 'c'}")
        self.expect({"msg": {"b": "c"}}, '{"b": "c"}')

    def test_message_is_bounded_and_one_line(self):
        self.expect({"msg": "ä" * 100000}, "ä" * 512)
        self.expect({"msg": "one\ntwo"}, "one two")

    def test_hidden_result(self):
        hidden = "the task failed; its output is hidden by no_log"
        self.expect({"censored": "x", "rc": 3, "stdout": "hunter2"}, hidden)
        self.expect({"results": [{"failed": True, "_ansible_no_log": True, "msg": "hunter2", "rc": 3}]}, hidden)

    def test_file_of_the_engine_and_of_others(self):
        engine = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(failures.__file__))))
        for path, file in ((engine + "/entry.yml", "entry.yml"), ("/usr/share/x/main.yml", "/usr/share/x/main.yml")):
            failure = failures.failed_task({"task": "t", "task_path": path + ":7", "res": {"msg": "m"}}, None)
            self.assertEqual((file, 7), (failure["file"], failure["line"]))
