"""Kernels run without the GIL: several threads may judge one table at once, each with verdicts of its own.

Each thread's answers must be those it gives alone, and those of the plain twin, which has no threads.
"""

from __future__ import annotations

import random
from array import array
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.testing.kernels import load_compiled, reference
from tests.fast.tables import GI, NodeSpec, codes, make_columns, plain
from tests.support.skips import NOT_BUILT

COMPILED = load_compiled()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(COMPILED is None, reason=NOT_BUILT)]

THREADS = 4
ROWS = 2_000  # enough for kernels to overlap
DOMAINS = 7


class Cluster:
    """A random table with what the kernels read beside it: all of it shared by the threads, and only read."""

    def __init__(self, fast: ModuleType, seed: int) -> None:
        rng = random.Random(seed)
        self.fast: Any = fast
        specs = [
            NodeSpec(
                allocatable=(rng.randrange(0, 8_000), rng.randrange(0, 32) * GI, 0),
                allowed_pods=rng.randrange(0, 5),
                node_class=rng.randrange(4),
                pods=tuple(plain(rng.randrange(0, 4_000), rng.randrange(0, 8) * GI) for _ in range(rng.randrange(4))),
                alive=rng.random() < 0.95,
            )
            for _ in range(ROWS)
        ]
        self.columns = make_columns(fast, specs)
        self.ids = array("i", (rng.randrange(-1, DOMAINS) for _ in range(ROWS)))
        self.counts = array("q", (rng.randrange(4) for _ in range(ROWS)))
        self.by_node_class = bytes(rng.randrange(2) for _ in range(4))

    def decide(self, pod: int) -> list[object]:
        """One decision through kernels of every module; pods differ, so that threads do different work."""
        fast, columns = self.fast, self.columns
        request = fast.PodRequest(*plain(100 + 311 * pod, (pod % 5) * GI))
        verdicts, scores, mask, sums, totals = (
            fast.Verdicts(), fast.Scores(), fast.RowMask(), fast.DomainSums(), fast.RowTotals()
        )  # fmt: skip
        verdicts.reset(columns)
        scores.reset(columns)
        fast.filter_node_classes(columns, verdicts, self.by_node_class, 1)
        fast.filter_fit(columns, verdicts, request, 2)
        mask.take_alive(columns)
        mask.drop_without_domain(self.ids)
        fast.sum_by_domain(sums, self.counts, self.ids, DOMAINS, mask)
        fast.filter_skew(verdicts, sums, self.ids, 3, sums.minimum + 30 * pod + 150, 1, 2)
        fast.score_least_allocated(columns, verdicts, scores, request, [(0, 1), (1, 1 + pod)])
        fast.accumulate(verdicts, scores, 1)
        fast.score_balanced(columns, verdicts, scores, request, [0, 1])
        fast.accumulate(verdicts, scores, 1)
        totals.reset(columns)
        fast.add_spread(verdicts, totals, sums, self.ids, 1.5, 2)
        mask.take_feasible(verdicts)
        fast.score_spread(verdicts, scores, totals, mask)
        fast.normalize_spread(verdicts, scores, mask)
        fast.accumulate(verdicts, scores, 2)
        chosen = fast.select_host(verdicts, scores, 12_345) if verdicts.feasible_count() else -1
        return [codes(verdicts), [scores.total(row) for row in range(ROWS)], chosen]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_decisions_in_several_threads_are_those_of_one(seed: int) -> None:
    assert COMPILED is not None
    cluster, twin = Cluster(COMPILED, seed), Cluster(reference, seed)
    pods = range(2 * THREADS)
    alone = [cluster.decide(pod) for pod in pods]
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(cluster.decide, [*pods, *pods]))
    assert together == alone + alone
    assert alone[0] == twin.decide(0)
