"""The endpoints of an installation, and whether a run may use one."""

import json
import os
import tempfile
import unittest

from zoscb_engine.endpoints import Endpoints
from zoscb_engine.refusal import refusal
from zoscb_engine.run import Run


class EndpointsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name, content in {
            "a_vars.yaml": "{}", "b_vars.yaml": "ansible_connection: local", "localhost_vars.yaml": "{}", "all_vars.yaml": "{}",
            "c_key": "key", "extra/d_vars.yaml": "{}", "env/extravars": "{}",
        }.items():
            self.write(name, content)

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)

    def get(self, name):
        return Endpoints(self.folder).get(name)

    def run_with(self, **variables):
        self.write("env/extravars", json.dumps(variables))
        return Run(self.folder)

    def test_names(self):
        self.assertEqual(["a", "b"], Endpoints(self.folder).names())
        self.assertEqual([], Endpoints(self.folder + "/none").names())

    def test_other_names_are_not_used_in_paths(self):
        for name in ("", "c", "*", "localhost", "all", "extra/d", "../" + os.path.basename(self.folder) + "/a"):
            self.assertIsNone(self.get(name), name)

    def test_credential(self):
        missing = "CredentialMissing: endpoint a has neither key nor password"
        self.assertEqual(missing, refusal(self.get("a"), self.run_with()))
        self.assertIsNone(refusal(self.get("b"), self.run_with()))
        for suffix in ("key", "password"):
            self.write("a_" + suffix, "x")
            self.assertIsNone(refusal(self.get("a"), self.run_with()))
            os.remove(os.path.join(self.folder, "a_" + suffix))

    def test_refusal_of_the_manager(self):
        self.write("b_refusal", 'CredentialMissing: Secret "{{ 6 * 7 }}" does not exist\n')
        self.assertEqual('CredentialMissing: Secret "{{ 6 * 7 }}" does not exist', refusal(self.get("b"), self.run_with()))

    def test_reserved_variables(self):
        run = self.run_with(ansible_user="x", ansible_connection="local", ansible_operator_meta={}, zosendpoint="b")
        self.assertEqual("ReservedVariable: a resource must not set ansible_connection, ansible_user", refusal(self.get("b"), run))

    def test_endpoint_of_a_run(self):
        for value, name in (("a", "a"), ({"__ansible_unsafe": "a"}, "a"), (["a"], ""), (None, ""), ({}, "")):
            self.assertEqual(name, self.run_with(zosendpoint=value).endpoint)
