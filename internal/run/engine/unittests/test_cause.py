"""The line that says why a task failed, from results as ansible-core 2.14 and 2.19 return them."""

import os
import tempfile
import time
import unittest

from zoscb_engine import cause

TRACEBACK = """Traceback (most recent call last):
  File "<stdin>", line 107, in <module>
  File "/tmp/ansible_crash_payload_1dvoyp0j/ansible_crash_payload.zip/%s", line 7, in <module>
  File "/tmp/ansible_crash_payload_1dvoyp0j/ansible_crash_payload.zip/ansible/module_utils/mylib.py", line 2, in go
ValueError: no such data set
"""
STDERR = {"msg": "MODULE FAILURE\nSee stdout/stderr for the exact error", "rc": 1}
PLACE = "playbooks/main.yml:4"


class SentenceTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.content = os.path.join(os.path.realpath(folder.name), "content")
        collections = os.path.join(folder.name, "collections")
        for file in ("playbooks/library/crash.py", "plugins/modules/own.py"):
            os.makedirs(os.path.join(self.content, os.path.dirname(file)))
            with open(os.path.join(self.content, file), "wb"):
                pass
        os.makedirs(os.path.join(collections, "ansible_collections/acme"))
        os.symlink(self.content, os.path.join(collections, "ansible_collections/acme/demo"))
        os.environ.update(ZOSCB_CONTENT_DIR=self.content, ZOSCB_COLLECTIONS_DIR=collections)

    def expect(self, want, result, output="", action="crash"):
        self.assertEqual(want, cause.sentence({"failed": True, **result}, action, output, PLACE))

    def test_module_that_crashes(self):
        for path, file in (
            ("ansible/modules/crash.py", "playbooks/library/crash.py:7"),
            ("ansible/modules/ping.py", "ping.py:7"),
            ("ansible_collections/acme/demo/plugins/modules/own.py", "plugins/modules/own.py:7"),
            ("ansible_collections/ibm/core/plugins/modules/zos_copy.py", "ansible_collections/ibm/core/plugins/modules/zos_copy.py:7"),
        ):
            trace = TRACEBACK % path
            want = f"the module failed with return code 1: ValueError: no such data set ({PLACE}, module {file})"
            self.expect(want, {**STDERR, "module_stderr": trace, "exception": trace}, trace)
        self.expect(f"the module failed with return code 137: Killed ({PLACE}, module playbooks/library/crash.py)", {**STDERR, "rc": 137, "module_stderr": "Killed\n"}, "Killed")
        text = "The module failed to execute correctly, you probably need to set the interpreter.\nSee stdout/stderr for the exact error"
        want = f"The module failed to execute correctly, you probably need to set the interpreter: sh: /nowhere: not found ({PLACE})"
        self.expect(want, {"msg": text, "rc": 127, "module_stderr": "sh: /nowhere: not found"}, "sh: /nowhere: not found", "ansible.builtin.ping")

    def test_hostile_traceback(self):
        crash = {"msg": "MODULE FAILURE", "rc": 1}
        want = f"the module failed with return code 1 ({PLACE}, module playbooks/library/crash.py)"
        for path in ("x_payload.zip/modules/" * 2000, "a_payload.zip/ansible/modules/" + "x" * 9000 + ".py", "a_payload.zip/ansible_collections/modules/\0.py"):
            for line in (f'File "{path}", line 7', f'File "{path}'):
                started = time.process_time()
                self.expect(want, {**crash, "module_stdout": line, "exception": "\n".join([line] * 5)})
                self.assertLess(time.process_time() - started, 1)

    def test_time_of_long_messages(self):
        for part in (" ", "\n", "a. ", ". b", "The error appears to be in '", "See stdout", ". See ", "/opt/ansible/", "Shared connection to  closed."):
            started = time.process_time()
            cause.sentence({"msg": part * 20000, "rc": 1}, "x", part * 1000, PLACE)
            self.assertLess(time.process_time() - started, 1, part)

    def test_module_that_crashes_with_2_19(self):
        for result, output, want in (
            ({"msg": "Task failed: Module failed: no such data set", "exception": "(traceback unavailable)"}, "", "no such data set"),
            ({"msg": "Module result deserialization failed: No start of json char found", "rc": 137, "module_stderr": "Killed"}, "Killed", "the module failed with return code 137: Killed"),
            ({"msg": "Task failed: Module failed: Unknown error.", "rc": 8, "stderr": "BPXF024I"}, "BPXF024I", "the module failed with return code 8: BPXF024I"),
        ):
            self.expect(f"{want} ({PLACE}, module playbooks/library/crash.py)", result, output)

    def test_end_of_the_output(self):
        code = {"msg": "non-zero return code", "rc": 12}
        for result, output, want in (
            (code, "one\ntwo\n\nthree\nIDC3012I NOT FOUND\n", "non-zero return code 12: two | three | IDC3012I NOT FOUND"),
            (code, "Shared connection to h closed.", "non-zero return code 12"),
            (code, "x" * 5000, "non-zero return code 12: " + "x" * 300),
            (code, "Traceback (most recent call last):\n  File \"x\"\nKeyError: 'JOB'", "non-zero return code 12: KeyError: 'JOB'"),
            ({"msg": "Copy failed", "stderr": "BPXF024I"}, "BPXF024I", "Copy failed: BPXF024I"),
            ({"msg": "BPXF024I no space", "stderr": "BPXF024I no space"}, "BPXF024I no space", "BPXF024I no space"),
            ({"msg": "An error occurred; see stdout/stderr", "rc": 8}, "IKJ56500I", "An error occurred: IKJ56500I"),
            ({"msg": "The job failed", "stdout": "listing"}, "listing", "The job failed"),
            ({"rc": 8, "stderr": "BPXF024I"}, "BPXF024I", "the task failed with return code 8: BPXF024I"),
            ({}, "", "the task failed without a message"),
        ):
            self.expect(f"{want} ({PLACE})", result, output)

    def test_until_failed_when_and_assert(self):
        for result, output, want in (
            ({"msg": "non-zero return code", "rc": 1, "attempts": 3}, "starting", "non-zero return code 1, after 3 attempts: starting"),
            ({"msg": "", "rc": 0, "attempts": 1}, "starting", "until was not true after 1 attempt: starting"),
            ({"msg": "", "rc": 0, "failed_when_result": True}, "CICS says no", "failed_when is true: CICS says no"),
            ({"msg": "Assertion failed", "assertion": "size < 3"}, "", "Assertion failed: size < 3"),
            ({"msg": "too large", "assertion": "size < 3"}, "", "too large"),
        ):
            self.expect(f"{want} ({PLACE})", result, output)

    def test_what_ansible_adds(self):
        undefined = "The task includes an option with an undefined variable. The error was: 'x' is undefined. 'x' is undefined"
        place = f"\n\nThe error appears to be in '{self.content}/playbooks/main.yml': line 4, column 7, but may\nbe elsewhere\n\nWe could be wrong"
        for text, want in (
            (undefined + place, "'x' is undefined"),
            ("Task failed: Finalization of task args for 'ansible.builtin.debug' failed: Error while resolving value for 'msg': 'x' is undefined", "Error while resolving value for 'msg': 'x' is undefined"),
            (f"Could not find or access '{self.content}/playbooks/nowhere.yml'", "Could not find or access 'playbooks/nowhere.yml'"),
            ("cannot write /opt/ansible/home/.ansible/tmp/x: /opt/ansible/collections is full", "cannot write x: collections is full"),
            (
                f"Could not find or access 'x'\nSearched in:\n\t{self.content}/files/x\n\t{self.content}/x\n\t{self.content}/x on the Ansible Controller.\nIf",
                "Could not find or access 'x' Searched in: files/x x If",
            ),
            ("template error: Could not load 'f'. String: {{ 1 | f }}. Could not load 'f'", "template error: Could not load 'f'. String: {{ 1 | f }}"),
            ({"b": "c"}, '{"b": "c"}'),
        ):
            self.expect(f"{want} ({PLACE})", {"msg": text})

    def test_line_is_bounded(self):
        line = cause.sentence({"msg": "m" * 5000, "rc": 1}, "x", "o" * 5000, PLACE)
        self.assertEqual(f"{'m' * 600}: {'o' * 300} ({PLACE})", line)
