"""Which existing volume a claim gets on a node: one that is reserved for it, else the smallest that will do.

What does not depend on the node is asked once for each volume; then a node only looks for the first volume, by size,
that it can reach. Volumes of one reach are looked at together, and those of single hosts from these hosts only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kscheduler.api.labels import CompiledLabelSelector, compile_label_selector
from kscheduler.api.quantity import parse_milli
from kscheduler.api.storage import AVAILABLE, STORAGE, PersistentVolume, PersistentVolumeClaim
from kscheduler.errors import DecodeError
from kscheduler.framework.plugins.volumebinding.reach import Labels, Reach, Reaches
from kscheduler.snapshot.profiles import HOSTNAME

FILESYSTEM = "Filesystem"


class _Candidate(NamedTuple):
    rank: int  # the smaller, the better
    volume: PersistentVolume


class _Group(NamedTuple):
    reach: Reach
    candidates: list[_Candidate]  # best first


class Choice:
    """The volumes one claim can have. Raises DecodeError for a claim whose demands cannot be read."""

    def __init__(self, claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], reaches: Reaches) -> None:
        self.claim = claim
        reserved, free = _suitable(claim, volumes)
        self._reserved = [(volume, reaches.of(volume)) for volume in reserved]
        groups: dict[Reach, _Group] = {}
        for rank, volume in enumerate(free):
            reach = reaches.of(volume)
            groups.setdefault(reach, _Group(reach, [])).candidates.append(_Candidate(rank, volume))
        self._anywhere = [group for group in groups.values() if group.reach.hosts is None]
        self._by_host: dict[str, list[_Group]] = {}  # hostname -> groups that only such hosts can reach
        for group in groups.values():
            for host in group.reach.hosts or ():
                self._by_host.setdefault(host, []).append(group)

    @property
    def is_empty(self) -> bool:
        return not (self._reserved or self._anywhere or self._by_host)

    @property
    def hosts(self) -> frozenset[str] | None:
        """The hostnames that make a difference; None if any hostname can."""
        others = [reach for _, reach in self._reserved] + [group.reach for group in self._anywhere]
        found = set(self._by_host)
        for reach in others:
            if reach.hosts is not None:
                found |= reach.hosts
            elif reach.reads_hostname:
                return None
        return frozenset(found)

    def best(self, labels: Labels, taken: set[str]) -> PersistentVolume | None:
        """The volume for a node with these labels, leaving alone those that are taken."""
        for volume, reach in self._reserved:
            if volume.metadata.name not in taken:
                # Reserved out of this node's reach: no other volume may stand in for it.
                return volume if reach.matches(labels) else None
        best: _Candidate | None = None
        for groups in (self._anywhere, self._by_host.get(labels.get(HOSTNAME, ""), ())):
            for group in groups:
                first = next((some for some in group.candidates if some.volume.metadata.name not in taken), None)
                if first is not None and (best is None or first.rank < best.rank) and group.reach.matches(labels):
                    best = first
        return None if best is None else best.volume


def requested_milli(claim: PersistentVolumeClaim) -> int:
    """How much it asks for, in thousandths of a byte; 0 if it does not say. Raises DecodeError."""
    requests = claim.spec.resources.requests if claim.spec.resources else None
    amount = (requests or {}).get(STORAGE)
    return 0 if amount is None else parse_milli(amount, f"claim {claim.key}: spec.resources.requests.storage")


def is_reserved_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Does the volume name this claim? One reserved by a user may leave the uid open."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and reference.name == claim.metadata.name
        and reference.namespace == claim.metadata.namespace
        and reference.uid in ("", claim.metadata.uid)
    )


def _suitable(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]
) -> tuple[list[PersistentVolume], list[PersistentVolume]]:
    """(those reserved for the claim, the free ones by size): all that will do on a node that reaches them."""
    requested = requested_milli(claim)
    selector = _selector(claim)
    modes = frozenset(claim.spec.access_modes or ())
    mode = claim.spec.volume_mode or FILESYSTEM
    attributes_class = claim.spec.volume_attributes_class_name or ""
    reserved: list[PersistentVolume] = []
    free: list[tuple[int, PersistentVolume]] = []
    for volume in volumes:
        spec = volume.spec
        is_reserved = spec.claim_ref is not None
        if is_reserved and not is_reserved_for(volume, claim):
            continue
        if not is_reserved and volume.status.phase != AVAILABLE:
            continue  # on its way there, or gone: binding it now would only meet a conflict
        size = _size_milli(volume)
        if size is None or size < requested:
            continue
        if (spec.volume_mode or FILESYSTEM) != mode or (spec.volume_attributes_class_name or "") != attributes_class:
            continue
        if volume.metadata.deletion_timestamp is not None:
            continue
        if is_reserved:
            reserved.append(volume)
        elif (selector is None or selector.matches(volume.metadata.labels or {})) and modes.issubset(
            spec.access_modes or ()
        ):
            free.append((size, volume))
    free.sort(key=lambda sized: sized[0])  # of equals the one reported first
    return reserved, [volume for _, volume in free]


def _selector(claim: PersistentVolumeClaim) -> CompiledLabelSelector | None:
    if claim.spec.selector is None:
        return None
    return compile_label_selector(claim.spec.selector, f"claim {claim.key}: spec.selector")


def _size_milli(volume: PersistentVolume) -> int | None:
    """None if it cannot be read: nobody gets such a volume."""
    amount = (volume.spec.capacity or {}).get(STORAGE)
    try:
        return 0 if amount is None else parse_milli(amount, f"persistent volume {volume.key}: spec.capacity.storage")
    except DecodeError:
        return None
