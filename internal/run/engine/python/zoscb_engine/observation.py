"""What the tasks on a run's endpoint show: whether it accepts the connection and, in check mode, what would change.

It is collected inside Ansible (../../callback_plugins), because the events of ansible-runner say neither where a
delegated task ran nor why a task was skipped. A file in the run's folder takes it to the report, of which it is a part."""

import json
import os
from typing import NamedTuple

from . import failures
from .actions import is_command, is_local
from .changes import KEPT_FROM_RUNNING
from .files import write
from .redaction import Redaction
from .run import ENTRY_PLAYS
from .texts import one_line

_FILE = "observation.json"

# The fields of the report that the file may have, and the UUIDs of the last tasks that failed in a rescue section. Limits are in bytes.
_FIELDS = {"connection": str, "connectionMessage": str, "changes": dict, "checked": int, "unchecked": int, "failedInRescue": list}
_FILE_LIMIT = 64 << 10
_MESSAGE_LIMIT = 256
_RESCUES = 20

_CONNECTIONS = {"AuthenticationFailed": "Refused", "EndpointUnreachable": "Unreachable"}


def read(folder):
    """Returns the fields of the report that were written for the run in a folder, or none if they cannot be read."""
    try:
        with open(os.path.join(folder, _FILE), "rb") as file:
            content = json.loads(file.read(_FILE_LIMIT))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {name: content[name] for name, kind in _FIELDS.items() if isinstance(content.get(name), kind)}


class Task(NamedTuple):
    """A task of Ansible. target is the host that it ran on, or a template if that is not known."""

    uuid: str
    action: str
    name: str
    target: str


class Observation:
    """Collects what tasks on an endpoint show, which may be None. changes, of the author's plays alone, is None unless the run is
    in check mode."""

    def __init__(self, endpoint, changes, folder):
        self._endpoint = endpoint
        self._name = endpoint.name if endpoint else None
        self._connects = endpoint is not None and not endpoint.is_local()
        self._connection = {}  # Fields of the report.
        self._changes = changes
        self._plays = 0
        self._failed_in_rescue = []
        self._folder = folder

    def play(self):
        """Is called when a play starts."""
        self._plays += 1

    def ok(self, task, result):
        if task.target == self._name:
            if not is_local(task.action):
                self._connected("Accepted")
            if self._is_checked(task):
                self._changes.ok(task, result)

    def skipped(self, task, result):
        """A module that must not run in a check, and a command, count wherever they would have run: those of consoles run on localhost."""
        anywhere = is_command(task.action) or result.get("msg") == KEPT_FROM_RUNNING
        if self._is_checked(task) or self._is_author_s() and anywhere:
            self._changes.skipped(task, result)

    def failed(self, task, in_rescue):
        if in_rescue:
            self._failed_in_rescue = [*self._failed_in_rescue, task.uuid][-_RESCUES:]
        if self._is_checked(task):
            self._changes.failed(task)

    def unreachable(self, task, result):
        reason = failures.unreachable_reason(result)
        if task.target == self._name and reason in _CONNECTIONS:
            text = failures.unreachable_message(self._name, self._endpoint, result, Redaction(self._endpoint))
            self._connected(_CONNECTIONS[reason], one_line(text, _MESSAGE_LIMIT))

    def end(self):
        """Writes everything once all tasks have ended."""
        rescues = {"failedInRescue": self._failed_in_rescue} if self._failed_in_rescue else {}
        self._save({**(self._changes.fields() if self._changes else {}), **rescues})

    def _is_checked(self, task):
        return self._is_author_s() and task.target == self._name

    def _is_author_s(self):
        return self._changes and self._plays > ENTRY_PLAYS

    def _connected(self, connection, message=""):
        if self._connects and connection != self._connection.get("connection"):
            self._connection = {"connection": connection, **({"connectionMessage": message} if message else {})}
            self._save({})

    def _save(self, fields):
        fields = {**self._connection, **fields}
        if fields:
            write(os.path.join(self._folder, _FILE), json.dumps(fields).encode())
