"""The resource and the endpoint of an ansible-runner run."""

import json
import os

# The number of plays in entry.yml before the author's.
ENTRY_PLAYS = 2


class Run:
    """A run with the extra vars that ansible-operator wrote for it."""

    def __init__(self, private_data_dir):
        try:
            with open(os.path.join(private_data_dir, "env", "extravars"), "rb") as file:
                self._variables = json.load(file)
        except (OSError, ValueError):
            self._variables = {}

    @classmethod
    def of_ansible(cls):
        """Returns the run of this Ansible process. ansible-runner sets PRIVATE_DATA_DIR/artifacts/IDENT in the
        environment."""
        artifacts = os.environ.get("AWX_ISOLATED_DATA_DIR", "")
        return cls(os.path.dirname(os.path.dirname(artifacts)))

    @property
    def endpoint(self):
        return self._text("zosendpoint")

    @property
    def reserved_variables(self):
        """Variables that would override connection settings, since extra vars have the highest precedence."""
        return sorted(v for v in self._variables if v.startswith("ansible_") and v != "ansible_operator_meta")

    def _text(self, name):
        value = self._variables.get(name)
        if isinstance(value, dict):
            value = value.get("__ansible_unsafe")
        return value if isinstance(value, str) else ""
