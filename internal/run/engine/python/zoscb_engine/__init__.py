"""Extends ansible-core and ansible-runner in the runtime container: endpoints and their credentials (for the vars plugin),
what tasks on an endpoint show (for the callback plugin), and the report of each run (the ansible-runner plugin in
events.py)."""
