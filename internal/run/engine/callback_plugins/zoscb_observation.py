"""Observes the tasks on the resource's endpoint, for the report of the run, and takes the terminal from the playbook.

Ansible finds this folder because it is beside entry.yml, also if ANSIBLE_CALLBACK_PLUGINS names others."""

import os

from ansible import constants, context
from ansible.plugins.callback import CallbackBase

from zoscb_engine.changes import Changes
from zoscb_engine.checkguard import Guard, is_answer
from zoscb_engine.endpoints import Endpoints
from zoscb_engine.observation import Observation, Task
from zoscb_engine.run import Run
from zoscb_engine.terminal import Terminal

DOCUMENTATION = """
name: zoscb_observation
type: aggregate
short_description: observes the tasks on the resource's endpoint
description: Writes observation.json to the folder of the run. In check mode, it keeps modules that ignore it from running.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "zoscb_observation"
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self):
        super().__init__()
        folder = os.environ.get("AWX_ISOLATED_DATA_DIR")
        self.disabled = not folder
        self._terminal = Terminal()
        self._terminal.remove()
        changes = self._guard = None
        if context.CLIARGS.get("check"):
            changes, self._guard = Changes(constants.DEFAULT_LOCAL_TMP, bool(context.CLIARGS.get("diff"))), Guard()
            self._guard.install()
        self._observation = Observation(Endpoints().get(Run.of_ansible().endpoint), changes, folder)
        self._started = (None, "")  # The task that was started last, and its name with templates replaced.
        self._loops = set()  # Tasks whose items were observed.

    def v2_playbook_on_start(self, playbook):
        self._terminal.know(playbook)

    def v2_playbook_on_play_start(self, play):
        self._observation.play()

    def v2_playbook_on_task_start(self, task, is_conditional):
        self._started = (task._uuid, task.get_name())

    def v2_playbook_on_handler_task_start(self, task):
        self._started = (task._uuid, task.get_name())

    def v2_runner_on_ok(self, result):
        self._guarded(result)
        if result._task._uuid not in self._loops:
            self._observation.ok(self._task(result), result._result)

    def v2_runner_on_skipped(self, result):
        self._guarded(result, skipped=True)
        if result._task._uuid not in self._loops or is_answer(result._result):
            self._observation.skipped(self._task(result), result._result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._guarded(result)
        self._observation.failed(self._task(result), not ignore_errors and _is_in_rescue(result._task))

    def v2_runner_on_unreachable(self, result):
        self._observation.unreachable(self._task(result), result._result)

    def v2_runner_item_on_ok(self, result):
        self._loops.add(result._task._uuid)
        self._observation.ok(self._task(result), result._result)

    def v2_runner_item_on_skipped(self, result):
        self._loops.add(result._task._uuid)
        self._observation.skipped(self._task(result), result._result)

    def v2_runner_item_on_failed(self, result):
        self._loops.add(result._task._uuid)

    def v2_playbook_on_stats(self, stats):
        self._observation.end()

    def _guarded(self, result, skipped=False):
        if self._guard:
            self._guard.observe(result._host, result._task, result._result, skipped)

    def _task(self, result):
        task, (started, name) = result._task, self._started
        target = result._task_fields.get("delegate_to") or result._host.get_name()
        return Task(task._uuid, task.action, name if started == task._uuid else task.get_name(), target)


def _is_in_rescue(task):
    """Returns whether a task, or what includes it, is in the rescue section of a block."""
    while task._parent:
        if any(other._uuid == task._uuid for other in getattr(task._parent, "rescue", None) or ()):
            return True
        task = task._parent
    return False
