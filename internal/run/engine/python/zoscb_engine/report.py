"""The file with the report of a run, which others read while the run lasts and after it has ended. Its form is that of the
Go type runstatus.Report."""

import json
import threading
import time

from .files import write

# Changes are written no more often than this.
_INTERVAL_SECONDS = 1

_LIMIT = 64 << 10


class ReportFile:
    """Replaces a file atomically. Without a path, it writes nothing."""

    def __init__(self, path):
        self._path = path
        self._lock = threading.Lock()
        self._timer = None
        self._next = None  # The report to write.
        self._written = float("-inf")

    def update(self, report):
        """Writes the report now, or soon if another was just written. Errors are ignored, because the next report has
        everything that this one has."""
        with self._lock:
            self._next = report
            if self._timer:
                return
            delay = max(0, self._written + _INTERVAL_SECONDS - time.monotonic())
            self._timer = threading.Timer(delay, self._write_next)
            self._timer.daemon = True
            self._timer.start()

    def write(self, report):
        """Writes the report at once. Raises OSError if that is impossible."""
        with self._lock:
            self._next = None
            self._write(report)

    def _write_next(self):
        with self._lock:
            self._timer = None
            report, self._next = self._next, None
            if report:
                try:
                    self._write(report)
                except OSError:
                    pass

    def _write(self, report):
        if self._path:
            write(self._path, _encode(report))
        self._written = time.monotonic()


def _encode(report):
    """Returns the report as JSON. If it is too long, it has only the first failures."""
    failures = report.get("failures") or []
    while True:
        content = json.dumps(report, ensure_ascii=False).encode()
        if len(content) <= _LIMIT or not failures:
            return content
        failures = failures[:-1]
        report = {**report, "failures": failures}
