"""The jobs in the results of modules."""

import unittest

from zoscb_engine.jobs import Jobs


class JobsTest(unittest.TestCase):
    def test_the_last_twenty_that_were_submitted(self):
        jobs = Jobs()
        for n in range(10000, 10021):
            jobs.add({"task_action": "job", "res": {"job_id": f"JOB{n}"}})
        jobs.add({"task_action": "job_query", "res": {"job_id": "JOB20000"}})
        self.assertEqual([f"JOB{n}" for n in range(10001, 10021)], [job["id"] for job in jobs.list()])

    def test_what_is_no_job(self):
        jobs = Jobs()
        for result in (None, "text", {"jobs": "text"}, {"jobs": [7, {"job_id": 17}, {"job_id": "../x"}, {"job_id": "*"}]}):
            jobs.add({"task_action": "job", "res": result})
        self.assertEqual([], jobs.list())
