"""The report of a run, from events as ansible-runner hands them to its plugins."""

import json
import os
import tempfile
import unittest

from zoscb_engine.events import Recorder
from zoscb_engine.report import ReportFile
from zoscb_engine.run import Run

LOCAL = "ansible_connection: local\n"


def event(name, **data):
    return {"event": name, "event_data": data}


def play(uuid):
    return event("playbook_on_play_start", play_uuid=uuid)


# The plays of entry.yml.
ENTRY = [play("select"), play("connect"), event("runner_on_ok", host="pod", task_action="ansible.builtin.raw", res={})]

NO_HOSTS = event("playbook_on_no_hosts_matched")


class ReportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.makedirs(os.path.join(self.folder, "env"))
        self.write("env/extravars", json.dumps({"zosendpoint": {"__ansible_unsafe": "pod"}}))
        os.environ["ZOSCB_ENDPOINTS_DIR"] = self.folder

    def write(self, name, content):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(content)

    def report(self, events, status="successful", variables=LOCAL):
        """Returns the report of a run that ends with a status after events of the author's playbook."""
        self.write("pod_vars.yaml", variables)
        path = os.path.join(self.folder, "report.json")
        recorder = Recorder(Run(self.folder), ReportFile(path), self.folder)
        for each in ENTRY + events:
            recorder.handle(each)
        recorder.end(status)
        with open(path, "rb") as file:
            content = file.read()
        self.assertLessEqual(len(content), 64 << 10)
        return json.loads(content)


class EndpointTest(ReportTest):
    def test_declared_host_and_user(self):
        for variables, host, user in (
            ("ansible_host: h1\nansible_port: 2022\nansible_user: ibmuser\n", "h1:2022", "ibmuser"),
            ("ansible_host: '{{ where }}'\nansible_user: '{{ who }}'\nwhere: here\nwho: me\n", "", ""),
            ("ansible_host:\nansible_user:\n", "", ""),
            ("ansible_host: fd00::1\n", "[fd00::1]:22", ""),
            ("ansible_host: '[fd00::1]'\nansible_port: 2022\n", "[fd00::1]:2022", ""),
            ("ansible_host: h1:2022\n", "h1:2022", ""),
        ):
            with self.subTest(variables):
                report = self.report([play("author")], variables=LOCAL + variables)
                self.assertEqual((host, user), (report["host"], report["user"]))


class PlaysTest(ReportTest):
    def test_a_play_that_matches_a_host_is_enough(self):
        for name, events in {
            "one play of two": [play("a"), NO_HOSTS, play("b")],
            "the same in the other order": [play("b"), play("a"), NO_HOSTS],
            "nothing to do": [play("a")],
        }.items():
            with self.subTest(name):
                self.assertEqual([], self.report(events)["failures"])

    def test_no_play_matches_a_host(self):
        for name, events in {
            "one play": [play("a"), NO_HOSTS],
            "two plays": [play("a"), NO_HOSTS, play("b"), NO_HOSTS],
            "a play that is announced twice": [play("a"), play("a"), NO_HOSTS],
            "no play at all": [],
        }.items():
            with self.subTest(name):
                failures = self.report(events)["failures"]
                self.assertEqual(["NoHostsMatched: no play of the playbook matched a host; it must say `hosts: all`"], [f["message"] for f in failures])

    def test_plays_of_the_engine_do_not_count(self):
        self.assertEqual([], self.report([NO_HOSTS, play("a")])["failures"])


class RequeueTest(ReportTest):
    def requeue(self, **result):
        return event("runner_on_ok", host="pod", task="Later", task_path="/entry.yml:4", task_action="operator_sdk.util.requeue_after", res=result)

    def test_the_last_request_counts(self):
        report = self.report([play("a"), self.requeue(period="10m"), self.requeue(period="1h30m")])
        self.assertEqual(("1h30m", []), (report["requeueAfter"], report["failures"]))

    def test_a_hidden_request_is_a_failure(self):
        for name, result in {
            "task": {"censored": "hidden"},
            "task of a local module": {"_ansible_no_log": True},
            "one item": {"results": [{"period": "10m"}, {"censored": "hidden"}]},
        }.items():
            with self.subTest(name):
                failures = self.report([play("a"), self.requeue(**result)])["failures"]
                self.assertEqual(["requeue_after must not have no_log, which hides its time"], [f["message"] for f in failures])
                self.assertEqual(4, failures[0]["line"])


class FailuresTest(ReportTest):
    def failed(self, host, text, ignored=False):
        return event("runner_on_failed", host=host, task=text, res={"failed": True, "msg": text, "stderr": text}, ignore_errors=ignored)

    def test_the_report_is_bounded(self):
        text = '"' * 10000
        hosts = [f"h{n}" for n in range(12)]
        stats = event("playbook_on_stats", failures={host: 1 for host in hosts})
        report = self.report([play("a"), *(self.failed(host, host + text) for host in hosts), stats], "failed")
        self.assertEqual(("failed", 9), (report["ended"], len(report["failures"])))

    def test_at_most_ten_failures(self):
        hosts = [f"h{n}" for n in range(30)]
        stats = event("playbook_on_stats", failures={host: 1 for host in hosts})
        report = self.report([play("a"), *(self.failed(host, host) for host in hosts), stats], "failed")
        self.assertEqual([f"host h{n}: h{n}" for n in range(10)], [f["message"] for f in report["failures"]])

    def test_ignored_failures_are_not_reported(self):
        stats = event("playbook_on_stats", failures={"pod": 1})
        report = self.report([play("a"), self.failed("pod", "never mind", True), self.failed("pod", "in use"), stats], "failed")
        self.assertEqual(["in use"], [f["message"] for f in report["failures"]])

    def test_a_run_that_was_cancelled_has_no_failures(self):
        report = self.report([play("a"), self.failed("pod", "in use")], "canceled")
        self.assertEqual(("canceled", []), (report["ended"], report["failures"]))
