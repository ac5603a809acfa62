"""Finds the tasks for which a run failed, among those that failed."""

from typing import NamedTuple

from .cause import MESSAGE_LIMIT, last_lines
from .texts import one_line

_LIMIT = 10
_NAMED_HOSTS = 3


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
    message = last["message"] if repeats in last["message"] else f"{first['message']}; then {last['message']}"
    return {**first, "message": one_line(message, MESSAGE_LIMIT)}


def by_host(tasks, endpoint, stats):
    """Returns the failures of tasks. The same task that failed on several hosts is one failure, with the names of the first ones.
    Other hosts than the endpoint are named if they are not the only one."""
    failed = {**(stats.get("failures") or {}), **(stats.get("dark") or {})}
    groups = {}
    for task in tasks:
        key = tuple(task.failure.get(key) for key in ("file", "line", "task")) if "file" in task.failure else id(task)
        groups.setdefault((task.statistic, key), []).append(task)
    found = []
    for (statistic, _), group in groups.items():
        failure, hosts = group[0].failure, list(dict.fromkeys(task.host for task in group))
        if len(groups) == 1 and len(failed) > len(hosts):
            hosts += sorted(set(failed) - set(hosts))
        if len(hosts) > 1 or statistic == "failures" and len(failed) > 1:
            failure = {**failure, "message": one_line(f"{_names(hosts)}: {failure['message']}", MESSAGE_LIMIT)}
        found.append(failure)
    return found


def _names(hosts):
    more = len(hosts) - _NAMED_HOSTS
    names = ", ".join(hosts[:_NAMED_HOSTS]) + (f" and {more} more" if more > 0 else "")
    return f"hosts {names}" if len(hosts) > 1 else f"host {names}"
