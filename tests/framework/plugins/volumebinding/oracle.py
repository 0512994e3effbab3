"""kube-scheduler's rules for one node, straight from their statement: every volume is asked everything, every time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from kscheduler.api.labels import compile_label_selector, compile_node_selector_term
from kscheduler.api.objects import Pod
from kscheduler.api.quantity import parse_units
from kscheduler.api.storage import (
    BIND_COMPLETED,
    SELECTED_NODE,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    claim_name_of,
    class_of,
)
from kscheduler.framework.plugins.volumebinding.obstacles import (
    BIND_CONFLICT,
    NODE_CONFLICT,
    NOT_ENOUGH_SPACE,
    VOLUME_MISSING,
)
from kscheduler.snapshot.volumes import Volumes

Labels = Mapping[str, str]
Shape = Sequence[tuple[int, int]]  # (percent used, score 0..10)


def judge(pod: Pod, known: Volumes, labels: Labels, node_name: str) -> int:
    """The obstacles for a pod whose claims all exist, and wait for their consumer unless they are bound."""
    bound, unbound = _claims(pod, known)
    total = _bound(bound, known, labels)
    for claim in unbound:
        selected = (claim.metadata.annotations or {}).get(SELECTED_NODE)
        if selected is not None and selected != node_name:
            return total | BIND_CONFLICT
    _, to_provision = _chosen(unbound, known, labels)
    for claim in to_provision:
        if obstacle := _provision(claim, known, labels):
            return total | obstacle
    return total


def scores(pod: Pod, known: Volumes, labels: Labels, shape: Shape) -> set[int]:
    """What a node that fits may score: several things, if a claim may be provisioned from several capacities."""
    matched, to_provision = _chosen(_claims(pod, known)[1], known, labels)
    if matched:
        requested: dict[str, int] = {}
        there: dict[str, int] = {}
        for claim, volume in matched:
            name = volume.spec.storage_class_name
            requested[name] = requested.get(name, 0) + _size(claim)
            there[name] = there.get(name, 0) + _capacity(volume)
        return {_mean([_on_line(shape, requested[name], there[name]) for name in requested])}
    rooms: list[Sequence[CSIStorageCapacity | None]] = [
        _rooms(claim, known, labels) or [None] for claim in to_provision
    ]
    found = set()
    for chosen in itertools.product(*rooms):
        free: dict[str, tuple[int, int]] = {}
        for claim, capacity in zip(to_provision, chosen, strict=True):
            if capacity is not None and capacity.capacity is not None:
                so_far = free.get(class_of(claim), (0, 0))[0]
                free[class_of(claim)] = so_far + _size(claim), parse_units(capacity.capacity, "")
        found.add(_mean([_on_line(shape, *each) for each in free.values()]))
    return found


def _on_line(shape: Shape, requested: int, capacity: int) -> int:
    used = 100 if capacity == 0 or requested > capacity else requested * 100 // capacity
    before = None
    for point, value in shape:
        if used <= point:
            if before is None:
                return value * 10
            left, left_value = before
            return left_value * 10 + int((value - left_value) * 10 * (used - left) / (point - left))
        before = point, value
    return shape[-1][1] * 10


def _mean(values: list[int]) -> int:
    return math.floor(sum(values) / len(values) + 0.5) if values else 0


def _claims(pod: Pod, known: Volumes) -> tuple[list[PersistentVolumeClaim], list[PersistentVolumeClaim]]:
    claims = [
        known.claim(pod.metadata.namespace, claim_name_of(pod, volume)[0]) or PersistentVolumeClaim()
        for volume in pod.spec.volumes or ()
    ]
    bound = [claim for claim in claims if BIND_COMPLETED in (claim.metadata.annotations or {})]
    return bound, [claim for claim in claims if claim not in bound]


def _chosen(
    unbound: list[PersistentVolumeClaim], known: Volumes, labels: Labels
) -> tuple[list[tuple[PersistentVolumeClaim, PersistentVolume]], list[PersistentVolumeClaim]]:
    matched: list[tuple[PersistentVolumeClaim, PersistentVolume]] = []
    to_provision: list[PersistentVolumeClaim] = []
    to_match: list[PersistentVolumeClaim] = []
    for claim in unbound:
        selected = (claim.metadata.annotations or {}).get(SELECTED_NODE)
        (to_match if selected is None else to_provision).append(claim)
    taken: list[PersistentVolume] = []
    for claim in sorted(to_match, key=_size):
        volume = _match(claim, known, labels, taken)
        if volume is None:
            to_provision.append(claim)
        else:
            taken.append(volume)
            matched.append((claim, volume))
    return matched, to_provision


def _bound(claims: list[PersistentVolumeClaim], known: Volumes, labels: Labels) -> int:
    for claim in claims:
        volume = known.volume(claim.spec.volume_name)
        if volume is None:
            return VOLUME_MISSING
        if not _reaches(volume, labels):
            return NODE_CONFLICT
    return 0


def _reaches(volume: PersistentVolume, labels: Labels) -> bool:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return any(
        compile_node_selector_term(term, "").matches(labels, "") for term in affinity.required.node_selector_terms
    )


def _match(
    claim: PersistentVolumeClaim, known: Volumes, labels: Labels, taken: list[PersistentVolume]
) -> PersistentVolume | None:
    smallest: PersistentVolume | None = None
    for volume in sorted(known.volumes_of_class(class_of(claim)), key=lambda each: each.metadata.name):
        if volume in taken:
            continue
        reference = volume.spec.claim_ref
        if reference is not None and (
            reference.name != claim.metadata.name or reference.uid not in ("", claim.metadata.uid)
        ):
            continue
        if _capacity(volume) < _size(claim) or volume.metadata.deletion_timestamp:
            continue
        if (volume.spec.volume_mode or "Filesystem") != (claim.spec.volume_mode or "Filesystem"):
            continue
        if reference is not None:
            return volume if _reaches(volume, labels) else None
        selector = claim.spec.selector
        if selector and not compile_label_selector(selector, "").matches(volume.metadata.labels or {}):
            continue
        if volume.status.phase != "Available" or not _reaches(volume, labels):
            continue
        if not set(claim.spec.access_modes or ()) <= set(volume.spec.access_modes or ()):
            continue
        if smallest is None or _capacity(volume) < _capacity(smallest):
            smallest = volume
    return smallest


def _provision(claim: PersistentVolumeClaim, known: Volumes, labels: Labels) -> int:
    storage_class = known.storage_class(class_of(claim))
    assert storage_class is not None
    if storage_class.provisioner == "kubernetes.io/no-provisioner":
        return BIND_CONFLICT
    if storage_class.allowed_topologies and not _is_allowed(storage_class, labels):
        return BIND_CONFLICT
    driver = known.csi_driver(storage_class.provisioner)
    if driver is None or not driver.spec.storage_capacity:
        return 0
    return 0 if _rooms(claim, known, labels) else NOT_ENOUGH_SPACE


def _rooms(claim: PersistentVolumeClaim, known: Volumes, labels: Labels) -> list[CSIStorageCapacity]:
    """The capacities from which a node can get the claim's volume; none if the driver tracks none."""
    storage_class = known.storage_class(class_of(claim))
    driver = None if storage_class is None else known.csi_driver(storage_class.provisioner)
    if driver is None or not driver.spec.storage_capacity:
        return []
    return [each for each in known.capacities_of(class_of(claim)) if _has_room(each, _size(claim), labels)]


def _is_allowed(storage_class: StorageClass, labels: Labels) -> bool:
    return any(
        all(labels.get(need.key) in need.values for need in term.match_label_expressions or ())
        for term in storage_class.allowed_topologies or ()
        if term.match_label_expressions
    )


def _has_room(capacity: CSIStorageCapacity, size: int, labels: Labels) -> bool:
    limit = capacity.maximum_volume_size or capacity.capacity
    return (
        capacity.node_topology is not None
        and limit is not None
        and parse_units(limit, "") >= size
        and compile_label_selector(capacity.node_topology, "").matches(labels)
    )


def _size(claim: PersistentVolumeClaim) -> int:
    assert claim.spec.resources is not None
    return parse_units((claim.spec.resources.requests or {})["storage"], "")


def _capacity(volume: PersistentVolume) -> int:
    return parse_units((volume.spec.capacity or {})["storage"], "")
