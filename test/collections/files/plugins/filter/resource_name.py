"""Filter of the example.zos_files collection."""

import hashlib
import re

DOCUMENTATION = r"""
name: resource_name
short_description: Kubernetes name for a file
description: A legal and unique resource name for a file on an endpoint.
options:
  _input: {type: str, required: true, description: Name of the file.}
  endpoint: {type: str, required: true, description: Name of the endpoint.}
"""


def resource_name(filename, endpoint):
    """Return a readable name, made unique by a short hash of endpoint and file name."""
    readable = re.sub(r"[^a-z0-9]+", "-", filename.lower()).strip("-")[:40].strip("-") or "file"
    unique = hashlib.sha256(("%s/%s" % (endpoint, filename)).encode("utf-8")).hexdigest()[:8]
    return "%s-%s" % (readable, unique)


class FilterModule:
    """Filters that Ansible loads from this file."""

    def filters(self):
        return {"resource_name": resource_name}
