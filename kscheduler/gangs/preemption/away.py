"""Pods that are taken off their nodes on trial: the node table counts them no more, while the cache keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType

from kscheduler.cache.cache import Cache
from kscheduler.quotas.uncounted import Uncounted
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo


class Away:
    """A context in which pods can be taken off their nodes; all of them are back when it ends.

    Followers of the cache learn nothing of it, except that queues with shares count them no more. No event of the
    cluster may come meanwhile.
    """

    def __init__(self, cache: Cache, uncounted: Uncounted | None = None) -> None:
        """`uncounted`: what queues with shares do not count meanwhile, if there are any."""
        self._cache = cache
        self._uncounted = uncounted
        self._recounts = cache.recounts
        self.moves = 0  # how often a pod was taken off its node or put onto it
        self._pods: dict[str, tuple[NodeInfo, PodInfo]] = {}  # by uid
        self._before: dict[int, dict[str, PodInfo]] = {}  # row -> the pods of its node, in their order

    def __enter__(self) -> Away:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._uncounted is not None:
            self._uncounted.put_all_back()
        if self.is_torn:
            self._cache.recount()
            return
        for node, pod in self._pods.values():
            self._cache.table.add_pod(node, pod)
        self._pods.clear()
        for row, pods in self._before.items():
            self._put_in_order(self._cache.table.at(row).pods, pods)

    @property
    def is_torn(self) -> bool:
        """True if a fault made the cache count all pods again, so that none is away any more."""
        return self._cache.recounts != self._recounts

    @property
    def counts_queues(self) -> bool:
        """True if there are queues with shares, in which pods that are away do not count."""
        return self._uncounted is not None

    @property
    def uids(self) -> set[str]:
        """The uids of the pods that are away."""
        return set(self._pods)

    def take(self, pods: Iterable[PodInfo]) -> None:
        """Take pods off their nodes; those that are on no node, or away already, are ignored."""
        for pod in pods:
            state = self._cache.get(pod.uid)
            node = None if state is None else self._cache.table.get(state.node_name)
            if state is None or node is None or pod.uid in self._pods:
                continue
            self._before.setdefault(node.row, dict(node.pods))
            self._move(self._cache.table.remove_pod, node, state.pod)
            self._pods[pod.uid] = node, state.pod
            if self._uncounted is not None:
                self._uncounted.take(pod.uid)

    def put_back(self, pods: Iterable[PodInfo]) -> None:
        """Put pods back onto their nodes; those that are not away are ignored."""
        for pod in pods:
            found = self._pods.pop(pod.uid, None)
            if found is not None:
                self._move(self._cache.table.add_pod, *found)
                if self._uncounted is not None:
                    self._uncounted.put_back(pod.uid)

    def put_all_back(self) -> None:
        """Put all pods back that are away."""
        self.put_back([pod for _, pod in self._pods.values()])

    @contextmanager
    def without(self, pod: PodInfo, node_name: str) -> Iterator[None]:
        """Take a pod that is not away off its node within a `with` block."""
        table = self._cache.table
        node = table.get(node_name)
        assert node is not None, f"node {node_name} has gone while a gang was planned"
        self._move(table.remove_pod, node, pod)
        if self._uncounted is not None:
            self._uncounted.take(pod.uid)
        try:
            yield
        finally:
            if self._uncounted is not None:
                self._uncounted.put_back(pod.uid)
            self._move(table.add_pod, node, pod)

    def _move(self, move: Callable[[NodeInfo, PodInfo], None], node: NodeInfo, pod: PodInfo) -> None:
        self.moves += 1
        try:
            move(node, pod)
        except Exception:
            self._cache.recount()
            raise

    def node_of(self, pod: PodInfo) -> str:
        """Return the name of the node of a pod, whether it is away or not; "" if it is on none."""
        state = self._cache.get(pod.uid)
        return "" if state is None else state.node_name

    @staticmethod
    def _put_in_order(pods: dict[str, PodInfo], before: dict[str, PodInfo]) -> None:
        """Give the pods of a node the order that they had: equally important pods are evicted in that order."""
        if pods.keys() == before.keys():
            pods.clear()
            pods.update(before)
