"""Provides the variables of endpoints from the mounted Secret as host variables. They may be typed,
nested, and templates."""

import os
import sys

from ansible import constants
from ansible.inventory.host import Host
from ansible.plugins.vars import BaseVarsPlugin
from ansible.utils.unsafe_proxy import wrap_var

from zoscb_engine.connection import prepare
from zoscb_engine.endpoints import Endpoints
from zoscb_engine.refusal import refusal
from zoscb_engine.run import Run

DOCUMENTATION = """
name: zoscb_endpoints
short_description: variables of the installation's endpoints
description: Host variables of the endpoints in the folder ZOSCB_ENDPOINTS_DIR.
"""

# A run uses the same variables and credentials throughout, also if they are rotated.
_vars_of = {}


class VarsModule(BaseVarsPlugin):
    REQUIRES_ENABLED = False

    def get_vars(self, loader, path, entities, cache=True):
        super().get_vars(loader, path, entities)
        found = {}
        for entity in entities if isinstance(entities, list) else [entities]:
            if isinstance(entity, Host):
                found.update(self._host_vars(loader, entity.name))
        return found

    @staticmethod
    def _host_vars(loader, name):
        if name not in _vars_of:
            endpoint = Endpoints().get(name)
            if endpoint:
                _vars_of[name] = _endpoint_vars(loader, endpoint)
            else:
                _vars_of[name] = _local_vars() if name in constants.LOCALHOST else {}
        return _vars_of[name]


def _endpoint_vars(loader, endpoint):
    declared = loader.load_from_file(endpoint.path("vars.yaml")) or {}
    reason = refusal(endpoint, Run.of_ansible())
    if reason:
        return {**declared, "zoscb_refusal": wrap_var(reason)}
    if endpoint.is_local():
        return {"ansible_python_interpreter": sys.executable, **_local_vars(), **declared}
    return prepare(endpoint, declared)


def _local_vars():
    """Ansible would write modules to the home that /etc/passwd has for the user, which is read-only in pods."""
    return {"ansible_remote_tmp": os.path.expanduser("~/.ansible/tmp")}
