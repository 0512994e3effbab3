"""TargetLoadPacking: fills nodes up to a target of real CPU utilisation, and avoids nodes beyond it.

Trimaran's formula: the expected utilisation is the measured one, plus the predicted usage of recent pods and of this
pod in percent of the node's capacity. Up to the target T the score rises from T to 100, beyond it falls from T to 0.

Each decision changes a node's expected usage before any sample does, and by more than the pod requests; so pods of a
profile with this plugin are decided one by one.
"""

from __future__ import annotations

from array import array

from kscheduler._fast import Scores, Verdicts, rate_target_load, score_rated
from kscheduler._fast.trimaran_formulas import target_load_of
from kscheduler.api.quantity import parse_milli
from kscheduler.config.trimaran import TargetLoadPackingArgs, default_trimaran_args, trimaran_metrics
from kscheduler.errors import DecodeError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.trimaran.late_pods import LatePods
from kscheduler.framework.plugins.trimaran.pod_use import Prediction
from kscheduler.framework.plugins.trimaran.utilisation import Utilisation
from kscheduler.framework.status import Status
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

NAME = "TargetLoadPacking"


class TargetLoadPacking:
    name = NAME

    def __init__(self, handle: Handle, args: TargetLoadPackingArgs) -> None:
        args = default_trimaran_args(args)
        defaults = args.default_requests or {}
        self._target = args.target_utilization
        self._prediction = Prediction(
            parse_milli(defaults.get("cpu", 0), "defaultRequests.cpu"), float(args.default_requests_multiplier)
        )
        self._utilisation = Utilisation(handle.telemetry, trimaran_metrics(args).cpu)
        self._late = LatePods(handle.table, lambda pod: self._prediction.cpu_milli(pod.pod), handle.telemetry)
        self._capacities = _Capacities(handle.table)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        own, row, late = self._own(pod), node.row, self._late.by_row
        missing = late[row] if row < len(late) else 0
        return target_load_of(
            self._utilisation.at(0, row), self._capacities.milli()[row], missing, own, self._target
        ), None

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        own = self._own(pod)
        used, whole = self._utilisation.values(0), self._capacities.milli()
        rates = rate_target_load(table.columns.rows, used, whole, self._late.by_row, own, self._target)
        score_rated(verdicts, scores, rates)

    def _own(self, pod: PodInfo) -> int:
        """Update utilisation and recent pods; then return the usage predicted for this pod, in milli-cores."""
        self._utilisation.follow()
        self._late.sampled(self._utilisation.sampled_at(0))
        return self._prediction.cpu_milli(pod.pod)


class _Capacities:
    """The CPU capacity of each node in milli-cores, by row, including what is reserved for the system."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._seen = -1
        self._milli: array[float] = array("d")

    def milli(self) -> array[float]:
        changes = self._table.node_changes
        if changes.count != self._seen:
            rows = changes.since(max(self._seen, 0))
            self._seen = changes.count
            self._milli.extend([0.0] * (self._table.columns.rows - len(self._milli)))
            for row in range(len(self._milli)) if rows is None else rows:
                node = self._table.find(row)
                self._milli[row] = 0.0 if node is None else _capacity(node)
        return self._milli


def _capacity(node: NodeInfo) -> float:
    try:
        return float(parse_milli((node.node.status.capacity or {}).get("cpu", "0"), "capacity.cpu"))
    except DecodeError:
        return 0.0
