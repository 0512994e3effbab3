"""Replays recorded changes on a simulated cluster: of nodes, PodGroups and workloads, storage, and edited pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from kscheduler.api.devices import ResourceClaim
from kscheduler.api.objects import Pod
from kscheduler.client.kinds import NODES, PODS, RESOURCE_CLAIMS, STORAGE, Resource
from kscheduler.client.protocol import Binding, EventType
from kscheduler.simulator.cluster import Cluster

# Updates of volumes and claims follow from decisions, and the simulation makes its own: they are not replayed.
_FOLLOWS_DECISIONS = {each.plural for each in STORAGE if each.kind.startswith("Persistent")} | {RESOURCE_CLAIMS.plural}


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """One recorded change of an object, as a watch reported it."""

    at_s: float
    resource: Resource[Any]
    type: EventType
    object: Any


def apply_change(cluster: Cluster, change: ObjectChange) -> None:
    """Create, update or delete the object in the simulated cluster as recorded; deleting a missing one does nothing.

    Updates of volumes and claims are skipped: they follow from decisions, and the simulation makes its own. So is the
    deletion of ResourceClaims that were made for pods: each ends with its pod in the simulation.
    """
    resource, obj = change.resource, change.object
    if resource is PODS:
        _change_pod(cluster, obj)
        return
    exists = obj.key in cluster.store(resource).objects
    if change.type is EventType.DELETED:
        if exists and resource is RESOURCE_CLAIMS:
            _delete_claim(cluster, obj)
        elif exists:
            cluster.delete_object(resource, obj.key)
    elif not exists:
        if resource is NODES:
            cluster.create_node(_unversioned(obj))
        else:
            cluster.create_object(_unversioned(obj), resource)
    elif resource is NODES:
        cluster.update_node(_unversioned(obj))
    elif resource is RESOURCE_CLAIMS and obj.metadata.deletion_timestamp is not None:
        _delete_claim(cluster, obj)
    elif resource.plural not in _FOLLOWS_DECISIONS:
        cluster.update_object(_unversioned(obj), resource)


def _delete_claim(cluster: Cluster, claim: ResourceClaim) -> None:
    """Delete a claim that somebody made by name; while it is in use, it stays until its last pod ends."""
    if not any(owner.controller for owner in claim.metadata.owner_references or ()):
        cluster.delete_claim(claim.key)


def _change_pod(cluster: Cluster, recorded: Pod) -> None:
    """Update a pod's spec and metadata to the recorded ones, except that the simulation's own placement is kept."""
    current = cluster.pods.get(recorded.key)
    if current is None or current.metadata.uid != recorded.metadata.uid:
        return
    node_name = current.spec.node_name
    metadata = replace(
        current.metadata,
        labels=recorded.metadata.labels,
        annotations=recorded.metadata.annotations,
        resource_version="",
    )
    changed = replace(current, metadata=metadata, spec=replace(recorded.spec, node_name=node_name))
    if replace(changed, metadata=replace(metadata, resource_version=current.metadata.resource_version)) != current:
        cluster.update_pod(changed)
    if recorded.spec.node_name and not node_name and not recorded.metadata.deletion_timestamp:
        meta = recorded.metadata
        cluster.bind(Binding(meta.namespace, meta.name, meta.uid, recorded.spec.node_name))
    if recorded.metadata.deletion_timestamp:
        cluster.terminate_pod(recorded.key, uid=recorded.metadata.uid)


def _unversioned(obj: Any) -> Any:
    return replace(obj, metadata=replace(obj.metadata, resource_version=""))
