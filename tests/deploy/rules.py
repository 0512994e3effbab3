"""The rights of a ServiceAccount, taken apart into single verbs on single resources, and put together without one."""

from __future__ import annotations

import copy
from typing import NamedTuple

from tests.deploy.manifests import Object

CLUSTER = ""  # in place of a namespace: everywhere


class Right(NamedTuple):
    """One verb on one resource, as a role grants it."""

    namespace: str  # of the Role, or CLUSTER
    group: str
    resource: str  # "pods", or "pods/status"
    verb: str

    def __str__(self) -> str:
        """As pytest's id: `list pods`."""
        return f"{self.verb} {self.resource}"


def bound_roles(objects: list[Object], account: str = "kscheduler", namespace: str = "kscheduler") -> list[Object]:
    """The Roles and ClusterRoles that some binding gives to the ServiceAccount."""
    roles = []
    for binding in objects:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
        if subject not in binding["subjects"]:
            continue
        where = binding["metadata"].get("namespace")
        roles += [
            each
            for each in objects
            if each["kind"] == binding["roleRef"]["kind"]
            and each["metadata"]["name"] == binding["roleRef"]["name"]
            and each["metadata"].get("namespace") in (None, where)
        ]
    return roles


def rights(roles: list[Object]) -> list[Right]:
    """Every right of the roles, once, in the order of the files."""
    found = [
        Right(role["metadata"].get("namespace", CLUSTER), group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]
    assert len(found) == len(set(found)), "a right is granted twice: taking one away would change nothing"
    return found


def without(role: Object, right: Right) -> Object:
    """The role less that right; the same role if it does not grant it."""
    reduced = copy.deepcopy(role)
    if reduced["metadata"].get("namespace", CLUSTER) != right.namespace:
        return reduced
    for rule in reduced["rules"]:
        if right.group in rule["apiGroups"] and right.resource in rule["resources"] and right.verb in rule["verbs"]:
            assert len(rule["apiGroups"]) == len(rule["resources"]) == 1, "rules name one resource each"
            rule["verbs"].remove(right.verb)
    reduced["rules"] = [rule for rule in reduced["rules"] if rule["verbs"]]
    return reduced
