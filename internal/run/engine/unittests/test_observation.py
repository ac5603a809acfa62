"""The file by which Ansible's process tells what it has observed. A playbook can write to it."""

import os
import tempfile
import unittest

from zoscb_engine import observation
from zoscb_engine.endpoints import Endpoints


class DamagedFileTest(unittest.TestCase):
    def read(self, content):
        with tempfile.TemporaryDirectory() as folder:
            if content is not None:
                with open(os.path.join(folder, "observation.json"), "wb") as file:
                    file.write(content)
            return observation.read(folder)

    def test_nothing_is_read(self):
        for content in (
            None, b"", b'{"connection": ', b'["connection"]', b"\377", b"[" * 60000,
            b'{"ended": "canceled", "surprise": 1}',
            b'{"connection": 7, "connectionMessage": [], "changes": "many", "unchecked": "all"}',
        ):
            with self.subTest(content and content[:40]):
                self.assertEqual({}, self.read(content))

    def test_the_rest_is_read(self):
        self.assertEqual({"connection": "Accepted"}, self.read(b'{"connection": "Accepted", "unchecked": "all", "tasks": 1}'))

    def test_the_file_is_bounded(self):
        self.assertEqual({}, self.read(b'{"connectionMessage": "' + b"x" * (64 << 10) + b'"}'))


class ConnectionTest(unittest.TestCase):
    def test_message_without_secrets(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "sys1_vars.yaml"), "w", encoding="utf-8") as file:
                file.write("ansible_password: 12345678\n")
            task = observation.Task("uuid", "raw", "Check", "sys1")
            result = {"msg": "Failed to connect to the host via ssh: proxy refuses 12345678"}
            observation.Observation(Endpoints(folder).get("sys1"), None, folder).unreachable(task, result)
            self.assertEqual("EndpointUnreachable: endpoint sys1: proxy refuses ***", observation.read(folder)["connectionMessage"])
