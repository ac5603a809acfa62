#!/usr/bin/python
"""Define or delete an object of MQ."""

DOCUMENTATION = r"""
module: mq_definition
short_description: An object of MQ
description:
  - Writes the command that defines an object into a file, or removes the file.
options:
  directory: {type: path, required: true, description: Directory of the queue manager.}
  type: {type: str, required: true, description: Kind of object.}
  name: {type: str, required: true, description: Name of the object.}
  attributes: {type: dict, default: {}, description: Attributes of the object.}
  state:
    description: Whether the object is defined.
    type: str
    choices: [present, absent]
    default: present
author: The Collection Operator authors
"""

EXAMPLES = r"""
- habits_lab.zos_queues.mq_definition:
    directory: /u/ops/queues/QM01
    type: QLOCAL
    name: ORDERS
"""

RETURN = r"""
path: {type: str, returned: always, description: Path of the definition.}
definition: {type: str, returned: always, description: The command, empty when the state is absent.}
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.habits_lab.zos_queues.plugins.module_utils.mqsc import define


def main():
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "type": {"type": "str", "required": True},
            "name": {"type": "str", "required": True},
            "attributes": {"type": "dict", "default": {}},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        }
    )
    params = module.params
    path = os.path.join(params["directory"], "%s.%s" % (params["type"], params["name"]))
    if params["state"] == "absent":
        changed = os.path.exists(path)
        if changed:
            os.remove(path)
        module.exit_json(changed=changed, path=path, definition="")
    os.makedirs(params["directory"], exist_ok=True)
    command = define(params["type"], params["name"], params["attributes"])
    with open(path, "w", encoding="utf-8") as file:
        file.write(command + "\n")
    module.exit_json(changed=True, path=path, definition=command)


if __name__ == "__main__":
    main()
