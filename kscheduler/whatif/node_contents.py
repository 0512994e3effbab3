"""Gives added nodes what the nodes that they are copies of have: devices, and pods of DaemonSets.

The slices that a driver publishes for one node are copied as the record has them last, with the names of the copy in
those of slice and pool. Of each DaemonSet the first pod that a node has in the input is copied, and runs on the added
node from the start. Not copied are devices in slices that describe several nodes, and pods of DaemonSets that claim
devices; `notes` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from kscheduler.api.devices import ResourceSlice
from kscheduler.api.labels import NODE_NAME_FIELD
from kscheduler.api.objects import ObjectMeta, OwnerReference, Pod
from kscheduler.client.kinds import RESOURCE_SLICES
from kscheduler.client.protocol import EventType
from kscheduler.counted import counted
from kscheduler.simulator.scenario import Scenario
from kscheduler.simulator.workload_devices import slices_of
from kscheduler.whatif.shapes import AddedNode

DAEMON_SET = "DaemonSet"


class NodeContents:
    """What the nodes of a scenario have."""

    def __init__(self, scenario: Scenario) -> None:
        self._slices: dict[str, list[ResourceSlice]] = {}  # node -> slices that are for it alone
        self._span_nodes: set[str] = set()  # nodes with devices in slices that describe several nodes
        self._pods: dict[str, dict[str, Pod]] = {}  # node -> uid of a DaemonSet -> its pod there
        for item in _newest(_slices(scenario)):
            self._add_slice(item)
        for arrival in scenario.arrivals:
            self._add_pod(arrival.pod)

    def _add_slice(self, item: ResourceSlice) -> None:
        if item.spec.node_name:
            self._slices.setdefault(item.spec.node_name, []).append(item)
        elif item.spec.per_device_node_selection:
            self._span_nodes.update(each.node_name for each in item.spec.devices or () if each.node_name)

    def _add_pod(self, pod: Pod) -> None:
        owner = daemon_set_of(pod)
        node = _node_of(pod)
        if owner is not None and node:
            self._pods.setdefault(node, {}).setdefault(owner.uid or f"{pod.metadata.namespace}/{owner.name}", pod)

    def slices(self, added: AddedNode) -> Iterator[ResourceSlice]:
        """Yield the slices of an added node."""
        name = added.node.metadata.name
        if not added.model:
            yield from slices_of(name, added.devices)
        for item in self._slices.get(added.model, ()):
            spec = item.spec
            pool = structs.replace(spec.pool, name=_renamed(spec.pool.name, added))
            yield structs.replace(
                item,
                metadata=_metadata(item.metadata, _renamed(item.metadata.name, added)),
                spec=structs.replace(spec, node_name=name, pool=pool),
            )

    def pods(self, added: AddedNode) -> Iterator[Pod]:
        """Yield the pods that run on an added node from the start."""
        for pod in self._daemons_on(added.model):
            if _claims_devices(pod):
                continue
            owners = pod.metadata.owner_references
            metadata = _metadata(pod.metadata, _renamed(pod.metadata.name, added), owners)
            yield structs.replace(
                pod, metadata=metadata, spec=structs.replace(pod.spec, node_name=added.node.metadata.name)
            )

    def _daemons_on(self, node: str) -> Iterable[Pod]:
        return self._pods.get(node, {}).values()

    def notes(self, added: Sequence[AddedNode]) -> list[str]:
        """Return sentences on what added nodes do not have, though real ones would."""
        found = []
        generated = sum(not each.model for each in added)
        if generated and self._pods:
            unlike = "not like a node of the input"
            nodes = counted(generated, f"added node is {unlike}: it has", f"added nodes are {unlike}: they have")
            found.append(f"{nodes} no pods of DaemonSets.")
        models = {each.model for each in added}
        if models & self._span_nodes:
            found.append("Added nodes lack devices: slices that describe several nodes are not copied.")
        if any(_claims_devices(pod) for model in models for pod in self._daemons_on(model)):
            found.append("Added nodes have no pods of DaemonSets that claim devices.")
        return found


def daemon_set_of(pod: Pod) -> OwnerReference | None:
    """Return the DaemonSet that owns the pod; None if it is not of a DaemonSet."""
    return next((owner for owner in pod.metadata.owner_references or () if owner.kind == DAEMON_SET), None)


def _slices(scenario: Scenario) -> Iterator[ResourceSlice]:
    """Yield every version of every slice, in order of time."""
    for item in scenario.devices:
        if isinstance(item, ResourceSlice):
            yield item
    for change in scenario.changes:
        if change.resource is RESOURCE_SLICES and change.type is not EventType.DELETED:
            yield change.object


def _newest(versions: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Return the last version of each slice of every pool's newest generation."""
    last = {each.metadata.name: each for each in versions}.values()
    generations: dict[tuple[str, str], int] = {}
    for each in last:
        generations[_pool(each)] = max(each.spec.pool.generation, generations.get(_pool(each), 0))
    return [each for each in last if each.spec.pool.generation == generations[_pool(each)]]


def _pool(item: ResourceSlice) -> tuple[str, str]:
    return item.spec.driver, item.spec.pool.name


def _node_of(pod: Pod) -> str:
    """Return the node that the pod is on, or that the affinity of a DaemonSet's pod names; "" for neither."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    for term in required.node_selector_terms if required else ():
        for field in term.match_fields or ():
            if field.key == NODE_NAME_FIELD and field.operator == "In" and field.values:
                return field.values[0]
    return ""


def _claims_devices(pod: Pod) -> bool:
    return bool(pod.spec.resource_claims) or pod.status.extended_resource_claim_status is not None


def _renamed(name: str, added: AddedNode) -> str:
    """Return a name for the copy of a thing: with the added node's name in place of its model's, or behind it."""
    new = added.node.metadata.name
    return name.replace(added.model, new) if added.model in name else f"{name}-{new}"


def _metadata(of: ObjectMeta, name: str, owners: list[OwnerReference] | None = None) -> ObjectMeta:
    uid = f"{of.namespace}/{name}"
    return ObjectMeta(
        name=name,
        namespace=of.namespace,
        uid=uid,
        labels=of.labels,
        annotations=of.annotations,
        owner_references=owners,
    )
