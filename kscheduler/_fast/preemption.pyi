from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import final

from kscheduler._fast.columns import NodeColumns, PodRequest
from kscheduler._fast.verdicts import Verdicts

_Tally = tuple[int, int, int, array[int], array[int], array[int] | None]

@final
class Residents:
    def __new__(cls, members: Iterable[object], pods: Sequence[tuple[int, PodRequest, int]]) -> Residents: ...
    def __len__(self) -> int: ...
    def are(self, pods: Mapping[str, object]) -> bool: ...

@final
class Conditions:
    def __new__(
        cls,
        columns: NodeColumns,
        priority: int,
        request: PodRequest,
        room_place: int,
        tallies: Sequence[_Tally],
        may_be_first: bool,
    ) -> Conditions: ...
    @property
    def tallies(self) -> int: ...

def clear_nodes(
    columns: NodeColumns,
    verdicts: Verdicts,
    conditions: Conditions,
    rows: Sequence[int],
    residents: Sequence[Residents],
    nominated_by_node: Sequence[Residents | None],
    weights: array[int],
    counted: bytes | bytearray,
) -> list[tuple[int, int]]: ...
def spare_pods(
    columns: NodeColumns,
    conditions: Conditions,
    rows: Sequence[int],
    residents: Sequence[Residents],
    nominated_by_node: Sequence[Residents | None],
    weights: array[int],
    counted: bytes | bytearray,
    violating: bytes | bytearray,
) -> list[tuple[list[int], list[int]]]: ...
