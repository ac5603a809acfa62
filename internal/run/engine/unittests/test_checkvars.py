"""What a value depends on, before Ansible evaluates it."""

import unittest

from zoscb_engine.checkvars import Dependencies

VARIABLES = {"a": "{{ b }}", "b": ["{{ c.d }}"], "loop1": "{{ loop2 }}", "loop2": "{{ loop1 }}", "k": {"{{ check }}": 1}, "plain": "check"}


class DependenciesTest(unittest.TestCase):
    def setUp(self):
        self.on = Dependencies(["check", "c"], VARIABLES, ["other"])

    def test_directly_and_by_other_variables(self):
        for value in ("{{ check }}", "{% if check %}x{% endif %}", ["x", {"y": "{{ a }}"}], "{{ k }}", "{{ q | default(check) }}"):
            self.assertTrue(self.on.value(value), value)
        for value in ("check", "{{ plain }}", "{{ loop1 }}", "{{ x.check }}", "{{ 'check' }}", 7, None, "{{ other }}"):
            self.assertFalse(self.on.value(value), value)

    def test_by_names_that_cannot_be_followed(self):
        for value in ("{{ hostvars['x'].check }}", "{{ lookup('vars', 'check') }}", "{{ vars.check }}", "{{ hostvars.x.other }}", "{{ check"):
            self.assertTrue(self.on.value(value), value)
        self.assertTrue(self.on.value("{# " + "x" * (64 << 10) + " check #} {{ y }}"))

    def test_conditions(self):
        self.assertTrue(self.on.expression(["true", "not check"]))
        self.assertFalse(self.on.expression(["true", "plain == 'x'"]))
        self.assertFalse(self.on.expression(True))

    def test_without_a_name(self):
        rest = self.on.without("check")
        self.assertFalse(rest.value("{{ check }}"))
        self.assertTrue(rest.value("{{ c }}"))
        self.assertFalse(Dependencies([], VARIABLES).value("{{ check }}"))
