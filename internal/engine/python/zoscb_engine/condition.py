"""Updates the message of a resource's Failure condition.

ansible-operator writes the message when a resource starts to fail, and does not update it until a run succeeds.
This module updates it after every failed run, before ansible-operator evaluates the outcome of the run."""

import base64
import http.client
import json
from urllib.parse import urlsplit

import yaml

_TIMEOUT_SECONDS = 10

# ansible-operator answers reads from its cache, so a write may conflict.
_ATTEMPTS = 3


def correct(kubeconfig, path, message):
    """Sets the message of the Failure condition of the resource at path. Errors are ignored: the old message stays."""
    try:
        for _ in range(_ATTEMPTS if kubeconfig else 0):
            change = _change(_request(kubeconfig, "GET", path), message)
            if change is None or _request(kubeconfig, "PATCH", path + "/status", change) is not None:
                return
    except (OSError, http.client.HTTPException, ValueError, LookupError, AttributeError, TypeError, yaml.YAMLError):
        return


def _change(resource, message):
    """Returns the merge patch that sets the message, or None if it is up to date."""
    conditions = ((resource or {}).get("status") or {}).get("conditions") or []
    stale = [c for c in conditions if c["type"] == "Failure" and c["status"] == "True" and c.get("message") != message]
    if not stale:
        return None
    stale[0]["message"] = message
    return {
        "metadata": {"resourceVersion": resource["metadata"]["resourceVersion"]},
        "status": {"conditions": conditions},
    }


def _request(kubeconfig, method, path, body=None):
    """Returns the response to a request to ansible-operator's proxy, or None unless it is 200."""
    with open(kubeconfig, encoding="utf-8") as file:
        config = yaml.safe_load(file)
    server, user = urlsplit(config["clusters"][0]["cluster"]["server"]), config["users"][0]["user"]
    login = base64.b64encode(f"{user['username']}:{user['password']}".encode()).decode()
    headers = {"Authorization": "Basic " + login, "Content-Type": "application/merge-patch+json"}
    connection = http.client.HTTPConnection(server.hostname, server.port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        content = answer.read()
        return json.loads(content) if answer.status == 200 else None
    finally:
        connection.close()
