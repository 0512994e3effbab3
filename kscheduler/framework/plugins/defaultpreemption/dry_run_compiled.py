"""Preemption's dry runs on many nodes at once, by kernels. They find what `WhatIfDryRun` would find node by node.

Where the kernels cannot decide, `WhatIfDryRun` does: everywhere if one of the profile's filters cannot state its
requirements as numbers (`Demands`), and on a node whose nominated pods are on it already, or count for filters in ways
that the numbers do not cover.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from kscheduler._fast import NOBODY, Residents, Verdicts, clear_nodes, spare_pods
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_runs import Candidate, Findings
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.defaultpreemption.dry_run import NO_VICTIMS, WhatIfDryRun
from kscheduler.framework.plugins.defaultpreemption.dry_run_residents import KeptNominated, KeptPods, NodePods
from kscheduler.framework.plugins.defaultpreemption.dry_run_rules import Rules, Weights, rules_of
from kscheduler.framework.plugins.defaultpreemption.protection import Protection
from kscheduler.framework.preemption.candidates import candidate_of
from kscheduler.framework.status import Status
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo

# Number of nodes tried in one call: enough to make calls cheap, and few enough that little is computed in vain.
BATCH = 128


class CompiledDryRun:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._what_ifs = WhatIfDryRun(handle)
        self._kept = KeptPods(handle.table)
        self._nominated = KeptNominated(handle, self._kept)
        self._verdicts = Verdicts()

    def search(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], wanted: int) -> Findings:
        handle = self._handle
        profile = handle.profiles[state.decider or pod.pod.spec.scheduler_name]
        rules = rules_of(profile, state, pod, handle.table, self._verdicts)
        if rules is None:
            return self._what_ifs.search(state, pod, nodes, wanted)
        self._kept.begin(needs_kinds=bool(rules.tallies) or len(handle.budgets) > 0)
        self._nominated.begin()
        kernels = _Kernels(handle, self._kept, self._nominated, rules, pod)
        findings = Findings(wanted)
        for start in range(0, len(nodes), BATCH):
            batch = nodes[start : start + BATCH]
            for node, found in zip(batch, kernels.try_nodes(batch), strict=True):
                if found is None:
                    found = self._what_ifs.try_node(state, pod, node, kernels.now)
                findings.add(node.name, found)
                if findings.is_enough:
                    return findings
        return findings


class _Kernels:
    """Makes one preemptor's dry runs on many nodes at once by kernels."""

    def __init__(self, handle: Handle, kept: KeptPods, nominated: KeptNominated, rules: Rules, pod: PodInfo) -> None:
        self._handle = handle
        self._kept = kept
        self._kept_nominated = nominated
        self._rules = rules
        self._pod = pod
        self.now = handle.evictions.wall()
        self._weights = Weights(rules.tallies, kept.kinds)
        stops = handle.release.stops_at_overdrawn_budget
        self._protection = Protection(handle.budgets, kept.kinds, stops_at_overdrawn=stops)
        # Node name -> pods expected there that the pod must leave their room; None: kernels cannot decide.
        self._nominated: dict[str, NodePods | None] = {}

    def _expect(self, nodes: Sequence[NodeInfo]) -> None:
        """Look up the nominated pods of these nodes, which are tried next."""
        self._nominated.clear()
        if not self._handle.nominations:
            return
        for node in nodes:
            nominated = self._kept_nominated.on(node, self._pod, self.now)
            if nominated is None:
                continue
            # A pod that is nominated to a node where it already is would be counted twice.
            is_muddled = any(other.uid in node.pods for other in nominated.pods) or not self._rules.know(nominated.pods)
            self._nominated[node.name] = None if is_muddled else nominated

    def try_nodes(self, nodes: Sequence[NodeInfo]) -> list[Candidate | Status | None]:
        """Return for each node what `WhatIfDryRun.try_node` would return; None where that has to be called instead."""
        self._expect(nodes)
        trials = list(zip(nodes, self._kept.of_each(nodes, self.now), strict=True))
        # 1. All pods of lower priority leave. Does it help at all?
        obstacles = self._clear(trials)
        # 2. Where it does, pods come back one by one where the pod still fits.
        helpful = [trial for trial, (place, _) in zip(trials, obstacles, strict=True) if not place]
        candidates = iter(self._candidates(helpful))
        # 3. In the order of the nodes.
        status = self._rules.status
        found: list[Candidate | Status | None] = [
            (NO_VICTIMS if place == NOBODY else status(place, detail)) if place else next(candidates)
            for place, detail in obstacles
        ]
        if self._nominated:
            for number, node in enumerate(nodes):
                if node.name in self._nominated and self._nominated[node.name] is None:
                    found[number] = None
        return found

    def _clear(self, trials: Sequence[_Trial]) -> list[tuple[int, int]]:
        if self._rules.tallies:
            nominated_by_node = (
                nominated.distinct_kinds for nominated in self._nominated.values() if nominated is not None
            )
            self._weights.learn([*(here.distinct_kinds for _, here in trials), *nominated_by_node])
        rules, columns = self._rules, self._handle.table.columns
        return clear_nodes(columns, rules.verdicts, rules.conditions, *self._laid_out(trials))

    def _candidates(self, trials: Sequence[_Trial]) -> list[Candidate | Status]:
        violating = [self._protection.violating(here, here.first_below(self._pod.priority)) for _, here in trials]
        columns, conditions = self._handle.table.columns, self._rules.conditions
        unspared = spare_pods(columns, conditions, *self._laid_out(trials), b"".join(violating))
        return [
            candidate_of(node.name, [here.pods[i] for i in guarded], [here.pods[i] for i in others], self.now)
            for (node, here), (guarded, others) in zip(trials, unspared, strict=True)
        ]

    def _laid_out(
        self, trials: Sequence[_Trial]
    ) -> tuple[list[int], list[Residents], list[Residents | None], array[int], bytes]:
        """Return the description of these nodes that both kernels take as arguments.

        For each node: its row, the pods on it, and its nominated pods or None. Then, for each kind of pods, by how much
        one pod changes each count of pods by topology domain. Last, a byte for each node and each count: 0 if pods that
        come to the node or leave it do not change that count.
        """
        return (
            [node.row for node, _ in trials],
            [here.residents for _, here in trials],
            [self._nominated_here(node) for node, _ in trials] if self._nominated else [None] * len(trials),
            self._weights.values,
            self._rules.counted([node for node, _ in trials]),
        )

    def _nominated_here(self, node: NodeInfo) -> Residents | None:
        nominated = self._nominated.get(node.name)
        return None if nominated is None else nominated.residents


_Trial = tuple[NodeInfo, NodePods]
