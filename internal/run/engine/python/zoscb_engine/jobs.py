"""The z/OS jobs in the results of modules.

The modules of ibm.ibm_zos_core return `jobs`, a list with `job_id`, `job_name` and `ret_code`. Others return `job_id` and
`job_name` themselves."""

import re

from .failures import is_hidden
from .texts import one_line

_LIMIT = 20
_TEXT_LIMIT = 64

# JOB00123, STC00123, TSU00123, or J0123456 where job numbers have seven digits.
_ID = re.compile(r"(JOB|STC|TSU|J|S|T)[0-9]{4,7}")


class Jobs:
    """The jobs of one run: at most 20, of which each has another id. If there are more, the first ones are forgotten. Jobs
    that a query finds are not necessarily jobs of the run, so they do not replace any."""

    def __init__(self):
        self._jobs = {}

    def add(self, details):
        """Adds the jobs of a task's result or of one item of it."""
        queried = str(details.get("task_action", "")).endswith("_query")
        result = details.get("res")
        for part in _dicts([result]) + _dicts(result.get("results") if isinstance(result, dict) else None):
            for job in [] if is_hidden(part) else [part] + _dicts(part.get("jobs")):
                self._add(job, queried)

    def list(self):
        return [dict(job) for job in self._jobs.values()]

    def _add(self, job, queried):
        ident = job.get("job_id")
        if not isinstance(ident, str) or not _ID.fullmatch(ident):
            return
        if ident not in self._jobs:
            if len(self._jobs) == _LIMIT:
                if queried:
                    return
                del self._jobs[next(iter(self._jobs))]
            self._jobs[ident] = {"id": ident}
        found = {"name": _text(job.get("job_name")), "returnCode": _return_code(job.get("ret_code"))}
        self._jobs[ident].update({key: value for key, value in found.items() if value})


def _return_code(value):
    """Returns a return code such as "CC 0004" or "ABEND S806". The number is not in `msg` in all versions of the modules."""
    if not isinstance(value, dict):
        return _text(value)
    status, code = _text(value.get("msg")), value.get("msg_code")
    if not code and isinstance(value.get("code"), int):
        code = f"{value['code']:04d}"
    code = _text(code)
    return status if code in status else f"{status} {code}".strip()


def _text(value):
    return one_line(value, _TEXT_LIMIT) if isinstance(value, str) else ""


def _dicts(value):
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
