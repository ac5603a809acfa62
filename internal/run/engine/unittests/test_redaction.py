"""What is hidden of the texts that tasks have printed."""

import os
import tempfile
import unittest

from zoscb_engine.endpoints import Endpoints
from zoscb_engine.redaction import Redaction


class RedactionTest(unittest.TestCase):
    def test_secrets_of_the_endpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, content in {"vars.yaml": "ansible_become_password: hunter2\nshort_token: abc\nuser: pat\n", "password": "Sesame1\n"}.items():
                with open(os.path.join(folder, "sys1_" + name), "w", encoding="utf-8") as file:
                    file.write(content)
            text = Redaction(Endpoints(folder).get("sys1")).apply("pat logs on with Sesame1 and hunter2, not with abc")
        self.assertEqual("pat logs on with *** and ***, not with abc", text)

    def test_what_looks_like_a_secret(self):
        for text, want in (
            ("curl https://pat:secret@host/x", "curl https://***@host/x"),
            ("logon PASSWORD=ABC123, user=PAT", "logon PASSWORD=***, user=PAT"),
            ('{"password": "a b", "token":"c"}', '{"password": ***, "token":***}'),
            ("tool --password abc --user pat", "tool --password *** --user pat"),
            ("Authorization: Basic cGF0OnNlY3JldA==", "Authorization: Basic ***"),
            ("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\nend", "***\nend"),
        ):
            self.assertEqual(want, Redaction().apply(text))

    def test_messages_stay(self):
        for text in ("ICH408I PASSWORD: EXPIRED", "FSUM2078 the password has expired", "basic authentication failed", "token not found"):
            self.assertEqual(text, Redaction().apply(text))
