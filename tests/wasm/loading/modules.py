"""WebAssembly modules made byte by byte, so that these tests need no engine; and an engine that runs none of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from kscheduler.wasm.engine import ExternType, FuncType, HostFunction, Import, Instance, Limits, Wasi
from kscheduler.wasm.loading.sections import CORE_VERSION, MAGIC

HEADER = MAGIC + CORE_VERSION
_CODES = {"i": 0x7F, "I": 0x7E, "f": 0x7D, "F": 0x7C, "?": 0x7B}
_ZERO = {"i": b"\x41\0", "I": b"\x42\0", "f": b"\x43" + bytes(4), "F": b"\x44" + bytes(8)}  # a constant of each type


def leb(number: int) -> bytes:
    out = bytearray()
    while True:
        number, low = number >> 7, number & 0x7F
        out.append(low | (0x80 if number else 0))
        if not number:
            return bytes(out)


def text(name: str) -> bytes:
    return leb(len(name.encode())) + name.encode()


def vector(items: Sequence[bytes]) -> bytes:
    return leb(len(items)) + b"".join(items)


def section(identity: int, body: bytes) -> bytes:
    return bytes([identity]) + leb(len(body)) + body


def func_type(kind: FuncType) -> bytes:
    return b"\x60" + b"".join(
        vector([bytes([_CODES[letter]]) for letter in part]) for part in (kind.params, kind.results)
    )


def module(
    exports: Mapping[str, str] = MappingProxyType({}),
    imports: Iterable[tuple[str, str, str]] = (),
    *,
    memory: tuple[int, int | None] | None = (1, None),
    custom: bytes = b"",
    answers: Mapping[str, int] = MappingProxyType({}),
) -> bytes:
    """Functions that answer 0, or what `answers` says (below 64), or trap if that is -1.

    Types are written `params:results`; `custom` makes two modules different.
    """
    imported = [(each[0], each[1], _type(each[2])) for each in imports]
    exported = {name: _type(kind) for name, kind in exports.items()}
    types = list(dict.fromkeys([kind for *_, kind in imported] + list(exported.values())))
    out = HEADER + section(1, vector([func_type(kind) for kind in types]))
    if imported:
        entries = [text(space) + text(name) + b"\0" + leb(types.index(kind)) for space, name, kind in imported]
        out += section(2, vector(entries))
    out += section(3, vector([leb(types.index(kind)) for kind in exported.values()]))
    if memory is not None:
        low, high = memory
        out += section(5, vector([b"\0" + leb(low) if high is None else b"\1" + leb(low) + leb(high)]))
    entries = [text(name) + b"\0" + leb(len(imported) + index) for index, name in enumerate(exported)]
    if memory is not None:
        entries.append(text("memory") + b"\2\0")
    out += section(7, vector(entries))
    bodies = [_body(kind, answers.get(name, 0)) for name, kind in exported.items()]
    out += section(10, vector([leb(len(body)) + body for body in bodies]))
    return out + (section(0, text("note") + custom) if custom else b"")


def _body(kind: FuncType, answer: int) -> bytes:
    if answer < 0:
        return b"\0\0\x0b"  # unreachable
    zero = b"".join(_ZERO[letter] for letter in kind.results)
    return b"\0" + (zero[:1] + bytes([answer]) if answer else zero) + b"\x0b"


def _type(written: str) -> FuncType:
    params, _, results = written.partition(":")
    return FuncType(params, results)


BATCH_EXPORTS = {
    "kscheduler_abi_v1": ":i",
    "ks_alloc": "i:i",
    "ks_configure": "ii:I",
    "ks_describe": ":I",
    "ks_table": "ii:I",
    "ks_call": "iii:I",
}
FILTER = module({"filter": ":i"})
FILTER_2 = module({"filter": ":i"}, custom=b"second version")
SCORE = module({"score": ":I"})


class FakeModule:
    exports: Mapping[str, ExternType] = MappingProxyType({})
    imports: Sequence[Import] = ()

    def __init__(self, wasm: bytes) -> None:
        self.wasm = wasm

    def serialize(self) -> bytes:
        return b"compiled " + self.wasm

    def instantiate(
        self, functions: Iterable[HostFunction] = (), limits: Limits | None = None, *, wasi: Wasi | None = None
    ) -> Instance:
        raise AssertionError("nothing is run here")


class FakeEngine:
    """`bad`: bytes that, inside a guest, make it one that does not compile."""

    def __init__(self, *, version: str = "1", bad: bytes = b"BAD") -> None:
        self.name, self.version, self._bad = "fake", version, bad
        self.compiled: list[bytes] = []
        self.loaded: list[bytes] = []
        self.refuses_blobs = False

    def compile(self, wasm: bytes) -> FakeModule:
        if self._bad in wasm:
            raise ValueError("invalid module at offset 7")
        self.compiled.append(wasm)
        return FakeModule(wasm)

    def load(self, serialized: bytes) -> FakeModule:
        if self.refuses_blobs:
            raise ValueError("compiled for another processor")
        self.loaded.append(serialized)
        return FakeModule(serialized.removeprefix(b"compiled "))
