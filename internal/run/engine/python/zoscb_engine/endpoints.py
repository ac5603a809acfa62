"""The installation's endpoints in the Secret that the manager writes: files NAME_vars.yaml, NAME_known_hosts, NAME_key,
NAME_passphrase, NAME_password and NAME_refusal."""

import hashlib
import os

import yaml

_VARS = "_vars.yaml"

# Names with a special meaning in Ansible.
_SPECIAL = frozenset(["all", "ungrouped", "localhost", "127.0.0.1", "::1"])

# The maximum size of a Secret.
_LIMIT = 1 << 20

# The files that a connection depends on.
_CONNECTION = ("vars.yaml", "key", "passphrase", "password", "known_hosts")


class Endpoints:
    """The endpoints in a folder. The default is the folder of the mounted Secret."""

    def __init__(self, folder=None):
        self._folder = folder or os.environ.get("ZOSCB_ENDPOINTS_DIR") or "/etc/zoscb/endpoints"

    def names(self):
        """Returns the sorted names of the endpoints, or none if the folder does not exist."""
        try:
            files = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        return sorted({f[: -len(_VARS)] for f in files if f.endswith(_VARS)} - _SPECIAL)

    def get(self, name):
        """Returns the endpoint with this name, or None. An unknown name is never used in a path."""
        return Endpoint(self._folder, name) if name in self.names() else None


class Endpoint:
    def __init__(self, folder, name):
        self._folder = folder
        self.name = name

    def path(self, suffix):
        return os.path.join(self._folder, f"{self.name}_{suffix}")

    def read(self, suffix):
        """Returns the content of one of the endpoint's files, or None if it does not exist."""
        try:
            with open(self.path(suffix), "rb") as file:
                return file.read(_LIMIT)
        except FileNotFoundError:
            return None

    def address(self):
        """Returns "host:port", or "" if the endpoint's variables do not contain them or are templates."""
        declared = self.declared()
        host, port = str(declared.get("ansible_host") or ""), str(declared.get("ansible_port") or 22)
        if not host or "{{" in host + port:
            return ""
        colons = host.count(":")
        if colons == 1 or "]:" in host:  # The host has a port.
            return host
        return f"[{host.strip('[]')}]:{port}" if colons else f"{host}:{port}"

    def user(self):
        """Returns the user name, or "" if the endpoint's variables do not contain it or it is a template."""
        user = str(self.declared().get("ansible_user") or "")
        return "" if "{{" in user else user

    def is_local(self):
        """Returns whether tasks on the endpoint run in this pod, without a connection."""
        return self.declared().get("ansible_connection") == "local"

    def declared(self):
        """Returns the endpoint's variables, or none if they cannot be read."""
        try:
            declared = yaml.safe_load(self.read("vars.yaml") or b"")
        except yaml.YAMLError:
            return {}
        return declared if isinstance(declared, dict) else {}

    def fingerprint(self):
        """Returns a digest of the endpoint's variables, credential and host keys."""
        digest = hashlib.sha256()
        for suffix in _CONNECTION:
            content = self.read(suffix)
            digest.update(b"-" if content is None else b"%d:%s" % (len(content), content))
        return digest.hexdigest()
