#!/usr/bin/python
"""Write or remove the parameters of a region."""

DOCUMENTATION = r"""
module: zos_region
short_description: Parameters of a region
description:
  - Writes the file with a region's parameters, or removes the region's directory.
options:
  base: {type: path, required: true, description: Directory of all regions.}
  applid: {type: str, required: true, description: Name of the region.}
  parameters: {type: dict, default: {}, description: Start-up parameters.}
  header: {type: str, default: "", description: First line of the file. The action plugin gives it.}
  administrator: {type: str, description: User ID of the administrator.}
  password: {type: str, description: Password of the administrator. Only its hash is written.}
  state:
    description: Whether the region is there.
    type: str
    choices: [present, absent]
    default: present
author: The Collection Operator authors
"""

EXAMPLES = r"""
- zos_region:
    base: /u/ops/regions
    applid: CICSA001
"""

RETURN = r"""
path: {type: str, returned: always, description: Path of the parameters.}
names: {type: dict, returned: always, description: Names of the region.}
environment: {type: str, returned: always, description: The play's environment as the module sees it.}
"""

import hashlib
import os
import shutil

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.region_names import names_of


def compose(params):
    """Return the text of the file."""
    lines = [params["header"]] + ["%s=%s" % item for item in sorted(params["parameters"].items())]
    if params["administrator"]:
        secret = hashlib.sha256(params["password"].encode("utf-8")).hexdigest()
        lines.append("ADMIN=%s,%s" % (params["administrator"], secret))
    return "\n".join(lines) + "\n"


def write(path, text):
    """Write the file and return whether it changed."""
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return False
    except FileNotFoundError:
        pass
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return True


def main():
    module = AnsibleModule(
        argument_spec={
            "base": {"type": "path", "required": True},
            "applid": {"type": "str", "required": True},
            "parameters": {"type": "dict", "default": {}},
            "header": {"type": "str", "default": ""},
            "administrator": {"type": "str"},
            "password": {"type": "str", "no_log": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        required_together=[["administrator", "password"]],
    )
    params = module.params
    names = names_of(params["applid"])
    directory = os.path.join(params["base"], names["directory"])
    path = os.path.join(directory, "parameters")
    if params["state"] == "absent":
        changed = os.path.isdir(directory)
        shutil.rmtree(directory, ignore_errors=True)
    else:
        changed = write(path, compose(params))
    module.exit_json(changed=changed, path=path, names=names, environment=os.environ.get("REGION_HOME", ""))


if __name__ == "__main__":
    main()
