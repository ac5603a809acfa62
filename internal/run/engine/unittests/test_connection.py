"""How ssh is called for an endpoint."""

import os
import tempfile
import unittest

from zoscb_engine import connection
from zoscb_engine.endpoints import Endpoints


class ConnectionTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.mkdir(self.path("endpoints"))
        for name, value in (("ENDPOINTS_DIR", "endpoints"), ("STATE_DIR", "state")):
            os.environ["ZOSCB_" + name] = self.path(value)
        os.environ["ANSIBLE_SSH_CONTROL_PATH_DIR"] = self.path("cp")
        self.give("vars.yaml", b'{"ansible_host": "zos.example.com"}')

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def give(self, suffix, content, name="lpar1"):
        with open(self.path("endpoints", name + "_" + suffix), "wb") as file:
            file.write(content)

    def private(self, *parts):
        path = self.path("state", "endpoints", *parts)
        self.assertEqual(0o600, os.stat(path).st_mode & 0o777)
        with open(path, "rb") as file:
            return file.read()

    def prepare(self, **declared):
        got = connection.prepare(Endpoints().get("lpar1"), declared)
        words = got["ansible_ssh_args"].split()
        return got, dict(word.split("=", 1) for word in words if "=" in word)

    def test_key(self):
        self.give("key", b"-----BEGIN\r\nabc\r\n\r\n")
        got, options = self.prepare(ansible_user="ibmuser", ansible_ssh_args="-o StrictHostKeyChecking=no", ansible_ssh_retries=9)
        self.assertEqual(b"-----BEGIN\nabc\n", self.private("lpar1", "key"))
        self.assertEqual(self.path("state", "endpoints", "lpar1", "key"), got["ansible_ssh_private_key_file"])
        self.assertEqual("ibmuser", got["ansible_user"])
        self.assertEqual(0, got["ansible_ssh_retries"])
        for option, value in (("StrictHostKeyChecking", "yes"), ("BatchMode", "yes"), ("PasswordAuthentication", "no"),
                              ("PreferredAuthentications", "publickey"), ("HostKeyAlias", "lpar1"), ("ForwardAgent", "no")):
            self.assertEqual(value, options[option], option)
        self.assertNotIn("ansible_sftp_extra_args", got)

    def test_encrypted_key(self):
        self.give("key", b"k")
        self.give("passphrase", b"open sesame")
        got, options = self.prepare(ansible_scp_extra_args="-l 100")
        self.assertEqual(("no", "publickey"), (options["BatchMode"], options["PreferredAuthentications"]))
        self.assertTrue(got["ansible_scp_extra_args"].startswith("-S ") and got["ansible_scp_extra_args"].endswith(" -l 100"))
        self.assertNotIn("open sesame", str(got))

    def test_password(self):
        self.give("key", b"old")
        self.prepare()
        os.remove(self.path("endpoints", "lpar1_key"))
        self.give("password", b"swordfish")
        got, options = self.prepare()
        self.assertEqual(("no", "password", "no"), tuple(options[o] for o in ("BatchMode", "PreferredAuthentications", "PubkeyAuthentication")))
        self.assertFalse(os.path.exists(self.path("state", "endpoints", "lpar1", "key")))
        self.assertNotIn("ansible_ssh_private_key_file", got)
        self.assertNotIn("swordfish", str(got))

    def test_host_keys_are_known_by_the_name_of_the_endpoint(self):
        self.give("known_hosts", b"# comment\n\n|1|hash= ssh-ed25519 AAAA x\n@cert-authority *.example.com ssh-rsa BBBB\n")
        self.prepare()
        self.assertEqual(b"lpar1 ssh-ed25519 AAAA x\n@cert-authority lpar1 ssh-rsa BBBB\n", self.private("lpar1", "known_hosts"))

    def test_a_connection_is_not_used_with_another_credential_or_host_key(self):
        seen = set()
        for suffix, content in (("key", b"one"), ("key", b"two"), ("known_hosts", b"a ssh-rsa BBBB\n"), ("passphrase", b"p")):
            self.give(suffix, content)
            seen.add(self.prepare()[1]["ControlPath"])
        self.assertEqual(4, len(seen))
        self.assertEqual({self.path("cp")}, {os.path.dirname(path) for path in seen})

    def test_files_of_endpoints_that_are_gone_go(self):
        os.makedirs(self.path("state", "endpoints", "gone"))
        self.give("key", b"k")
        self.prepare()
        self.assertEqual(["lpar1"], os.listdir(self.path("state", "endpoints")))
