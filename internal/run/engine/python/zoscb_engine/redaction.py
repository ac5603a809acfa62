"""Hides secrets in texts that tasks have printed. What Ansible hides because of no_log never gets here."""

import re

_SHOWN = "***"

# Shorter values would be found in other words.
_SHORTEST = 4

_SECRET_NAME = re.compile(r"(?i)(pass(word|wd|phrase)?|secret|token|api_?key)$")
_SECRETS = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)", re.S), _SHOWN),
    (re.compile(r"(://)[^/\s@]+@"), r"\1" + _SHOWN + "@"),
    (re.compile(r"(?i)((?:pass(?:word|wd|phrase)?|secret|token|api[_-]?key)[\"']?(?:=|: ?(?=[\"'])))(\"[^\"]*\"|'[^']*'|[^\s\"',;]+)"), r"\1" + _SHOWN),
    (re.compile(r"(?i)(--?(?:password|passwd|token|secret)\s+)[^\s\"',;]+"), r"\1" + _SHOWN),
    (re.compile(r"(?i)(\bauthorization[\"']?[:=]\s*[\"']?\w+\s+|\bbearer\s+)[a-z0-9+/=._~-]{8,}"), r"\1" + _SHOWN),
)


class Redaction:
    """Hides the secrets of an endpoint, which may be None, and what looks like a secret."""

    def __init__(self, endpoint=None):
        values = []
        if endpoint:
            values += [(endpoint.read(name) or b"").decode(errors="replace").strip() for name in ("password", "passphrase")]
            values += [value for name, value in endpoint.declared().items() if _SECRET_NAME.search(str(name)) and isinstance(value, str)]
        # A longer one may contain a shorter one.
        self._values = sorted((v for v in values if len(v) >= _SHORTEST and "{{" not in v), key=len, reverse=True)

    def apply(self, text):
        for value in self._values:
            text = text.replace(value, _SHOWN)
        for pattern, shown in _SECRETS:
            text = pattern.sub(shown, text)
        return text
