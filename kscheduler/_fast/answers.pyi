from collections.abc import Callable
from typing import final

from kscheduler._fast.columns import NodeColumns

@final
class RowAnswers:
    def __new__(
        cls,
        columns: NodeColumns,
        ask: Callable[[bytes | None], bytes | bytearray],
        marks: bool,
        low: int = 0,
        high: int = 0,
        *,
        follows_amounts: bool = True,
    ) -> RowAnswers: ...
    @property
    def columns(self) -> NodeColumns: ...
    @property
    def entries(self) -> memoryview: ...
    def doubt(self, rows: bytes | None) -> None: ...
    def refresh(self) -> None: ...
