"""SSH settings of an endpoint, as Ansible host variables.

All options are set in ansible_ssh_args, which Ansible puts first on ssh's command line. ssh uses the first value of an
option, so neither Ansible's defaults nor an endpoint's variables can override them. No secret is a variable: the key is
a file, and ./askpass reads passphrases and passwords when ssh asks for them."""

import os
import shutil

from .endpoints import Endpoints
from .files import remove, state_dir, write

_ENGINE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

_OPTIONS = {
    "ControlMaster": "auto",
    "ControlPersist": "60s",
    "StrictHostKeyChecking": "yes",
    "GlobalKnownHostsFile": "/dev/null",
    "UpdateHostKeys": "no",
    "CheckHostIP": "no",
    "IdentitiesOnly": "yes",
    "IdentityAgent": "none",
    "NumberOfPasswordPrompts": "1",
    "ConnectionAttempts": "1",
    "GSSAPIAuthentication": "no",
    "HostbasedAuthentication": "no",
    "KbdInteractiveAuthentication": "no",
    "ForwardAgent": "no",
    "ServerAliveInterval": "30",
    "ServerAliveCountMax": "4",
}


def prepare(endpoint, declared):
    """Returns the declared variables with the connection settings, and writes private copies of the key and of the
    known hosts."""
    folder = _private_folder(endpoint.name)
    write(os.path.join(folder, "known_hosts"), _known_hosts(endpoint))
    key = os.path.join(folder, "key")
    options = {
        **_OPTIONS,
        "HostKeyAlias": endpoint.name,
        "UserKnownHostsFile": os.path.join(folder, "known_hosts"),
        "ControlPath": _control_path(endpoint),
    }
    ours = {"ansible_ssh_executable": os.path.join(_ENGINE, "ssh"), "ansible_ssh_retries": 0}
    content = endpoint.read("key")
    if content is None:
        remove(key)
        options.update(PreferredAuthentications="password", PasswordAuthentication="yes", PubkeyAuthentication="no")
        asks = True
    else:
        write(key, content.replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n")
        options.update(PreferredAuthentications="publickey", PasswordAuthentication="no", PubkeyAuthentication="yes")
        ours["ansible_ssh_private_key_file"] = key
        asks = endpoint.read("passphrase") is not None
    options["BatchMode"] = "no" if asks else "yes"
    if asks:
        ours.update(_transfer_settings(declared))
    ours["ansible_ssh_args"] = " ".join(["-C"] + [f"-o {name}={value}" for name, value in sorted(options.items())])
    return {**declared, **ours}


def _private_folder(name):
    """Returns the endpoint's folder on the writable volume, and removes folders of deleted endpoints."""
    known = set(Endpoints().names())
    for other in os.listdir(state_dir("endpoints")):
        if other not in known:
            shutil.rmtree(os.path.join(state_dir("endpoints"), other), ignore_errors=True)
    return state_dir("endpoints", name)


def _known_hosts(endpoint):
    """Returns the endpoint's host keys under its own name, which ssh looks up because of HostKeyAlias, independent of
    the host and port in its variables."""
    lines = []
    for line in (endpoint.read("known_hosts") or b"").splitlines():
        fields = line.split()
        if not fields or fields[0].startswith(b"#"):
            continue
        fields[1 if fields[0].startswith(b"@") else 0] = endpoint.name.encode()
        lines.append(b" ".join(fields) + b"\n")
    return b"".join(lines)


def _control_path(endpoint):
    """Returns the path of a socket that changes with the credential and the host keys. The path must fit into 108
    bytes."""
    folder = os.environ.get("ANSIBLE_SSH_CONTROL_PATH_DIR") or "/opt/ansible/home/cp"
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return os.path.join(folder, endpoint.fingerprint()[:12] + "%C")


def _transfer_settings(declared):
    """Makes sftp and scp run this engine's ssh, which may ask for a passphrase or password."""
    program = "-S " + os.path.join(_ENGINE, "ssh")
    return {
        "ansible_sftp_batch_mode": False,
        "ansible_sftp_extra_args": f"{program} {declared.get('ansible_sftp_extra_args', '')}".strip(),
        "ansible_scp_extra_args": f"{program} {declared.get('ansible_scp_extra_args', '')}".strip(),
    }
