"""Runs one plugin on nodes and pods without a scheduler, for unit tests of the plugin.

    harness = PluginHarness(CheapestNode, {"costLabel": "cost"}, nodes=[make_node("n1").capacity().label(cost="1")])
    assert harness.filter(make_pod("p")) == {"n1": None}
    assert harness.score(make_pod("p")) == {"n1": 100}

The plugin is created as in a profile, including the checks of its arguments and answers: what a scheduler would refuse
or report raises ConfigError or PluginError here. If a plugin can also handle all nodes in one call (per-table form),
that is compared with its calls for each node.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from kscheduler._fast import FEASIBLE, Scores, Verdicts
from kscheduler.api.objects import Node, Pod
from kscheduler.cache.cache import Cache
from kscheduler.config.types import PluginConfig, Profile
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import EXTENSION_POINTS, Handle
from kscheduler.framework.out_of_tree import inspect_plugin, make_plugin
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.framework.status import Code, Status, code_of, unresolvable
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import NodeBuilder, PodBuilder

PROFILE = "default-scheduler"
_CODE = 1  # number that the per-table form is given to mark rejected nodes with


class PluginHarness:
    """Runs a plugin of class `kind` with `args` as in a configuration file. `pods` without a node are ignored."""

    def __init__(
        self,
        kind: type[Any],
        args: Mapping[str, Any] | None = None,
        *,
        nodes: Sequence[Node | NodeBuilder] = (),
        pods: Sequence[Pod | PodBuilder] = (),
        seed: int = 0,
    ) -> None:
        self._cache = Cache()
        for node in nodes:
            self._cache.set_node(node.obj() if isinstance(node, NodeBuilder) else node)
        for pod in pods:
            info = _info(pod)
            if info.pod.spec.node_name:
                self._cache.set_pod(info)
        self.bound: list[tuple[str, str]] = []  # (pod, node) that the plugin bound through its handle
        self.handle = Handle(table=self._cache.table, rng=random.Random(seed), bind=self._bind)
        name = kind.__name__
        config = () if args is None else (PluginConfig(name=name, args=dict(args)),)
        profile = Profile(scheduler_name=PROFILE, plugin_config=config)
        self.plugin: Any = make_plugin(inspect_plugin(name, kind, name), profile, self.handle)

    async def _bind(self, pod: PodInfo, node_name: str) -> None:
        self.bound.append((pod.key, node_name))

    # --- extension points ---

    def filter(self, pod: Pod | PodBuilder) -> dict[str, Status | None]:
        """Run PreFilter, then Filter for each node; return node name -> rejecting status, None if the node passes."""
        info, state = _info(pod), CycleState()
        names: frozenset[str] | None = None
        if hasattr(self.plugin, "pre_filter"):
            result, status = self.plugin.pre_filter(state, info)
            if code_of(status) is Code.SKIP:
                return {node.name: None for node in self._cache.table}
            if code_of(status) is not Code.SUCCESS:
                return {node.name: status for node in self._cache.table}
            names = result.node_names if result is not None else None
        outside = unresolvable(f"node(s) didn't satisfy plugin(s) [{self.plugin.name}]")
        found = {
            node.name: _rejection(self.plugin.filter(state, info, node)) if hasattr(self.plugin, "filter") else None
            for node in self._cache.table
        }
        if hasattr(self.plugin, "filter_table"):
            self._compare_filters(state, info, found)
        return {name: status if names is None or name in names else outside for name, status in found.items()}

    def score(self, pod: Pod | PodBuilder) -> dict[str, int]:
        """Score all nodes as if all were feasible.

        Return node name -> normalised score, {} if PreScore returns Skip.
        """
        info, state = _info(pod), CycleState()
        if hasattr(self.plugin, "pre_filter"):
            self.plugin.pre_filter(state, info)
        if hasattr(self.plugin, "pre_score"):
            status = self.plugin.pre_score(state, info)
            if code_of(status) is Code.SKIP:
                return {}
            _must_succeed("pre_score", status)
        scores: dict[str, int] = {}
        for node in self._cache.table:
            scores[node.name], status = self.plugin.score(state, info, node)
            _must_succeed("score", status)
        if hasattr(self.plugin, "normalize_score"):
            _must_succeed("normalize_score", self.plugin.normalize_score(state, info, scores))
        if hasattr(self.plugin, "score_table"):
            self._compare_scores(state, info, scores)
        wrong = {name: score for name, score in scores.items() if not 0 <= score <= 100}
        assert not wrong, f"expected scores from 0 to 100 after normalizing, got {wrong}"
        return scores

    def schedule(self, pod: Pod | PodBuilder) -> Decision | Rejection:
        """Run a whole scheduling cycle with this plugin only; of nodes with equal scores the first is chosen."""
        points = {
            point: [(self.plugin, 1)] for point, method in EXTENSION_POINTS.items() if hasattr(self.plugin, method)
        }
        framework = Framework(
            PROFILE, points, self.handle, observer=Measurements(), stopwatch=self.handle.stopwatch, first_on_tie=True
        )
        return framework.schedule_pod(CycleState(), _info(pod))

    # --- the two forms ---

    def _compare_filters(self, state: CycleState, pod: PodInfo, expected: Mapping[str, Status | None]) -> None:
        table, verdicts = self._cache.table, Verdicts()
        verdicts.reset(table.columns)
        self.plugin.filter_table(state, pod, table, verdicts, _CODE)
        for node in table:
            is_feasible = verdicts.code(node.row) == FEASIBLE
            found = None if is_feasible else self.plugin.explain(state, pod, verdicts.detail(node.row))
            assert _gist(found) == _gist(expected[node.name]), (
                f"{node.name}: filter says {expected[node.name]}, filter_table says {found}"
            )

    def _compare_scores(self, state: CycleState, pod: PodInfo, expected: Mapping[str, int]) -> None:
        table, verdicts, scores = self._cache.table, Verdicts(), Scores()
        verdicts.reset(table.columns)
        scores.reset(table.columns)
        self.plugin.score_table(state, pod, table, verdicts, scores)
        if hasattr(self.plugin, "normalize_table"):
            self.plugin.normalize_table(state, pod, table, verdicts, scores)
        found = {node.name: scores.raw(node.row) for node in table}
        assert found == dict(expected), f"score says {dict(expected)}, score_table says {found}"


def _info(pod: Pod | PodBuilder) -> PodInfo:
    return PodInfo(pod.obj() if isinstance(pod, PodBuilder) else pod)


def _rejection(status: Status | None) -> Status | None:
    return None if code_of(status) is Code.SUCCESS else status


def _gist(status: Status | None) -> tuple[Code, tuple[str, ...]]:
    return (Code.SUCCESS, ()) if status is None else (status.code, status.reasons)


def _must_succeed(method: str, status: Status | None) -> None:
    assert code_of(status) is Code.SUCCESS, f"{method}: {status}"
