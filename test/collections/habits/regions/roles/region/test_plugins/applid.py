"""Tests of the region role."""

import re


def applid(text):
    """Say whether the text is an APPLID."""
    return re.fullmatch(r"[A-Z@#$][A-Z0-9@#$]{0,7}", text) is not None


class TestModule:
    """Tests that Ansible loads from this file."""

    def tests(self):
        return {"applid": applid}
