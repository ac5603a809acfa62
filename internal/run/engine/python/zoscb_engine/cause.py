"""Says why a task failed, in one line: its message or what stands for it, the end of what it printed, and its file. Ansible's own
messages often name no cause, repeat themselves, or contain paths that only this container has."""

import json
import os
import re

from .actions import short
from .paths import content_dir, relative
from .texts import one_line, tail

MESSAGE_LIMIT = 1 << 10
_TEXT_LIMIT = 600
_END_LIMIT = 300
_END_LINES = 3
_REPEATED_SENTENCES = 8
_PATH_LIMIT = 256

_NOISE = re.compile(r"^(Shared connection to .* closed\.|debug\d: .*|OpenSSH_.*|Connection closed by UNKNOWN port \d+)?\s*$")

# ansible-core 2.19 puts these before messages.
_PREFIX = re.compile(r"^(?:Unexpected Ansible\w+ error: )?(?:Task failed: )?(?:Finalization of task args for '[^']*' failed: )?")
# What Ansible adds to messages: the place, an excerpt, advice, and where the cause would be.
_ADDED = re.compile(
    r"The error appears to be in '.*|We could be wrong, but .*|[.:;,]?\s{0,2}\b[Ss]ee (?:the )?std(?:out|err)/std(?:out|err)(?: for the exact error)?\.?| on the Ansible Controller\.", re.S
)
_UNDEFINED = re.compile(r"^The task includes an option with an undefined variable\. The error was: ")

# A module that ended without a result.
_CRASH = re.compile(
    r"^(MODULE FAILURE$|Module failed: |Module result deserialization failed|New-style module did not handle its own exit|Unable to (?:compile|import) "
    r"|The module failed to execute correctly|The module interpreter )"
)
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'\s*File "[^"\n]{0,200}\.zip/([\w./-]{1,256})", line (\d{1,7})', re.A)
_FRAMES_LIMIT, _FRAME_LIMIT = 8 << 10, 512
# What names no cause at all.
_FAILED, _FAILED_MODULE = "the task failed", "the module failed"
_EMPTY = re.compile(r"^(MODULE FAILURE|Module result deserialization failed.*|Unknown error\.?|Module failed: Unknown error\.?)?$")


def as_text(value):
    """Returns what a module has returned as its message."""
    if isinstance(value, list):
        return "; ".join(str(item) for item in value)
    return value if isinstance(value, str) else json.dumps(value, default=str)


def text_of(result):
    """Returns a result's own message without what Ansible adds, or ""."""
    value = as_text(result.get("msg") or result.get("reason") or result.get("message") or "")
    value = _UNDEFINED.sub("", _ADDED.sub("", _PREFIX.sub("", value[: 4 * MESSAGE_LIMIT])))
    return one_line(relative(_once(value)), MESSAGE_LIMIT)


def _once(text):
    """Returns a text without lines that it repeats, and without an end that it has before."""
    text = "\n".join(dict.fromkeys(line.strip() for line in text.splitlines())).strip()
    for at in list(re.finditer(r"\. ", text))[-_REPEATED_SENTENCES:]:
        if text[at.end() :].strip() and text[at.end() :] in text[: at.start()]:
            return text[: at.start()]
    return text


def sentence(result, action, output, place):
    """Returns the whole line. place is where the task is, or ""."""
    text = text_of(result)
    module = _module(result, action) if _CRASH.search(text) else ""
    places = ", ".join(filter(None, (place, module)))
    where = f" ({places})" if places else ""
    line, end = _what(result, text), "" if _says_enough(result, text) else last_lines(output)
    if end and end not in text:
        line = f"{one_line(line, _TEXT_LIMIT).rstrip('.:')}: {end}"
    elif line == _FAILED:
        line += " without a message"
    return one_line(line, MESSAGE_LIMIT - len(where.encode())) + where


def last_lines(output):
    """Returns the end of an output as one line: of a traceback, the error."""
    lines = [line.strip() for line in output.splitlines() if not is_noise(line)]
    if _TRACEBACK in output:
        lines = lines[-1:]
    return tail(" | ".join(lines[-_END_LINES:]), _END_LIMIT)


def is_noise(line):
    """Returns whether a line is one of ssh, which says nothing about the task."""
    return bool(_NOISE.match(line))


def _says_enough(result, text):
    """Returns whether the output of a module that has failed by its own word is left out: it succeeded in what it ran."""
    return bool(text) and not result.get("rc") and not _EMPTY.match(text) and not result.get("stderr") and not result.get("module_stderr")


def _what(result, text):
    """Returns what happened: the message, or what Ansible has in its place."""
    code, attempts = result.get("rc"), result.get("attempts")
    if isinstance(attempts, int):
        after = f"after {attempts} attempt" + ("" if attempts == 1 else "s")
        return f"{_with_code(text, code)}, {after}" if text else f"until was not true {after}"
    if not text and result.get("failed_when_result"):
        return "failed_when is true"
    if _EMPTY.match(text):
        return _with_code(_FAILED_MODULE if text else _FAILED, code)
    if text == "Assertion failed" and isinstance(result.get("assertion"), str):
        return f"{text}: {result['assertion']}"
    return _with_code(text.removeprefix("Module failed: "), code)


def _with_code(text, code):
    if not isinstance(code, int) or isinstance(code, bool) or not code:
        return text
    if text in (_FAILED, _FAILED_MODULE):
        return f"{text} with return code {code}"
    return f"{text} {code}" if text.endswith("return code") else text


def _module(result, action):
    """Returns the file of a module that crashed, with the line if that is known, or ""."""
    frame = _last_frame(result)
    path, line = frame or (short(str(action or "")) + ".py", "")
    if path.startswith("ansible_collections/"):
        own = os.path.join(os.environ.get("ZOSCB_COLLECTIONS_DIR") or "/opt/ansible/collections", path)
        file = os.path.relpath(os.path.realpath(own), content_dir()) if os.path.realpath(own).startswith(content_dir() + os.sep) else path
    else:
        file = _find(os.path.basename(path)) or (os.path.basename(path) if frame else "")
    return f"module {one_line(file, _PATH_LIMIT)}" + (f":{line}" if line else "") if file else ""


def _last_frame(result):
    """Returns path and line of the last frame of a traceback that is in a module, or None."""
    for key in ("module_stdout", "module_stderr", "exception"):
        for line in reversed(str(result.get(key) or "")[-_FRAMES_LIMIT:].splitlines()):
            frame = _FRAME.match(line[:_FRAME_LIMIT])
            if frame and "/modules/" in frame[1]:
                return frame.groups()
    return None


def _find(name):
    """Returns the module of this name in the collection's content, or None."""
    for folder, _, files in os.walk(content_dir()):
        if name in files and os.path.basename(folder) in ("library", "modules"):
            return os.path.relpath(os.path.join(folder, name), content_dir())
    return None
