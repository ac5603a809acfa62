"""Posts events to the unix socket on which ansible-operator listens."""

import http.client
import json
import os
import socket

_TIMEOUT_SECONDS = 15


class PostError(Exception):
    """An event that determines the outcome of a run could not be posted. It is not an OSError, which ansible-runner
    ignores."""


class Receiver:
    """Receives the events of a run. Without a socket, events are discarded."""

    def __init__(self, socket_path, url_path):
        self._socket_path = socket_path
        self._url_path = url_path

    @classmethod
    def of(cls, runner_config):
        def setting(name):
            return runner_config.settings.get(name) or os.environ.get(name.upper()) or ""

        return cls(setting("runner_http_url"), setting("runner_http_path"))

    def post(self, event, decisive):
        """Posts one event. Raises PostError if a decisive event could not be posted."""
        if not self._socket_path:
            return
        try:
            status = self._send(json.dumps(event).encode())
        except OSError as error:
            status = error
        if decisive and status not in (200, 204):
            raise PostError(f"could not post {event['event']}: {status}")

    def _send(self, body):
        connection = _UnixConnection(self._socket_path)
        try:
            connection.request("POST", self._url_path, body, {"Content-Type": "application/json"})
            return connection.getresponse().status
        finally:
            connection.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=_TIMEOUT_SECONDS)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
