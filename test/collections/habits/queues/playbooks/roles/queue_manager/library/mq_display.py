#!/usr/bin/python
"""Display a definition."""

DOCUMENTATION = r"""
module: mq_display
short_description: A definition as it was written
description:
  - Reads the file of a definition.
options:
  path: {type: path, required: true, description: Path of the definition.}
author: The Collection Operator authors
"""

EXAMPLES = r"""
- mq_display:
    path: /u/ops/queues/QM01/QMGR.QM01
"""

RETURN = r"""
text: {type: str, returned: always, description: The definition.}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.mq_files import read


def main():
    module = AnsibleModule(argument_spec={"path": {"type": "path", "required": True}}, supports_check_mode=True)
    module.exit_json(changed=False, text=read(module.params["path"]))


if __name__ == "__main__":
    main()
