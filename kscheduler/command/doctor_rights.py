"""The rights that a scheduler needs of the apiserver: those that deploy/base grants. A test compares the two."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kscheduler.client.reviews import Right
from kscheduler.config.types import LeaderElection

# (API group, resource) -> verbs, everywhere in the cluster.
_READ = ("list", "watch")
_CLUSTER: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "nodes"): _READ,
    ("", "pods"): ("delete", "get", "list", "watch"),
    ("policy", "poddisruptionbudgets"): _READ,
    ("", "namespaces"): _READ,
    ("", "services"): _READ,
    ("", "replicationcontrollers"): _READ,
    ("apps", "replicasets"): _READ,
    ("apps", "statefulsets"): _READ,
    ("storage.k8s.io", "storageclasses"): _READ,
    ("storage.k8s.io", "csidrivers"): _READ,
    ("storage.k8s.io", "csinodes"): _READ,
    ("storage.k8s.io", "csistoragecapacities"): _READ,
    ("storage.k8s.io", "volumeattachments"): _READ,
    ("", "persistentvolumes"): ("list", "patch", "watch"),
    ("", "persistentvolumeclaims"): ("list", "patch", "watch"),
    ("resource.k8s.io", "deviceclasses"): _READ,
    ("resource.k8s.io", "resourceslices"): _READ,
    ("resource.k8s.io", "devicetaintrules"): _READ,
    ("resource.k8s.io", "resourceclaims"): ("create", "delete", "get", "list", "patch", "watch"),
    ("resource.k8s.io", "resourceclaims/status"): ("patch",),
    ("resource.k8s.io", "resourceclaims/binding"): ("patch",),
    ("", "pods/binding"): ("create",),
    ("", "pods/status"): ("patch",),
    ("events.k8s.io", "events"): ("create", "patch"),
    ("authentication.k8s.io", "tokenreviews"): ("create",),
    ("authorization.k8s.io", "subjectaccessreviews"): ("create",),
}
CLUSTER_RIGHTS = tuple(Right(group, resource, verb) for (group, resource), verbs in _CLUSTER.items() for verb in verbs)

_GROUPS = {"coordination.k8s.io", *(right.group for right in CLUSTER_RIGHTS)}  # whose resources' names say enough


def lease_rights(election: LeaderElection) -> tuple[Right, ...]:
    """Return the rights on the Lease; none without leader election."""
    if not election.leader_elect:
        return ()
    group, resource, namespace = "coordination.k8s.io", "leases", election.resource_namespace
    named = (
        Right(group, resource, verb, namespace, election.resource_name) for verb in ("get", "list", "update", "watch")
    )
    return (Right(group, resource, "create", namespace), *named)


def in_words(rights: Iterable[Right]) -> str:
    """Describe rights, such as `list, watch nodes; create pods/binding; list queues of kscheduler.io`."""
    verbs: dict[str, list[str]] = defaultdict(list)
    for right in rights:
        of_group = "" if right.group in _GROUPS else f" of {right.group}"
        verbs[f"{right.resource}{of_group}{f' in {right.namespace}' if right.namespace else ''}"].append(right.verb)
    return "; ".join(f"{', '.join(those)} {what}" for what, those in verbs.items())
