"""The configuration of the pod: folders, the plan that the manager wrote, and credentials."""

import json
import os
import re

_PLAN_LIMIT = 2 << 20
_SECRET_LIMIT = 1 << 20

# The confidential keys of the Secret.
_SECRET_KEYS = ("galaxyToken", "galaxyPassword", "pipPassword")


def load_environment():
    """Sets the variables in the file "env" that the pod does not set."""
    engine = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))
    with open(os.path.join(engine, "env"), encoding="utf-8") as lines:
        for line in lines:
            key, separator, value = line.strip().partition("=")
            if separator and not key.startswith("#"):
                os.environ.setdefault(key, value)


class Settings:
    def __init__(self):
        folder = os.environ.__getitem__
        self.content = folder("ZOSCB_CONTENT_DIR")
        self.collections = folder("ZOSCB_COLLECTIONS_DIR")
        self.home = folder("ZOSCB_DEPENDENCIES_DIR")
        self.secrets = folder("ZOSCB_DEPENDENCY_SECRET_DIR")
        self.termination_log = folder("ZOSCB_TERMINATION_LOG")
        self.probe_port = int(folder("ZOSCB_PROBE_PORT"))
        self.retry_seconds = float(folder("ZOSCB_DEPENDENCY_RETRY"))
        self.temporary = os.path.join(os.environ.get("TMPDIR") or "/tmp", "zoscb-dependencies")
        self.plan = json.loads(_read(os.path.join(folder("ZOSCB_RUNTIME_DIR"), "dependencies.json"), _PLAN_LIMIT))

    @property
    def marker(self):
        """The path of the file with the problem. It exists while dependencies are missing."""
        return os.path.join(self.home, "problem")

    def credentials(self):
        """Returns the current keys of the Secret, which the kubelet updates."""
        found = {}
        try:
            names = os.listdir(self.secrets)
        except FileNotFoundError:
            return found
        for name in sorted(names):
            path = os.path.join(self.secrets, name)
            if not name.startswith(".") and os.path.isfile(path):
                found[name] = _read(path, _SECRET_LIMIT).strip()
        return found

    def redact(self, text):
        """Returns the text without secrets and without names of temporary files, which change with every run."""
        credentials = self.credentials()
        for secret in sorted((credentials.get(key, "") for key in _SECRET_KEYS), key=len, reverse=True):
            if secret:
                text = text.replace(secret, "***")
        text = re.sub(r"://[^/@\s'\"]+@", "://***@", text)
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
        text = re.sub(r"(?<!\S)\S*/ansible-local-[^/\s]+/", "", text)
        return re.sub(r"0x[0-9a-f]{6,}", "0x...", text)


def _read(path, limit):
    with open(path, encoding="utf-8") as file:
        text = file.read(limit + 1)
    if len(text) > limit:
        raise ValueError(f"{path} is larger than {limit} bytes")
    return text
