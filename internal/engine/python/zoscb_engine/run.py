"""The resource and the endpoint of an ansible-runner run."""

import hashlib
import json
import os


class Run:
    """A run with the extra vars that ansible-operator wrote for it."""

    def __init__(self, private_data_dir, ident):
        self.ident = ident
        try:
            with open(os.path.join(private_data_dir, "env", "extravars"), "rb") as file:
                content = file.read()
            self._variables = json.loads(content)
        except (OSError, ValueError):
            content, self._variables = b"", {}
        self.digest = hashlib.sha256(content).hexdigest()

    @classmethod
    def of_ansible(cls):
        """Returns the run of this Ansible process. ansible-runner sets PRIVATE_DATA_DIR/artifacts/IDENT in the
        environment."""
        artifacts = os.environ.get("AWX_ISOLATED_DATA_DIR", "")
        return cls(os.path.dirname(os.path.dirname(artifacts)), os.path.basename(artifacts))

    @property
    def endpoint(self):
        return self._text("zosendpoint")

    @property
    def resource(self):
        """Kind, namespace and name of the resource, as one string."""
        meta = self._variables.get("ansible_operator_meta") or {}
        return "/".join([self._text("k8s_cr_kind"), str(meta.get("namespace")), str(meta.get("name"))])

    @property
    def reserved_variables(self):
        """Variables that would override connection settings, since extra vars have the highest precedence."""
        return sorted(v for v in self._variables if v.startswith("ansible_") and v != "ansible_operator_meta")

    def _text(self, name):
        value = self._variables.get(name)
        if isinstance(value, dict):
            value = value.get("__ansible_unsafe")
        return value if isinstance(value, str) else ""
