"""What a run in check mode would change."""

import unittest
from types import SimpleNamespace

from zoscb_engine.changes import Changes

NO_NEWLINE = "\\ No newline at end of file"


def task(name="Write it", action="acme.zos.dataset", uuid="1"):
    return SimpleNamespace(name=name, action=action, uuid=uuid)


class ChangesTest(unittest.TestCase):
    def setUp(self):
        self.changes = Changes("/tmp/ansible", True)

    def diff(self):
        return self.changes.fields()["changes"]["diff"].split("\n")

    def test_tasks_are_counted_once(self):
        self.changes.ok(task(), {"changed": False})
        for _ in range(2):  # Items of a loop.
            self.changes.ok(task(uuid="2"), {"changed": True, "diff": {"prepared": "x"}})
        self.changes.failed(task(uuid="2"))
        self.changes.failed(task(uuid="3", action="ansible.builtin.debug"))
        got = self.changes.fields()
        self.assertEqual((1, 1, 1), (got["checked"], got["unchecked"], got["changes"]["tasks"]))
        self.assertEqual(1, self.diff().count("TASK [Write it]"))

    def test_what_does_not_use_the_endpoint(self):
        for action in ("ansible.builtin.set_fact", "setup", "operator_sdk.util.requeue_after"):
            self.changes.ok(task(action=action), {"changed": True})
        self.assertEqual(0, self.changes.fields()["checked"])
        self.assertEqual(0, self.changes.fields()["changes"]["tasks"])

    def test_skipped_because_of_check_mode(self):
        for uuid, result in enumerate((
            {"skipped": True, "msg": "remote module (x) does not support check mode"},
            {"skipped": True, "censored": "the output has been hidden"},
        )):
            self.changes.skipped(task(uuid=str(uuid)), result)
        for result in (
            {"skip_reason": "Conditional result was False"}, {"false_condition": "no"}, {"skipped_reason": "No items in the list"},
            {"msg": "skipped, since /tmp/x exists"}, {"msg": "Did not run command since '/x' exists, matching creates option"},
        ):
            self.changes.skipped(task(uuid="skipped in every mode"), result)
        self.assertEqual(2, self.changes.fields()["unchecked"])

    def test_differences(self):
        self.changes.ok(task(), {"changed": True, "diff": [
            {"before": "a\nb\n", "after": "a\nc", "before_header": "X(Y)", "after_header": "/tmp/ansible/q"},
            {"before": {"k": 1}, "after": {"k": 2}},
            {"dst_binary": 1}, {"src_larger": 104448}, {"prepared": "+ one\n\x1b[31m+ two"}, "no difference",
        ]})
        want = ["TASK [Write it]", "--- before: X(Y)", "+++ after: X(Y)", "@@ -1,2 +1,2 @@", " a", "-b", "+c", NO_NEWLINE,
                "--- before", "+++ after", "@@ -1,3 +1,3 @@", " {", '-    "k": 1', '+    "k": 2', " }",
                "diff skipped: destination file appears to be binary", "diff skipped: source file size is greater than 104448",
                "+ one", "+ two"]
        self.assertEqual(want, self.diff())

    def test_no_difference_is_shown(self):
        self.changes.ok(task(), {"changed": True})
        self.assertEqual("(the module does not say what it would change)", self.diff()[-1])
        self.changes.ok(task(uuid="2", name="Secret"), {"changed": True, "_ansible_no_log": True, "diff": {"prepared": "hunter2"}})
        self.assertNotIn("hunter2", "\n".join(self.diff()))
        self.assertEqual(["Write it", "Secret"], self.changes.fields()["changes"]["names"])
        silent = Changes("/tmp/ansible", False)
        silent.ok(task(), {"changed": True, "diff": {"prepared": "hunter2"}})
        self.assertEqual("", silent.fields()["changes"]["diff"])

    def test_limits(self):
        self.changes.ok(task(), {"changed": True, "diff": {"prepared": "\n".join(["ä" * 1000] * 20)}})
        lines = self.diff()
        self.assertEqual("... 13 more lines", lines[-1])
        self.assertEqual(512, len(lines[1].encode()) + 1)  # A character of two bytes does not fit.
        self.assertLessEqual(len("\n".join(lines).encode()), 4 << 10)
        for n in range(20):
            self.changes.ok(task(uuid="more %d" % n), {"changed": True})
        self.assertEqual((21, 10), (self.changes.fields()["changes"]["tasks"], len(self.changes.fields()["changes"]["names"])))
