"""Victims of a preemption within quotas that must leave with others: all of them may be evicted, or none is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kscheduler.framework.dry_runs import DryRun
from kscheduler.framework.plugins.capacityscheduling.plugin import CapacityScheduling
from kscheduler.framework.preemption.within_quotas import GROUP_TOO_SMALL
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod
from tests.framework.plugins.capacityscheduling.bench import Bench, make_quota

ALONE: list[str] = []


class Pairs:
    """Every victim leaves with the pods of these names, wherever they are; None: nobody may be evicted."""

    def __init__(self, bench: Bench, names: Sequence[str] | None) -> None:
        self._bench = bench
        self._names = names

    def priority_of(self, pod: PodInfo) -> int:
        return pod.priority

    def is_member(self, pod: PodInfo) -> bool:
        raise NotImplementedError

    def may_outrank(self) -> bool:
        return False

    def dry_run(self, singly: DryRun) -> DryRun:
        return singly

    def also_leaving(self, victims: Sequence[PodInfo], preemptor: PodInfo) -> list[tuple[PodInfo, NodeInfo]] | None:
        if self._names is None:
            return None
        gone = {victim.uid for victim in victims}
        return [
            (pod, node)
            for node in self._bench.cache.table
            for pod in node.pods.values()
            if pod.pod.metadata.name in self._names and pod.uid not in gone
        ]


def full(names: Sequence[str] | None) -> Bench:
    """Two full nodes: `a` has lent to `b` most of what it is guaranteed."""
    bench = Bench(make_quota("a", {"cpu": 8}), make_quota("b", {"cpu": 0}))
    bench.nodes("n1", "n2")
    bench.place(make_pod("lent", "b").req(cpu="4"), "n1")
    bench.place(make_pod("mate", "b").req(cpu="2"), "n2")
    bench.place(make_pod("other", "a").req(cpu="2"), "n2")
    bench.handle = replace(bench.handle, victim_groups=Pairs(bench, names))
    bench.plugin = CapacityScheduling(bench.handle)
    return bench


@pytest.mark.parametrize(
    ("names", "expected"),
    [(ALONE, ["lent"]), (["lent", "mate"], ["lent", "mate"]), (["other"], ["nobody"]), (None, ["nobody"])],
    ids=["alone", "with a mate elsewhere", "with one that may not be evicted", "not at all"],
)
async def test_the_whole_group_leaves_if_all_of_it_may(names: Sequence[str] | None, expected: list[str]) -> None:
    bench = full(names)
    asking = make_pod("asking", "a").req(cpu="1").priority(1)
    if expected == ["nobody"]:
        assert GROUP_TOO_SMALL.message in bench.refused(asking)
    else:
        assert sorted(await bench.victims(asking)) == expected
