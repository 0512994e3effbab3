"""Compares the cache with the informers and dumps the cache as text, on SIGUSR2."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kscheduler.api.objects import Node, Pod
from kscheduler.cache.cache import Cache


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between an informer and the cache: the keys that only one of them has."""

    missing: list[str]  # the informer has it, the cache does not
    redundant: list[str]  # the cache has it, the informer does not

    def __bool__(self) -> bool:
        return bool(self.missing or self.redundant)


def compare_nodes(cache: Cache, actual: Iterable[Node]) -> Difference:
    return _difference({node.metadata.name for node in actual}, {info.name for info in cache.table})


def compare_pods(cache: Cache, actual: Iterable[Pod]) -> Difference:
    """Compare the informer's bound pods with the cache's, by uid. Assumed pods are never reported as different."""
    bound = {pod.metadata.uid for pod in actual if pod.spec.node_name}
    assumed = {state.pod.uid for state in cache.pods() if state.assumed}
    return _difference(bound - assumed, cache.uids() - assumed)


def _difference(actual: set[str], cached: set[str]) -> Difference:
    return Difference(sorted(actual - cached), sorted(cached - actual))


def dump_nodes(cache: Cache) -> Iterator[str]:
    """Yield one line of text for each node: allocatable and requested resources, and its pods."""
    for info in cache.table:
        allocatable, requested = info.allocatable.resources, info.requested
        pods = ", ".join(sorted(pod.key for pod in info.pods.values()))
        yield (
            f"node {info.name}: cpu {requested.cpu_milli}m of {allocatable.cpu_milli}m, "
            f"memory {requested.memory} of {allocatable.memory} bytes, "
            f"pods {len(info.pods)} of {info.allocatable.pods}: [{pods}]"
        )
