"""Runs ansible-galaxy and pip."""

import os
import shutil
import signal
import subprocess
import tempfile

# Timeout of one command in seconds.
LIMIT = 900

_OUTPUT_LIMIT = 256 << 10


class Runner:
    """Runs commands with a temporary home directory."""

    def __init__(self, settings):
        self.settings = settings
        shutil.rmtree(settings.temporary, ignore_errors=True)
        os.makedirs(settings.temporary, mode=0o700)
        self.trust = self._trust()

    def folder(self, name):
        path = os.path.join(self.settings.temporary, name)
        os.makedirs(path, mode=0o700, exist_ok=True)
        return path

    def write(self, name, content):
        """Writes a private file and returns its path."""
        path = os.path.join(self.settings.temporary, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(content)
        return path

    def run(self, command, environment, cwd=None):
        """Returns the exit code and the end of the command's output, without secrets."""
        env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONNOUSERSITE")}
        env.update({"HOME": self.folder("home"), "TMPDIR": self.folder("tmp"), "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"})
        env.update(self.trust)
        env.update(environment)
        with tempfile.TemporaryFile(dir=self.settings.temporary) as output:
            process = subprocess.Popen(
                command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
            try:
                code, note = process.wait(LIMIT), ""
            except subprocess.TimeoutExpired:
                code, note = 124, f"\nERROR: it took longer than {LIMIT} seconds\n"
            finally:
                _end(process)
            output.seek(max(0, output.seek(0, os.SEEK_END) - _OUTPUT_LIMIT))
            text = self.settings.redact(output.read().decode("utf-8", "replace") + note)
        print(text, end="", flush=True)
        return code, text

    def _trust(self):
        """Returns variables with which both programs trust the Secret's CA certificates in addition to the image's."""
        authority = self.settings.credentials().get("ca.crt")
        if not authority:
            return {}
        import ssl

        known = ssl.get_default_verify_paths().cafile
        bundle = ""
        if known:
            with open(known, encoding="utf-8", errors="replace") as file:
                bundle = file.read()
        path = self.write("ca.crt", bundle + "\n" + authority + "\n")
        return {"SSL_CERT_FILE": path, "PIP_CERT": path, "REQUESTS_CA_BUNDLE": path, "GIT_SSL_CAINFO": path}


def _end(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
