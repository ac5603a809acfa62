"""The ansible-runner plugin that reports failures which ansible-operator ignores.

ansible-operator considers a run successful unless it gets a runner_on_failed event, and writes no status without a
playbook_on_stats event. When a run ends, this plugin adds a runner_on_failed event for each unreachable host, for a run
in which no play of the author matched a host, and for a playbook that failed without a failed task, for example because
it cannot be parsed.

ansible_runner_http posts all events of a run. If that package is not installed, this plugin posts them."""

import importlib.util
import uuid
from datetime import datetime, timezone

from . import condition, failures, logons
from .endpoints import Endpoints
from .post import Receiver
from .run import Run

# The number of plays in entry.yml before the author's.
ENTRY_PLAYS = 2

# These events determine the outcome: the run is aborted if one of them cannot be posted.
_DECISIVE = ("runner_on_failed", "playbook_on_stats")

_OUTPUT_LIMIT = 20000

# The message of ansible-operator for a failed task without a message.
_UNKNOWN = "unknown playbook failure"


def event_handler(runner_config, data):
    """Called by ansible-runner with each event."""
    _outcome(runner_config).handle(data)


def status_handler(runner_config, data):
    """Called by ansible-runner when a run changes its state."""
    if data["status"] not in ("starting", "running"):
        _outcome(runner_config).end(data["status"])


_outcomes = {}


def _outcome(runner_config):
    if runner_config.ident not in _outcomes:
        forward = importlib.util.find_spec("ansible_runner_http") is None
        _outcomes[runner_config.ident] = Outcome(
            Receiver.of(runner_config),
            Run(runner_config.private_data_dir, str(runner_config.ident)),
            forward,
            runner_config.env.get("K8S_AUTH_KUBECONFIG"),
        )
    return _outcomes[runner_config.ident]


class Outcome:
    """Processes the events of one run and adds missing ones."""

    def __init__(self, receiver, run, forward, kubeconfig):
        self._receiver = receiver
        self._run = run
        self._forward = forward
        self._kubeconfig = kubeconfig
        self._plays = []
        self._unmatched = set()
        self._lost = {}  # Host: message of its last runner_on_unreachable.
        self._failures = []  # The messages that ansible-operator collects.
        self._stats = False
        self._output = ""
        self._created = None

    def handle(self, data):
        event, details = data.get("event"), data.get("event_data") or {}
        self._created = data.get("created") or self._created
        if event == "playbook_on_play_start" and details.get("play_uuid") not in self._plays:
            self._plays.append(details.get("play_uuid"))
        elif event == "playbook_on_no_hosts_matched":
            self._unmatched.add(details.get("play_uuid"))
        elif event == "runner_on_unreachable":
            self._handle_unreachable(details)
        elif event == "runner_on_ok":
            self._handle_ok(details)
        elif event == "runner_on_failed":
            self._handle_failed(details)
        elif event in ("verbose", "error"):
            self._output = (self._output + "\n" + data.get("stdout", ""))[-_OUTPUT_LIMIT:]
        elif event == "playbook_on_stats":
            self._stats = True
            self._evaluate(details)
        if self._forward:
            self._receiver.post(data, decisive=event in _DECISIVE)

    def end(self, status):
        endpoint = Endpoints().get(self._run.endpoint)
        if endpoint:
            logons.end_turn(endpoint, self._run)
        if status != "successful" and not self._failures:
            self._fail(failures.playbook_error(self._output))
        if not self._stats:
            self._add("playbook_on_stats", {})
        if self._failures:
            condition.correct(self._kubeconfig, self._run.path, "\n".join(self._failures))

    def _evaluate(self, stats):
        # "dark" has the unreachable hosts, except those with ignore_unreachable.
        for host in sorted(stats.get("dark") or {}):
            self._fail(self._lost.get(host, f"EndpointUnreachable: host {host}"))
        authors = set(self._plays[ENTRY_PLAYS:])
        if not self._failures and not authors - self._unmatched:
            self._fail("NoHostsMatched: no play of the playbook matched a host; it must say `hosts: all`")

    def _handle_unreachable(self, details):
        target = _target(details)
        endpoint = Endpoints().get(target)
        reason, message = failures.unreachable(target, endpoint, str((details.get("res") or {}).get("msg", "")))
        self._lost[details.get("host")] = message
        if reason == "AuthenticationFailed" and target == self._run.endpoint:
            logons.refused(endpoint, self._run, message)

    def _handle_failed(self, details):
        if not details.get("ignore_errors"):
            message = (details.get("res") or {}).get("msg")
            self._failures.append(message if isinstance(message, str) else _UNKNOWN)

    def _handle_ok(self, details):
        if _target(details) == self._run.endpoint:
            endpoint = Endpoints().get(self._run.endpoint)
            if endpoint:
                logons.accepted(endpoint, self._run)

    def _fail(self, message):
        self._failures.append(message)
        self._add("runner_on_failed", {"res": {"msg": message}, "task": "Collection Operator"})

    def _add(self, event, details):
        created = self._created or datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")
        self._receiver.post(
            {
                "uuid": str(uuid.uuid4()),
                "counter": 0,
                "event": event,
                "event_data": details,
                "stdout": (details.get("res") or {}).get("msg", ""),
                "created": created,
            },
            decisive=True,
        )


def _target(details):
    """Returns the host that a task ran on, considering delegation."""
    delegated = (details.get("res") or {}).get("_ansible_delegated_vars") or {}
    return delegated.get("ansible_delegated_host") or details.get("host")
