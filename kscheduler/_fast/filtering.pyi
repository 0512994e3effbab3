from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import final

from kscheduler._fast.columns import NodeColumns, PodRequest
from kscheduler._fast.verdicts import Verdicts

def filter_node_classes(
    columns: NodeColumns, verdicts: Verdicts, verdict_by_node_class: bytes | bytearray | array[int], code: int
) -> int: ...
def filter_fit(columns: NodeColumns, verdicts: Verdicts, request: PodRequest, code: int) -> int: ...

@final
class RowNominated:
    def __new__(
        cls, row: int, here: Mapping[str, object], pods: Sequence[tuple[str, int, PodRequest]]
    ) -> RowNominated: ...
    @property
    def row(self) -> int: ...

def filter_with_nominated(
    columns: NodeColumns,
    verdicts: Verdicts,
    request: PodRequest,
    nominated_by_node: Iterable[RowNominated],
    priority: int,
    uid: str,
    code: int,
    last: int,
) -> None: ...
