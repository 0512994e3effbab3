"""The harness for plugin authors: runs a plugin as a profile would, and finds its faults."""

from __future__ import annotations

from typing import Any

import pytest

from kscheduler.errors import ConfigError, PluginError
from kscheduler.framework import (
    SKIP,
    CycleState,
    NodeInfo,
    NodeTable,
    PluginArgs,
    PodInfo,
    PreFilterResult,
    Scores,
    Status,
    Verdicts,
    error_status,
    unresolvable,
    unschedulable,
)
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.testing import PluginHarness, make_node, make_pod

NODES = [make_node(name).capacity(cpu="4") for name in ("a", "b")]
FULL = unschedulable("full")


class Plugin:
    """At most so many pods on a node; the fewer the better. Both forms."""

    name = "Few"

    class Args(PluginArgs, frozen=True):
        limit: int = 1

    def __init__(self, args: Args, handle: object) -> None:
        self.limit = args.limit

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return FULL if len(node.pods) >= self.limit else None

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        for row in verdicts.feasible_rows():
            if self.filter(state, pod, table.at(row)) is not None:
                verdicts.reject(row, code, 0)

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return FULL

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        return 100 - len(node.pods), None

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        for node in table:
            scores.set_raw(node.row, self.score(state, pod, node)[0])


OLD = make_pod("old").node("a")


def test_filters_and_scores_every_node_with_the_arguments_given() -> None:
    harness = PluginHarness(Plugin, nodes=NODES, pods=[OLD, make_pod("elsewhere")])
    assert harness.filter(make_pod("p")) == {"a": FULL, "b": None}
    assert harness.score(make_pod("p").obj()) == {"a": 99, "b": 100}
    assert PluginHarness(Plugin, {"limit": 2}, nodes=NODES, pods=[OLD]).filter(make_pod("p")) == {"a": None, "b": None}


def test_runs_a_whole_cycle() -> None:
    harness = PluginHarness(Plugin, nodes=NODES, pods=[OLD])
    assert harness.schedule(make_pod("p")) == Decision("b", evaluated=2, feasible=1)
    rejection = PluginHarness(Plugin, {"limit": 0}, nodes=NODES).schedule(make_pod("p"))
    assert isinstance(rejection, Rejection)
    assert rejection.message == "0/2 nodes are available: 2 full."


def test_wrong_arguments_are_refused_as_in_a_profile() -> None:
    with pytest.raises(ConfigError, match=r'profile "default-scheduler".pluginConfig\[0\].args: .*limit: expected int'):
        PluginHarness(Plugin, {"limit": "x"})


def test_a_wrong_answer_raises() -> None:
    class Wrong(Plugin):
        def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Any:
            return None

    with pytest.raises(PluginError, match="expected a tuple"):
        PluginHarness(Wrong, nodes=NODES).score(make_pod("p"))


def test_a_score_out_of_bounds_fails_the_test() -> None:
    class TooHigh(Plugin):
        def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
            return 101, None

    with pytest.raises(AssertionError, match="expected scores from 0 to 100"):
        PluginHarness(TooHigh, nodes=NODES).score(make_pod("p"))


def test_a_score_that_failed_fails_the_test() -> None:
    class Failing(Plugin):
        def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
            return 0, error_status("broken")

    with pytest.raises(AssertionError, match="broken"):
        PluginHarness(Failing, nodes=NODES).score(make_pod("p"))


def test_forms_that_disagree_fail_the_test() -> None:
    class Apart(Plugin):
        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
            return None

        def filter_table(
            self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int
        ) -> None:
            verdicts.reject(0, code, 0)

        def score_table(
            self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
        ) -> None:
            for node in table:
                scores.set_raw(node.row, 7)

    harness = PluginHarness(Apart, nodes=NODES)
    with pytest.raises(AssertionError, match="filter says None, filter_table says"):
        harness.filter(make_pod("p"))
    with pytest.raises(AssertionError, match="score_table says"):
        harness.score(make_pod("p"))


class Chooser:
    """PreFilter alone: names the only node, rejects, or skips, as the pod's label says."""

    name = "Chooser"

    def __init__(self, args: object, handle: object) -> None:
        pass

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        answer = (pod.pod.metadata.labels or {}).get("answer")
        if answer is None:
            return None, SKIP
        return (None, FULL) if answer == "no" else (PreFilterResult(frozenset({answer})), None)


def test_what_pre_filter_says_counts_for_all_nodes() -> None:
    harness = PluginHarness(Chooser, nodes=NODES)
    assert harness.filter(make_pod("p")) == {"a": None, "b": None}
    assert harness.filter(make_pod("p").label(answer="no")) == {"a": FULL, "b": FULL}
    outside = unresolvable("node(s) didn't satisfy plugin(s) [Chooser]")
    assert harness.filter(make_pod("p").label(answer="a")) == {"a": None, "b": outside}


def test_a_skipped_score_is_empty() -> None:
    class Skipper(Plugin):
        def pre_score(self, state: CycleState, pod: PodInfo) -> Status | None:
            return SKIP

    assert PluginHarness(Skipper, nodes=NODES).score(make_pod("p")) == {}


async def test_what_a_plugin_binds_is_kept() -> None:
    class Binder:
        name = "Binder"

        def __init__(self, args: object, handle: Any) -> None:
            self._bind = handle.bind

        async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
            await self._bind(pod, node_name)
            return None

    harness = PluginHarness(Binder, nodes=NODES)
    assert await harness.plugin.bind(CycleState(), PodInfo(make_pod("p").obj()), "a") is None
    assert harness.bound == [("default/p", "a")]
