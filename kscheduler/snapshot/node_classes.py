"""Node classes: nodes with equal labels (except the hostname), taints and unschedulable bit.

Plugins that read only these are called once for a class instead of once for a node. Their answers are kept here as one
byte (or one integer) for each class, and a kernel looks them up by each row's class. The hostname label differs on
every node, so it is left out of a class: a term that reads it is evaluated node by node (`reads_hostname`).
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kscheduler.api.objects import Node, Taint, Toleration
from kscheduler.api.tolerations import NO_EXECUTE, NO_SCHEDULE, find_untolerated

KEEP_OFF = (NO_SCHEDULE, NO_EXECUTE)  # effects of taints
HOSTNAME = "kubernetes.io/hostname"
# Answers kept for each plugin: one entry is one distinct set of tolerations, of affinity terms, and so on.
MAX_KEPT = 4_096


@dataclass(frozen=True, slots=True)
class NodeClass:
    id: int
    labels: Mapping[str, str]  # without the hostname
    taints: tuple[Taint, ...]
    unschedulable: bool

    def keeps_off(self, tolerations: Sequence[Toleration]) -> bool:
        """Return True if one of the nodes' taints repels pods with these tolerations."""
        return find_untolerated(self.taints, tolerations, KEEP_OFF) is not None


class _Answers(Protocol):
    """A growing array: the common interface of bytearray and array('q')."""

    def append(self, value: int, /) -> None: ...
    def __len__(self) -> int: ...


A = TypeVar("A", bound=_Answers)


class NodeClassMemo(Generic[A]):
    """Keeps a plugin's answers about node classes, i.e. about nodes with equal labels and taints.

    An answer is found by a key, which stands for one question of the plugin (such as a node selector), and by node
    class id. Missing answers are added when node classes have appeared since; all are dropped when an id is reused for
    another node class.
    """

    def __init__(self, node_classes: NodeClasses, empty: Callable[[], A]) -> None:
        self._node_classes = node_classes
        self._empty = empty
        self._kept: OrderedDict[Hashable, A] = OrderedDict()
        self._epoch = node_classes.epoch

    def answers(self, key: Hashable, ask: Callable[[NodeClass], int]) -> A:
        """Return the plugin's answers about all node classes, by node class id.

        `key` stands for the question, and `ask(node class)` answers it. That is called only for classes without an
        answer under the key.
        """
        if self._epoch != self._node_classes.epoch:
            self._kept.clear()
            self._epoch = self._node_classes.epoch
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= MAX_KEPT:
                self._kept.popitem(last=False)
            found = self._kept[key] = self._empty()
        else:
            self._kept.move_to_end(key)
        for node_class in self._node_classes.since(len(found)):
            found.append(ask(node_class))
        return found


class NodeClasses:
    """All node classes (sets of nodes with equal labels and taints) in use, with ids from 0; unused ids are reused."""

    def __init__(self) -> None:
        self._by_look: dict[Hashable, NodeClass] = {}  # (labels, taints, unschedulable) -> node class
        self._all: list[NodeClass] = []  # node class id -> node class
        self._users: list[int] = []  # node class id -> nodes that have it
        self._free: list[int] = []  # ids without nodes
        self.epoch = 0  # bumped when an id is reused: older answers under that id are void

    def __len__(self) -> int:
        return len(self._all)

    def since(self, start: int) -> list[NodeClass]:
        return self._all[start:] if start < len(self._all) else []

    def acquire(self, node: Node) -> NodeClass:
        """Return the class of a node (nodes with equal labels and taints).

        The node counts as a user of the class until `release`.
        """
        labels = {key: value for key, value in (node.metadata.labels or {}).items() if key != HOSTNAME}
        taints = tuple(node.spec.taints or ())
        look = (frozenset(labels.items()), taints, node.spec.unschedulable)
        node_class = self._by_look.get(look)
        if node_class is None:
            node_class = self._by_look[look] = self._new(labels, taints, node.spec.unschedulable)
        self._users[node_class.id] += 1
        return node_class

    def release(self, node_class: NodeClass) -> None:
        self._users[node_class.id] -= 1
        if self._users[node_class.id] == 0:
            del self._by_look[(frozenset(node_class.labels.items()), node_class.taints, node_class.unschedulable)]
            self._free.append(node_class.id)

    def _new(self, labels: Mapping[str, str], taints: tuple[Taint, ...], unschedulable: bool) -> NodeClass:
        if self._free:
            node_class = NodeClass(self._free.pop(), labels, taints, unschedulable)
            self._all[node_class.id] = node_class
            self.epoch += 1
        else:
            node_class = NodeClass(len(self._all), labels, taints, unschedulable)
            self._all.append(node_class)
            self._users.append(0)
        return node_class

    def verdict_memo(self) -> NodeClassMemo[bytearray]:
        """Return a cache for a filter's answers, one byte for each node class: 0 passes, others are reason numbers."""
        return NodeClassMemo(self, bytearray)

    def value_memo(self) -> NodeClassMemo[array[int]]:
        """Return a cache for a plugin's raw scores, one int64 for each node class."""
        return NodeClassMemo(self, lambda: array("q"))
