"""Filters of the queue_manager role."""


def mq_resource(name):
    """Return the part of a resource's name that stands for an MQ object."""
    return name.lower().replace(".", "-").replace("_", "-")


class FilterModule:
    """Filters that Ansible loads from this file."""

    def filters(self):
        return {"mq_resource": mq_resource}
