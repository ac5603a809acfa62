"""Playbooks have no terminal: what would ask somebody fails at once and says so.

ansible-runner gives Ansible a pseudoterminal on which nobody answers. Without one, Ansible would go on as if somebody had answered."""

import ctypes
import fcntl
import functools
import inspect
import os
import signal
import sys
import termios

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.loader import action_loader
from ansible.plugins.strategy import Debugger
from ansible.utils.display import Display

_PR_SET_PDEATHSIG = 1  # Of linux/prctl.h: the signal when the parent ends.

_NO_TERMINAL = "and playbooks have no terminal"


class Terminal:
    """Takes the terminal from this process and those that it forks."""

    def __init__(self):
        self._plays = []

    def remove(self):
        _detach()
        pause_action = action_loader.get("ansible.builtin.pause", class_only=True)  # The one of all its names.
        pause, ask = pause_action.run, Display.do_var_prompt

        @functools.wraps(pause)
        def timed_pause(action, *args, **kwargs):
            given = action._task.args
            if given.get("seconds") is None and given.get("minutes") is None:
                raise AnsibleActionFail(f"the task waits for an answer, {_NO_TERMINAL}: give pause seconds or minutes, or remove the task")
            return pause(action, *args, **kwargs)

        @functools.wraps(ask)
        def take_default(display, varname, *args, **kwargs):
            call = inspect.signature(ask).bind(display, varname, *args, **kwargs)
            if call.arguments.get("default") is None:
                message = f"vars_prompt asks for {varname}, {_NO_TERMINAL}: declare {varname} in the operator-config, or give it a default"
                raise AnsibleError(message, obj=self._prompt(varname))
            return ask(*call.args, **call.kwargs)

        def no_debugger(debugger):
            message = f"Ansible's debugger starts at this task, {_NO_TERMINAL}: remove debugger, or strategy: debug"
            raise AnsibleError(message, obj=debugger.scope["task"].get_ds())

        pause_action.run, Display.do_var_prompt, Debugger.cmdloop = timed_pause, take_default, no_debugger

    def know(self, playbook):
        """Takes the plays whose files and lines are to be named."""
        self._plays = playbook.get_plays()

    def _prompt(self, varname):
        """Returns what the first play that asks for a variable has in its file."""
        for play in self._plays:
            prompts = (play.get_ds() or {}).get("vars_prompt")
            for prompt in prompts if isinstance(prompts, list) else [prompts]:
                if isinstance(prompt, dict) and prompt.get("name") == varname:
                    return prompt
        return None


def _detach():
    """Lets nothing read from a terminal: neither from standard input nor, as ssh and sudo do, from /dev/tty."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # Elsewhere, nothing but the terminal would end this process when ansible-runner is killed.
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    if ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGHUP, 0, 0, 0) != 0:
        return
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # The leader of a session gets it when its terminal goes.
    try:
        with open("/dev/tty", "rb", buffering=0) as terminal:
            fcntl.ioctl(terminal, termios.TIOCNOTTY)
    except OSError:
        pass  # There is none.
    finally:
        signal.signal(signal.SIGHUP, _hang_up)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGHUP)


def _hang_up(signum, _):
    """Ends this process and those that it started, as the end of a terminal does."""
    signal.signal(signum, signal.SIG_DFL)
    if os.getpgrp() == os.getsid(0):  # Otherwise others started this group.
        os.killpg(0, signum)
    os.kill(os.getpid(), signum)
