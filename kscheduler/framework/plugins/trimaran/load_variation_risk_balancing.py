"""LoadVariationRiskBalancing: prefers nodes whose real usage, with the pod, is low and varies little.

Trimaran's formula: risk = (mean + margin · deviation^(1/sensitivity)) / 2, where mean and deviation are fractions of
the node's capacity, at most 1. The score is 1 - risk, in percent, for CPU or memory, whichever is riskier.
"""

from __future__ import annotations

from collections import OrderedDict

from kscheduler._fast import CPU, MEMORY, Scores, Verdicts, rate_load_variation, score_rated
from kscheduler._fast.trimaran_formulas import MEBI, load_variation_of
from kscheduler.config.trimaran import LoadVariationRiskBalancingArgs, default_trimaran_args, trimaran_metrics
from kscheduler.framework.class_draft import ClassDraft, Source
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.trimaran.pod_use import requested
from kscheduler.framework.plugins.trimaran.utilisation import Utilisation
from kscheduler.framework.status import Status
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

NAME = "LoadVariationRiskBalancing"
MAX_KEPT = 256  # requests whose scores are kept, a byte a row each


class LoadVariationRiskBalancing:
    name = NAME
    signs_metadata = False

    def __init__(self, handle: Handle, args: LoadVariationRiskBalancingArgs) -> None:
        args = default_trimaran_args(args)
        names = trimaran_metrics(args)
        self._table = handle.table
        self._margin = args.safe_variance_margin
        self._sensitivity = args.safe_variance_sensitivity
        self._utilisation = Utilisation(
            handle.telemetry, names.cpu, names.cpu_deviation, names.memory, names.memory_deviation
        )
        self._kept: OrderedDict[tuple[int, int], bytes] = OrderedDict()  # request -> a byte a row
        self._kept_at = (-1, -1)  # version of the values, changes of nodes

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        self._utilisation.follow()
        columns, row, (cpu, memory) = self._table.columns, node.row, requested(pod.pod)
        has_cpu, has_memory = float(columns.allocatable(row, CPU)), float(columns.allocatable(row, MEMORY))
        at = self._utilisation.at
        of_cpu = at(0, row), at(1, row), has_cpu, float(cpu)
        of_memory = at(2, row), at(3, row), has_memory * MEBI, float(memory) * MEBI
        return load_variation_of(of_cpu, of_memory, self._margin, self._sensitivity), None

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        score_rated(verdicts, scores, self._rates(pod))

    def _rates(self, pod: PodInfo) -> bytes:
        """Return the scores of all nodes by row for this pod, kept until values or nodes change."""
        now = (self._utilisation.follow(), self._table.node_changes.count)
        if now != self._kept_at:
            self._kept.clear()
            self._kept_at = now
        own = requested(pod.pod)
        found = self._kept.get(own)
        if found is None:
            found = self._kept[own] = self._rate(*own)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return found

    def _rate(self, own_cpu: int, own_memory: int) -> bytes:
        values = self._utilisation.values
        return rate_load_variation(
            self._table.columns, values(0), values(1), values(2), values(3), own_cpu, own_memory,
            self._margin, self._sensitivity,
        )  # fmt: skip

    # --- the compiled lane ---

    def follow(self) -> int:
        return self._utilisation.follow()

    def sign_pod(self, pod: PodInfo) -> tuple[int, int]:
        return requested(pod.pod)

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        draft.depends_on(Source.METRICS, Source.OBJECTS)
        draft.score_rows(self._rates(pod))
        return True
