"""Private files on the writable volume."""

import os
import tempfile


def state_dir(*parts):
    """A folder below ZOSCB_STATE_DIR, made if needed, readable by us alone."""
    base = os.environ.get("ZOSCB_STATE_DIR") or "/opt/ansible/home/zoscb"
    folder = os.path.join(base, *parts)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def write(path, content):
    """Replaces a file's content atomically; mode 0600. An equal file is left alone."""
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
