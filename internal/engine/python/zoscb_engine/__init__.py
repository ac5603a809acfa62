"""What the runtime container needs besides ansible-core and ansible-runner:
endpoints and their credentials (used by the vars plugin) and honest failures
(the ansible-runner plugin in events.py)."""
