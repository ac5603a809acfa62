"""Filters of the habits_lab.zos_queues collection."""


def mq_name(name):
    """Return the name as MQ writes it."""
    return name.upper()


class FilterModule:
    """Filters that Ansible loads from this file."""

    def filters(self):
        return {"mq_name": mq_name}
