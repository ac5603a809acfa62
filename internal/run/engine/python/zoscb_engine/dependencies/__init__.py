"""Installs Ansible collections and Python packages into the pod's volumes."""
