"""Controller side of the mq_definition module: says on which endpoint an object is defined."""

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Add the endpoint to the attributes, then run the module on the host."""

    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        args = dict(self._task.args)
        args["attributes"] = {**args.get("attributes", {}), "CUSTOM": task_vars["inventory_hostname"]}
        return self._execute_module(
            module_name="habits_lab.zos_queues.mq_definition", module_args=args, task_vars=task_vars
        )
