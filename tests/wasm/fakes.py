"""Guests without WebAssembly: a module whose instances do as the test says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kscheduler.wasm.engine import (
    DEFAULT_LIMITS,
    ExternType,
    FaultKind,
    GuestFault,
    HostFunction,
    Import,
    Limits,
    Output,
    Wasi,
)


class FakeInstance:
    """`call` answers how many calls there were; "trap" breaks it."""

    def __init__(self, module: FakeModule, number: int, limits: Limits) -> None:
        self.module = module
        self.number = number
        self.limits = limits
        self.output = Output(limits.output_bytes)
        self.deadline_s = limits.deadline_s
        self.data: object = None
        self.is_broken = False
        self.is_closed = False
        self.is_started = False
        self.calls = 0
        self.memory_bytes = 65_536

    def start(self) -> None:
        self.is_started = True
        if self.module.fails_at_start:
            self._fail("start")

    def call(self, export: str, *args: int | float) -> int:
        assert not self.is_closed, "called after close"
        if export == "trap" or (export == "configure" and self.module.fails_at_setup):
            self._fail(export)
        self.calls += 1
        return self.calls

    def _fail(self, export: str) -> None:
        self.is_broken = True
        raise GuestFault(FaultKind.TRAP, f"{export}: trapped")

    def prepare(self, export: str) -> Callable[..., int | float | None]:
        return lambda *args: self.call(export, *args)

    def read(self, address: int, size: int) -> bytes:
        return bytes(size)

    def write(self, address: int, data: bytes | bytearray | memoryview) -> None:
        pass

    def view(self, address: int, size: int) -> memoryview:
        return memoryview(bytearray(size))

    def close(self) -> None:
        self.is_closed = True


class FakeModule:
    exports: Mapping[str, ExternType] = {}
    imports: Sequence[Import] = ()

    def __init__(self) -> None:
        self.made: list[FakeInstance] = []
        self.fails_at_start = False
        self.fails_at_setup = False

    @property
    def open(self) -> int:
        """Instances that were made and not closed."""
        return sum(not each.is_closed for each in self.made)

    def serialize(self) -> bytes:
        return b""

    def instantiate(
        self, functions: Iterable[HostFunction] = (), limits: Limits = DEFAULT_LIMITS, *, wasi: Wasi | None = None
    ) -> FakeInstance:
        self.made.append(FakeInstance(self, len(self.made), limits))
        return self.made[-1]


class Reports:
    """A pool observer that records all notifications."""

    def __init__(self) -> None:
        self.calls: list[str] = []  # kinds of faults
        self.sizes: list[tuple[int, int]] = []  # instances, pages
        self.quarantines: list[tuple[bool, str]] = []

    def wasm_called(self, plugin: str, seconds: float, fault: str) -> None:
        self.calls.append(fault)

    def wasm_sizes(self, plugin: str, instances: int, memory_pages: int) -> None:
        self.sizes.append((instances, memory_pages))

    def wasm_quarantined(self, plugin: str, quarantined: bool, reason: str) -> None:
        self.quarantines.append((quarantined, reason))
