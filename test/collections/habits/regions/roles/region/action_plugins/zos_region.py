"""Controller side of the zos_region module: composes the header of the file."""

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Add the header, then run the module on the host."""

    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        host = task_vars["inventory_hostname"]
        args = {"header": "* written by the action plugin for %s" % host, **self._task.args}
        return self._execute_module(module_args=args, task_vars=task_vars)
