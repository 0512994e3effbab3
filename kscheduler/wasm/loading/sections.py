"""Reads imports, exports and memories of a WebAssembly binary without compiling or running it.

The binary format in short: a header of 8 bytes, then sections of one byte id, a length, and that many bytes; numbers
are LEB128. Code and data are skipped, so the engine has to find out whether the module is valid. Every length is
compared with the bytes that exist, and counts and sizes with limits, so that no module makes this use more than some
tens of megabytes, and compiling it more than some hundreds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from kscheduler.counted import counted
from kscheduler.input.printable import printable as escaped
from kscheduler.wasm.engine import ExternType, FuncType, Import, MemoryType, OtherType

T = TypeVar("T")

MAGIC = b"\0asm"
CORE_VERSION = b"\x01\0\0\0"
COMPONENT_LAYER = b"\x01\0"  # the last two bytes of a component's header

_CUSTOM, _TYPE, _IMPORT, _FUNCTION, _TABLE, _MEMORY, _GLOBAL, _EXPORT, _START = range(9)
_CODE = 10
_VALUE_TYPES: Mapping[int, str] = MappingProxyType(  # byte -> letter of engine.FuncType
    {0x7F: "i", 0x7E: "I", 0x7D: "f", 0x7C: "F", 0x7B: "?", 0x70: "?", 0x6F: "?"}
)
_FUNCTION_FORM = 0x60
# A tenth of the browsers' limit. A guest in Go has some 5,000 functions; each takes 5 KB while the module is compiled.
MAX_ENTRIES = 100_000  # of any section
# Compiling takes some 220 times as much memory as the largest function has bytes; in a guest in Go that is 30 KB.
MAX_FUNCTION_BYTES = 1 << 20
MAX_VALUES = 1_000  # parameters, or results, of a function: the browsers' limit
MAX_CUSTOM = 1_000  # custom sections that are read
_HAS_MAXIMUM, _SHARED, _ADDRESS_64 = 1, 2, 4  # flags of limits


class BadModule(ValueError):
    """The bytes are not a WebAssembly module; the text has the position, what was expected and what was found."""


@dataclass(frozen=True, slots=True)
class Sections:
    """A module's imports, exports, memories and custom sections, as its binary declares them."""

    imports: tuple[Import, ...]
    exports: Mapping[str, ExternType]
    memories: tuple[MemoryType, ...]  # imported ones first
    has_start: bool  # a function that runs when the module is instantiated
    custom: tuple[str, ...]  # names of the custom sections, which engines ignore
    size_bytes: int

    @property
    def functions(self) -> Mapping[str, FuncType]:
        """The exported functions."""
        return {name: kind for name, kind in self.exports.items() if isinstance(kind, FuncType)}


def read_sections(wasm: bytes) -> Sections:
    """Read a module's sections.

    Raises BadModule if it is not a module, or has imports or exports that cannot be read.
    """
    _check_header(wasm)
    reader = _ModuleReader()
    cursor = _Cursor(wasm, len(MAGIC) + len(CORE_VERSION), len(wasm))
    while not cursor.is_at_end:
        place = cursor.position
        identity, size = cursor.byte("the id of a section"), cursor.number("the length of a section")
        if size > cursor.rest:
            raise BadModule(
                f"byte {place}: expected a section of {counted(size, 'byte')}, "
                f"got the end of the file after {cursor.rest}"
            )
        body = _Cursor(wasm, cursor.position, cursor.position + size)
        reader.read(identity, body)
        cursor.position += size
    return reader.sections(len(wasm))


def _check_header(wasm: bytes) -> None:
    if not wasm.startswith(MAGIC):
        raise BadModule(f"expected WebAssembly, which starts with the bytes 00 61 73 6d, got {_guess(wasm)}")
    version = wasm[4:8]
    if version[2:] == COMPONENT_LAYER:
        raise BadModule("expected a core module, got a component (compile for wasm32-wasip1 or wasm32-unknown-unknown)")
    if version != CORE_VERSION:
        raise BadModule(f"expected version 1 of the binary format, got the bytes {version.hex(' ')}")


def _guess(data: bytes) -> str:
    """Guess what kind of file this is, for users who configured the URL of something that is not a wasm module."""
    if not data:
        return "nothing"
    start = data[:64].lstrip().lower()
    for prefix, what in (
        (b"\x1f\x8b", "a gzip file"),
        (b"<", "a page of HTML or XML"),
        (b"(module", "the text format (wat); translate it with wat2wasm"),
        (b"\x7felf", "a native program"),
        (b"version https://git-lfs", "a pointer of git-lfs"),
        (b"{", "JSON"),
    ):
        if start.startswith(prefix):
            return what
    return f"{data[:8].hex(' ')} ({counted(len(data), 'byte')})"


def printable(name: str, limit: int = 80) -> str:
    """Return a name from a module, shortened and escaped for messages: it may be long or have control characters."""
    shown = escaped(name[:limit])
    return shown + "..." if len(name) > limit else shown


# --- bytes ----------------------------------------------------------------------------------------------------------


class _Cursor:
    """A reading position in the bytes, and the end that reading must not cross."""

    __slots__ = ("_data", "_end", "position")

    def __init__(self, data: bytes, position: int, end: int) -> None:
        self._data, self.position, self._end = data, position, end

    @property
    def rest(self) -> int:
        return self._end - self.position

    @property
    def is_at_end(self) -> bool:
        return self.position >= self._end

    def byte(self, what: str) -> int:
        if self.is_at_end:
            raise BadModule(f"byte {self.position}: expected {what}, got the end")
        value = self._data[self.position]
        self.position += 1
        return value

    def number(self, what: str, bits: int = 32) -> int:
        """Read an unsigned LEB128. Raises BadModule with `what` in its text if it has more than `bits` bits."""
        place, value, shift = self.position, 0, 0
        while True:
            byte = self.byte(what)
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
            if shift >= bits:
                raise BadModule(f"byte {place}: expected {what} in at most {-(-bits // 7)} bytes, got more")
        if value >> bits:
            raise BadModule(f"byte {place}: expected {what} of {bits} bits, got {value}")
        return value

    def name(self) -> str:
        size = self.number("the length of a name")
        if size > self.rest:
            wanted = counted(size, "byte")
            raise BadModule(f"byte {self.position}: expected a name of {wanted}, got the end after {self.rest}")
        raw = self._data[self.position : self.position + size]
        self.position += size
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise BadModule(
                f"byte {self.position - size}: expected a name in UTF-8, got {raw[:20].hex(' ')}"
            ) from error

    def vector(self, what: str, read: Callable[[], T], most: int = MAX_ENTRIES) -> list[T]:
        """Read a count and that many entries, each of at least one byte. Raises BadModule for more than `most`."""
        count = self.number(f"how many {what}")
        if count > most:
            raise BadModule(f"byte {self.position}: expected at most {most} {what}, got {count}")
        if count > self.rest:
            rest = counted(self.rest, "byte")
            raise BadModule(f"byte {self.position}: expected {count} {what}, got the end after {rest}")
        return [read() for _ in range(count)]


# --- sections -------------------------------------------------------------------------------------------------------


class _ModuleReader:
    """Collects a module's sections. An index refers to imported entries first, then to the module's own."""

    def __init__(self) -> None:
        self._types: list[FuncType] = []
        self._imports: list[Import] = []
        self._functions: list[FuncType] = []
        self._memories: list[MemoryType] = []
        self._exports: dict[str, ExternType] = {}
        self._custom: list[str] = []
        self._has_start = False
        self._seen: set[int] = set()  # ids of the sections read so far

    def read(self, identity: int, body: _Cursor) -> None:
        if identity != _CUSTOM and identity in self._seen:
            raise BadModule(f"byte {body.position}: expected each section once, got number {identity} again")
        self._seen.add(identity)
        if identity == _CUSTOM:
            if len(self._custom) < MAX_CUSTOM:
                self._custom.append(body.name())
        elif identity == _TYPE:
            self._types += body.vector("types", lambda: self._read_type(body))
        elif identity == _IMPORT:
            self._imports += body.vector("imports", lambda: self._read_import(body))
        elif identity == _FUNCTION:
            self._functions += body.vector("functions", lambda: self._read_type_index(body))
        elif identity == _MEMORY:
            self._memories += body.vector("memories", lambda: _read_memory(body))
        elif identity == _EXPORT:
            body.vector("exports", lambda: self._read_export(body))
        elif identity == _START:
            self._has_start = True
        elif identity == _CODE:
            body.vector("functions", lambda: _skip_function(body))

    def sections(self, size: int) -> Sections:
        return Sections(
            imports=tuple(self._imports),
            exports=MappingProxyType(self._exports),
            memories=tuple(self._memories),
            has_start=self._has_start,
            custom=tuple(self._custom),
            size_bytes=size,
        )

    def _read_type(self, body: _Cursor) -> FuncType:
        place, form = body.position, body.byte("a type")
        if form != _FUNCTION_FORM:
            raise BadModule(
                f"byte {place}: expected the type of a function (60), got {form:02x}: types of the garbage collection "
                "proposal are not supported"
            )
        params = body.vector("parameters", lambda: _read_value_type(body), MAX_VALUES)
        results = body.vector("results", lambda: _read_value_type(body), MAX_VALUES)
        return FuncType("".join(params), "".join(results))

    def _read_type_index(self, body: _Cursor) -> FuncType:
        place, index = body.position, body.number("the number of a type")
        return _at(self._types, index, place, "types")

    def _read_import(self, body: _Cursor) -> Import:
        module, name = body.name(), body.name()
        place, kind = body.position, body.byte("the kind of an import")
        found: ExternType
        if kind == 0:
            found = self._read_type_index(body)
            self._functions.append(found)
        elif kind == 1:
            _skip_reference_type(body)
            _read_limits(body)
            found = OtherType("table")
        elif kind == 2:
            found = _read_memory(body)
            self._memories.append(found)
        elif kind == 3:
            _read_value_type(body)
            body.byte("whether a global is mutable")
            found = OtherType("global")
        elif kind == 4:
            body.byte("the attribute of a tag")
            body.number("the type of a tag")
            found = OtherType("tag")
        else:
            raise BadModule(f"byte {place}: expected the kind of an import (0 to 4), got {kind}")
        return Import(module, name, found)

    def _read_export(self, body: _Cursor) -> None:
        name = body.name()
        place, kind = body.position, body.byte("the kind of an export")
        index = body.number("the number of what is exported")
        if name in self._exports:
            raise BadModule(f"byte {place}: expected each export once, got {printable(name)} twice")
        if kind == 0:
            self._exports[name] = _at(self._functions, index, place, "functions")
        elif kind == 2:
            self._exports[name] = _at(self._memories, index, place, "memories")
        elif kind in (1, 3, 4):
            self._exports[name] = OtherType({1: "table", 3: "global", 4: "tag"}[kind])
        else:
            raise BadModule(f"byte {place}: expected the kind of an export (0 to 4), got {kind}")


def _at(items: list[T], index: int, place: int, what: str) -> T:
    if index >= len(items):
        raise BadModule(f"byte {place}: expected one of {len(items)} {what}, got number {index}")
    return items[index]


def _skip_function(body: _Cursor) -> None:
    place, size = body.position, body.number("the length of a function")
    if size > MAX_FUNCTION_BYTES:
        raise BadModule(f"byte {place}: expected functions of at most {MAX_FUNCTION_BYTES} bytes, got {size}")
    if size > body.rest:
        raise BadModule(f"byte {place}: expected a function of {counted(size, 'byte')}, got the end after {body.rest}")
    body.position += size


def _read_value_type(body: _Cursor) -> str:
    place, code = body.position, body.byte("the type of a value")
    letter = _VALUE_TYPES.get(code)
    if letter is None:
        raise BadModule(f"byte {place}: expected the type of a value, got {code:02x}")
    return letter


def _skip_reference_type(body: _Cursor) -> None:
    place, code = body.position, body.byte("the type of a table")
    if code not in (0x70, 0x6F):
        raise BadModule(f"byte {place}: expected a table of functions or references, got {code:02x}")


def _read_limits(body: _Cursor) -> tuple[int, int | None]:
    place, flags = body.position, body.byte("limits")
    if flags & ~(_HAS_MAXIMUM | _SHARED | _ADDRESS_64):
        raise BadModule(f"byte {place}: expected limits, got the flags {flags:02x}")
    bits = 64 if flags & _ADDRESS_64 else 32
    minimum = body.number("a minimum", bits)
    return minimum, body.number("a maximum", bits) if flags & _HAS_MAXIMUM else None


def _read_memory(body: _Cursor) -> MemoryType:
    return MemoryType(*_read_limits(body))
