"""Describes failures for the report of a run: dicts in the form of the Go type runstatus.Failure. Messages of the engine
start with a reason."""

import re

from . import cause
from .paths import is_engine_file, relative, relative_file
from .texts import one_line, tail

# The exact messages of ssh: a remote command may also print "Permission denied".
_REFUSED = re.compile(r"^\S*: Permission denied \([\w,-]*\)\.?\s*$|Too many authentication failures", re.M)
_HOST_KEY = re.compile(r"^Host key verification failed\.?\s*$", re.M)
# What Ansible's SSH connection says when ssh itself ends with an error. Ansible also calls a host unreachable because a module
# cannot be transferred, for example because the user's file system is full.
_NOT_CONNECTED = re.compile(
    r"Failed to connect to the host via |Data could not be sent to remote host|SSH encountered an unknown error"
)
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_ERROR = re.compile(r"ERROR! |\[ERROR\]: ")
# The second form is that of ansible-core 2.19.
_PLACE = re.compile(r"The error appears to be in '(/[^'\n]+)': line (\d+), column \d+|^Origin: (/.+):(\d+):\d+$", re.M)

_OUTPUT_LIMIT = 2 << 10
_NAME_LIMIT = 256

# What a result says. Secrets are replaced before texts are cut: a part of one would not be found.
_SAID = ("msg", "reason", "message", "assertion")
_SAID_LIMIT = 32 << 10

_HIDDEN = "the task failed; its output is hidden by no_log"


def is_hidden(result):
    """Returns whether Ansible hides a result because of no_log."""
    return "censored" in result or bool(result.get("_ansible_no_log"))


def task_name(name):
    return one_line(str(name or ""), _NAME_LIMIT)


def failed_task(details, name, redaction):
    """Returns the failure of a task from its event runner_on_failed, without secrets."""
    result, where = _failed_part(details.get("res")), _where(details, name)
    place = ""
    if "file" in where and not is_engine_file(str(details.get("task_path", "")).rpartition(":")[0]):
        place = f"{where['file']}:{where['line']}"
    if is_hidden(result):
        return {"message": _HIDDEN + (f" ({place})" if place else ""), **where}
    program = _program(result)
    output = relative(_output(program, redaction))
    said = {key: redaction.apply(cause.as_text(result[key])[:_SAID_LIMIT]) for key in _SAID if result.get(key)}
    program_said = {key: program[key] for key in ("rc", "stderr") if key in program}
    failure = {"message": cause.sentence({**result, **said, **program_said}, details.get("task_action"), output, place), **where}
    code = program.get("rc")
    if isinstance(code, int) and abs(code) < 1 << 31:
        failure["returnCode"] = int(code)
    if output:
        failure["output"] = output
    return failure


def hidden_request(details, name):
    """Returns the failure of a task requeue_after whose result Ansible hides. Its arguments are in no event either."""
    return {**message("requeue_after must not have no_log, which hides its time"), **_where(details, name)}


def unreachable(host, endpoint, details, name, redaction):
    """Returns the failure for a host that Ansible could not reach. endpoint is None if the host is not an
    endpoint of the installation."""
    return {**message(unreachable_message(host, endpoint, details.get("res"), redaction)), **_where(details, name)}


def unreachable_message(host, endpoint, result, redaction):
    """Returns the text of such a failure, without secrets. It begins with its reason."""
    text = redaction.apply(_connection_message(result))
    reason = unreachable_reason(result)
    address = endpoint.address() if endpoint else ""
    who = f"endpoint {host}" + (f" ({address})" if address else "") if endpoint else f"host {host}"
    what = {
        "EndpointUnreachable": f": {_gist(text)}",
        "EndpointNotUsable": f" cannot run modules: {text}",
        "HostKeyMismatch": " did not present a host key that is known for it",
        "AuthenticationFailed": f" refused the credential: {_gist(text)}",
    }[reason]
    return f"{reason}: {who}{what}"


def unreachable_reason(result):
    """Returns why Ansible calls a host unreachable: EndpointUnreachable, EndpointNotUsable, HostKeyMismatch or
    AuthenticationFailed. If the result is hidden by no_log, it is EndpointUnreachable."""
    original = str(_failed_part(result).get("msg", ""))
    if original and not _NOT_CONNECTED.search(original):
        return "EndpointNotUsable"
    text = _connection_message(result)
    if _HOST_KEY.search(text):
        return "HostKeyMismatch"
    return "AuthenticationFailed" if _REFUSED.search(text) else "EndpointUnreachable"


def message(text):
    """Returns a failure with nothing but a message."""
    return {"message": one_line(text, cause.MESSAGE_LIMIT)}


def playbook_error(output, redaction):
    """Returns the failure of a playbook that failed without a failed task, such as one that cannot be parsed, without secrets."""
    text = redaction.apply(_COLOR.sub("", output).replace("\r", ""))
    *others, text = _ERROR.split(text)
    place = _PLACE.search(text)
    lines = [line.strip() for line in text[: place.start() if place else None].splitlines() if line.strip()]
    lines = lines[:4] if others else lines[-4:]
    what = relative(" ".join(lines)) or "ansible-playbook ended without a result"
    if not place:
        return message("PlaybookError: " + what)
    location = _location(place[1] or place[3], place[2] or place[4])
    return {**message(f"PlaybookError: {location['file']}, line {location['line']}: {what}"), **location}


def _connection_message(result):
    text = str(_failed_part(result).get("msg", ""))[-_SAID_LIMIT:]
    return text.replace("\r", "").removeprefix("Task failed: ").replace("Failed to connect to the host via ssh:", "").strip()


def _failed_part(result):
    """Returns the result of a task, or that of the first item that failed if the task has a loop."""
    if not isinstance(result, dict):
        return {}
    items = result.get("results")
    if is_hidden(result) or not isinstance(items, list):
        return result
    items = [item for item in items if isinstance(item, dict)]
    failed = [i for i in items if i.get("failed") or i.get("failed_when_result") or i.get("unreachable")]
    return (failed + [i for i in items if is_hidden(i)] + [result])[0]


def _program(result):
    """Returns the part of a result that has a program's return code and output. Modules of ibm.ibm_zos_cics return a list
    of the programs that they ran, of which this is the last one that failed."""
    executions = result.get("executions")
    if "rc" in result or not isinstance(executions, list):
        return result
    failed = [program for program in executions if isinstance(program, dict) and program.get("rc")]
    return failed[-1] if failed else result


def _output(program, redaction):
    """Returns the end of stderr, or of stdout if stderr has nothing but messages of ssh."""
    for key in ("stderr", "stdout", "module_stderr", "module_stdout"):
        text = program.get(key)
        if isinstance(text, list):
            text = "\n".join(str(line) for line in text)
        if isinstance(text, str):
            text = tail(redaction.apply(text[-8 * _OUTPUT_LIMIT :]), _OUTPUT_LIMIT)
            if not all(cause.is_noise(line) for line in text.splitlines()):
                return text
    return ""


def _where(details, name):
    """Returns a task's name, file and line."""
    where = {"task": name or task_name(details.get("task"))}
    file, _, line = str(details.get("task_path", "")).rpartition(":")
    return {**where, **_location(file, line)} if file and line.isdigit() else where


def _location(file, line):
    return {"file": one_line(relative_file(file), _NAME_LIMIT), "line": int(line)}


def _gist(text):
    """Returns the last message of ssh, after one about a key if there is any, without banners and debug output."""
    lines = text.splitlines()
    telling = [line.strip() for line in lines if not cause.is_noise(line)] or lines or ["no message"]
    keys = [line for line in telling[:-1] if line.startswith("Load key ")]
    return ": ".join(keys[-1:] + telling[-1:]).replace(" by UNKNOWN port 65535", "")
