"""A ServiceAccount that may read the records of decisions, and no other page."""

from __future__ import annotations

from kscheduler.testing.controlplane.workspace import Workspace

PATH = "/debug/kscheduler/explain"
READER = "kscheduler-explain-reader"


def may_explain(workspace: Workspace, account: str) -> str:
    """The token of a ServiceAccount that may read explanations."""
    role = {"nonResourceURLs": [PATH], "verbs": ["get"]}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": workspace.namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": READER}
    head = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    workspace.api.apply(
        {**head, "kind": "ClusterRole", "metadata": {"name": READER}, "rules": [role]},
        {
            **head,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": READER},
            "roleRef": reference,
            "subjects": [subject],
        },
    )
    return workspace.control_plane.service_account_token(workspace.namespace, account)
