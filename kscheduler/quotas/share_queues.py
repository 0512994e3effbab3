"""Queues with shares in a cluster: the tree of Queue objects, what pods use and ask for, and the fair shares.

What pods use is counted by the name of the queue that they state, also while there is no such queue, so that one that
is created later counts the pods that are there. There is to divide what the nodes have, without what pods in no queue
use. Fair shares follow from this and from what the queues ask for. They are computed when they are read after a change;
a pod that is placed changes none, since its queue asks for as much as before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from operator import is_

import msgspec

from kscheduler.api.objects import Node, Pod
from kscheduler.api.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    is_resize_infeasible,
    node_allocatable,
)
from kscheduler.api.share_queues import ShareQueueObject
from kscheduler.errors import DecodeError
from kscheduler.quotas.fair_share import set_fair_shares
from kscheduler.quotas.moves import Moves
from kscheduler.quotas.pod_demand import Demand, Demands
from kscheduler.quotas.priorities import Priorities
from kscheduler.quotas.queue_tree import QueueTree, build_tree
from kscheduler.quotas.queues import NOTHING, Amounts, Queue
from kscheduler.quotas.turns import Turns
from kscheduler.quotas.use_sums import add, count_request, count_use

log = logging.getLogger(__name__)

READY, TRUE = "Ready", "True"
MOST_DEMANDS = 4_096  # of pods that the tree does not count yet
MOST_NAMES = 10_000  # of queues that pods state; beyond that, those that are not used are looked for and dropped


def nothing() -> None:
    """Do nothing."""


@dataclass(slots=True)
class _Use:
    """What all pods that state one name of a queue use and ask for, by resource."""

    allocated: dict[str, int] = field(default_factory=dict)
    non_preemptible: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)  # asked for by pods that are not on nodes


class _Counted(msgspec.Struct, eq=False, gc=False):
    """A pod that is counted: with the demand for which it was, so that what was added is what is taken back."""

    demand: Demand
    is_on_node: bool  # or is assumed on one
    is_waiting: bool  # as the watch says; it may be assumed meanwhile
    version: Pod  # a version of the pod that asks for this


class ShareQueues:
    """All queues with shares, and the pods that are counted in them. Read the tree only."""

    def __init__(
        self,
        demands: Demands | None = None,
        given: Iterable[ShareQueueObject] = (),
        saturation_multiplier: int | Fraction = 1,
        most_moved: int = 0,
    ) -> None:
        """`given`: objects that are always there, from a file. `saturation_multiplier`: see `reclaim`.

        `most_moved`: so many pods may be moved for one that waits.
        """
        self.demands = demands or Demands()
        self.saturation_multiplier = saturation_multiplier
        self.moves = Moves(most_moved)
        self._tree = QueueTree()
        self._leaves: frozenset[str] = frozenset()
        self._is_outdated = True  # the tree is to be built again
        self.epoch = 0  # grows whenever fair shares or the tree have changed
        self.touched: set[str] = set()  # names of queues whose use has changed; emptied by `turns`
        # What was placed that waited, also emptied by `turns`: id of a demand -> it, and the number of such pods.
        self.newly_placed: dict[int, tuple[Demand, int]] = {}
        self.turns = Turns(self)
        self.ending: set[str] = set()  # uids of pods on nodes that are being deleted
        self._priorities = Priorities()
        self.on_change: Callable[[], object] = nothing  # called when what a queue's status says may have changed
        self.on_stale: Callable[[], object] = nothing  # called when the fair shares may have changed
        self._given = tuple(given)
        self._objects: dict[Hashable, ShareQueueObject] = {}
        self._use: dict[str, _Use] = {}  # name of a queue that pods state -> what they use
        self._pods: dict[str, _Counted] = {}  # uid -> pod
        # What `by_demand` has found, as long as it holds: pods that wait, and by the id of a demand those that share
        # it. They are nearly always the next ones that are placed.
        self._seen: tuple[Sequence[Pod], dict[int, list[_Counted]]] | None = None
        # What the tree does not say yet: id of a demand -> it, and how many more such pods wait (fewer if negative), or
        # are placed that waited. Most come in bursts, and are counted together when somebody reads the tree.
        self._uncounted_waiting: dict[int, tuple[Demand, int]] = {}
        self._uncounted_placed: dict[int, tuple[Demand, int]] = {}
        self._nodes: dict[str, Amounts] = {}  # name of a node -> what it has
        self._allocatable: dict[str, int] = {}  # of all nodes
        self._total: dict[str, int] = {}
        self._is_stale = True  # the fair shares are to be computed again

    @property
    def tree(self) -> QueueTree:
        """The tree of the queues that can be used, with what they use and ask for."""
        if self._is_outdated:
            self._rebuild()
        if self._uncounted_waiting:
            self._count_waiting()
        if self._uncounted_placed:
            self._count_placed()
        return self._tree

    @property
    def priorities(self) -> Priorities:
        """The priorities of the preemptible pods on nodes, by the queue that they name."""
        if self._uncounted_placed:
            self._count_placed()
        return self._priorities

    @property
    def leaves(self) -> frozenset[str]:
        """The names of the queues that take pods."""
        if self._is_outdated:
            self._rebuild()
        return self._leaves

    # --- objects ---

    def set(self, key: Hashable, item: ShareQueueObject) -> None:
        """Add a Queue object, or replace its older version. `key` distinguishes objects of one name."""
        self._objects[key] = item
        self._outdate()

    def refresh_object(self, key: Hashable, item: ShareQueueObject) -> None:
        """Take a newer version of a Queue object with an equal spec."""
        if key in self._objects:
            self._objects[key] = item
            self.on_change()

    def objects(self) -> Iterator[ShareQueueObject]:
        """Iterate over the Queue objects of the apiserver."""
        return iter(self._objects.values())

    def remove(self, key: Hashable) -> None:
        """Remove a Queue object; unknown ones are ignored."""
        if self._objects.pop(key, None) is not None:
            self._outdate()

    def __len__(self) -> int:
        """The number of queues that can be used."""
        return len(self.tree.queues)

    def get(self, name: str) -> Queue | None:
        return self.tree.queues.get(name)

    def leaf(self, name: str) -> Queue | None:
        """Return the queue of this name if it takes pods."""
        return self.tree.queues.get(name) if name in self.leaves else None

    def why_unusable(self, name: str) -> str:
        """Return why no pod can be placed in the queue of this name; "" if pods can."""
        if name in self.leaves:
            return ""
        if name in self.tree.queues:
            return f'queue "{name}" has queues below it, and only those without take pods'
        fault = self.tree.faults.get(name)
        return f'queue "{name}" does not exist' if fault is None else f'queue "{name}" cannot be used: {fault}'

    def _outdate(self) -> None:
        """Have the tree built again when it is read: at the start, objects come one by one."""
        self._is_outdated = True
        self._make_stale()
        self.on_change()

    def _rebuild(self) -> None:
        self._count_waiting()
        self._count_placed()
        self._is_outdated, self._is_stale = False, True
        self._tree = tree = build_tree((*self._given, *self._objects.values()))
        leaves = frozenset(leaf.name for leaf in tree.leaves)
        if leaves != self._leaves:
            self._leaves = leaves
        for name, use in self._use.items():
            queue = tree.queues.get(name)
            if queue is not None:
                count_use(queue, use.allocated, use.non_preemptible, 1)
                count_request(queue, use.allocated, 1)
                if name in leaves:
                    count_request(queue, use.waiting, 1)

    # --- nodes ---

    def set_node(self, node: Node) -> None:
        """Take a node's newest version. One that is not ready, or is cordoned, or cannot be read, has nothing."""
        amounts = _offered(node)
        if self._nodes.get(node.metadata.name) != amounts:
            self.remove_node(node.metadata.name)
            self._nodes[node.metadata.name] = amounts
            add(self._allocatable, amounts, 1)
            self._make_stale()
            self.on_change()

    def remove_node(self, name: str) -> None:
        """Forget a node; unknown ones are ignored."""
        amounts = self._nodes.pop(name, None)
        if amounts is not None:
            add(self._allocatable, amounts, -1)
            self._make_stale()
            self.on_change()

    # --- pods ---

    def pod_added(self, pod: Pod) -> None:
        """Count a pod that is on a node, or assumed there, unless it is counted there already.

        One whose requests cannot be read counts for nothing, which is logged.
        """
        self._seen = None
        uid = pod.metadata.uid
        counted = self._pods.get(uid)
        if self.moves.places and (counted is None or not counted.is_on_node):
            self.moves.places.got_node(pod)
        if counted is None:
            self._put(uid, _Counted(self.counted_demand(pod), True, False, pod))
        elif not counted.is_on_node:
            demand = self.counted_demand(pod)  # the version that is placed may differ from the one that waited
            if (demand is counted.demand or demand == counted.demand) and self._is_leaf(demand.queue):
                counted.version = pod
                self._set_on_node(counted, True)
            else:
                self._take(uid, counted)
                self._put(uid, _Counted(demand, True, True, pod))
        if pod.metadata.deletion_timestamp is not None:
            self.ending.add(uid)

    def pods_added(self, pods: Sequence[Pod]) -> None:
        """Count pods that are assumed together. Those that waited as they are now are counted by their demands."""
        others: list[Pod] = []
        seen, self._seen = self._seen, None
        if seen is not None and len(seen[0]) == len(pods) and all(map(is_, seen[0], pods)):
            waiting = seen[1]
        else:
            waiting, others = self._waiting_by_demand(pods)
        for sharing in waiting.values():
            demand = sharing[0].demand
            if self._is_outdated or demand.queue not in self._leaves:
                others += [counted.version for counted in sharing]
                continue
            for counted in sharing:
                counted.is_on_node = True
                if self.moves.places:
                    self.moves.places.got_node(counted.version)
            self._note_placed(demand, len(sharing))
        if waiting:
            self.on_change()
        for pod in others:
            self.pod_added(pod)

    def pod_changed(self, old: Pod, new: Pod) -> None:
        """Take a newer version of a pod that is counted on its node."""
        uid = new.metadata.uid
        counted = self._pods.get(uid)
        if counted is None or not counted.is_on_node:
            return
        self._seen = None
        is_as_counted = counted.version is old and _asks_equally(old, new)
        counted.version = new
        if is_as_counted:  # as nearly all: they have got their node
            return
        demand = self.counted_demand(new)
        if demand is counted.demand:  # pods of one template share it
            if new.metadata.deletion_timestamp is not None:
                self.ending.add(uid)
            return
        if demand != counted.demand:
            self._take(uid, counted)
            self._put(uid, _Counted(demand, True, counted.is_waiting, new))
        if new.metadata.deletion_timestamp is not None:
            self.ending.add(uid)

    def pod_removed(self, pod: Pod) -> None:
        """Count a pod on its node no more; it may still wait for one."""
        uid = pod.metadata.uid
        self.ending.discard(uid)
        self._seen = None
        counted = self._pods.get(uid)
        if counted is None or not counted.is_on_node:
            return
        if counted.is_waiting and self._is_leaf(counted.demand.queue):
            self._set_on_node(counted, False)
        else:
            self._take(uid, counted)
            if counted.is_waiting:
                self._put(uid, _Counted(counted.demand, False, True, counted.version))

    def pod_waits(self, pod: Pod) -> None:
        """Take the newest version of a pod that waits for a node, and whose queue asks for room for it."""
        uid = pod.metadata.uid
        counted = self._pods.get(uid)
        if counted is not None and counted.is_on_node:
            counted.is_waiting = True
            return
        demand = self.counted_demand(pod)
        self._seen = None
        if counted is None:
            self._pods[uid] = _Counted(demand, False, True, pod)
            known = self._uncounted_waiting.get(id(demand))
            if known is None:
                self._note_waiting(demand, 1)
            else:
                self._uncounted_waiting[id(demand)] = demand, known[1] + 1
            return
        counted.version = pod
        if counted.demand is not demand and counted.demand != demand:
            self._take(uid, counted)
            self._put(uid, _Counted(demand, False, True, pod))

    def waits_no_more(self, uid: str) -> None:
        """Forget that a pod waits: it has a node, or is gone. Unknown ones are ignored."""
        counted = self._pods.get(uid)
        if counted is None:
            return
        self._seen = None
        if counted.is_on_node:
            counted.is_waiting = False
        else:
            self._take(uid, counted)

    def counted_demand(self, pod: Pod) -> Demand:
        """Return the demand of a pod; nothing if its requests cannot be read, which is logged."""
        try:
            return self.demands.of(pod)
        except DecodeError as error:
            log.error("pod counts for nothing in its queue", extra={"pod": pod.key, "err": str(error)})
            is_preemptible = self.demands.is_preemptible(pod)
            return Demand(self.demands.queue_of(pod), NOTHING, is_preemptible, pod.spec.priority or 0)

    def by_demand(self, pods: Sequence[Pod]) -> list[tuple[Demand, int]]:
        """Return the demands of pods, each once for all waiting pods that share it, with their number."""
        waiting, others = self._waiting_by_demand(pods)
        found = [(sharing[0].demand, len(sharing)) for sharing in waiting.values()]
        if not others:
            self._seen = pods, waiting
        return found + [(self.demand_of(pod), 1) for pod in others]

    def _waiting_by_demand(self, pods: Iterable[Pod]) -> tuple[dict[int, list[_Counted]], list[Pod]]:
        """Return those of the pods that wait as they are, by the id of their demand, and the others."""
        known = self._pods
        waiting: dict[int, list[_Counted]] = {}
        others: list[Pod] = []
        for pod in pods:
            counted = known.get(pod.metadata.uid)
            if counted is None or counted.version is not pod or counted.is_on_node:
                others.append(pod)
                continue
            sharing = waiting.get(key := id(counted.demand))
            if sharing is None:
                waiting[key] = [counted]
            else:
                sharing.append(counted)
        return waiting, others

    def demand_of(self, pod: Pod) -> Demand:
        """Return what `counted_demand` does, without reading a pod again that is counted as it is."""
        counted = self._pods.get(pod.metadata.uid)
        return counted.demand if counted is not None and counted.version is pod else self.counted_demand(pod)

    def charged(self, uid: str) -> Demand | None:
        """Return what a pod on a node, or assumed there, is counted for; None if it is not."""
        counted = self._pods.get(uid)
        return counted.demand if counted is not None and counted.is_on_node else None

    @property
    def counted_pods(self) -> int:
        """The number of pods that are counted, on nodes or waiting."""
        return len(self._pods)

    def younger(self, queue: str, created: str, priority: int) -> list[str]:
        """Return the uids of pods on nodes that name a queue, were created later, and are not above a priority.

        `created`: RFC 3339, in UTC as the apiserver writes it. O(pods that wait or are on nodes).
        """
        return [
            uid
            for uid, counted in self._pods.items()
            if counted.is_on_node
            and counted.demand.queue == queue
            and counted.demand.priority <= priority
            and (counted.version.metadata.creation_timestamp or "") > created
        ]

    def count_on_trial(self, demand: Demand, times: int) -> None:
        """Let the tree say that more is used, or less if `times` is negative, until the caller takes it back.

        Nothing but pods may change meanwhile. Fair shares do not depend on it.
        """
        queue = self.tree.queues.get(demand.queue)
        if queue is not None:
            count_use(queue, demand.amounts, NOTHING if demand.is_preemptible else demand.amounts, times)
            self.touched.add(demand.queue)

    # --- counting ---

    def _put(self, uid: str, counted: _Counted) -> None:
        self._pods[uid] = counted
        self._change(counted, 1)

    def _take(self, uid: str, counted: _Counted) -> None:
        del self._pods[uid]
        self._change(counted, -1)

    def _is_leaf(self, name: str) -> bool:
        """Return True if the tree is up to date, and the queue takes pods."""
        return not self._is_outdated and name in self._leaves

    def _change(self, counted: _Counted, times: int) -> None:
        """Count a pod, or take it back. An outdated tree is left alone: all are counted when it is built again."""
        demand = counted.demand
        if not counted.is_on_node:
            self._note_waiting(demand, times)
            return
        self._charge(self._use_of(demand.queue), demand, times)
        self.touched.add(demand.queue)
        queue = None if self._is_outdated else self._tree.queues.get(demand.queue)
        if queue is None or count_request(queue, demand.amounts, times):  # one in no queue leaves less to divide
            self._make_stale()
        self.on_change()

    def _note_waiting(self, demand: Demand, times: int) -> None:
        """Note that one more pod waits, or one fewer if `times` is -1; it is counted when somebody reads the tree."""
        known = self._uncounted_waiting.get(id(demand))
        if known is not None:
            self._uncounted_waiting[id(demand)] = demand, known[1] + times
            return
        if not self._uncounted_waiting:
            self.on_change()
            if not self._is_stale:
                self.on_stale()
        elif len(self._uncounted_waiting) >= MOST_DEMANDS:
            self._count_waiting()
        self._uncounted_waiting[id(demand)] = demand, times

    def _count_waiting(self) -> None:
        """Let the tree say which pods wait, or do no more, since somebody has read it."""
        uncounted, self._uncounted_waiting = self._uncounted_waiting, {}
        for demand, times in uncounted.values():
            add(self._use_of(demand.queue).waiting, demand.amounts, times)
            queue = self._tree.queues.get(demand.queue) if self._is_leaf(demand.queue) else None
            if queue is not None and count_request(queue, demand.amounts, times) and not self._is_stale:
                self._is_stale = True  # `on_stale` was called when the pods came

    def _make_stale(self) -> None:
        if not self._is_stale:
            self._is_stale = True
            self.on_stale()

    def _set_on_node(self, counted: _Counted, is_on_node: bool) -> None:
        """Count a pod as placed, or as waiting again, in a queue that takes pods, which asks for as much as before."""
        counted.is_on_node = is_on_node
        self._note_placed(counted.demand, 1 if is_on_node else -1)
        self.on_change()

    def _note_placed(self, demand: Demand, times: int) -> None:
        """Note that so many pods of a demand are placed that waited, or wait again if the number is negative."""
        key = id(demand)
        known = self._uncounted_placed.get(key)
        if known is None and len(self._uncounted_placed) >= MOST_DEMANDS:
            self._count_placed()
        self._uncounted_placed[key] = demand, times if known is None else known[1] + times
        known = self.newly_placed.get(key)
        if known is None and len(self.newly_placed) >= MOST_DEMANDS:  # as where nothing is decided: in a standby
            self.touched.update(each.queue for each, _ in self.newly_placed.values())
            self.newly_placed.clear()
        self.newly_placed[key] = demand, times if known is None else known[1] + times

    def _count_placed(self) -> None:
        """Let the tree say what was placed since somebody has read it."""
        uncounted, self._uncounted_placed = self._uncounted_placed, {}
        for demand, times in uncounted.values():
            use = self._use_of(demand.queue)
            self._charge(use, demand, times)
            add(use.waiting, demand.amounts, -times)

    def _charge(self, use: _Use, demand: Demand, times: int) -> None:
        add(use.allocated, demand.amounts, times)
        non_preemptible = NOTHING
        if demand.is_preemptible:
            self._priorities.count(demand.queue, demand.priority, times)
        else:
            non_preemptible = demand.amounts
            add(use.non_preemptible, non_preemptible, times)
        queue = None if self._is_outdated else self._tree.queues.get(demand.queue)
        if queue is not None:
            count_use(queue, demand.amounts, non_preemptible, times)

    def _use_of(self, name: str) -> _Use:
        use = self._use.get(name)
        if use is None:
            if len(self._use) >= MOST_NAMES:
                self._use = {each: use for each, use in self._use.items() if use.allocated or use.waiting}
            use = self._use[name] = _Use()
        return use

    # --- what follows from them ---

    @property
    def total(self) -> Amounts:
        """What there is to divide, by resource."""
        self.refresh()
        return self._total

    def refresh(self) -> None:
        """Compute the fair shares if anything has changed on which they depend."""
        if self._is_outdated:
            self._rebuild()
        elif self._uncounted_waiting:
            self._count_waiting()
        if self._is_stale:
            self._is_stale = False
            self._total = self._divisible()
            set_fair_shares(self.tree.queues.values(), self._total)
            self.epoch += 1

    def _divisible(self) -> dict[str, int]:
        resources = {resource for queue in self.tree.queues.values() for resource in queue.shares}
        outside = self._outside()
        return {
            resource: max(self._allocatable.get(resource, 0) - outside.get(resource, 0), 0)
            for resource in sorted(resources)
        }

    def _outside(self) -> dict[str, int]:
        """Return what pods on nodes use that are in no queue, or name one that cannot be used."""
        used: dict[str, int] = {}
        for name, use in self._use.items():
            if name not in self.tree.queues:
                add(used, use.allocated, 1)
        return used


def _offered(node: Node) -> Amounts:
    """Return what a node has to divide."""
    if node.spec.unschedulable:
        return NOTHING
    if any(each.type == READY and each.status != TRUE for each in node.status.conditions or ()):
        return NOTHING
    try:
        allocatable = node_allocatable(node)
    except DecodeError:  # it is reported where the node is read for the cache
        return NOTHING
    has = allocatable.resources
    native = {CPU: has.cpu_milli, MEMORY: has.memory, EPHEMERAL_STORAGE: has.ephemeral_storage, PODS: allocatable.pods}
    return {name: amount for name, amount in (native | dict(has.scalars)).items() if amount}


def _asks_equally(old: Pod, new: Pod) -> bool:
    """Return True if two versions have the very parts by which a demand is found, and neither is being deleted."""
    before, after, status = old.spec, new.spec, new.status
    return (
        new.metadata.labels is old.metadata.labels
        and after.containers is before.containers
        and after.init_containers is before.init_containers
        and after.overhead is before.overhead
        and after.resources is before.resources
        and after.priority == before.priority
        and new.metadata.deletion_timestamp is old.metadata.deletion_timestamp is None
        and not status.container_statuses
        and not status.init_container_statuses
        and not status.resources
        # Before a kubelet has reported anything, PodScheduled is the only condition.
        and not (status.conditions and len(status.conditions) > 1 and is_resize_infeasible(new))
    )
