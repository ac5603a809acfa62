"""Private files on the writable volume."""

import os
import tempfile


def state_dir(*parts):
    """Returns a folder below ZOSCB_STATE_DIR that only this user can read. Creates it if necessary."""
    base = os.environ.get("ZOSCB_STATE_DIR") or "/opt/ansible/home/zoscb"
    folder = os.path.join(base, *parts)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def write(path, content):
    """Replaces a file atomically, with mode 0600, unless its content is equal."""
    try:
        with open(path, "rb") as file:
            if file.read() == content:
                return
    except FileNotFoundError:
        pass
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.replace(temporary, path)


def remove(path):
    try:
        os.remove(path)
    except FileNotFoundError:
        pass
