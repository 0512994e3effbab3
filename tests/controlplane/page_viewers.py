"""ServiceAccounts that may see the live page by the ClusterRoles of deploy/ui: with all pods and nodes, or own pods."""

from __future__ import annotations

from typing import Any

from kscheduler.testing.controlplane.workspace import Workspace
from tests.deploy.manifests import own_objects

VIEWER, NODE_VIEWER, POD_LISTER = "kscheduler-ui-viewer", "kscheduler-ui-node-viewer", "pod-lister"
_GROUP = "rbac.authorization.k8s.io"
_LIST_PODS = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]


def may_see_everything(workspace: Workspace, account: str) -> str:
    """The token of a ServiceAccount that may see the page, and list all pods and nodes."""
    head = {"apiVersion": f"{_GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": POD_LISTER}}
    workspace.api.apply(*own_objects("ui"), {**head, "rules": _LIST_PODS})
    for role in (VIEWER, NODE_VIEWER, POD_LISTER):
        _bind(workspace, account, "ClusterRole", role)
    return workspace.control_plane.service_account_token(workspace.namespace, account)


def may_see_own_pods(workspace: Workspace, account: str) -> str:
    """The token of a ServiceAccount that may see the page, and list the pods of the test's namespace only."""
    metadata = {"name": POD_LISTER, "namespace": workspace.namespace}
    role = {"apiVersion": f"{_GROUP}/v1", "kind": "Role", "metadata": metadata, "rules": _LIST_PODS}
    workspace.api.apply(*own_objects("ui"), role)
    _bind(workspace, account, "ClusterRole", VIEWER)
    _bind(workspace, account, "Role", POD_LISTER)
    return workspace.control_plane.service_account_token(workspace.namespace, account)


def _bind(workspace: Workspace, account: str, kind: str, role: str) -> None:
    metadata: dict[str, Any] = {"name": f"{role}-{account}"}
    if kind == "Role":
        metadata["namespace"] = workspace.namespace
    binding = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _GROUP, "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": workspace.namespace}],
    }
    workspace.api.apply(binding)
