from collections.abc import Callable
from typing import final

from kscheduler._fast.columns import NodeColumns

@final
class RowAnswers:
    def __new__(
        cls,
        columns: NodeColumns,
        ask: Callable[[bytes | None], bytes],
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
    def refresh(self) -> None: ...
    def renew(self, rows: bytes | None) -> None: ...
