"""What an engine is to the rest: modules, instances, their limits and their faults. No engine is imported here.

Numbers cross as in WebAssembly: an i32 or i64 that comes out of a guest is signed; what goes in may be signed or
unsigned and is cut to its width. So an address from a guest may be negative; `read`, `write` and `view` refuse it.

    compile(wasm) -> Module -- instantiate --> Instance -- start() --> call, read, write ... close
                        serialize, load              any fault: is_broken, only `close` is left
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kscheduler.errors import KSchedulerError

PAGE_BYTES = 65_536
MEBIBYTE = 1 << 20
STACK_BYTES = 512 * 1024  # of every guest: the engine's, since wasmtime has one limit for all
MEMORY = "memory"  # the export under which every toolchain gives its linear memory


class FaultKind(enum.Enum):
    """Why a guest was stopped; the values are the `kind` label of the metrics."""

    TRAP = "trap"  # unreachable, division by zero, an access outside its memory, its stack used up
    DEADLINE = "deadline"  # a call used more CPU time than its limit, or took very long
    MEMORY = "memory"  # it asks for more than its cap, or names a range outside its memory to the host
    EXIT = "exit"  # proc_exit, other than with 0 from _start
    BAD_MODULE = "bad_module"  # not WebAssembly, or an export is missing or has the wrong type
    BAD_IMPORT = "bad_import"  # it needs what the host does not offer
    HOST = "host"  # a host function raised
    BAD_ANSWER = "bad_answer"  # what it returned breaks its contract: a count, a code, an encoding


class GuestFault(KSchedulerError):
    """A guest, or what it asked of the host, went wrong: one line, without a stack of the host."""

    def __init__(self, kind: FaultKind, message: str, output: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.output = output  # what the guest wrote to stdout and stderr; bounded


class EngineUnavailable(KSchedulerError):
    """The engine cannot run here; the message says what to install, or which one to use instead."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one instance may use. Deadlines are CPU time: a guest cannot help it when the machine has none for it."""

    memory_bytes: int = 64 * MEBIBYTE
    deadline_s: float = 0.020  # of each call, with the host functions that it calls
    start_deadline_s: float = 1.0  # of `start`, where a language's run time sets itself up
    output_bytes: int = 4096


DEFAULT_LIMITS = Limits()


def patience_s(deadline_s: float) -> float:
    """Time on the wall after which a call is ended however little CPU time it had: it may wait for what never comes."""
    return max(2.0, 10 * deadline_s)


@dataclass(frozen=True, slots=True)
class FuncType:
    """Of a function: letters "i" i32, "I" i64, "f" f32, "F" f64, and "?" for what the host cannot pass."""

    params: str
    results: str

    def __str__(self) -> str:
        return f"({', '.join(_NAMES[c] for c in self.params)}) -> ({', '.join(_NAMES[c] for c in self.results)})"


_NAMES = {"i": "i32", "I": "i64", "f": "f32", "F": "f64", "?": "reference or vector"}


@dataclass(frozen=True, slots=True)
class MemoryType:
    """Of a linear memory, in pages of 64 KiB."""

    minimum_pages: int
    maximum_pages: int | None = None

    def __str__(self) -> str:
        return f"memory of {self.minimum_pages}..{'' if self.maximum_pages is None else self.maximum_pages} pages"


@dataclass(frozen=True, slots=True)
class OtherType:
    """Of what the host never uses: "global", "table", "tag"."""

    kind: str

    def __str__(self) -> str:
        return self.kind


ExternType = FuncType | MemoryType | OtherType


@dataclass(frozen=True, slots=True)
class Import:
    module: str
    name: str
    type: ExternType


@dataclass(frozen=True, slots=True)
class HostFunction:
    """What a guest may import. It runs on the calling thread, with the GIL.

    What it raises stops the guest and comes out of that instance's call: a GuestFault as it is, anything else as
    GuestFault(HOST) with the exception as its cause.
    """

    module: str
    name: str
    params: str
    results: str  # "" or one letter
    function: Callable[..., int | float | None]  # (instance, *numbers)

    @property
    def type(self) -> FuncType:
        return FuncType(self.params, self.results)


@dataclass(frozen=True, slots=True)
class Wasi:
    """WASI preview 1, as much as a plugin's run time needs: arguments, captured output, clocks, random bytes.

    No environment, no files, no sockets.
    """

    args: Sequence[str] = ()
    clock: Callable[[], int] | None = None  # () -> nanoseconds since 1970; None for the machine's
    random: Callable[[int], bytes] | None = None  # n -> n bytes; None for the system's


@dataclass(slots=True)
class Output:
    """The first bytes of what a guest wrote to stdout and stderr; the rest is counted."""

    limit: int
    data: bytearray = field(default_factory=bytearray)
    dropped: int = 0  # bytes beyond the limit

    def add(self, piece: bytes) -> None:
        kept = piece[: max(0, self.limit - len(self.data))]
        self.data += kept
        self.dropped += len(piece) - len(kept)

    def text(self) -> str:
        more = f"... {self.dropped} bytes more" if self.dropped else ""
        return self.data.decode("utf-8", "replace") + more

    def clear(self) -> None:
        self.data.clear()
        self.dropped = 0


class Instance(Protocol):
    """A guest with its own memory. One thread at a time; calls release the GIL, so two instances run in parallel."""

    deadline_s: float  # of the next calls; begins as limits.deadline_s
    data: object  # the caller's own, for its host functions; None at first

    @property
    def limits(self) -> Limits: ...

    @property
    def output(self) -> Output: ...

    @property
    def is_broken(self) -> bool:
        """After any fault; every further call raises."""
        ...

    @property
    def memory_bytes(self) -> int:
        """Present size of the exported memory; 0 without one."""
        ...

    def start(self) -> None:
        """Run `_initialize`, else `_start`, else nothing. An exit with 0 is success."""
        ...

    def call(self, export: str, *args: int | float) -> int | float | None:
        """Call an exported function."""
        ...

    def prepare(self, export: str) -> Callable[..., int | float | None]:
        """The same call, bound once, for those that are made often. It dies with the instance."""
        ...

    def read(self, address: int, size: int) -> bytes: ...

    def write(self, address: int, data: bytes | bytearray | memoryview) -> None: ...

    def view(self, address: int, size: int) -> memoryview:
        """The guest's own bytes, writable. It keeps the memory alive after `close`.

        Release it before the next call: where the memory may move in that call, the call is refused.
        """
        ...

    def close(self) -> None:
        """Free it; twice is fine."""
        ...


class Module(Protocol):
    """Compiled code without state; any thread may use it."""

    @property
    def exports(self) -> Mapping[str, ExternType]: ...

    @property
    def imports(self) -> Sequence[Import]: ...

    def serialize(self) -> bytes:
        """For `Engine.load` of the same engine version on the same machine."""
        ...

    def instantiate(
        self, functions: Iterable[HostFunction] = (), limits: Limits = DEFAULT_LIMITS, *, wasi: Wasi | None = None
    ) -> Instance:
        """Link and instantiate; `start` is the caller's to call, when its host functions are ready."""
        ...


class Engine(Protocol):
    """Compiles modules. One a process is enough."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """With whatever else makes serialized code its own."""
        ...

    def compile(self, wasm: bytes) -> Module: ...

    def load(self, serialized: bytes) -> Module:
        """What `serialize` gave. It is native code: only bytes that this program wrote and checked by digest."""
        ...
