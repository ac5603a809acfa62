#!/usr/bin/python
"""Updates the status of a resource."""

import copy
import os
import traceback
from datetime import datetime, timezone

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from kubernetes import config
    from kubernetes.client.exceptions import ApiException
    from kubernetes.dynamic import DynamicClient

    IMPORT_ERROR = None
except ImportError:
    IMPORT_ERROR = traceback.format_exc()

DOCUMENTATION = """
module: k8s_status
short_description: update the status of a resource
description:
  - Merges fields and conditions into the status subresource of one object.
author: Collection Operator
options:
  api_version:
    description: Group and version of the object.
    type: str
    aliases: [api, version]
    required: true
  kind:
    description: Kind of the object.
    type: str
    required: true
  name:
    description: Name of the object.
    type: str
    required: true
  namespace:
    description: Namespace of the object, unless its kind is cluster-scoped.
    type: str
  status:
    description: Fields to merge into the status.
    type: dict
    default: {}
  conditions:
    description:
      - Conditions to set; each has type and status, and may have reason, message and lastTransitionTime.
        A condition of the same type is replaced, others are kept.
    type: list
    elements: dict
  force:
    description: Whether status replaces the whole status instead of being merged into it.
    type: bool
    default: false
  kubeconfig:
    description: Path of a kubeconfig. Defaults to the environment variable K8S_AUTH_KUBECONFIG.
    type: path
"""

EXAMPLES = """
- operator_sdk.util.k8s_status:
    api_version: "{{ k8s_cr_version }}"
    kind: "{{ k8s_cr_kind }}"
    name: "{{ ansible_operator_meta.name }}"
    namespace: "{{ ansible_operator_meta.namespace }}"
    status:
      region: ready
  delegate_to: localhost
"""

RETURN = """
result:
  description: The object after the update.
  type: dict
  returned: success
"""

ARGUMENTS = {
    "api_version": {"type": "str", "aliases": ["api", "version"], "required": True},
    "kind": {"type": "str", "required": True},
    "name": {"type": "str", "required": True},
    "namespace": {"type": "str"},
    "status": {"type": "dict", "default": {}},
    "conditions": {"type": "list", "elements": "dict"},
    "force": {"type": "bool", "default": False},
    "kubeconfig": {"type": "path"},
}


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    if IMPORT_ERROR:
        module.fail_json(msg=missing_required_lib("kubernetes"), exception=IMPORT_ERROR)
    try:
        update(module)
    except ApiException as error:
        module.fail_json(msg=f"could not update the status of {module.params['name']}: {error.reason}: {error.body}")
    except Exception as error:  # no kubeconfig, no such kind, no connection
        module.fail_json(msg=f"could not update the status of {module.params['name']}: {error}")


def update(module):
    params = module.params
    api_client = config.new_client_from_config(params["kubeconfig"] or os.environ.get("K8S_AUTH_KUBECONFIG"))
    resource = DynamicClient(api_client).resources.get(api_version=params["api_version"], kind=params["kind"])
    where = {"name": params["name"], "namespace": params["namespace"]}
    current = resource.get(**where).to_dict()
    patch = merge_patch(current.get("status") or {}, wanted_status(current.get("status") or {}, params))
    if patch and not module.check_mode:
        body = {"status": patch}
        current = resource.status.patch(body=body, content_type="application/merge-patch+json", **where).to_dict()
    module.exit_json(changed=bool(patch), result=current)


def wanted_status(current, params):
    """Returns the new status for the current one and the arguments."""
    status = copy.deepcopy(params["status"]) if params["force"] else merged(current, params["status"])
    if params["conditions"] is not None:
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        status["conditions"] = merged_conditions(current.get("conditions") or [], params["conditions"], now)
    return status


def merged(old, new):
    """Merges new into old: dictionaries are merged, other values are replaced, None removes a key."""
    result = copy.deepcopy(old)
    for key, value in new.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def merge_patch(old, new):
    """Returns the JSON merge patch (RFC 7386) from old to new."""
    patch = {key: None for key in old if key not in new}
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(key), dict):
            inner = merge_patch(old[key], value)
            if inner:
                patch[key] = inner
        elif key not in old or old[key] != value:
            patch[key] = value
    return patch


def merged_conditions(old, new, now):
    """Replaces conditions by type. The transition time only changes with the status."""
    result = {condition["type"]: condition for condition in old}
    for condition in new:
        before = result.get(condition["type"], {})
        same = before.get("status") == str(condition.get("status"))
        kept = before.get("lastTransitionTime", now) if same else now
        result[condition["type"]] = {"lastTransitionTime": kept, **condition, "status": str(condition.get("status"))}
    return list(result.values())


if __name__ == "__main__":
    main()
