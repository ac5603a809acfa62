"""Finds the tasks for which a run failed, among those that failed."""

from typing import NamedTuple

from .cause import MESSAGE_LIMIT, last_lines
from .texts import one_line

_LIMIT = 10
_NAMED_HOSTS = 3
_NAME_LIMIT = 253

# Shorter texts, such as numbers, are also in messages that do not repeat them.
_SHORTEST_REPEATED = 13


class FailedTask(NamedTuple):
    """A task that failed on a host, or did not reach it. statistic is the one in which Ansible counts it."""

    host: str
    statistic: str
    failure: dict
    uuid: str = None


class FailedTasks:
    """The first and the last tasks that failed or did not reach their host, without those whose failure is ignored."""

    def __init__(self):
        self._tasks = []

    def add(self, task):
        self._tasks.append(task)
        if len(self._tasks) > 2 * _LIMIT:
            del self._tasks[_LIMIT]

    def causes(self, stats, in_rescue):
        """Returns the tasks that let their hosts fail, and those that the playbook rescued. What a task of a rescue section that
        failed was to rescue comes before it. in_rescue are the UUIDs of such tasks.

        Ansible does not report which tasks are rescued, only how many tasks of each host are not. A task that is not
        rescued is the host's last one in the play, apart from an `always` section. Unreachable hosts are in "dark", except
        those with ignore_unreachable."""
        left = {key: dict(stats.get(key) or {}) for key in ("failures", "dark")}
        causes, rescued = [], []
        for task in reversed(self._tasks):
            count = left[task.statistic].get(task.host, 0)
            left[task.statistic][task.host] = count - 1
            if count > 0:
                causes.insert(0, task)
            elif task.statistic == "failures":
                rescued.insert(0, task)
        for task in [task for task in causes if task.uuid in in_rescue]:
            first = next((other for other in reversed(rescued) if other.host == task.host), None)
            if first:
                rescued.remove(first)
                causes[causes.index(task)] = first._replace(failure=_joined(first.failure, task.failure))
        return causes, rescued


def _joined(first, last):
    """Returns the failure of a task with the message of the one that could not rescue it, which may repeat what it was."""
    repeats = last_lines(first.get("output", "")) or first["message"].rpartition(" (")[0]
    repeated = len(repeats) >= _SHORTEST_REPEATED and repeats in last["message"]
    message = last["message"] if repeated else f"{first['message']}; then {last['message']}"
    return {**first, "message": one_line(message, MESSAGE_LIMIT)}


def by_host(tasks, endpoint, stats):
    """Returns the failures of tasks. A task that failed on several hosts with the same message is one failure, and so is one that could not
    use several hosts for the same reason. Of those of one task, that of the resource's endpoint comes first, then others by the name of
    the host: the order of events depends on chance. Other hosts than the endpoint are named if they are not the only one."""
    failed = {**(stats.get("failures") or {}), **(stats.get("dark") or {})}

    def order(host):
        return host != endpoint, host

    places = list(dict.fromkeys(_place(task) for task in tasks))
    groups = {}
    for task in sorted(tasks, key=lambda task: (places.index(_place(task)), order(task.host))):
        message = task.failure["message"]
        cause = message.partition(":")[0] if task.statistic == "dark" else message
        groups.setdefault((_place(task), task.statistic, cause), []).append(task)
    found = []
    for (_, statistic, _), group in groups.items():
        failure, hosts = group[0].failure, {task.host for task in group}
        if len(groups) == 1 and statistic == "failures":
            hosts |= set(stats.get("failures") or {})
        hosts = sorted(hosts, key=order)
        if statistic == "dark":
            failure = _with_others(failure, hosts[1:])
        elif len(failed) > 1:
            failure = {**failure, "message": one_line(f"{names_of(hosts)}: {failure['message']}", MESSAGE_LIMIT)}
        found.append(failure)
    return found


def _place(task):
    return tuple(task.failure.get(key) for key in ("file", "line", "task"))


def _with_others(failure, hosts):
    """Returns the failure of the first host that could not be used, which begins with its reason, with the names of others."""
    if not hosts:
        return failure
    others = f"; also {names_of(hosts)}"
    return {**failure, "message": one_line(failure["message"], MESSAGE_LIMIT - len(others.encode())) + others}


def names_of(hosts):
    """Returns the names of the first hosts, and how many more there are."""
    more = len(hosts) - _NAMED_HOSTS
    names = ", ".join(one_line(host, _NAME_LIMIT) for host in hosts[:_NAMED_HOSTS]) + (f" and {more} more" if more > 0 else "")
    return f"hosts {names}" if len(hosts) > 1 else f"host {names}"
