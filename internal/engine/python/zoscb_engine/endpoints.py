"""The installation's endpoints, as the manager lays them out in one Secret:
flat files NAME_vars.yaml, NAME_known_hosts, NAME_key, NAME_passphrase,
NAME_password, NAME_refusal and NAME_retry."""

import hashlib
import os

_VARS = "_vars.yaml"

# Names that mean something else to Ansible.
_SPECIAL = frozenset(["all", "ungrouped", "localhost", "127.0.0.1", "::1"])

# A Secret holds at most one MiB.
_LIMIT = 1 << 20

# A change in any of these is a reason to try a refused credential again.
# NAME_retry is opaque text, there for someone who asks for another attempt.
_CREDENTIAL = ("vars.yaml", "key", "passphrase", "password", "retry")


class Endpoints:
    """The endpoints in a folder; the default is the mounted Secret's."""

    def __init__(self, folder=None):
        self._folder = folder or os.environ.get("ZOSCB_ENDPOINTS_DIR") or "/etc/zoscb/endpoints"

    def names(self):
        """The endpoints' names, sorted; none if the folder is absent."""
        try:
            files = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        return sorted({f[: -len(_VARS)] for f in files if f.endswith(_VARS)} - _SPECIAL)

    def get(self, name):
        """The endpoint called name, or None. A name that is not in the folder's
        listing is never made part of a path."""
        return Endpoint(self._folder, name) if name in self.names() else None


class Endpoint:
    def __init__(self, folder, name):
        self._folder = folder
        self.name = name

    def path(self, suffix):
        return os.path.join(self._folder, f"{self.name}_{suffix}")

    def read(self, suffix):
        """The bytes of one of the endpoint's files, None if there is none."""
        try:
            with open(self.path(suffix), "rb") as file:
                return file.read(_LIMIT)
        except FileNotFoundError:
            return None

    def fingerprint(self, *more):
        """A digest that changes with the endpoint's variables, its credential
        and the files named in more."""
        digest = hashlib.sha256()
        for suffix in _CREDENTIAL + more:
            content = self.read(suffix)
            digest.update(b"-" if content is None else b"%d:%s" % (len(content), content))
        return digest.hexdigest()
