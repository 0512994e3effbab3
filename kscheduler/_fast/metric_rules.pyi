from array import array
from collections.abc import Sequence
from typing import Final, final

from kscheduler._fast.columns import NodeColumns
from kscheduler._fast.metric_formulas import MetricGoal, MetricTest
from kscheduler._fast.scoring import Scores
from kscheduler._fast.verdicts import Verdicts

MAX_REASONS: Final[int]
MAX_INPUTS: Final[int]
MAX_RULE_WEIGHT: Final[int]

Doubles = array[float] | memoryview

@final
class MetricRules:
    def __new__(
        cls, columns: NodeColumns, groups: Sequence[Sequence[MetricTest]], goals: Sequence[MetricGoal], inputs: int
    ) -> MetricRules: ...
    @property
    def columns(self) -> NodeColumns: ...
    def feed(self, inputs: Sequence[Doubles], ranges: Sequence[tuple[float, float]]) -> None: ...
    def mark(self, row: int) -> int: ...
    def points(self, row: int) -> int: ...
    def filter(self, verdicts: Verdicts, code: int) -> int: ...
    def score(self, verdicts: Verdicts, scores: Scores) -> None: ...

def copy_use(columns: NodeColumns, resource: int) -> array[float]: ...
def mean_use(
    times: Doubles, uses: Sequence[Doubles], sampled: Doubles, window_s: float, now: Doubles
) -> array[float]: ...
