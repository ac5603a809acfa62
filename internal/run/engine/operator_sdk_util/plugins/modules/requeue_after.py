#!/usr/bin/python
"""Asks ansible-operator to run the resource again after some time."""

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: requeue_after
short_description: run the resource again after some time
description:
  - ansible-operator reads the period from this task's result.
author: Collection Operator
options:
  time:
    description: How long to wait, as hours, minutes and seconds such as 1h30m or 45s.
    type: str
    required: true
"""

EXAMPLES = """
- operator_sdk.util.requeue_after:
    time: 10m
"""

RETURN = """
period:
  description: The time as given.
  type: str
  returned: always
"""


def main():
    module = AnsibleModule(argument_spec={"time": {"type": "str", "required": True}}, supports_check_mode=True)
    module.exit_json(changed=False, period=module.params["time"])


if __name__ == "__main__":
    main()
