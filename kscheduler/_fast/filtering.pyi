from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import final

from kscheduler._fast.columns import NodeColumns, PodRequest
from kscheduler._fast.verdicts import Verdicts

def filter_profiles(
    columns: NodeColumns, verdicts: Verdicts, verdict_by_profile: bytes | bytearray | array[int], code: int
) -> int: ...
def filter_fit(columns: NodeColumns, verdicts: Verdicts, request: PodRequest, code: int) -> int: ...

@final
class Crowd:
    def __new__(cls, row: int, here: Mapping[str, object], pods: Sequence[tuple[str, int, PodRequest]]) -> Crowd: ...
    @property
    def row(self) -> int: ...

def filter_crowded(
    columns: NodeColumns,
    verdicts: Verdicts,
    request: PodRequest,
    crowds: Iterable[Crowd],
    priority: int,
    uid: str,
    code: int,
    last: int,
) -> None: ...
