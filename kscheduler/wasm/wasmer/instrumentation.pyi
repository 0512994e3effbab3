from collections.abc import Sequence
from typing import final

from kscheduler.wasm.engine import Import, MemoryType

PAGE_EXPORT: str
START_EXPORT: str
MAX_TABLE_ENTRIES: int

class Unsupported(ValueError): ...

def instrumented(wasm: bytes, imports: Sequence[Import], memories: Sequence[MemoryType]) -> bytes: ...
def table_minimums(wasm: bytes) -> list[int]: ...

@final
class Reader:
    def __init__(self, data: bytes) -> None: ...
