"""Why each node was rejected, read off the verdicts."""

from __future__ import annotations

import pytest

from kscheduler._fast import MAX_CODE, Verdicts
from kscheduler.framework.status import Status, unschedulable
from kscheduler.framework.verdict_statuses import VerdictStatuses
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.testing import make_node


class Bench:
    """Five nodes: one that fits, three that do not, and one that came after the verdicts."""

    def __init__(self) -> None:
        self.table, self.verdicts = NodeTable(), Verdicts()
        self.explained: list[tuple[int, int]] = []
        for name in ("fits", "small", "smaller", "apart"):
            self.table.set_node(make_node(name).obj())
        self.verdicts.reset(self.table.columns)
        for row in (1, 2, 3):
            self.verdicts.reject(row, 1 if row < 3 else MAX_CODE, 7)
        self.table.set_node(make_node("late").obj())
        self.statuses = VerdictStatuses(self.table, self.verdicts, {3: unschedulable("apart")}, self._explain)

    def _explain(self, code: int, detail: int) -> Status:
        self.explained.append((code, detail))
        return unschedulable(f"{code}/{detail}")


def test_each_node_that_does_not_fit_has_its_status_and_no_other_has_one() -> None:
    statuses = Bench().statuses
    small = unschedulable("1/7")
    assert dict(statuses) == {"small": small, "smaller": small, "apart": unschedulable("apart")}
    assert len(statuses) == 3
    for name in ("fits", "late", "nowhere"):
        assert statuses.get(name) is None
        with pytest.raises(KeyError, match=name):
            statuses[name]


def test_a_reason_is_explained_once_however_many_nodes_have_it_and_only_if_somebody_asks() -> None:
    bench = Bench()
    assert list(bench.statuses) == ["small", "smaller", "apart"]
    assert bench.explained == []
    dict(bench.statuses)
    dict(bench.statuses)
    assert bench.explained == [(1, 7)]


def test_nodes_that_were_not_examined_have_no_status() -> None:
    bench = Bench()
    bench.verdicts.reset(bench.table.columns)
    for row in (1, 3):
        bench.verdicts.reject(row, 1)
    bench.verdicts.limit_feasible(0, 1)  # up to row 2, which would be one too many
    assert list(bench.statuses) == ["small"]
