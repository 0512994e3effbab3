"""Changes the nodes of a scenario: removes, cordons, taints and adds some.

A recorded node appears in several versions, in the recorded changes; each of them is changed. The pods that are on a
removed node from the start arrive as pending pods instead, if the simulated scheduler places pods of their kind; all
others of that node are left out: they run there because they are of a DaemonSet or of another scheduler. With a node
go its devices, and its pods have to be allocated others. Added nodes have devices, too (`node_contents`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from kscheduler.api.devices import DeviceObject, ResourceClaim, ResourceSlice
from kscheduler.api.objects import Node, Pod, PodStatus, Taint
from kscheduler.api.tolerations import EFFECTS
from kscheduler.client.kinds import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from kscheduler.client.protocol import EventType
from kscheduler.counted import counted
from kscheduler.errors import ConfigError
from kscheduler.simulator.claims_at_start import with_reservations_for
from kscheduler.simulator.object_changes import ObjectChange
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.whatif.node_contents import NodeContents
from kscheduler.whatif.selection import NodeSelection
from kscheduler.whatif.shapes import Shapes

MAX_ADDED = 100_000  # nodes of one flag: many times what a cluster can have
_TAINT = re.compile(r"(?P<key>[^=:\s]+)(?:=(?P<value>[^=:\s]*))?:(?P<effect>[A-Za-z]+)(?P<removes>-)?")
_DEVICES = (RESOURCE_SLICES, RESOURCE_CLAIMS)
_STAYS_WITH_NODE = ("DaemonSet", "Node")  # kinds of owners whose pods exist for one node

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"  # which the node controller adds to a cordoned node

Edit = Callable[[Node], Node]


@dataclass(frozen=True, slots=True)
class Addition:
    """So many further nodes of a shape. None: as many as are needed, which is to be found."""

    shape: str
    count: int | None


@dataclass(frozen=True, slots=True)
class Tainting:
    """A taint that selected nodes get, or lose."""

    nodes: NodeSelection
    taint: Taint
    removes: bool

    def applied(self, node: Node) -> Node:
        same = (self.taint.key, self.taint.effect)
        taints = [each for each in node.spec.taints or () if (each.key, each.effect) != same]
        if not self.removes:
            taints.append(self.taint)
        return structs.replace(node, spec=structs.replace(node.spec, taints=taints or None))


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """What is to be different about the nodes, in the order in which it is done."""

    remove: tuple[NodeSelection, ...] = ()
    add: tuple[Addition, ...] = ()
    cordon: tuple[NodeSelection, ...] = ()
    uncordon: tuple[NodeSelection, ...] = ()
    taints: tuple[Tainting, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.remove or self.add or self.cordon or self.uncordon or self.taints)


def parse_addition(flag: str, text: str) -> Addition:
    """Parse `N:SHAPE`, or `SHAPE` where the number is to be found. Raises ConfigError."""
    number, colon, shape = text.partition(":")
    if not colon:
        return Addition(text, None)
    if not number.isdecimal() or not number.isascii() or not shape:
        raise ConfigError(f'{flag}: expected a number and a shape, such as 20:general-32, got "{text}"')
    if len(number) > len(str(MAX_ADDED)) or int(number) > MAX_ADDED:
        raise ConfigError(f'{flag}: expected at most {MAX_ADDED:,} nodes, got "{text}"')
    return Addition(shape, int(number))


def parse_tainting(flag: str, nodes: str, taint: str) -> Tainting:
    """Parse nodes and a taint as `kubectl taint` has them: `KEY[=VALUE]:EFFECT`, with `-` to remove it."""
    found = _TAINT.fullmatch(taint)
    if found is None or found["effect"] not in EFFECTS:
        expected = f"KEY[=VALUE]:EFFECT with one of {', '.join(EFFECTS)}, and - behind it to remove the taint"
        raise ConfigError(f'{flag}: expected {expected}, got "{taint}"')
    return Tainting(
        NodeSelection.parse(flag, nodes),
        Taint(key=found["key"], value=found["value"] or "", effect=found["effect"]),
        found["removes"] is not None,
    )


def nodes_of(scenario: Scenario) -> list[Node]:
    """Return the first version of every node that the scenario ever has, in order of creation."""
    found = {node.metadata.name: node for node in scenario.nodes}
    for change in scenario.changes:
        if change.resource is NODES and change.type is not EventType.DELETED:
            found.setdefault(change.object.metadata.name, change.object)
    return list(found.values())


def changed_scenario(
    scenario: Scenario, changes: NodeChanges, shapes: Shapes, schedulers: Container[str], *, sought: int = 0
) -> Scenario:
    """Return the scenario with other nodes. `sought`: how many nodes an addition without a number adds.

    `schedulers`: the schedulerNames of the pods that the simulation places. Raises ConfigError for a selection that
    selects nothing, or an unknown shape.
    """
    known = nodes_of(scenario)
    removed = frozenset(name for each in changes.remove for name in each.names(known))
    counts: Counter[str] = Counter()
    for addition in changes.add:
        shapes.check("--add-nodes", addition.shape)
        counts[addition.shape] += sought if addition.count is None else addition.count
    added = [node for shape, count in counts.items() for node in shapes.make(shape, count)]
    nodes = [node for node, *_ in added]
    edits = _edits(changes, [*(node for node in known if node.metadata.name not in removed), *nodes])
    moved = _Moved(removed, schedulers, scenario)
    further = [ObjectChange(0.0, NODES, EventType.ADDED, _edited(node, edits)) for node in nodes]
    daemons: list[Arrival] = []
    notes = [*scenario.notes, *moved.notes]
    if added:
        contents = NodeContents(scenario)
        further += [
            ObjectChange(0.0, RESOURCE_SLICES, EventType.ADDED, item)
            for each in added
            for item in contents.slices(each)
        ]
        daemons = [Arrival(0.0, pod) for each in added for pod in contents.pods(each)]
        notes += contents.notes(added)
    return replace(
        scenario,
        nodes=[_edited(node, edits) for node in scenario.nodes if node.metadata.name not in removed],
        arrivals=[*daemons, *moved.arrivals],
        devices=[kept for item in scenario.devices if (kept := moved.device_object(item)) is not None],
        changes=list(_changes(scenario.changes, moved, edits, further)),
        notes=notes,
    )


def _edits(changes: NodeChanges, nodes: Sequence[Node]) -> dict[str, list[Edit]]:
    """Return name -> what is changed about this node."""
    edits: dict[str, list[Edit]] = {}
    listed: list[tuple[NodeSelection, Edit]] = [(each, _cordoned) for each in changes.cordon]
    listed += [(each, _uncordoned) for each in changes.uncordon]
    listed += [(each.nodes, each.applied) for each in changes.taints]
    for selection, edit in listed:
        for name in selection.names(nodes):
            edits.setdefault(name, []).append(edit)
    return edits


def _cordoned(node: Node) -> Node:
    return structs.replace(node, spec=structs.replace(node.spec, unschedulable=True))


def _uncordoned(node: Node) -> Node:
    taints = [each for each in node.spec.taints or () if each.key != UNSCHEDULABLE_TAINT]
    return structs.replace(node, spec=structs.replace(node.spec, unschedulable=False, taints=taints or None))


def _edited(node: Node, edits: dict[str, list[Edit]]) -> Node:
    for edit in edits.get(node.metadata.name, ()):
        node = edit(node)
    return node


class _Moved:
    """What becomes of pods and devices when nodes are removed."""

    def __init__(self, removed: frozenset[str], schedulers: Container[str], scenario: Scenario) -> None:
        self.removed = removed
        self._schedulers = schedulers
        # Pods of other schedulers that are bound to a removed node later.
        self.left_out = {
            change.object.metadata.uid
            for change in scenario.changes
            if change.resource is PODS and change.object.spec.node_name in removed
        }
        self._pending: list[str] = []  # uids
        self._gone: list[str] = []
        self.arrivals = scenario.arrivals
        if removed:
            self.arrivals = [moved for each in scenario.arrivals if (moved := self._moved(each)) is not None]
        self._without_claims = frozenset(self._gone) - {""}
        self._without_devices = self._without_claims.union(self._pending) - {""}

    def _moved(self, arrival: Arrival) -> Arrival | None:
        pod = arrival.pod
        if pod.metadata.uid and pod.metadata.uid in self.left_out:
            self._gone.append(pod.metadata.uid)
            return None
        if pod.spec.node_name not in self.removed:
            return arrival
        if pod.spec.scheduler_name not in self._schedulers or _stays_with_node(pod):
            self._gone.append(pod.metadata.uid)
            return None
        self._pending.append(pod.metadata.uid)
        return replace(
            arrival, pod=structs.replace(pod, spec=structs.replace(pod.spec, node_name=""), status=PodStatus())
        )

    def device_object(self, item: DeviceObject) -> DeviceObject | None:
        """Return what there is in place of a slice, a claim, or the like: a removed node's devices are not in use."""
        if isinstance(item, ResourceSlice):
            return None if item.spec.node_name in self.removed else item
        if not self._without_devices or not isinstance(item, ResourceClaim):
            return item
        owners = (owner.uid for owner in item.metadata.owner_references or () if owner.controller)
        if not self._without_claims.isdisjoint(owners):
            return None
        return with_reservations_for(item, lambda uid: uid not in self._without_devices)

    @property
    def notes(self) -> list[str]:
        found = []
        if self._pending:
            arriving = counted(len(self._pending), "pod that was on a removed node", "pods that were on removed nodes")
            come = "arrives as a pending pod" if len(self._pending) == 1 else "arrive as pending pods"
            found.append(f"{arriving} from the start {come}.")
        if self._gone:
            pods, are = counted(len(self._gone), "pod"), "is" if len(self._gone) == 1 else "are"
            found.append(f"{pods} of DaemonSets or other schedulers on removed nodes {are} left out.")
        return found


def _stays_with_node(pod: Pod) -> bool:
    return any(owner.kind in _STAYS_WITH_NODE for owner in pod.metadata.owner_references or ())


def _changes(
    changes: Iterable[ObjectChange], moved: _Moved, edits: dict[str, list[Edit]], further: Iterable[ObjectChange]
) -> Iterator[ObjectChange]:
    """Yield the changes with nodes edited and removed, and further ones behind all that is there at first."""
    further = list(further)
    for change in changes:
        if further and change.at_s > 0.0:
            yield from further
            further = []
        obj = change.object
        if change.resource is NODES:
            if obj.metadata.name not in moved.removed:
                yield replace(change, object=_edited(obj, edits)) if obj.metadata.name in edits else change
        elif change.resource in _DEVICES:
            kept = moved.device_object(obj)
            if kept is not None:
                yield change if kept is obj else replace(change, object=kept)
        elif change.resource is not PODS or obj.metadata.uid not in moved.left_out:
            yield change
    yield from further
