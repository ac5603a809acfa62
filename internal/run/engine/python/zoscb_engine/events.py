"""The ansible-runner plugin that writes the report of a run to the file named by ZOSCB_RUN_REPORT.

A run fails if ansible-playbook fails, if a host is unreachable, or if no play of the author matches a host. A failed task
that is ignored or rescued does not let the run fail."""

import os
import traceback
from datetime import datetime, timezone

from . import failures, observation
from .endpoints import Endpoints
from .failedtasks import FailedTask, FailedTasks, by_host, names_of
from .jobs import Jobs
from .redaction import Redaction
from .report import ReportFile
from .run import ENTRY_PLAYS, Run
from .texts import one_line

# The final states of a run that was not stopped.
_ENDED = ("successful", "failed", "error")

_OUTPUT_LIMIT = 20000
_FAILURES = 10
_TEXT_LIMIT = 256

_REQUEUE_AFTER = ("operator_sdk.util.requeue_after", "requeue_after")


def event_handler(runner_config, data):
    """Called by ansible-runner with each event."""
    try:
        _recorder(runner_config).handle(data)
    except Exception:  # pylint: disable=broad-except
        # ansible-runner would end, and the playbook would go on without it.
        traceback.print_exc()


def status_handler(runner_config, data):
    """Called by ansible-runner when a run changes its state."""
    if data["status"] not in ("starting", "running"):
        _recorder(runner_config).end(data["status"])


_recorders = {}


def _recorder(runner_config):
    if runner_config.ident not in _recorders:
        file = ReportFile(os.environ.get("ZOSCB_RUN_REPORT"))
        _recorders[runner_config.ident] = Recorder(Run(runner_config.private_data_dir), file, runner_config.artifact_dir)
    return _recorders[runner_config.ident]


class Recorder:
    """Turns the events of one run into its report. Its size does not depend on the number of events."""

    def __init__(self, run, file, artifacts):
        self._run = run
        self._file = file
        self._artifacts = artifacts
        endpoint = Endpoints().get(run.endpoint)
        self._host = endpoint.name if endpoint else ""
        self._redaction = Redaction(endpoint)
        about = {"host": endpoint.address(), "user": endpoint.user()} if endpoint else {}
        self._report = {key: one_line(text, _TEXT_LIMIT) for key, text in about.items()}
        self._jobs = Jobs()
        self._failed = FailedTasks()
        self._observed = {}  # What the tasks on the endpoint have shown.
        self._in_rescue = []  # Tasks of rescue sections that failed.
        self._hidden_request = None  # The failure of a requeue_after whose time cannot be read.
        self._stats = None
        self._output = ""
        self._task_uuid = None
        self._play_uuid = None
        self._plays = 0
        self._unmatched = 0  # Plays of the author that matched no host.
        self._checks = 0  # Tasks of the engine on the endpoint.
        self._handlers = {
            "playbook_on_play_start": self._start_play,
            "playbook_on_no_hosts_matched": self._no_hosts_matched,
            "playbook_on_task_start": self._start_task,
            "playbook_on_stats": self._keep_stats,
            "runner_on_ok": self._ok,
            "runner_on_failed": self._task_failed,
            "runner_on_unreachable": self._unreachable,
            "runner_item_on_ok": self._jobs.add,
            "runner_item_on_failed": self._jobs.add,
        }

    def handle(self, data):
        event, details = data.get("event"), data.get("event_data") or {}
        if event in ("verbose", "error"):
            self._output = (self._output + "\n" + data.get("stdout", ""))[-_OUTPUT_LIMIT:]
        elif event in self._handlers:
            self._handlers[event](details)
            self._observe()

    def end(self, status):
        if status in _ENDED:
            self._report.pop("currentTask", None)
        self._observed = observation.read(self._artifacts)
        self._in_rescue = self._observed.pop("failedInRescue", [])
        self._report.update(ended=status, failures=self._failures(status), jobs=self._jobs.list())
        if self._stats is not None:
            self._report["tasks"] = self._counts()
        if self._connection_ignored():
            self._report["connectionIgnored"] = True
        self._file.write({**self._report, **self._observed})

    def _observe(self):
        """Writes to the report at once what the run has learned about the connection to its endpoint."""
        observed = observation.read(self._artifacts)
        if observed.get("connection") != self._observed.get("connection"):
            self._observed = observed
            self._file.write(self._current())

    def _current(self):
        """Returns the report of a run that goes on."""
        return {**self._report, **self._observed, "jobs": self._jobs.list()}

    def _connection_ignored(self):
        """Returns whether the playbook went on (ignore_unreachable) although the endpoint could not be used. Ansible does not
        count such hosts as unreachable."""
        failed = self._observed.get("connection") in ("Refused", "Unreachable")
        return failed and self._stats is not None and not self._stats.get("dark")

    def _failures(self, status):
        """Returns why the run failed, the first cause first."""
        if status not in _ENDED:
            return []
        stats = self._stats or {}
        causes, rescued = self._failed.causes(stats, self._in_rescue)
        if status == "successful":
            causes, rescued = [task for task in causes if task.statistic == "dark"], []
        found = by_host(causes, self._host, stats)
        others = sorted(set(stats.get("dark") or {}) - {task.host for task in causes})
        if others:
            found.append(failures.message(f"EndpointUnreachable: {names_of(others)}"))
        if not found and status != "successful":
            found.append(failures.playbook_error(self._output, self._redaction))
        elif not found and self._plays - ENTRY_PLAYS <= self._unmatched:
            found.append(failures.message("NoHostsMatched: no play of the playbook matched a host; it must say `hosts: all`"))
        if self._hidden_request:
            found.append(self._hidden_request)
        return (found + [task.failure for task in rescued])[:_FAILURES]

    def _counts(self):
        names = {"ok": "ok", "changed": "changed", "failed": "failures", "unreachable": "dark", "skipped": "skipped"}
        counts = {name: (self._stats.get(key) or {}).get(self._host, 0) for name, key in names.items()}
        counts["ok"] -= self._checks
        return counts

    def _start_play(self, details):
        if details.get("play_uuid") != self._play_uuid:
            self._play_uuid = details.get("play_uuid")
            self._plays += 1

    def _no_hosts_matched(self, _):
        if self._plays > ENTRY_PLAYS:
            self._unmatched += 1

    def _start_task(self, details):
        self._task_uuid = details.get("task_uuid")
        since = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._report["currentTask"] = {"name": failures.task_name(details.get("name")), "since": since}
        self._file.update(self._current())

    def _keep_stats(self, details):
        self._stats = details

    def _ok(self, details):
        self._jobs.add(details)
        if details.get("task_action") in _REQUEUE_AFTER:
            self._requeue_after(details)
        if self._plays <= ENTRY_PLAYS and details.get("host") == self._host:
            self._checks += 1

    def _requeue_after(self, details):
        result = details.get("res")
        items = result.get("results") if isinstance(result, dict) else None
        for part in [result] + (items if isinstance(items, list) else []):
            if not isinstance(part, dict):
                continue
            if failures.is_hidden(part):
                self._hidden_request = failures.hidden_request(details, self._started_name(details))
            elif isinstance(part.get("period"), str):
                self._report["requeueAfter"] = one_line(part["period"], _TEXT_LIMIT)

    def _task_failed(self, details):
        self._jobs.add(details)
        if not details.get("ignore_errors"):
            failure = failures.failed_task(details, self._started_name(details), self._redaction)
            self._failed.add(FailedTask(details.get("host"), "failures", failure, details.get("task_uuid")))

    def _unreachable(self, details):
        host = details.get("host")
        failure = failures.unreachable(host, Endpoints().get(host), details, self._started_name(details), self._redaction)
        self._failed.add(FailedTask(host, "dark", failure, details.get("task_uuid")))

    def _started_name(self, details):
        """Returns the name with which the task started. In the other events it has no role and may be a template."""
        started = details.get("task_uuid") == self._task_uuid and self._report.get("currentTask")
        return started["name"] if started else None
