"""Controller side of the zos_data_file module: checks its arguments before anything reaches the host."""

import posixpath

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Refuse any file that would not lie directly in the directory, then run the module on the host."""

    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        args = dict(self._task.args)
        directory, name = args.get("directory") or "", args.get("name") or ""
        if not posixpath.isabs(directory):
            raise AnsibleActionFail("the directory must be an absolute path, not %r: set zos_files_base" % directory)
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise AnsibleActionFail("the file name must be a plain name without a directory, not %r" % name)
        return self._execute_module(module_args=args, task_vars=task_vars)
