"""What a run in check mode would change on its endpoint."""

import difflib
import json
import re

from .actions import is_local
from .failures import is_hidden, task_name
from .texts import one_line, printable

# Limits in bytes.
_DIFF_LIMIT = 4 << 10
_LINE_LIMIT = 512
_LAST_LINE_LIMIT = 32

_CONTEXT_LINES = 3

# How many tasks that would change something are named.
_NAMES = 10

# The message of a task whose module must not run in a check.
KEPT_FROM_RUNNING = "not checked: in check mode, the module does something else than a run would do"

# Results of modules that skip a task in every mode, because of their options creates and removes.
_OTHER_SKIP = re.compile(r"^skipped, since |, matching (creates|removes) option")

# Modules that do not use the endpoint, or only ask what it is.
_IGNORED = (
    "k8s_status", "requeue_after", "operator_sdk.util.k8s_status", "operator_sdk.util.requeue_after",
    "gather_facts", "setup", "ansible.builtin.gather_facts", "ansible.builtin.setup", "ansible.legacy.setup",
)


class Changes:
    """The tasks on the endpoint that were checked and that were not, those that would change something, and their differences.
    Texts are bounded. temporary is Ansible's folder for files with new contents, whose names are not shown. shows_diff says
    whether modules report differences."""

    def __init__(self, temporary, shows_diff):
        self._temporary = temporary
        self._shows_diff = shows_diff
        self._changed = {}  # Names by task, in the order of the tasks.
        self._checked = set()
        self._unchecked = set()
        self._diff = Lines(_DIFF_LIMIT)
        self._shown = None  # The task whose name is the last one in the text.

    def ok(self, task, result):
        """Adds a task, or one item of its loop, that has succeeded."""
        if task.action in _IGNORED or is_local(task.action):
            return
        self._checked.add(task.uuid)
        if not result.get("changed"):
            return
        self._changed[task.uuid] = task_name(task.name)
        if is_hidden(result) or not self._shows_diff:
            return
        if task.uuid != self._shown:
            self._diff.add([f"TASK [{task_name(task.name)}]"])
            self._shown = task.uuid
        lines = [line for diff in _list(result.get("diff")) for line in self._lines(diff)]
        self._diff.add(lines or ["(the module does not say what it would change)"])

    def skipped(self, task, result):
        """Adds a task, or one item of its loop, that was skipped."""
        if task.action not in _IGNORED and is_unchecked(result):
            self._unchecked.add(task.uuid)

    def failed(self, task):
        """Adds a task, or one item of its loop, that has failed."""
        if not is_local(task.action):
            self._unchecked.add(task.uuid)

    def fields(self):
        """Returns the fields of the report."""
        names = list(self._changed.values())[:_NAMES]
        return {
            "changes": {"tasks": len(self._changed), "names": names, "diff": self._diff.text()},
            "checked": len(self._checked - self._unchecked),
            "unchecked": len(self._unchecked),
        }

    def _lines(self, diff):
        """Returns the lines of one difference, as Ansible shows it."""
        if not isinstance(diff, dict):
            return
        for key, text in (("dst", "destination"), ("src", "source")):
            if f"{key}_binary" in diff:
                yield f"diff skipped: {text} file appears to be binary"
            if f"{key}_larger" in diff:
                yield f"diff skipped: {text} file size is greater than {diff[key + '_larger']}"
        if "before" in diff and "after" in diff:
            before, after = _content(diff["before"]), _content(diff["after"])
            headers = [self._header(diff, "before"), self._header(diff, "after")]
            for line in difflib.unified_diff(before, after, *headers, n=_CONTEXT_LINES, lineterm=""):
                yield from (_short(part) for part in line.split("\n"))
        for line in _text_lines(diff.get("prepared")):
            yield _short(line)

    def _header(self, diff, key):
        header = diff.get(f"{key}_header")
        if str(header).startswith(self._temporary):
            header = diff.get("before_header")
        return f"{key}: {one_line(str(header), _LINE_LIMIT)}" if header else key


class Lines:
    """The first lines that fit into a limit, and the number of others."""

    def __init__(self, limit):
        self._left = limit - _LAST_LINE_LIMIT
        self._lines = []
        self._missing = 0

    def add(self, lines):
        for line in lines:
            size = len(line.encode()) + 1
            if self._missing or size > self._left:
                self._missing += 1
            else:
                self._lines.append(line)
                self._left -= size

    def text(self):
        last = [f"... {self._missing} more lines"] if self._missing else []
        return "\n".join(self._lines + last)


def is_unchecked(result):
    """Returns whether a task was skipped because of check mode. Ansible does not say so if the task has no_log."""
    if is_hidden(result):
        return True
    if any(key in result for key in ("skip_reason", "skipped_reason", "false_condition")):
        return False
    return not _OTHER_SKIP.search(str(result.get("msg") or ""))


def _content(value):
    """Returns the lines of a text or of structured data. The last one says if it is not ended."""
    if isinstance(value, (dict, list)):
        value = json.dumps(value, sort_keys=True, indent=4, default=str) + "\n"
    lines = _text_lines(value)
    if lines and not str(value).endswith("\n"):
        lines[-1] += "\n\\ No newline at end of file"
    return lines


def _text_lines(value):
    text = printable("" if value is None else str(value))
    return text.removesuffix("\n").split("\n") if text else []


def _short(line):
    if len(line.encode()) <= _LINE_LIMIT:
        return line
    return line.encode()[: _LINE_LIMIT - 3].decode(errors="ignore") + "..."


def _list(value):
    return value if isinstance(value, list) else [value]
