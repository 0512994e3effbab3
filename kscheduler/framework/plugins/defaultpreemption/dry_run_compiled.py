"""Dry runs on many nodes at once, by the kernels. What they find is what `WhatIfDryRun` would, node by node.

Where the kernels cannot tell, what-ifs are asked: everywhere if one of the profile's filters does not say what it
goes by, and on a node to which a pod is nominated that is there already, or that the filters do not expect.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kscheduler._fast import NOBODY, Residents, Verdicts, clear_nodes, spare_pods
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.defaultpreemption.candidates import Candidate, Findings
from kscheduler.framework.plugins.defaultpreemption.dry_run import NO_VICTIMS, WhatIfDryRun, candidate_of
from kscheduler.framework.plugins.defaultpreemption.dry_run_residents import KeptPods, NodePods
from kscheduler.framework.plugins.defaultpreemption.dry_run_rules import Rules, rules_of
from kscheduler.framework.plugins.defaultpreemption.protection import split
from kscheduler.framework.status import Status
from kscheduler.snapshot.disruption_budgets import DisruptionBudgets
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

# Nodes tried in one go: enough to make the calls cheap, and few enough that little is found out in vain.
BATCH = 128


class CompiledDryRun:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._what_ifs = WhatIfDryRun(handle)
        self._kept = KeptPods(handle.table)
        self._verdicts = Verdicts()

    def search(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], wanted: int) -> Findings:
        handle = self._handle
        profile = handle.profiles[pod.pod.spec.scheduler_name]
        rules = rules_of(profile, state, pod, handle.table, self._verdicts)
        if rules is None:
            return self._what_ifs.search(state, pod, nodes, wanted)
        findings = Findings(wanted)
        now = handle.evictions.wall()
        kernels = _Kernels(handle.table, handle.budgets, rules, pod, now)
        crowds = {name: crowd for name in handle.nominations.nodes() if (crowd := self._crowd(pod, name))}
        for start in range(0, len(nodes), BATCH):
            # 1. Ask the kernels about these, but for those that they cannot tell.
            batch = nodes[start : start + BATCH]
            trials = [self._trial(rules, node, crowds.get(node.name, ()), now) for node in batch]
            told = kernels.answers([trial for trial in trials if not trial.is_muddled])
            # 2. In the order of the nodes, until it is enough.
            for trial in trials:
                node = trial.node
                found = self._what_ifs.try_node(state, pod, node, now) if trial.is_muddled else next(told)
                findings.add(node.name, found)
                if findings.is_enough:
                    return findings
        return findings

    def _trial(self, rules: Rules, node: NodeInfo, crowd: Sequence[PodInfo], now: float) -> _Trial:
        here = self._kept.of(node, now)
        if not crowd:
            return _Trial(node, here)
        # A pod that is expected where it is already would be counted twice.
        is_muddled = any(other.uid in node.pods for other in crowd) or not rules.know(crowd)
        return _Trial(node, here, crowd, is_muddled)

    def _crowd(self, pod: PodInfo, node_name: str) -> list[PodInfo]:
        """The pods nominated to a node to which the pod must leave their room, the most important first."""
        nominated = self._handle.nominations.on(node_name)
        crowd = [other for other in nominated if other.priority >= pod.priority and other.uid != pod.uid]
        return sorted(crowd, key=lambda other: -other.priority)


@dataclass(frozen=True, slots=True)
class _Trial:
    node: NodeInfo
    here: NodePods
    crowd: Sequence[PodInfo] = ()
    is_muddled: bool = False  # beyond what the kernels can tell


class _Kernels:
    """One pod's dry runs."""

    def __init__(self, table: NodeTable, budgets: DisruptionBudgets, rules: Rules, pod: PodInfo, now: float) -> None:
        self._table = table
        self._budgets = budgets
        self._rules = rules
        self._pod = pod
        self._now = now

    def answers(self, trials: Sequence[_Trial]) -> Iterator[Candidate | Status]:
        """What `WhatIfDryRun.try_node` would say of each."""
        # 1. Everybody of lower priority leaves. Does it help at all?
        weights = [self._weights(trial) for trial in trials]
        columns, rules = self._table.columns, self._rules
        obstacles = clear_nodes(columns, rules.verdicts, rules.conditions, *self._laid_out(trials, weights))
        # 2. Where it does, whoever can comes back.
        helped = [number for number, (place, _) in enumerate(obstacles) if not place]
        helpful = [trials[number] for number in helped]
        spared = spare_pods(
            columns,
            rules.conditions,
            *self._laid_out(helpful, [weights[number] for number in helped]),
            b"".join(map(self._violating, helpful)),
        )
        victims = iter(spared)
        for trial, (place, detail) in zip(trials, obstacles, strict=True):
            if place == NOBODY:
                yield NO_VICTIMS
            elif place:
                yield rules.status(place, detail)
            else:
                yield self._candidate(trial, *next(victims))

    def _weights(self, trial: _Trial) -> list[int]:
        return self._rules.weights((*trial.here.pods, *trial.crowd), trial.node) if self._rules.tallies else []

    def _laid_out(
        self, trials: Sequence[_Trial], weights: Sequence[Sequence[int]]
    ) -> tuple[list[int], list[Residents], list[Residents | None], array[int]]:
        """Rows, residents, crowds and weights, as the kernels take them."""
        flat = array("q", (weight for of_node in weights for weight in of_node))
        return (
            [trial.node.row for trial in trials],
            [trial.here.residents for trial in trials],
            [self._residents(trial.crowd) if trial.crowd else None for trial in trials],
            flat,
        )

    def _residents(self, pods: Sequence[PodInfo]) -> Residents:
        return Residents(pods, [(pod.priority, self._table.request_of(pod)) for pod in pods])

    def _violating(self, trial: _Trial) -> bytes:
        """For each pod 1 if its end would violate a budget, once all of lower priority have left."""
        pods = trial.here.pods
        if not len(self._budgets):
            return bytes(len(pods))
        violating, _ = split([pod for pod in pods if pod.priority < self._pod.priority], self._budgets)
        uids = {pod.uid for pod in violating}
        return bytes(pod.uid in uids for pod in pods)

    def _candidate(self, trial: _Trial, violating: Sequence[int], others: Sequence[int]) -> Candidate | Status:
        pods = trial.here.pods
        return candidate_of(
            trial.node.name, [pods[each] for each in violating], [pods[each] for each in others], self._now
        )
