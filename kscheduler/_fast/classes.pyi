from array import array
from collections.abc import Sequence
from typing import final

from kscheduler._fast.columns import NodeColumns, PodRequest

@final
class PodClass:
    def __new__(
        cls, columns: NodeColumns, request: PodRequest, verdict_by_profile: bytes | bytearray | array[int]
    ) -> PodClass: ...
    @property
    def columns(self) -> NodeColumns: ...
    @property
    def request(self) -> PodRequest: ...
    def score_least_allocated(
        self, resources: Sequence[tuple[int, int]], weight: int, request: PodRequest | None = None
    ) -> None: ...
    def score_most_allocated(
        self, resources: Sequence[tuple[int, int]], weight: int, request: PodRequest | None = None
    ) -> None: ...
    def score_requested_to_capacity_ratio(
        self,
        resources: Sequence[tuple[int, int]],
        shape: Sequence[tuple[int, int]],
        weight: int,
        request: PodRequest | None = None,
    ) -> None: ...
    def score_balanced(self, resources: Sequence[int], weight: int) -> None: ...
    def score_profiles(self, value_by_profile: array[int], reverse: bool, weight: int) -> None: ...
    def score_rows(self, score_by_row: bytes | bytearray, weight: int) -> None: ...
