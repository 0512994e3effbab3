"""ServiceAccounts that may see the live page: all of it, or the pods of one namespace."""

from __future__ import annotations

from typing import Any

from kscheduler.testing.controlplane.workspace import Workspace

VIEWER = "kscheduler-ui-viewer"  # as in deploy/ui
_GROUP = "rbac.authorization.k8s.io"


def may_see_everything(workspace: Workspace, account: str) -> str:
    """The token of a ServiceAccount that may see the page, and list all pods and nodes."""
    rules = [
        {"nonResourceURLs": ["/ui/*"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list"]},
    ]
    _allow(workspace, account, f"{VIEWER}-all", rules)
    return workspace.control_plane.service_account_token(workspace.namespace, account)


def may_see_own_pods(workspace: Workspace, account: str) -> str:
    """The token of a ServiceAccount that may see the page, and list the pods of the test's namespace only."""
    _allow(workspace, account, VIEWER, [{"nonResourceURLs": ["/ui/*"], "verbs": ["get"]}])
    namespace = workspace.namespace
    head = {"apiVersion": f"{_GROUP}/v1", "metadata": {"name": "pod-reader", "namespace": namespace}}
    workspace.api.apply(
        {**head, "kind": "Role", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]},
        {
            **head,
            "kind": "RoleBinding",
            "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": "pod-reader"},
            "subjects": [_subject(workspace, account)],
        },
    )
    return workspace.control_plane.service_account_token(namespace, account)


def _allow(workspace: Workspace, account: str, role: str, rules: list[dict[str, Any]]) -> None:
    head = {"apiVersion": f"{_GROUP}/v1", "metadata": {"name": role}}
    workspace.api.apply(
        {**head, "kind": "ClusterRole", "rules": rules},
        {
            **head,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role},
            "subjects": [_subject(workspace, account)],
        },
    )


def _subject(workspace: Workspace, account: str) -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": account, "namespace": workspace.namespace}
