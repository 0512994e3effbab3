from array import array

from kscheduler._fast.columns import NodeColumns
from kscheduler._fast.scoring import Scores
from kscheduler._fast.verdicts import Verdicts

_Doubles = array[float] | memoryview

def rate_target_load(
    rows: int, used: _Doubles, whole: _Doubles, missing: array[int], own: int, target: int
) -> bytes: ...
def rate_load_variation(
    columns: NodeColumns,
    cpu: _Doubles,
    cpu_deviation: _Doubles,
    memory: _Doubles,
    memory_deviation: _Doubles,
    own_cpu: int,
    own_memory: int,
    margin: float,
    sensitivity: float,
) -> bytes: ...
def score_rated(verdicts: Verdicts, scores: Scores, rates: bytes) -> None: ...
