"""Finds out whether a value, before Ansible evaluates it, depends on some variables."""

import re

import jinja2
from jinja2 import meta

_WORD = re.compile(r"[A-Za-z_]\w*")

# Variables that contain others, which are then named by texts or attributes, also by a lookup of vars or varnames.
_CONTAINERS = frozenset(["hostvars", "vars", "varnames"])

# Longer texts are not parsed: all of their words count.
_LIMIT = 64 << 10

_jinja = jinja2.Environment(extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"])


class Dependencies:
    """The values that depend on one of some names: directly, or by the templates in other variables. elsewhere are names that
    count only in what uses hostvars: variables of other hosts."""

    def __init__(self, names, variables, elsewhere=()):
        self._names, self._elsewhere = frozenset(names), frozenset(elsewhere)
        self._variables = variables

    def without(self, name):
        """Returns the dependencies on the other names."""
        return Dependencies(self._names - {name}, self._variables, self._elsewhere)

    def value(self, value):
        """Returns whether the templates in a value depend on a name."""
        return self._value(value, set())

    def expression(self, value):
        """Returns whether an expression, such as a condition, or one in a list does."""
        if isinstance(value, (list, tuple)):
            return any(self.expression(item) for item in value)
        return isinstance(value, str) and self._text("{{ %s }}" % value, set())

    def _value(self, value, seen):
        if isinstance(value, str):
            return ("{{" in value or "{%" in value) and self._text(value, seen)
        if isinstance(value, dict):
            return any(self._value(part, seen) for pair in value.items() for part in pair)
        if isinstance(value, (list, tuple)):
            return any(self._value(item, seen) for item in value)
        return False

    def _text(self, template, seen):
        if not self._names and not self._elsewhere:
            return False
        names = _names(template)
        if names & self._names or "hostvars" in names and names & self._elsewhere:
            return True
        names = names - _CONTAINERS - seen
        seen |= names
        return any(self._value(self._variables.get(name), seen) for name in names)


def _names(template):
    """Returns the names of variables in a template: all words if it cannot be parsed, or names a variable that has others."""
    words = frozenset(_WORD.findall(template))
    if len(template) > _LIMIT or words & _CONTAINERS:
        return words
    try:
        return meta.find_undeclared_variables(_jinja.parse(str(template)))
    except (jinja2.TemplateError, RecursionError):
        return words
