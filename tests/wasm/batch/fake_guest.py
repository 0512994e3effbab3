"""A guest in Python over a memory of its own, behind an engine's interface: a test double that answers as configured.

    module = FakeModule(ListGuest(points=["score"], answer=lambda guest, point, question: {...}))

`FakeModule` instantiates copies of its guest. What a guest returns is packed and put into memory as a real one would; a
guest may also return a raw (address, length) to misbehave.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack

from kscheduler.wasm.engine import (
    DEFAULT_LIMITS,
    ExternType,
    FaultKind,
    FuncType,
    GuestFault,
    HostFunction,
    Import,
    Limits,
    MemoryType,
    Output,
    Wasi,
)

MEMORY_BYTES = 1 << 20
EXPORTS: Mapping[str, ExternType] = {
    "memory": MemoryType(16),
    "kscheduler_abi_v1": FuncType("", "i"),
    "ks_alloc": FuncType("i", "i"),
    "ks_configure": FuncType("ii", "I"),
    "ks_describe": FuncType("", "I"),
    "ks_table": FuncType("ii", "I"),
    "ks_call": FuncType("iii", "I"),
}


@dataclass(frozen=True)
class Raw:
    """An answer as it is to lie in memory, or an address and a length that are to be returned as they are."""

    data: bytes | None = None
    address: int = 0
    length: int = 0


@dataclass
class ListGuest:
    """Records the messages that it receives, and answers as configured."""

    points: Sequence[str] = ("score",)
    describe: Mapping[str, Any] = field(default_factory=dict)  # beside abi, name and points
    # Its address is another in each process, and tests are named by the text of their guest.
    answer: Callable[[ListGuest, int, Any], Any] = field(default=lambda guest, point, question: {}, repr=False)
    version: int = 1
    room: int = MEMORY_BYTES // 2
    refuses: str = ""
    config: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list)  # the table, as maps
    tables: list[Any] = field(default_factory=list)  # messages about it
    calls: list[tuple[int, Any]] = field(default_factory=list)  # (point, question)
    values: dict[tuple[str, str], list[Any]] = field(default_factory=dict)  # indexed column -> values known

    def on_describe(self) -> Any:
        return {"abi": 1, "name": "Fake", "points": list(self.points), "depends": ["other"], **self.describe}

    def on_table(self, message: Any) -> Any:
        self.tables.append(message)
        if message.get("full"):
            self.rows, self.values = [], {}
        self.rows += [{} for _ in range(message["rows"] - len(self.rows))]
        at = unpack("i", message["at"]) if "at" in message else range(message["rows"])
        for key, column in self._columns(message, len(at)).items():
            assert len(column) == len(at), key
            for row, value in zip(at, column, strict=True):
                self.rows[row][key] = value
        return None

    def on_call(self, point: int, question: Any) -> Any:
        self.calls.append((point, question))
        return self.answer(self, point, question)

    def _columns(self, message: Any, count: int) -> dict[str, list[Any]]:
        """Every column of a message as a list; nested ones as part/key."""
        found: dict[str, list[Any]] = {}
        for key, value in message.items():
            if key in ("gen", "full", "rows", "at"):
                continue
            if key in ("names", "pods"):
                found[key] = value
            elif key in ("alive", "cordoned"):
                found[key] = list(value)
            elif key in ("alloc", "used", "metrics"):
                found |= {f"{key}/{name}": unpack("q", column) for name, column in value.items()}
            elif key in ("labels", "annotations"):
                found |= {f"{key}/{name}": self._indexed((key, name), column) for name, column in value.items()}
            elif key in ("taints", "images"):
                found[key] = self._indexed((key, ""), value)
            else:
                found[key] = unpack("q", value)
        return found

    def _indexed(self, place: tuple[str, str], column: Any) -> list[Any]:
        values = self.values.setdefault(place, [])
        assert column.get("n", 0) == len(values), "the host and the guest count the same entries"
        values += column["v"]
        return [values[i] if i >= 0 else None for i in unpack("i", column["i"])]


def unpack(code: str, packed: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(packed) // struct.calcsize(code)}{code}", packed))


def pack(code: str, *values: int) -> bytes:
    return struct.pack(f"<{len(values)}{code}", *values)


class FakeInstance:
    def __init__(self, guest: ListGuest, functions: Iterable[HostFunction], limits: Limits) -> None:
        self.guest = guest
        self.limits = limits
        self.output = Output(limits.output_bytes)
        self.deadline_s = limits.deadline_s
        self.data: object = None
        self.is_broken = False
        self.is_closed = False
        self.functions = {function.name: function.function for function in functions}
        self.memory = bytearray(MEMORY_BYTES)
        self.memory_bytes = MEMORY_BYTES

    def start(self) -> None:
        pass

    def call(self, export: str, *args: int | float) -> int | float | None:
        return self.prepare(export)(*args)

    def prepare(self, export: str) -> Callable[..., int | float | None]:
        return getattr(self, f"_{export}")  # type: ignore[no-any-return]

    def read(self, address: int, size: int) -> bytes:
        self._check(address, size)
        return bytes(self.memory[address : address + size])

    def write(self, address: int, data: bytes | bytearray | memoryview) -> None:
        self._check(address, len(data))
        self.memory[address : address + len(data)] = data

    def view(self, address: int, size: int) -> memoryview:
        self._check(address, size)
        return memoryview(self.memory)[address : address + size]

    def close(self) -> None:
        self.is_closed = True

    def _check(self, address: int, size: int) -> None:
        if address < 0 or size < 0 or address + size > len(self.memory):
            self.is_broken = True
            raise GuestFault(FaultKind.MEMORY, f"{size} bytes at {address} are outside its memory")

    # --- exports ---

    def _kscheduler_abi_v1(self) -> int:
        return self.guest.version

    def _ks_alloc(self, size: int) -> int:
        return 8 if size <= self.guest.room else 0

    def _ks_configure(self, address: int, size: int) -> int:
        self.guest.config = self.read(address, size).decode()
        return self._give({"error": self.guest.refuses} if self.guest.refuses else None)

    def _ks_describe(self) -> int:
        return self._give(self.guest.on_describe())

    def _ks_table(self, address: int, size: int) -> int:
        return self._give(self.guest.on_table(msgpack.unpackb(self.read(address, size))))

    def _ks_call(self, point: int, address: int, size: int) -> int:
        return self._give(self.guest.on_call(point, msgpack.unpackb(self.read(address, size))))

    def _give(self, answer: Any) -> int:
        if isinstance(answer, Raw) and answer.data is None:
            return _signed(answer.address << 32 | answer.length)
        packed = answer.data if isinstance(answer, Raw) else b"" if not answer else msgpack.packb(answer)
        if not packed:
            return 0
        address = MEMORY_BYTES // 2
        self.memory[address : address + len(packed)] = packed
        self.memory_bytes = len(self.memory)
        return _signed(address << 32 | len(packed))


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


class FakeModule:
    def __init__(self, guest: ListGuest, imports: Sequence[Import] = ()) -> None:
        self.guest = guest
        self.exports = EXPORTS
        self.imports = imports
        self.made: list[FakeInstance] = []

    def serialize(self) -> bytes:
        return b""

    def instantiate(
        self, functions: Iterable[HostFunction] = (), limits: Limits = DEFAULT_LIMITS, *, wasi: Wasi | None = None
    ) -> FakeInstance:
        made = FakeInstance(copy.deepcopy(self.guest), functions, limits)
        self.made.append(made)
        return made
