#!/usr/bin/python
"""Write, record or remove one file of a directory."""

DOCUMENTATION = r"""
module: zos_data_file
short_description: One file of a directory
description:
  - Writes, records or removes a file. The directory is created when it is missing.
options:
  directory: {type: path, required: true, description: Absolute path of the directory.}
  name: {type: str, required: true, description: Name of the file in the directory.}
  content: {type: str, default: "", description: What the file says. Used when the state is present.}
  mode: {type: str, default: "0640", description: Permissions in octal.}
  state:
    description: Recorded leaves an existing file as it is.
    type: str
    choices: [present, recorded, absent]
    default: present
author: The Collection Operator authors
"""

EXAMPLES = r"""
- zos_data_file:
    directory: /u/ops/files
    name: parameters.txt
    content: "REGION=0M"
"""

RETURN = r"""
path: {type: str, returned: always, description: Path of the file.}
sha256: {type: str, returned: unless absent, description: Hash of the content.}
size: {type: int, returned: unless absent, description: Size in bytes.}
"""

import hashlib
import os

from ansible.module_utils.basic import AnsibleModule


def read(path):
    """Return the file's bytes, or None if there is no such file."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def write(module, path, content, mode):
    """Replace the file in one step and return whether anything changed."""
    changed = read(path) != content
    if changed:
        partial = path + ".partial"
        with open(partial, "wb") as file:
            file.write(content)
        module.atomic_move(partial, path)
    return module.set_mode_if_different(path, mode, changed)


def remove(path):
    """Remove the file and return whether there was one."""
    try:
        os.remove(path)
    except FileNotFoundError:
        return False
    return True


def main():
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "name": {"type": "str", "required": True},
            "content": {"type": "str", "default": ""},
            "mode": {"type": "str", "default": "0640"},
            "state": {"type": "str", "choices": ["present", "recorded", "absent"], "default": "present"},
        }
    )
    params = module.params
    path = os.path.join(params["directory"], params["name"])
    if params["state"] == "absent":
        module.exit_json(changed=remove(path), path=path)
    changed = False
    if params["state"] == "present":
        os.makedirs(params["directory"], exist_ok=True)
        changed = write(module, path, params["content"].encode("utf-8"), params["mode"])
    content = read(path)
    if content is None:
        module.fail_json(msg="there is no file %s to record" % path)
    module.exit_json(changed=changed, path=path, sha256=hashlib.sha256(content).hexdigest(), size=len(content))


if __name__ == "__main__":
    main()
