"""Reading a module's interface: what modules say, and that no bytes do harm."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.wasm.engine import FuncType, Import, MemoryType, OtherType
from kscheduler.wasm.loading.sections import BadModule, printable, read_sections
from tests.wasm.loading.modules import BATCH_EXPORTS, FILTER, HEADER, leb, module, section, text, vector


def test_functions_are_read_with_their_types_imported_ones_counting_first() -> None:
    wasm = module({"a": "iI:F", "b": ":"}, [("env", "x", "f:i"), ("env", "y", ":")])
    found = read_sections(wasm)
    assert found.imports == (Import("env", "x", FuncType("f", "i")), Import("env", "y", FuncType("", "")))
    assert dict(found.functions) == {"a": FuncType("iI", "F"), "b": FuncType("", "")}
    assert found.size_bytes == len(wasm)


@pytest.mark.parametrize("limits", [(0, None), (1, 1), (2, 65536)])
def test_the_memory_is_read_with_its_limits(limits: tuple[int, int | None]) -> None:
    found = read_sections(module({"a": ":"}, memory=limits))
    assert found.exports["memory"] == MemoryType(*limits)
    assert found.memories == (MemoryType(*limits),)


def test_tables_globals_and_imported_memories_are_distinguished() -> None:
    imports = [
        text("env") + text("t") + b"\1\x70\0\0",
        text("env") + text("m") + b"\2\1\3\4",
        text("env") + text("g") + b"\3\x7f\1",
        text("env") + text("e") + b"\4\0\0",
    ]
    exports = [text("m") + b"\2\0", text("g") + b"\3\0", text("t") + b"\1\0", text("e") + b"\4\0"]
    found = read_sections(HEADER + section(2, vector(imports)) + section(7, vector(exports)))
    assert [each.type for each in found.imports] == [
        OtherType("table"),
        MemoryType(3, 4),
        OtherType("global"),
        OtherType("tag"),
    ]
    assert dict(found.exports) == {
        "m": MemoryType(3, 4),
        "g": OtherType("global"),
        "t": OtherType("table"),
        "e": OtherType("tag"),
    }


def test_custom_sections_are_named_and_a_start_function_is_noted() -> None:
    found = read_sections(module(custom=b"x") + section(8, b"\0"))
    assert found.custom == ("note",)
    assert found.has_start
    assert not read_sections(FILTER).has_start


@pytest.mark.parametrize(
    ("wasm", "message"),
    [
        (b"", "starts with the bytes 00 61 73 6d, got nothing"),
        (b"<!DOCTYPE html>", "got a page of HTML"),
        (b"\x1f\x8b\x08", "got a gzip file"),
        (b"(module)", "translate it with wat2wasm"),
        (b"version https://git-lfs.github.com/spec/v1", "a pointer of git-lfs"),
        (b"\0asn\1\0\0\0", r"got 00 61 73 6e 01 00 00 00 \(8 bytes\)"),
        (b"\0asm\x0d\0\1\0", "expected a core module, got a component"),
        (b"\0asm\2\0\0\0", "expected version 1 of the binary format, got the bytes 02 00 00 00"),
        (HEADER + b"\1", "byte 9: expected the length of a section, got the end"),
        (HEADER + b"\1\5", "byte 8: expected a section of 5 bytes, got the end of the file after 0"),
        (HEADER + b"\1\x80\x80\x80\x80\x80\1", "in at most 5 bytes, got more"),
        (HEADER + b"\1\xff\xff\xff\xff\x7f", "expected the length of a section of 32 bits, got"),
        (HEADER + section(1, leb(1 << 30)), "expected at most 100000 types, got 1073741824"),
        (
            HEADER + section(10, b"\1" + leb((1 << 20) + 1) + bytes((1 << 20) + 1)),
            "expected functions of at most 1048576 bytes, got 1048577",
        ),
        (HEADER + section(10, b"\1\x09abc"), "expected a function of 9 bytes, got the end after 3"),
        (HEADER + section(3, leb(100_001) + bytes(100_001)), "expected at most 100000 functions, got 100001"),
        (HEADER + section(1, leb(9)), "expected 9 types, got the end after 0 bytes"),
        (HEADER + section(1, b"\1\x60" + leb(1001)), "expected at most 1000 parameters, got 1001"),
        (HEADER + section(1, b"\0") * 2, "expected each section once, got number 1 again"),
        (HEADER + section(1, b"\1\x5e"), r"expected the type of a function \(60\), got 5e"),
        (HEADER + section(1, b"\1\x60\1\x01\0"), "expected the type of a value, got 01"),
        (HEADER + section(3, b"\1\0"), "expected one of 0 types, got number 0"),
        (HEADER + section(2, b"\1" + text("e") + text("f") + b"\x09"), r"kind of an import \(0 to 4\), got 9"),
        (HEADER + section(7, b"\1" + text("f") + b"\0\3"), "expected one of 0 functions, got number 3"),
        (HEADER + section(7, b"\1" + text("f") + b"\x09\0"), r"kind of an export \(0 to 4\), got 9"),
        (HEADER + section(7, b"\2" + (text("g") + b"\3\0") * 2), "expected each export once, got g twice"),
        (HEADER + section(7, b"\1\2\xff\xfe\0\0"), "expected a name in UTF-8, got ff fe"),
        (HEADER + section(0, b"\x09abc"), "expected a name of 9 bytes, got the end after 3"),
        (HEADER + section(5, b"\1\x40\1"), "expected limits, got the flags 40"),
    ],
)
def test_what_is_no_module_is_refused_with_place_and_reason(wasm: bytes, message: str) -> None:
    with pytest.raises(BadModule, match=message):
        read_sections(wasm)


WHOLE = module(BATCH_EXPORTS, [("env", "x", "f:i")], memory=(1, 9), custom=b"x")


@given(st.integers(0, len(WHOLE) - 1))
def test_a_cut_module_is_refused_or_read_in_part(length: int) -> None:
    with contextlib.suppress(BadModule):
        assert read_sections(WHOLE[:length]).size_bytes == length


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_a_damaged_module_is_read_or_refused_and_nothing_else(place: int, value: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[place] = value
    with contextlib.suppress(BadModule):
        read_sections(bytes(damaged))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_and_nothing_else(data: bytes) -> None:
    with contextlib.suppress(BadModule):
        read_sections(HEADER + data)


def test_a_name_is_made_fit_for_a_terminal() -> None:
    assert printable("a\x1b[2Jb\n") == "a\\u001b[2Jb\\u000a"
    assert printable("x" * 81) == "x" * 80 + "..."


def test_of_many_custom_sections_some_are_named() -> None:
    assert len(read_sections(HEADER + section(0, text("n")) * 5000).custom) == 1000
