"""Tests of the habits_lab.zos_queues collection."""

import re


def mq_subsystem(text):
    """Say whether the text is the name of a subsystem."""
    return re.fullmatch(r"[A-Z][A-Z0-9]{0,3}", text) is not None


def mq_object(text):
    """Say whether the text is the name of an object."""
    return re.fullmatch(r"[A-Za-z0-9._]{1,48}", text) is not None


class TestModule:
    """Tests that Ansible loads from this file."""

    def tests(self):
        return {"mq_subsystem": mq_subsystem, "mq_object": mq_object}
