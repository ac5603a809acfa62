"""Describes failures in one line that starts with a reason."""

import re

import yaml

# The exact messages of ssh: a remote command may also print "Permission denied".
_REFUSED = re.compile(r"^\S*: Permission denied \([\w,-]*\)\.?\s*$|Too many authentication failures", re.M)
_HOST_KEY = re.compile(r"^Host key verification failed\.?\s*$", re.M)
_NOISE = re.compile(r"^(Shared connection to .* closed\.|debug\d: .*|OpenSSH_.*)?\s*$")
_COLOR = re.compile(r"\x1b\[[0-9;]*m")

_LIMIT = 1000


def unreachable(host, endpoint, result_message):
    """Returns the reason and a message for a host that Ansible could not reach. endpoint is None if the host is not an
    endpoint of the installation."""
    text = result_message.replace("\r", "").replace("Failed to connect to the host via ssh:", "").strip()
    who = f"endpoint {host}{_address(endpoint)}" if endpoint else f"host {host}"
    if _HOST_KEY.search(text):
        return "HostKeyMismatch", f"HostKeyMismatch: {who} did not present a host key that is known for it"
    if _REFUSED.search(text):
        return "AuthenticationFailed", f"AuthenticationFailed: {who} refused the credential: {_gist(text)}"
    return "EndpointUnreachable", f"EndpointUnreachable: {who}: {_gist(text)}"


def playbook_error(output):
    """Returns the message for a playbook that failed without a failed task, such as one that cannot be parsed."""
    text = _COLOR.sub("", output).replace("\r", "")
    at = max(text.rfind("ERROR! "), text.rfind("[ERROR]: "))
    lines = [line.strip() for line in text[max(at, 0) :].splitlines() if line.strip()]
    lines = lines[:4] if at >= 0 else lines[-4:]
    return ("PlaybookError: " + (" ".join(lines) or "ansible-playbook ended without a result"))[:_LIMIT]


def _gist(text):
    """Returns the last message of ssh, after one about a key if there is any, without banners and debug output."""
    lines = text.splitlines()
    telling = [line.strip() for line in lines if not _NOISE.match(line)] or lines or ["no message"]
    keys = [line for line in telling[:-1] if line.startswith("Load key ")]
    return ": ".join(keys[-1:] + telling[-1:])[:_LIMIT]


def _address(endpoint):
    """Returns " (host:port)", or "" if the endpoint's variables do not contain them or are templates."""
    declared = yaml.safe_load(endpoint.read("vars.yaml") or b"") or {}
    host, port = str(declared.get("ansible_host", "")), str(declared.get("ansible_port", 22))
    return "" if not host or "{{" in host + port else f" ({host}:{port})"
