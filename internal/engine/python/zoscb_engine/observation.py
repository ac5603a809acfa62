"""What the tasks on a run's endpoint show: whether it accepts the connection and, in check mode, what would change.

It is collected inside Ansible (../../callback_plugins), because the events of ansible-runner say neither where a
delegated task ran nor why a task was skipped. A file in the run's folder takes it to the report, of which it is a part."""

import json
import os
from typing import NamedTuple

from . import failures
from .files import write

_FILE = "observation.json"

_CONNECTIONS = {"AuthenticationFailed": "Refused", "EndpointUnreachable": "Unreachable"}

# Actions that do not connect to the host of the task.
_LOCAL_ACTIONS = frozenset(
    "add_host assert debug fail group_by import_role import_tasks include_role include_tasks include_vars meta pause"
    " set_fact set_stats validate_argument_spec".split()
)


def read(folder):
    """Returns the fields of the report that were written for the run in a folder, or none."""
    try:
        with open(os.path.join(folder, _FILE), "rb") as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


class Task(NamedTuple):
    """A task of Ansible. target is the host that it ran on, or a template if that is not known."""

    uuid: str
    action: str
    name: str
    target: str


class Observation:
    """Collects what tasks on an endpoint show, which may be None. changes is None unless the run is in check mode."""

    def __init__(self, endpoint, changes, folder):
        self._name = endpoint.name if endpoint else None
        self._connects = endpoint is not None and not endpoint.is_local()
        self._connection = None
        self._changes = changes
        self._folder = folder

    def ok(self, task, result):
        if task.target == self._name:
            if task.action.rpartition(".")[2] not in _LOCAL_ACTIONS:
                self._connected("Accepted")
            if self._changes:
                self._changes.ok(task, result)

    def skipped(self, task, result):
        if task.target == self._name and self._changes:
            self._changes.skipped(task, result)

    def unreachable(self, task, result):
        reason = failures.unreachable_reason(result)
        if task.target == self._name and reason in _CONNECTIONS:
            self._connected(_CONNECTIONS[reason])

    def end(self):
        """Writes everything once all tasks have ended."""
        self._save(self._changes.fields() if self._changes else {})

    def _connected(self, connection):
        if self._connects and connection != self._connection:
            self._connection = connection
            self._save({})

    def _save(self, fields):
        if self._connection:
            fields = {"connection": self._connection, **fields}
        if fields:
            write(os.path.join(self._folder, _FILE), json.dumps(fields).encode())
