"""The failures of a run, from the tasks that failed."""

import unittest

from zoscb_engine.failedtasks import FailedTask, FailedTasks, by_host, names_of

PLACE = {"file": "main.yml", "line": 4, "task": "Write"}
MAIN = " (main.yml:4)"


def failed(host, message, **others):
    return FailedTask(host, "failures", {"message": message, **PLACE, **others}, "uuid")


def dark(host, message):
    return FailedTask(host, "dark", {"message": message, **PLACE})


class RescueTest(unittest.TestCase):
    def joined(self, first, last):
        tasks = FailedTasks()
        for task in (first, last._replace(uuid="last")):
            tasks.add(task)
        causes, rescued = tasks.causes({"failures": {"h": 1}}, ["last"])
        self.assertEqual((1, []), (len(causes), rescued))
        return causes[0].failure["message"]

    def test_message_of_the_first_cause_stays(self):
        for first, last, want in (
            (failed("h", "non-zero return code 8: 8" + MAIN, output="8"), "rolled back at 18:04", f"non-zero return code 8: 8{MAIN}; then rolled back at 18:04"),
            (failed("h", "no space"), "rolled back", "no space; then rolled back"),
            (failed("h", "IEC031I D37-04" + MAIN), "gave up: IEC031I D37-04", "gave up: IEC031I D37-04"),
            (failed("h", "code 8: IEC031I D37-04" + MAIN, output="IEC031I D37-04"), "gave up: IEC031I D37-04", "gave up: IEC031I D37-04"),
        ):
            self.assertEqual(want, self.joined(first, failed("h", last)))


class HostsTest(unittest.TestCase):
    def expect(self, want, tasks):
        stats = {key: {task.host: 1 for task in tasks if task.statistic == key} for key in ("failures", "dark")}
        for each in (tasks, tasks[::-1]):  # The order depends on forks.
            self.assertEqual(want, [failure["message"] for failure in by_host(each, "lpar1", stats)])

    def test_each_host_has_its_cause(self):
        self.expect(["no space"], [failed("h1", "no space")])
        self.expect(["host h2: permission denied", "host h5: no space"], [failed("h5", "no space"), failed("h2", "permission denied")])
        self.expect(["hosts lpar1, h2: no space", "host h1: in use"], [failed("h2", "no space"), failed("h1", "in use"), failed("lpar1", "no space")])

    def test_reason_comes_first(self):
        timeout = "EndpointUnreachable: endpoint lpar1 (h:22): timeout"
        refused = "AuthenticationFailed: host h2 refused the credential: denied"
        self.expect([timeout, refused], [dark("h2", refused), dark("lpar1", timeout)])
        tasks = [dark(f"h{n}", f"EndpointUnreachable: host h{n}: timeout") for n in range(5)] + [dark("lpar1", timeout)]
        self.expect([timeout + "; also hosts h0, h1, h2 and 2 more"], tasks)
        self.expect([timeout, "host h2: no space"], [failed("h2", "no space"), dark("lpar1", timeout)])

    def test_names_are_bounded(self):
        long = "EndpointUnreachable: " + "x" * 1003
        message = by_host([dark(f"{n}" * 300, long) for n in range(5)], "", {})[0]["message"]
        self.assertEqual(1024, len(message))
        self.assertEqual("hosts a, b, c and 1 more", names_of(list("abcd")))

    def test_hosts_whose_tasks_are_forgotten(self):
        stats = {"failures": {f"h{n}": 1 for n in range(10, 41)}}
        found = by_host([failed("h30", "no space"), failed("h40", "no space")], "h30", stats)
        self.assertEqual(["hosts h30, h10, h11 and 28 more: no space"], [failure["message"] for failure in found])
