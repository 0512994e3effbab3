"""The cache: nodes and the pods on them, as the watch reports them, plus the pods this scheduler has assumed.

    Initial ──assume──▶ Assumed ──finish_binding──▶ Assumed, binding written ──expire──▶ gone
       │                   │  │                                  │
       │                   │  └──forget──▶ gone                  │
       └──────add──────────┴──────────add (the watch confirms)───┴──▶ Added ──update──▶ Added ──remove──▶ gone

An assumed pod holds its room from the moment it is decided, so that the next decision sees it. The watch is always
right: a pod it reports on another node than assumed is moved there. There is one writer, so there are no locks; time
is an argument.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, KeysView, Sequence
from typing import Protocol

import msgspec

from kscheduler.api.node_change import NodeChange
from kscheduler.api.objects import Node, Pod
from kscheduler.errors import InternalError
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.pod_labels import is_counted_equally

log = logging.getLogger(__name__)


class PodFollower(Protocol):
    """Learns of each pod that the cache begins or ceases to count, assumed ones included, such as accounts of quotas.

    A pod that is added must be ignored if it is known, and one that is removed if it is not.
    """

    def pod_added(self, pod: Pod) -> None: ...

    def pods_added(self, pods: Sequence[Pod]) -> None:
        """Learn of pods that are assumed together, as `pod_added` would of each."""
        ...

    def pod_changed(self, old: Pod, new: Pod) -> None:
        """Take a newer version of a pod that stays on its node."""
        ...

    def pod_removed(self, pod: Pod) -> None: ...


class _Followers:
    """Two followers as one."""

    def __init__(self, first: PodFollower, second: PodFollower) -> None:
        self._first = first
        self._second = second

    def pod_added(self, pod: Pod) -> None:
        self._first.pod_added(pod)
        self._second.pod_added(pod)

    def pods_added(self, pods: Sequence[Pod]) -> None:
        self._first.pods_added(pods)
        self._second.pods_added(pods)

    def pod_changed(self, old: Pod, new: Pod) -> None:
        self._first.pod_changed(old, new)
        self._second.pod_changed(old, new)

    def pod_removed(self, pod: Pod) -> None:
        self._first.pod_removed(pod)
        self._second.pod_removed(pod)


class PodState(msgspec.Struct, eq=False, gc=False):
    """A pod in the cache with its node, and whether it is assumed or has been confirmed by the watch."""

    pod: PodInfo
    node_name: str
    assumed: bool
    is_written: bool = False  # the binding of the assumed pod
    deadline: float | None = None  # when an assumed pod whose binding is written expires; None: never, as yet


class Cache:
    """The nodes and the pods on them.

    `assumed_ttl_s`: seconds that an assumed pod may stay unconfirmed after its binding is written; 0 means forever, as
    in kube-scheduler: the watch, not a timer, decides what became of the binding.
    """

    def __init__(self, table: NodeTable | None = None, assumed_ttl_s: float = 0.0) -> None:
        self.table = table if table is not None else NodeTable()
        self._assumed_ttl_s = assumed_ttl_s
        self._pods: dict[str, PodState] = {}  # pod uid -> its state
        # Node name -> pod uid -> pod: pods on nodes that the watch has not reported yet, or has removed.
        self._homeless: dict[str, dict[str, PodInfo]] = {}
        self._assumed = 0
        self.recounts = 0  # how often nodes and columns were recounted, because a fault interrupted an update
        self.is_torn = False  # the last recount was interrupted, too: `mend` repeats it
        self._follower: PodFollower | None = None

    def follow(self, follower: PodFollower) -> None:
        """Call `follower` for every pod that is in the cache, and for each that comes or goes from now on.

        There may be several; they are called in the order in which they began to follow.
        """
        before = self._follower
        self._follower = follower if before is None else _Followers(before, follower)
        for state in self._pods.values():
            follower.pod_added(state.pod.pod)

    # --- assumed pods ---

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Count the pod on the node before its binding is written.

        Raises InternalError if the pod is in the cache already. After any fault the cache is as before.
        """
        if pod.uid in self._pods:
            raise self._in_cache_already(pod)
        self._put(PodState(pod, node_name, True), self.table.get(node_name))

    def assume_counted(self, pods: Sequence[PodInfo], rows: Sequence[int], node_names: Sequence[str]) -> None:
        """Assume pods whose requests the node columns count already, each on the node of its row.

        Raises InternalError if one of them is in the cache already. After any fault none of them is assumed, and the
        caller must call `recount`: the columns, and perhaps some indexes, still count them.
        """
        states, held = self._pods, 0
        try:
            for at, pod in enumerate(pods):
                uid = pod.uid
                if uid in states:
                    raise self._in_cache_already(pod)
                states[uid] = PodState(pod, node_names[at], True)
                held += 1
            self._assumed += held
            self.table.add_counted_pods(rows, pods)
            if self._follower is not None:
                self._follower.pods_added([pod.pod for pod in pods])
        except Exception:
            for pod in pods[:held]:
                del states[pod.uid]
                if self._follower is not None:
                    self._follower.pod_removed(pod.pod)
            raise

    def _in_cache_already(self, pod: PodInfo) -> InternalError:
        return InternalError(f"pod {pod.key} ({pod.uid}) is in the cache already, on {self._pods[pod.uid].node_name}")

    def finish_binding(self, uid: str, now: float) -> None:
        """Record that the pod's binding is written. If it stays unconfirmed, it expires `assumed_ttl_s` after `now`."""
        state = self._pods.get(uid)
        if state is not None and state.assumed:
            state.is_written = True
            if self._assumed_ttl_s > 0:
                state.deadline = now + self._assumed_ttl_s

    def forget(self, uid: str) -> bool:
        """Remove an assumed pod. Returns False and does nothing if the watch has confirmed or removed the pod."""
        state = self._pods.get(uid)
        if state is None or not state.assumed:
            return False
        self._take(state)
        return True

    def expire(self, now: float) -> list[PodInfo]:
        """Remove the assumed pods whose deadline has passed, and return them."""
        late = [s for s in self._pods.values() if s.assumed and s.deadline is not None and s.deadline <= now]
        for state in late:
            self._take(state)
        return [state.pod for state in late]

    # --- changes that the watch reports ---

    def set_pod(self, pod: PodInfo) -> None:
        """Add or update a bound pod on the node that its spec names; an assumed pod thereby becomes confirmed."""
        node_name = pod.pod.spec.node_name
        if not node_name:
            raise InternalError(f"pod {pod.key} is on no node; only bound pods are in the cache")
        state = self._pods.get(pod.uid)
        if state is None:
            self._put(PodState(pod, node_name, False), self.table.get(node_name))
        elif state.node_name == node_name and takes_the_same(state.pod, pod):
            self._swap(state, pod)
        else:
            self._take(state)
            self._put(PodState(pod, node_name, False), self.table.get(node_name))

    def confirm(self, pod: Pod) -> bool:
        """Confirm an assumed pod if the watch shows it bound to the assumed node and otherwise unchanged.

        This is the short way for the usual case. Returns False, and changes nothing, in every other case, for example
        if the answer to the binding has not come yet; the caller then uses `set_pod`, which handles all cases.
        """
        state = self._pods.get(pod.metadata.uid)
        if state is None or not state.is_written or not state.assumed or state.node_name != pod.spec.node_name:
            return False
        old = state.pod.pod
        if not state.pod.bound_as(pod):
            return False
        if self._follower is not None:
            self._follower.pod_changed(old, pod)
        self._assumed -= 1
        state.assumed = False
        state.deadline = None
        return True

    def confirm_unanswered(self, pod: Pod) -> bool:
        """Confirm an assumed pod, as `confirm` does, although the answer to its binding has not come yet.

        What is in flight keeps the version that it has.
        """
        state = self._pods.get(pod.metadata.uid)
        if state is None or not state.assumed or state.node_name != pod.spec.node_name:
            return False
        bound = state.pod.copy_bound_as(pod)
        if bound is None:
            return False
        self._swap(state, bound)
        return True

    def remove_pod(self, uid: str) -> PodInfo | None:
        """Remove a pod and return it; return None if the pod is not in the cache."""
        state = self._pods.get(uid)
        if state is None:
            return None
        self._take(state)
        return state.pod

    def set_node(self, node: Node, change: NodeChange | None = None) -> NodeInfo:
        """Add or update a node. Raises DecodeError, and leaves the cache unchanged, if the node cannot be read.

        `change`: how the node differs from the version in the cache, if the caller has computed it.
        """
        info = self.table.set_node(node, change)
        for pod in self._homeless.pop(info.name, {}).values():
            self.table.add_pod(info, pod)
        return info

    def remove_node(self, name: str) -> bool:
        """Remove a node; False if it is unknown.

        Its pods are kept until the watch removes them: the node may come back.
        """
        if self.table.get(name) is None:
            return False
        pods = self.table.remove_node(name)
        if pods:
            self._homeless[name] = {pod.uid: pod for pod in pods}
        return True

    # --- reading ---

    def get(self, uid: str) -> PodState | None:
        return self._pods.get(uid)

    def uids(self) -> KeysView[str]:
        """Return the uids of all pods in the cache, as a view that stays up to date."""
        return self._pods.keys()

    def is_assumed(self, uid: str) -> bool:
        state = self._pods.get(uid)
        return state is not None and state.assumed

    def pods(self) -> Iterator[PodState]:
        return iter(self._pods.values())

    def sizes(self) -> dict[str, int]:
        """Return nodes, pods (assumed ones included) and assumed_pods: kube-scheduler's cache_size metric."""
        return {"nodes": len(self.table), "pods": len(self._pods), "assumed_pods": self._assumed}

    # --- keeping the indexes together ---

    # `_pods` is authoritative; nodes, columns and indexes are derived from it. If a bug interrupts an update of
    # these, they are recounted from `_pods`.

    def _put(self, state: PodState, info: NodeInfo | None) -> None:
        """Add the pod to its node, `info`, and to all indexes. If this raises, the cache is unchanged."""
        uid = state.pod.uid
        self._pods[uid] = state
        try:
            self._assumed += state.assumed
            if info is None:
                self._homeless.setdefault(state.node_name, {})[uid] = state.pod
            else:
                self.table.add_pod(info, state.pod)
            if self._follower is not None:
                self._follower.pod_added(state.pod.pod)
        except Exception:
            del self._pods[uid]
            self.recount()
            raise

    def _take(self, state: PodState) -> None:
        """Remove the pod from its node and all indexes.

        After a fault other than MemoryError, everything is recounted.
        """
        del self._pods[state.pod.uid]
        if self._follower is not None:
            self._follower.pod_removed(state.pod.pod)
        try:
            self._assumed -= state.assumed
            info = self.table.get(state.node_name)
            if info is not None:
                self.table.remove_pod(info, state.pod)
                return
            homeless = self._homeless[state.node_name]
            del homeless[state.pod.uid]
            if not homeless:
                del self._homeless[state.node_name]
        except MemoryError:
            raise
        except Exception:
            log.exception(
                "removing a pod from its node failed; all pods are counted again", extra={"pod": state.pod.key}
            )
            self.recount()

    def mend(self) -> None:
        """Repeat a `recount` (rebuilding the columns and indexes of nodes) that a fault interrupted.

        Raises InternalError if it fails again: then scheduling must stop.
        """
        if self.is_torn:
            self.recount()
            if self.is_torn:
                raise InternalError("pods on nodes cannot be counted, so that nothing can be decided: see the log")

    def recount(self) -> None:
        """Rebuild nodes, columns and indexes from the cache's pods alone, dropping requests of pods that are not in it.

        If a fault interrupts the recount, the next call of `mend` repeats it.
        """
        self.recounts += 1
        self.is_torn = True
        pods_on: dict[str, dict[str, PodInfo]] = {}
        for uid, state in self._pods.items():
            pods_on.setdefault(state.node_name, {})[uid] = state.pod
        try:
            self._homeless = {name: pods for name, pods in pods_on.items() if self.table.get(name) is None}
            self._assumed = sum(state.assumed for state in self._pods.values())
            self.table.recount(pods_on)
        except MemoryError:
            raise
        except Exception:
            log.exception("counting the pods on nodes failed; no pod is decided until it succeeds")
            return
        self.is_torn = False

    def _swap(self, state: PodState, pod: PodInfo) -> None:
        """Replace a pod by a newer version with equal requests on the same node, such as the watch's confirmation."""
        self._assumed -= state.assumed
        state.assumed = False
        state.deadline = None
        if self._follower is not None:
            self._follower.pod_changed(state.pod.pod, pod.pod)
        state.pod = pod
        info = self.table.get(state.node_name)
        if info is not None:
            self.table.replace_pod(info, pod)
        else:
            self._homeless[state.node_name][pod.uid] = pod


def takes_the_same(old: PodInfo, new: PodInfo) -> bool:
    """Return True if replacing one pod by the other on a node changes none of the node's counts."""
    return (
        (old.resources is new.resources or old.resources == new.resources)
        and old.host_ports == new.host_ports
        and old.priority == new.priority
        and is_counted_equally(old, new)
    )
