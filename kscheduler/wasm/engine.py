"""The interface of wasm engines: modules, instances, their limits and their faults. No engine is imported here.

Numbers are passed as in WebAssembly: an i32 or i64 from a guest is signed; one to a guest may be signed or unsigned
and is cut to its width. So an address from a guest may be negative; `read`, `write` and `view` refuse it.

    compile(wasm) -> Module -- instantiate --> Instance -- start() --> call, read, write ... close
                     serialize, load           after a fault: is_broken, and only `close` may be called
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kscheduler.counted import counted
from kscheduler.errors import KSchedulerError

NAMES = ("wasmtime", "wasmer")  # of the engines there are, the default one first
PAGE_BYTES = 65_536
MEBIBYTE = 1 << 20
STACK_BYTES = 512 * 1024  # stack of every guest, set for the engine, since wasmtime has one limit for all
MEMORY = "memory"  # the export under which every toolchain gives its linear memory


class FaultKind(enum.Enum):
    """Why a guest was stopped; the values are the `kind` label of the metrics."""

    TRAP = "trap"  # unreachable, division by zero, an access outside its memory, its stack used up
    DEADLINE = "deadline"  # a call used more CPU time than its limit, or took very long
    MEMORY = "memory"  # it needs more than its limit, or passes a range outside its memory to the host
    EXIT = "exit"  # it called proc_exit, other than with 0 from _start
    BAD_MODULE = "bad_module"  # not WebAssembly, or an export is missing or has the wrong type
    BAD_IMPORT = "bad_import"  # it imports something that the host does not provide
    HOST = "host"  # a host function raised
    BAD_ANSWER = "bad_answer"  # its answer breaks the ABI: a count, a code, an encoding


class GuestFault(KSchedulerError):
    """A guest, or a host function that it called, failed. The message is one line without a Python traceback."""

    def __init__(self, kind: FaultKind, message: str, output: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.output = output  # the guest's stdout and stderr, limited in size


class EngineUnavailable(KSchedulerError):
    """The engine cannot run here; the message says what to install, or which engine to use instead."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one instance. Deadlines are CPU time, so that a busy machine does not make a guest fail."""

    memory_bytes: int = 64 * MEBIBYTE
    deadline_s: float = 0.020  # for each call, including the host functions that it calls
    start_deadline_s: float = 1.0  # for `start`, in which a language's run time initialises itself
    output_bytes: int = 4096


DEFAULT_LIMITS = Limits()


def patience_s(deadline_s: float) -> float:
    """Return the wall-clock seconds after which a call is ended even if it used little CPU time."""
    return max(2.0, 10 * deadline_s)


@dataclass(frozen=True, slots=True)
class FuncType:
    """A function's type as letters: "i" i32, "I" i64, "f" f32, "F" f64, "?" any type that the host cannot pass."""

    params: str
    results: str

    def __str__(self) -> str:
        return f"({', '.join(_NAMES[c] for c in self.params)}) -> ({', '.join(_NAMES[c] for c in self.results)})"


_NAMES = {"i": "i32", "I": "i64", "f": "f32", "F": "f64", "?": "reference or vector"}


@dataclass(frozen=True, slots=True)
class MemoryType:
    """The type of a linear memory, in pages of 64 KiB."""

    minimum_pages: int
    maximum_pages: int | None = None

    def __str__(self) -> str:
        return f"memory of {self.minimum_pages}..{'' if self.maximum_pages is None else self.maximum_pages} pages"


@dataclass(frozen=True, slots=True)
class OtherType:
    """The type of an import or export that the host never uses: "global", "table" or "tag"."""

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
    """A function that a guest may import. It runs on the thread that calls the guest, and holds the GIL.

    An exception stops the guest, and the call of the instance raises a GuestFault: the same one, or one of the kind
    HOST with the exception as its cause.
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
    """The part of WASI preview 1 that a language's run time needs: arguments, captured output, clocks, random bytes.

    It offers no environment, files or sockets.
    """

    args: Sequence[str] = ()
    clock: Callable[[], int] | None = None  # () -> nanoseconds since 1970; None: the machine's clocks
    random: Callable[[int], bytes] | None = None  # n -> n bytes; None: the system's random source


@dataclass(slots=True)
class Output:
    """A guest's output to stdout and stderr: the first `limit` bytes are kept, the others only counted."""

    limit: int
    data: bytearray = field(default_factory=bytearray)
    dropped: int = 0  # bytes beyond the limit

    def add(self, piece: bytes) -> None:
        kept = piece[: max(0, self.limit - len(self.data))]
        self.data += kept
        self.dropped += len(piece) - len(kept)

    def text(self) -> str:
        more = f"... {counted(self.dropped, 'more byte')}" if self.dropped else ""
        return self.data.decode("utf-8", "replace") + more

    def clear(self) -> None:
        self.data.clear()
        self.dropped = 0


class Instance(Protocol):
    """A running guest with its own memory, for one thread at a time.

    Calls release the GIL, so instances run in parallel.
    """

    deadline_s: float  # CPU time of the next calls; initially limits.deadline_s
    data: object  # for the caller and its host functions; None at first

    @property
    def limits(self) -> Limits: ...

    @property
    def output(self) -> Output: ...

    @property
    def is_broken(self) -> bool:
        """True if a call of the instance failed; every further call raises."""
        ...

    @property
    def memory_bytes(self) -> int:
        """The current size of the exported memory in bytes; 0 if there is none."""
        ...

    def start(self) -> None:
        """Initialise the guest: run its export `_initialize`, else `_start`, else nothing. Exit code 0 is success."""
        ...

    def call(self, export: str, *args: int | float) -> int | float | None:
        """Call an exported function and return its result. Raises GuestFault."""
        ...

    def prepare(self, export: str) -> Callable[..., int | float | None]:
        """Return a function that calls the export, which is faster for frequent calls.

        It is valid as long as the instance.
        """
        ...

    def read(self, address: int, size: int) -> bytes: ...

    def write(self, address: int, data: bytes | bytearray | memoryview) -> None: ...

    def view(self, address: int, size: int) -> memoryview:
        """Return a writable view of the guest's memory, which keeps the memory alive even after `close`.

        Release it before the next call; a call in which the memory may move is refused otherwise.
        """
        ...

    def close(self) -> None:
        """Free the instance; it may be closed twice."""
        ...


class Module(Protocol):
    """A compiled guest without state; any thread may use it."""

    @property
    def exports(self) -> Mapping[str, ExternType]: ...

    @property
    def imports(self) -> Sequence[Import]: ...

    def serialize(self) -> bytes:
        """Return the compiled code, for `Engine.load` of the same engine version on the same machine."""
        ...

    def instantiate(
        self, functions: Iterable[HostFunction] = (), limits: Limits = DEFAULT_LIMITS, *, wasi: Wasi | None = None
    ) -> Instance:
        """Make an instance with these host functions. Call its `start` when they are ready."""
        ...


class Engine(Protocol):
    """Compiles wasm modules. One engine per process is enough."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """The engine's version, including everything else that serialized code depends on."""
        ...

    def compile(self, wasm: bytes) -> Module: ...

    def load(self, serialized: bytes) -> Module:
        """Load a module from what `serialize` returned.

        That is native code: only pass bytes of kscheduler, checked by digest.
        """
        ...
