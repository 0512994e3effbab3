"""Reads Queue objects, our own and KAI-Scheduler's, and builds the tree of queues from them.

An object that cannot be read, or has no place in the tree, is left out with the reason; the others are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from kscheduler.api.objects import RawQuantity
from kscheduler.api.quantity import parse_uncapped_milli
from kscheduler.api.resources import CPU, MEMORY
from kscheduler.api.share_queues import (
    DEFAULT_PRIORITY,
    UNLIMITED,
    KaiQueueObject,
    KaiResource,
    QueueObject,
    ShareQueueObject,
)
from kscheduler.config.duration import Duration
from kscheduler.errors import DecodeError
from kscheduler.quotas.amounts import parse_stated
from kscheduler.quotas.queues import Queue, Share

GPU = "nvidia.com/gpu"  # what KAI-Scheduler's `gpu` counts
MEGABYTE = 1_000_000
KAI_UNLIMITED = -1


@dataclass(slots=True)
class QueueTree:
    queues: dict[str, Queue] = field(default_factory=dict)  # by name
    faults: dict[str, str] = field(default_factory=dict)  # name of a queue that is left out -> why

    @property
    def leaves(self) -> list[Queue]:
        """The queues that may hold jobs: those without any below them."""
        parents = {queue.parent for queue in self.queues.values()}
        return [queue for queue in self.queues.values() if queue not in parents]


def build_tree(objects: Iterable[ShareQueueObject]) -> QueueTree:
    """Build the tree of the queues. What is wrong with an object is in `faults`, under its name."""
    tree = QueueTree()
    read: dict[str, tuple[Queue, str]] = {}  # name -> queue, name of its parent
    for each in objects:
        name = each.metadata.name
        try:
            if name in read or name in tree.faults:
                raise DecodeError(f"queue {name}: expected one queue of this name, got two")
            read[name] = _read(each)
        except DecodeError as error:
            read.pop(name, None)
            tree.faults[name] = str(error)
    for name in read:
        fault = _fault_of_place(name, read, tree.faults)
        if fault:
            tree.faults[name] = fault
    for name, (queue, parent) in read.items():
        if name not in tree.faults:
            queue.parent = read[parent][0] if parent else None
            tree.queues[name] = queue
    return tree


def check_queue(item: ShareQueueObject) -> None:
    """Raise DecodeError, naming field and value, for an object that cannot be read, whatever others there are."""
    _read(item)


def _fault_of_place(name: str, read: Mapping[str, tuple[Queue, str]], faults: Mapping[str, str]) -> str:
    """Return why a queue has no place in the tree; "" if it has one."""
    path = [name]
    while parent := read[path[-1]][1]:
        if parent in path:
            loop = " -> ".join([*path[path.index(parent) :], parent])
            return f"queue {name}: spec.parent: expected a tree, got a loop: {loop}"
        if parent not in read:
            what = "which cannot be used" if parent in faults else "which does not exist"
            return f'queue {name}: spec.parent: expected a queue above {path[-1]}, got "{parent}", {what}'
        missing = sorted(read[path[-1]][0].shares.keys() - read[parent][0].shares.keys())
        if missing:
            return f"queue {name}: expected {parent} to state what {path[-1]} divides, got nothing of {missing[0]}"
        path.append(parent)
    return ""


# --- one object ---


def _read(item: ShareQueueObject) -> tuple[Queue, str]:
    """Return a queue without its parent, and that one's name. Raises DecodeError, naming field and value."""
    metadata, spec = item.metadata, item.spec
    if isinstance(item, KaiQueueObject):
        parent, shares = item.spec.parent_queue, _kai_shares(item)
    else:
        parent, shares = item.spec.parent, _own_shares(item)
    priority = DEFAULT_PRIORITY if spec.priority is None else spec.priority
    if not -(2**63) <= priority < 2**63:  # a list of the simulator may have what no apiserver lets in
        raise DecodeError(f"queue {metadata.name}: spec.priority: expected an integer of 64 bits, got {priority}")
    created = metadata.creation_timestamp or ""
    preempt_min_s = _seconds(spec.preempt_min_runtime, f"queue {metadata.name}: spec.preemptMinRuntime")
    reclaim_min_s = _seconds(spec.reclaim_min_runtime, f"queue {metadata.name}: spec.reclaimMinRuntime")
    return Queue(metadata.name, None, priority, created, shares, preempt_min_s, reclaim_min_s), parent


def _seconds(text: str | None, field: str) -> float | None:
    if text is None:
        return None
    try:
        duration = Duration.parse(text)
    except ValueError as error:
        raise DecodeError(f"{field}: {error}") from error
    if duration.nanoseconds < 0:
        raise DecodeError(f"{field}: expected a duration of at least 0, got {text}")
    return duration.seconds


def _own_shares(item: QueueObject) -> dict[str, Share]:
    shares: dict[str, Share] = {}
    for resource, terms in (item.spec.resources or {}).items():
        field = f"queue {item.metadata.name}: spec.resources[{resource}]"
        shares[resource] = Share(
            deserved=_amount(resource, terms.deserved, f"{field}.deserved"),
            limit=_amount(resource, terms.limit, f"{field}.limit"),
            weight=_weight(terms.weight, f"{field}.weight"),
        )
    return shares


def _amount(resource: str, quantity: RawQuantity, field: str) -> int | None:
    if quantity == UNLIMITED:
        return None
    try:
        found = parse_stated({resource: quantity}, "").get(resource)
    except DecodeError as error:
        raise DecodeError(f'{field}: expected an amount of at least 0 or "{UNLIMITED}", got "{quantity}"') from error
    if found is None:
        raise DecodeError(f"{field}: expected a resource that pods can request, got {resource}")
    return found


def _weight(quantity: RawQuantity, field: str) -> Fraction:
    weight = Fraction(parse_uncapped_milli(quantity, field), 1000)
    if weight < 0:
        raise DecodeError(f"{field}: expected a weight of at least 0, got {quantity}")
    return weight


def _kai_shares(item: KaiQueueObject) -> dict[str, Share]:
    terms = item.spec.resources
    if terms is None:
        return {resource: Share(limit=0, weight=0) for resource in (CPU, MEMORY, GPU)}
    name = item.metadata.name
    return {
        CPU: _kai_share(terms.cpu, 1, f"queue {name}: spec.resources.cpu"),
        MEMORY: _kai_share(terms.memory, MEGABYTE, f"queue {name}: spec.resources.memory"),
        GPU: _kai_share(terms.gpu, 1, f"queue {name}: spec.resources.gpu"),
    }


def _kai_share(terms: KaiResource, unit: int, field: str) -> Share:
    if terms.over_quota_weight < 0:
        raise DecodeError(f"{field}.overQuotaWeight: expected a weight of at least 0, got {terms.over_quota_weight:g}")
    return Share(
        deserved=_kai_amount(terms.quota, unit, f"{field}.quota"),
        limit=_kai_amount(terms.limit, unit, f"{field}.limit"),
        weight=Fraction(terms.over_quota_weight),
    )


def _kai_amount(stated: float, unit: int, field: str) -> int | None:
    """Return an amount of KAI-Scheduler's in our units. A part of a unit cannot be counted yet, so it is refused."""
    if stated == KAI_UNLIMITED:
        return None
    amount = Fraction(stated) * unit
    if amount < 0:
        raise DecodeError(f"{field}: expected an amount of at least 0, or -1 for unlimited, got {stated:g}")
    if amount.denominator != 1:
        if unit == 1:
            raise DecodeError(f"{field}: expected a whole number, got {stated:g}")
        return round(amount)  # of bytes
    return int(amount)
