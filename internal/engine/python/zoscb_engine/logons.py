"""Decides whether a run may use an endpoint's credential.

A refused credential is recorded, because ansible-operator retries failed resources, and z/OS revokes a user ID after a
few refused logons. Until a credential is accepted, only one run at a time uses it, and other runs wait for the outcome.
State on the writable volume, per endpoint:

    refused/NAME    {"credential": FINGERPRINT, "message": TEXT, "tried": {RESOURCE: DIGEST}}
    accepted/NAME   FINGERPRINT
    trying/NAME     the run whose turn it is

The record is valid until the endpoint's variables or credential change. A resource may use the credential once more after
the resource itself has changed. A resource that is new while the credential is refused may not use it."""

import json
import os
import time

from .files import remove, state_dir, write

# A turn ends when the outcome is known, or with the run. Other runs wait no longer than this, in case the run was killed.
_TURN_SECONDS = 120
_POLL_SECONDS = 0.2


def refusal(endpoint, run, local):
    """Returns the reason why the run must not use the endpoint, or None. May wait for another run. A local endpoint
    needs no credential."""
    if run.reserved_variables:
        return "ReservedVariable: a resource must not set " + ", ".join(run.reserved_variables)
    given = (endpoint.read("refusal") or b"").decode(errors="replace").strip()
    if given:
        return given
    if local:
        return None
    if endpoint.read("key") is None and endpoint.read("password") is None:
        return f"CredentialMissing: endpoint {endpoint.name} has neither key nor password"
    while True:
        refused = _remembered(endpoint, run)
        if refused or _is_accepted(endpoint) or _take_turn(endpoint, run):
            return refused
        time.sleep(_POLL_SECONDS)


def refused(endpoint, run, message):
    """Records that the endpoint refused its credential in this run."""
    memory = _load(endpoint) or {"credential": endpoint.fingerprint(), "tried": {}}
    memory["message"] = message
    memory["tried"][run.resource] = run.digest
    _store(endpoint, memory)
    remove(_path("accepted", endpoint))
    end_turn(endpoint, run)


def accepted(endpoint, run):
    """Records that the endpoint accepted its credential in this run."""
    write(_path("accepted", endpoint), endpoint.fingerprint().encode())
    remove(_path("refused", endpoint))
    end_turn(endpoint, run)


def end_turn(endpoint, run):
    """Ends this run's turn, if it has one."""
    if _content(_path("trying", endpoint)) == run.ident.encode():
        remove(_path("trying", endpoint))


def _remembered(endpoint, run):
    memory = _load(endpoint)
    if memory is None:
        return None
    tried = memory["tried"].get(run.resource)
    if tried is None:
        memory["tried"][run.resource] = run.digest
        _store(endpoint, memory)
    elif tried != run.digest:
        return None
    return memory["message"] + "; not tried again until the credential, the endpoint or this resource changes"


def _is_accepted(endpoint):
    return _content(_path("accepted", endpoint)) == endpoint.fingerprint().encode()


def _take_turn(endpoint, run):
    """Takes the turn for this run, unless another run has it. Several processes of one run may call it."""
    path = _path("trying", endpoint)
    try:
        if time.time() - os.stat(path).st_mtime > _TURN_SECONDS:
            remove(path)
    except FileNotFoundError:
        pass
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return _content(path) == run.ident.encode()
    with os.fdopen(handle, "wb") as file:
        file.write(run.ident.encode())
    return True


def _path(kind, endpoint):
    return os.path.join(state_dir(kind), endpoint.name)


def _content(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _load(endpoint):
    """Returns the record for the endpoint's current credential, or None."""
    try:
        memory = json.loads(_content(_path("refused", endpoint)) or b"{}")
    except ValueError:
        return None
    return memory if memory.get("credential") == endpoint.fingerprint() else None


def _store(endpoint, memory):
    write(_path("refused", endpoint), json.dumps(memory, sort_keys=True).encode())
