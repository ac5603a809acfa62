"""Bounded texts for the report of a run. Limits are in bytes of UTF-8."""

import re
import unicodedata

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def one_line(text, limit):
    """Returns the beginning of a text in one line, without control characters."""
    cleaned = " ".join(printable(text[: 4 * limit]).split())
    return cleaned.encode()[:limit].decode(errors="ignore").rstrip()


def tail(text, limit):
    """Returns the end of a text without control characters, except line breaks and tabs."""
    cleaned = printable(text[-4 * limit :]).strip()
    return cleaned.encode()[-limit:].decode(errors="ignore").lstrip()


def printable(text):
    """Returns a text without control characters, except line breaks and tabs."""
    text = _ESCAPE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return "".join(c for c in text if c in "\n\t" or not unicodedata.category(c).startswith("C"))
