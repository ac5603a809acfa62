"""Filters of the region role."""


def region_directory(applid):
    """Return the name of a region's directory."""
    return applid.lower()


class FilterModule:
    """Filters that Ansible loads from this file."""

    def filters(self):
        return {"region_directory": region_directory}
