"""Hides secrets in texts that tasks have printed. What Ansible hides because of no_log never gets here."""

import re

_SHOWN = "***"

# Shorter values would be found in other words.
_SHORTEST = 4

# PWD=/u/pat is a folder, and ssh_askpass a program.
_KEY = r"(?:(?<!ask)(?<!by)pass(?:word|wd|phrase)?|pwd(?!=/)|secret|token|(?:api|private|(?:secret|access)[_-]?(?:access[_-]?)?)[_-]?key)"
_CLOSE = r"\\*[\"']?"
# The quote at the end may be missing where a text was cut.
_QUOTED = r"(?:\"(?:\\.|[^\"\\\n])*(?:\"|\\?$)|'(?:\\.|[^'\\\n])*(?:'|\\?$))+"
_VALUE = rf"(?:{_QUOTED}|[^\s\"',;]+)"

_SECRET_NAME = re.compile(rf"(?i){_KEY}$")
_SECRETS = [
    (re.compile(pattern, re.M), shown)
    for pattern, shown in (
        (r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", _SHOWN),
        (r"(://)[^/\s@]+@", rf"\1{_SHOWN}@"),
        (r"(?i)(\bauthorization[\"']?[:=]\s*[\"']?\w+\s+|\bbearer\s+)[a-z0-9+/=._~-]{8,}", rf"\1{_SHOWN}"),
        # Operands of RACF commands.
        (r"(?i)((?:password|phrase|newpass\w{0,9})[ \t]*\()(?:'[^'\n]*'|[^)\n])*", rf"\1{_SHOWN}"),
        # Messages of z/OS have words in capitals with a colon that are no secrets: ICH408I PASSWORD: EXPIRED
        (rf"(?i)({_KEY}(?-i:(?<=[a-z])){_CLOSE}: ?)(?:{_QUOTED}|\S+)", rf"\1{_SHOWN}"),
        (rf"(?i)({_KEY}{_CLOSE}(?: ?= ?|: ?(?=[\"'])))" + _VALUE, rf"\1{_SHOWN}"),
        (rf"(?i)(-{_KEY}(?:[ \t]+|[\"'], ?))" + _VALUE, rf"\1{_SHOWN}"),
    )
]


class Redaction:
    """Hides the secrets of an endpoint, which may be None, and what looks like a secret. Texts must be complete: a part of a secret is
    not found."""

    def __init__(self, endpoint=None):
        values = []
        if endpoint:
            values += [(endpoint.read(name) or b"").decode(errors="replace").strip() for name in ("password", "passphrase")]
            # Ansible's messages have templates as they are.
            values += [str(value) for name, value in endpoint.declared().items() if _SECRET_NAME.search(str(name)) and _is_scalar(value)]
        # A longer one may contain a shorter one.
        self._values = sorted((v for v in values if len(v) >= _SHORTEST), key=len, reverse=True)

    def apply(self, text):
        for value in self._values:
            text = text.replace(value, _SHOWN)
        for pattern, shown in _SECRETS:
            text = pattern.sub(shown, text)
        return text


def _is_scalar(value):
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)
