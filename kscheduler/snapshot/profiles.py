"""Node classes (here NodeProfile): nodes with equal labels, taints and unschedulable bit.

Plugins that read only those are called once for a class, not once for a node, and their answers are kept here as
one byte (or one integer) a class, which a kernel then gathers through the profile column. The hostname label
differs on every node, so it is left out of a class: a term that reads it is evaluated node by node
(`reads_hostname`).
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kscheduler.api.objects import Node, Taint

HOSTNAME = "kubernetes.io/hostname"
# Answers kept for each plugin: one entry is one distinct set of tolerations, of affinity terms, and so on.
MAX_KEPT = 4_096


@dataclass(frozen=True, slots=True)
class NodeProfile:
    id: int
    labels: Mapping[str, str]  # without the hostname
    taints: tuple[Taint, ...]
    unschedulable: bool


class _Answers(Protocol):
    """A growing array: the common interface of bytearray and array('q')."""

    def append(self, value: int, /) -> None: ...
    def __len__(self) -> int: ...


A = TypeVar("A", bound=_Answers)


class ProfileMemo(Generic[A]):
    """A plugin's answers about node classes: key of the question -> answer for each node class id.

    An entry is extended when node classes have appeared since; all entries are dropped when an id is reused for
    another node class.
    """

    def __init__(self, profiles: Profiles, empty: Callable[[], A]) -> None:
        self._profiles = profiles
        self._empty = empty
        self._kept: OrderedDict[Hashable, A] = OrderedDict()
        self._epoch = profiles.epoch

    def answers(self, key: Hashable, ask: Callable[[NodeProfile], int]) -> A:
        """Return `ask(node class)` by class id; `ask` is called only for classes without an answer under this key."""
        if self._epoch != self._profiles.epoch:
            self._kept.clear()
            self._epoch = self._profiles.epoch
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= MAX_KEPT:
                self._kept.popitem(last=False)
            found = self._kept[key] = self._empty()
        else:
            self._kept.move_to_end(key)
        for profile in self._profiles.since(len(found)):
            found.append(ask(profile))
        return found


class Profiles:
    """All node classes in use, with ids from 0; ids of unused classes are reused."""

    def __init__(self) -> None:
        self._by_look: dict[Hashable, NodeProfile] = {}  # (labels, taints, unschedulable) -> profile
        self._all: list[NodeProfile] = []  # profile id -> profile
        self._users: list[int] = []  # profile id -> nodes that have it
        self._free: list[int] = []  # ids without nodes
        self.epoch = 0  # bumped when an id is reused: older answers under that id are void

    def __len__(self) -> int:
        return len(self._all)

    def since(self, start: int) -> list[NodeProfile]:
        return self._all[start:] if start < len(self._all) else []

    def acquire(self, node: Node) -> NodeProfile:
        """Return the class of a node and count the node as its user until `release`."""
        labels = {key: value for key, value in (node.metadata.labels or {}).items() if key != HOSTNAME}
        taints = tuple(node.spec.taints or ())
        look = (frozenset(labels.items()), taints, node.spec.unschedulable)
        profile = self._by_look.get(look)
        if profile is None:
            profile = self._by_look[look] = self._new(labels, taints, node.spec.unschedulable)
        self._users[profile.id] += 1
        return profile

    def release(self, profile: NodeProfile) -> None:
        self._users[profile.id] -= 1
        if self._users[profile.id] == 0:
            del self._by_look[(frozenset(profile.labels.items()), profile.taints, profile.unschedulable)]
            self._free.append(profile.id)

    def _new(self, labels: Mapping[str, str], taints: tuple[Taint, ...], unschedulable: bool) -> NodeProfile:
        if self._free:
            profile = NodeProfile(self._free.pop(), labels, taints, unschedulable)
            self._all[profile.id] = profile
            self.epoch += 1
        else:
            profile = NodeProfile(len(self._all), labels, taints, unschedulable)
            self._all.append(profile)
            self._users.append(0)
        return profile

    def verdict_memo(self) -> ProfileMemo[bytearray]:
        """Return a memo of filter answers of one byte a node class: 0 passes, any other value is the reason."""
        return ProfileMemo(self, bytearray)

    def value_memo(self) -> ProfileMemo[array[int]]:
        """Return a memo of raw scores, one int64 for each node class."""
        return ProfileMemo(self, lambda: array("q"))
