"""Kinds of actions, by the last part of their names."""

# Actions that do not connect to the host of the task.
_LOCAL = frozenset(
    "add_host assert debug fail group_by import_role import_tasks include_role include_tasks include_vars meta pause"
    " set_fact set_stats validate_argument_spec".split()
)

# Actions that run a command that the playbook has, and that check mode skips.
_COMMANDS = frozenset(["command", "raw", "script", "shell"])

_INCLUDES = frozenset(["include_role", "include_tasks"])


def short(action):
    return action.rpartition(".")[2]


def is_local(action):
    """Returns whether an action does nothing on the host of its task."""
    return short(action) in _LOCAL


def is_include(action):
    """Returns whether an action stands for the tasks of another file."""
    return short(action) in _INCLUDES


def is_command(action):
    """Returns whether an action runs a command of the playbook."""
    return short(action) in _COMMANDS
