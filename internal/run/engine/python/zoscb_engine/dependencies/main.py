"""The two modes: install once, and retry until everything is installed."""

import http.server
import os
import shutil
import signal
import sys
import threading
import time
import traceback

from .commands import Runner
from .galaxy import Collections
from .packages import Packages
from .settings import Settings, load_environment

# The prefix by which the manager recognizes the termination message.
PREFIX = "DependencyMissing: "
INSTALLED = "all dependencies are installed"

# Kubernetes keeps 4096 bytes of a termination message.
_MESSAGE_LIMIT = 4000
_LONGEST_DELAY = 600
_LOOK_SECONDS = 5


def main(arguments):
    modes = {("install",): install, ("wait",): wait}
    if tuple(arguments) not in modes:
        print("usage: dependencies install|wait", file=sys.stderr)
        return 2
    os.umask(0o077)
    load_environment()
    return modes[tuple(arguments)](Settings())


def install(settings):
    """Installs once, and always succeeds. If dependencies are missing, the marker makes the operator container wait."""
    clean(settings)
    problem = attempt(settings)
    record(settings, problem)
    return 0


def wait(settings):
    """Retries with increasing delays. Returns when everything is installed, or when the problem has changed."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    serve_probes(settings.probe_port)
    with open(settings.marker, encoding="utf-8") as file:
        before = file.read()
    print(before, flush=True)
    delay = settings.retry_seconds
    while True:
        pause(settings, delay)
        problem = attempt(settings)
        if problem != before:
            record(settings, problem)
            return 1 if problem else 0
        delay = min(2 * delay, _LONGEST_DELAY)


def attempt(settings):
    """Installs all dependencies that can be installed. Returns the problems as one line, or ""."""
    try:
        runner = Runner(settings)
        problems = ansible_problems(settings.plan)
        problems += Collections(settings, runner).install()
        problems += Packages(settings, runner).install()
        shutil.rmtree(settings.temporary, ignore_errors=True)
    except Exception as error:  # pylint: disable=broad-except
        traceback.print_exc()
        problems = [f"the installation failed: {type(error).__name__}: {error}"]
    return message(settings, problems)


def ansible_problems(plan):
    """Checks the version of ansible-core. Like Ansible, it ignores pre-release suffixes."""
    wanted = plan.get("requiresAnsible")
    if not wanted:
        return []
    from ansible.release import __version__
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    if SpecifierSet(wanted).contains(Version(__version__).base_version):
        return []
    return [f"the runtime image has ansible-core {__version__}, and meta/runtime.yml requires {wanted}"]


def message(settings, problems):
    lines = [" ".join(settings.redact(problem).split()) for problem in dict.fromkeys(problems)]
    text, left = "", len(lines)
    for line in lines:
        longer = f"{text}; {line}" if text else line
        if len(longer.encode()) > _MESSAGE_LIMIT - 40 - len(PREFIX):
            break
        text, left = longer, left - 1
    if left and not text:
        text, left = lines[0].encode()[: _MESSAGE_LIMIT - 100].decode("utf-8", "ignore"), left - 1
    return f"{text}; and {left} more" if left else text


def record(settings, problem):
    """Writes the marker for the operator container, and the termination message for the manager."""
    os.makedirs(settings.home, exist_ok=True)
    if problem:
        with open(settings.marker, "w", encoding="utf-8") as file:
            file.write(problem)
    elif os.path.exists(settings.marker):
        os.remove(settings.marker)
    text = PREFIX + problem if problem else INSTALLED
    print(text, flush=True)
    with open(settings.termination_log, "w", encoding="utf-8") as file:
        file.write(text)


def clean(settings):
    """Removes the files of an earlier run of the container, but not the link to the content."""
    for folder in [settings.home, os.path.join(settings.collections, ".incoming")]:
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            _remove(os.path.join(folder, name))
    root = os.path.join(settings.collections, "ansible_collections")
    for namespace in os.listdir(root) if os.path.isdir(root) else []:
        for name in os.listdir(os.path.join(root, namespace)):
            if not os.path.islink(os.path.join(root, namespace, name)):
                _remove(os.path.join(root, namespace, name))


def _remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.remove(path)


def pause(settings, seconds):
    """Waits for some seconds, or until the credentials change."""
    before, end = settings.credentials(), time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, _LOOK_SECONDS))
        if settings.credentials() != before:
            return


def serve_probes(port):
    """Serves probes: the container is alive, but not ready."""

    class Probes(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # pylint: disable=invalid-name
            self.send_response(200 if self.path == "/healthz" else 503)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):  # pylint: disable=arguments-differ
            pass

    server = http.server.ThreadingHTTPServer(("", port), Probes)
    threading.Thread(target=server.serve_forever, daemon=True).start()
