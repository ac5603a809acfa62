"""Paths as the author of a collection knows them: relative to its root."""

import os
import re

_ENGINE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

# Folders of this container, wherever it has them.
_OURS = re.compile(r"/opt/ansible/(?:[^\s/'\":,;]+/)*")


def content_dir():
    """Returns the folder with the collection's files."""
    return os.path.realpath(os.environ.get("ZOSCB_CONTENT_DIR") or "/opt/ansible/content")


def relative_file(file):
    """Returns a file's path relative to the collection's content, or the name of a file of the engine."""
    real = _real(file)
    if real.startswith(content_dir() + os.sep):
        return os.path.relpath(real, content_dir())
    return os.path.basename(real) if is_engine_file(file) else file


def is_engine_file(file):
    return _real(file).startswith(_ENGINE + os.sep)


def _real(file):
    try:
        return os.path.realpath(file)
    except ValueError:  # What was printed may have characters that paths cannot have.
        return file


def relative(text):
    """Returns a text without the folders of this container."""
    folders = [content_dir(), os.environ.get("ZOSCB_CONTENT_DIR"), os.environ.get("ZOSCB_COLLECTIONS_DIR"), _ENGINE]
    for folder in filter(None, folders):
        text = text.replace(folder + os.sep, "")
    return _OURS.sub("", text)
