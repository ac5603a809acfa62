"""Keeps a check from running modules that change something in check mode, and from using results of tasks that were not checked.

Ansible forks a process for each task, which inherits what was wrapped here and what the results of earlier tasks showed.
../../../entry.yml refuses a check without the guard, so that a version of Ansible that lacks something ends all checks."""

import os

from ansible.errors import AnsibleActionSkip
from ansible.executor.task_executor import TaskExecutor
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import action_loader
from ansible.plugins.strategy import StrategyBase

from . import actions
from .changes import KEPT_FROM_RUNNING, is_unchecked
from .checkmodules import Modules
from .checkvars import Dependencies

_INSTALLED = "ZOSCB_CHECK_GUARD"

_PREFIX = "not checked: "
_DEPENDS = _PREFIX + "the task depends on the result of one that was not checked"
_LEFT_OUT = _PREFIX + "the playbook leaves the task out in check mode"

# What a command with creates or removes returns besides an invented return code.
_PRETENDED = "Command would have run if not in check mode"


def is_answer(result):
    """Returns whether a result is one of a guard."""
    return str(result.get("msg") or "").startswith(_PREFIX)


class Guard:
    """Answers tasks that must not run in a check as skipped. A task's own check_mode: false stays its author's word."""

    def __init__(self):
        self._modules = Modules(filter(None, os.environ.get("ZOSCB_SKIPPED_MODULES", "").split(",")))
        self._unknown = {}  # Names of variables with results of tasks that were not checked, by host.
        self._ended = False  # Whether all that follows depends on such a result.

    def install(self):
        os.environ.pop(_INSTALLED, None)
        run, get_action = TaskExecutor.run, action_loader.get_with_context
        execute_module, execute_meta = ActionBase._execute_module, StrategyBase._execute_meta

        def guarded_action(name, *args, **kwargs):
            found = get_action(name, *args, **kwargs)
            task = kwargs.get("task")
            if found.object and task and self._must_not_run([name, task.action], task):
                found.object.run = lambda *_, **__: _skip(task)
            return found

        def guarded_module(action, module_name=None, *args, **kwargs):
            if self._must_not_run([module_name or action._task.action], action._task):
                _skip(action._task)
            return execute_module(action, module_name, *args, **kwargs)

        def guarded_meta(strategy, task, play_context, iterator, target_host):
            if task.when:
                variables = strategy._variable_manager.get_vars(play=iterator._play, host=target_host, task=task)
                ends = str(task.args.get("_raw_params")).startswith("end_")
                if self._dependencies(target_host, variables, ["ansible_check_mode"] if ends else ()).expression(task.when):
                    self._ended = self._ended or ends
                    return []
            return execute_meta(strategy, task, play_context, iterator, target_host)

        TaskExecutor.run = lambda executor: self._run(run, executor)
        action_loader.get_with_context = guarded_action
        ActionBase._execute_module = guarded_module
        StrategyBase._execute_meta = guarded_meta
        os.environ[_INSTALLED] = "installed"

    def observe(self, host, task, result, skipped=False):
        """Remembers which variables have a result of a task that was not checked."""
        names = self._unknown.setdefault(host.get_name(), set())
        if task.register:
            (names.add if _is_unknown(result, skipped) else names.discard)(task.register)
        if actions.short(task.action) == "set_fact":
            if is_answer(result):
                names.update(task.args)
            elif not skipped:
                names.difference_update(task.args)

    def _must_not_run(self, names, task):
        return task.check_mode is not False and any(self._modules.include(name, task.collections) for name in names)

    def _dependencies(self, host, variables, others=()):
        own = [*self._unknown.get(host.get_name(), ()), *others]
        return Dependencies(own, variables, elsewhere=set().union(*self._unknown.values()))

    def _run(self, run, executor):
        """Runs a task, in the process that was forked for it."""
        task, variables, when = executor._task, executor._job_vars, list(executor._task.when)
        unknown = self._dependencies(executor._host, variables)
        known = [condition for condition in when if not unknown.expression(condition)]
        asserts = actions.short(task.action) == "assert" and unknown.expression(task.args.get("that"))
        depends = len(known) < len(when) or asserts
        if depends or self._ended or _uses(task, unknown):
            result = _evaluate(run, executor, known)
            if "skip_reason" in result:
                return result
            is_counted = depends or not actions.is_local(task.action) or actions.is_include(task.action)
            return _answer(_DEPENDS, result) if is_counted else {**_answer(_DEPENDS, result), "skip_reason": _DEPENDS}
        result = run(executor)
        if _is_conditional(result) and Dependencies(["ansible_check_mode"], variables).expression(when):
            return _answer(_LEFT_OUT, result)
        return result


def _uses(task, unknown):
    """Returns whether a task uses something unknown besides its conditions. Its own result is not unknown to it."""
    return unknown.value([task.loop, task.args, task.environment, task.delegate_to, task.check_mode]) or unknown.without(
        task.register
    ).expression([task.changed_when, task.failed_when, task.until])


def _skip(task):
    raise AnsibleActionSkip(KEPT_FROM_RUNNING, result={"changed": False, "_ansible_no_log": bool(task.no_log)})


def _answer(message, result):
    return {"changed": False, "skipped": True, "msg": message, "_ansible_no_log": bool(result.get("_ansible_no_log"))}


def _evaluate(run, executor, conditions):
    """Has Ansible evaluate conditions of a task that is not to run: in its place a message is printed. Conditions of items are
    left out. The main process gets the task from here, so it is restored."""
    task = executor._task
    if task.loop is not None:
        items = Dependencies([task.loop_control.loop_var, task.loop_control.index_var], {})
        conditions = [condition for condition in conditions if not items.expression(condition)]
    fields = {
        "when": conditions, "action": "ansible.builtin.debug", "args": {}, "loop": None, "loop_with": None,
        "changed_when": [], "failed_when": [], "until": [], "async_val": 0,
    }
    original = {name: getattr(task, name) for name in fields}
    _set(task, fields)
    result = run(executor)
    _set(task, original)
    return result


def _set(task, fields):
    for name, value in fields.items():
        setattr(task, name, value)


def _is_conditional(result):
    """Returns whether a task was skipped because of its conditions, and so was each item of its loop."""
    items = result.get("results")
    if isinstance(items, list) and items:
        return all(isinstance(item, dict) and "skip_reason" in item for item in items)
    return "skip_reason" in result


def _is_unknown(result, skipped):
    """Returns whether a result, or one of its items, is that of a task that was not checked."""
    items = result.get("results")
    if isinstance(items, list) and items:
        parts = [item for item in items if isinstance(item, dict)]
        return any(_is_unknown(item, item.get("skipped")) for item in parts)
    return is_answer(result) or bool(skipped and is_unchecked(result)) or str(result.get("msg")) == _PRETENDED
