"""What is added to a guest's code for wasmer: run by wasmtime, which needs no library that was built here."""

from __future__ import annotations

import contextlib
import ctypes

import pytest
import wasmtime

from kscheduler.wasm.loading.sections import read_sections
from kscheduler.wasm.wasmer.instrumentation import (
    MAX_TABLE_ENTRIES,
    PAGE_EXPORT,
    START_EXPORT,
    Unsupported,
    instrumented,
    table_minimums,
)


def wasm(text: str) -> bytes:
    return bytes(wasmtime.wat2wasm(text))


def rewritten(module: bytes) -> bytes:
    declared = read_sections(module)
    return instrumented(module, declared.imports, declared.memories)


class Guest:
    """An instance of the rewritten module, whose page the test reads and writes as the host does."""

    def __init__(self, text: str, *, cap_pages: int = 100) -> None:
        config = wasmtime.Config()
        config.wasm_multi_memory = True
        config.wasm_threads = True
        config.consume_fuel = True  # so that a loop which nothing stops ends all the same
        self.store = wasmtime.Store(wasmtime.Engine(config))
        self.store.set_fuel(1_000_000)
        module = wasmtime.Module(self.store.engine, rewritten(wasm(text)))
        imports: list[wasmtime.Func] = []
        for each in module.imports:
            assert isinstance(each.type, wasmtime.FuncType)
            imports.append(wasmtime.Func(self.store, each.type, self.host_called))
        self.exports = wasmtime.Instance(self.store, module, imports).exports(self.store)
        page = self.exports[PAGE_EXPORT]
        assert isinstance(page, wasmtime.Memory)
        address = ctypes.cast(page.data_ptr(self.store), ctypes.POINTER(ctypes.c_int32))
        self.page = address
        self.page[1] = cap_pages

    def host_called(self, *_numbers: int) -> None:
        self.page[0] = 1

    def call(self, name: str, *args: int) -> object:
        function = self.exports[name]
        assert isinstance(function, wasmtime.Func)
        return function(self.store, *args)


LOOPS = {
    "a bare loop": '(func (export "f") (loop br 0))',
    "a loop that calls": '(func $g) (func (export "f") (loop (call $g) br 0))',
    "a loop with a result": '(func (export "f") (drop (loop (result i32) (i32.const 1) br 0)))',
    "a loop within a loop": '(func (export "f") (loop (loop br 1)))',
    "a loop after an if": '(func (export "f") (if (i32.const 1) (then (loop br 0)) (else nop)))',
    "recursion": '(func $f (export "f") (param i32) (call $f (i32.const 1)) (call $f (i32.const 1)))',
}


@pytest.mark.parametrize("text", LOOPS.values(), ids=LOOPS)
def test_a_call_ends_once_its_page_says_so(text: str) -> None:
    guest = Guest(f"(module {text})")
    guest.page[0] = 1
    args = [0] if "param" in text else []
    with pytest.raises(wasmtime.Trap, match="unreachable"):
        guest.call("f", *args)


def test_a_loop_ends_when_its_page_says_so_in_the_middle() -> None:
    guest = Guest('(module (import "h" "stop" (func $stop)) (func (export "f") (call $stop) (loop br 0)))')
    with pytest.raises(wasmtime.Trap, match="unreachable"):
        guest.call("f")


def test_nothing_ends_a_call_whose_page_is_clear() -> None:
    text = """(module (func (export "sum") (param $n i32) (result i32) (local $sum i32)
      (loop (local.set $sum (i32.add (local.get $sum) (local.get $n)))
        (br_if 0 (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
      (local.get $sum)))"""
    assert Guest(text).call("sum", 10) == 55


GROWS = """(module (memory (export "memory") 1)
  (func (export "size") (result i32) memory.size)
  (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0))))"""


def test_memory_grows_up_to_the_cap_and_no_further() -> None:
    guest = Guest(GROWS, cap_pages=4)
    assert [guest.call("grow", 2), guest.call("grow", 2), guest.call("grow", 1), guest.call("size")] == [1, -1, 3, 4]
    assert guest.call("grow", -1) == -1  # 2^32 - 1 pages more
    assert guest.call("grow", 0) == 4


def test_a_maximum_of_the_module_below_the_cap_holds() -> None:
    guest = Guest(GROWS.replace('"memory") 1', '"memory") 1 2'), cap_pages=4)
    assert [guest.call("grow", 2), guest.call("grow", 1)] == [-1, 1]


def test_a_guest_without_memory_gets_none_but_the_page() -> None:
    guest = Guest('(module (func (export "one") (result i32) (i32.const 1)))')
    assert guest.call("one") == 1


def test_the_start_section_becomes_an_export() -> None:
    text = """(module (global $g (mut i32) (i32.const 0)) (func $s (global.set $g (i32.const 7))) (start $s)
      (func (export "get") (result i32) (global.get $g)))"""
    guest = Guest(text)
    assert guest.call("get") == 0
    guest.call(START_EXPORT)
    assert guest.call("get") == 7


def test_a_table_gets_a_maximum() -> None:
    text = """(module (table 1 funcref) (table 2 5 funcref)
      (func (export "a") (param i32) (result i32) (table.grow 0 (ref.null func) (local.get 0)))
      (func (export "b") (param i32) (result i32) (table.grow 1 (ref.null func) (local.get 0))))"""
    guest = Guest(text)
    share = (MAX_TABLE_ENTRIES - 3) // 2
    assert [guest.call("a", share + 1), guest.call("a", share), guest.call("a", 1)] == [-1, 1, -1]
    assert [guest.call("b", 4), guest.call("b", 3)] == [-1, 2]
    assert table_minimums(wasm(text)) == [1, 2]


def test_many_tables_may_grow_no_further_than_one() -> None:
    count = 50
    grows = "".join(
        f'(table 1 funcref) (func (export "{number}") (result i32)'
        f" (loop (br_if 0 (i32.ne (table.grow {number} (ref.null func) (i32.const 100)) (i32.const -1))))"
        f" (table.size {number}))"
        for number in range(count)
    )
    guest = Guest(f"(module {grows})")
    sizes = [guest.call(str(number)) for number in range(count)]
    assert sum(size for size in sizes if isinstance(size, int)) <= MAX_TABLE_ENTRIES
    assert sizes == [sizes[0]] * count


def test_a_table_that_begins_above_the_maximum_is_left_to_the_limits_of_instances() -> None:
    large = wasm("(module (table 200000 funcref) (table 200000 300000 funcref) (table 200000 200000 funcref))")
    wasmtime.Module.validate(wasmtime.Engine(), rewritten(large))
    assert table_minimums(large) == [200_000] * 3


def test_functions_keep_their_numbers_and_names() -> None:
    text = """(module (import "h" "stop" (func $stop)) (memory 1) (table funcref (elem $a $b))
      (func $a (result i32) (drop (memory.grow (i32.const 0))) (i32.const 1)) (func $b (result i32) (i32.const 2))
      (func $fail unreachable) (export "fail" (func $fail))
      (func (export "f") (param i32) (result i32) (call_indirect (result i32) (local.get 0))))"""
    guest = Guest(text)
    assert [guest.call("f", 0), guest.call("f", 1)] == [1, 2]
    with pytest.raises(wasmtime.Trap, match="fail"):
        guest.call("fail")


# Each kind of operand at least once; a wrong width would make nonsense of what follows.
EVERYTHING = """
(module
  (import "h" "f" (func $f (param i32)))
  (type $two (func (param i32 i64) (result i64)))
  (memory 1)
  (table $t 10 funcref)
  (global $g (mut i64) (i64.const -1234567890123))
  (elem $e func $two)
  (data $d "abc")
  (func $two (type $two) (local i32 i32) (local f64 v128 externref)
    (block $out (result i64)
      (if (result i64) (local.get 0) (then (i64.const 0x7fffffffffffffff)) (else (local.get 1)))
      (br_if $out (local.get 0))
      (block $a (block $b (br_table $a $b $a (local.get 0))))
      (drop (select (result i32) (i32.const -2147483648) (i32.const 128) (local.get 0)))
      (drop (select (i32.const 1) (i32.const 2) (local.get 0)))
      (drop (f32.const 1.5)) (drop (f64.const -0.25))
      (i64.store offset=70000 align=4 (i32.const 300) (i64.load32_s offset=128 (i32.const 0)))
      (i32.store8 (i32.const 0) (i32.extend8_s (i32.trunc_sat_f64_s (f64.const 3))))
      (memory.init $d (i32.const 0) (i32.const 0) (i32.const 3)) (data.drop $d)
      (memory.copy (i32.const 0) (i32.const 8) (i32.const 4)) (memory.fill (i32.const 0) (i32.const 1) (i32.const 9))
      (table.init $t $e (i32.const 0) (i32.const 0) (i32.const 1)) (elem.drop $e)
      (table.copy $t $t (i32.const 1) (i32.const 0) (i32.const 1))
      (drop (table.grow $t (ref.null func) (i32.const 1))) (drop (table.size $t))
      (table.fill $t (i32.const 2) (ref.func $two) (i32.const 1))
      (table.set $t (i32.const 3) (table.get $t (i32.const 1)))
      (drop (ref.is_null (ref.null extern)))
      (drop (v128.const i64x2 0x0b0b0b0b0b0b0b0b 0x0303030303030303))
      (drop (i8x16.shuffle 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 (local.get 5) (local.get 5)))
      (drop (i8x16.swizzle (local.get 5) (i32x4.splat (i32.const 3))))
      (drop (f64x2.replace_lane 1 (local.get 5) (f64x2.extract_lane 0 (local.get 5))))
      (drop (v128.load8x8_s offset=1000 (i32.const 0))) (v128.store (i32.const 16) (local.get 5))
      (drop (v128.load32_zero (i32.const 0))) (drop (v128.load16_lane offset=300 3 (i32.const 0) (local.get 5)))
      (v128.store64_lane 1 (i32.const 8) (local.get 5))
      (drop (i64x2.extmul_high_i32x4_u (local.get 5) (local.get 5)))
      (call $f (i32.const 3)) (global.set $g (global.get $g))
      (drop (call_indirect $t (type $two) (i32.const 1) (i64.const 1) (i32.const 1)))
      (loop $l (result i64) (br_if $l (i32.const 0)) (i64.const 1))
      (return)))
  (export "two" (func $two)))
"""


def test_every_kind_of_instruction_is_copied_as_it_is() -> None:
    config = wasmtime.Config()
    config.wasm_threads = True
    config.wasm_multi_memory = True
    module = wasm(EVERYTHING)
    made = rewritten(module)
    wasmtime.Module.validate(wasmtime.Engine(config), made)
    # Two checks of 10 bytes, and what is longer by it: the code of all else is there unchanged.
    assert len(made) > len(module)
    assert made.count(bytes.fromhex("0b0b0b0b0b0b0b0b0303030303030303")) == 1
    assert made.count(bytes.fromhex("4100fe10 4201 00 0440000b")) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("(module (memory 1 1 shared))", "a memory that is shared or has 64 bits"),
        ("(module (memory i64 1))", "a memory that is shared or has 64 bits"),
        ("(module (memory 1) (memory 1))", "expected at most one memory, got 2"),
        ("(module (func (result i32) (return_call 0)))", "the instruction 12"),
        ("(module (memory 1 1 shared) (func (drop (i32.atomic.load (i32.const 0)))))", "the instruction fe"),
        ("(module (tag) (func (throw 0)))", "a section of number 13"),
        ("(module (func (drop (block (result (ref func)) unreachable))))", "the type 64"),
        ("(module (func (local (ref null extern)) (local (ref null any))))", "the type 6e"),
        ("(module (func (drop (ref.null any))))", "the type 6e"),
        ("(module (func (drop (select (result anyref) unreachable))))", "the type 6e"),
    ],
)
def test_what_toolchains_do_not_make_by_default_is_refused(text: str, says: str) -> None:
    with pytest.raises(Unsupported, match=says):
        rewritten(wasm(text))


def test_a_loop_cannot_hide_behind_an_operand_of_an_unusual_length() -> None:
    """A load that names its memory: read as one that does not, its offset is an instruction that eats the loop."""
    load = "28 42 00 43"  # i32.load, with bit 6 of the alignment, memory 0, offset 0x43, which is f32.const
    body = f"00 41 00 {load} 03 40 0c 00 0b 1a 0b"
    module = bytes.fromhex(
        "0061736d 01000000 0104 01600000 0302 0100 0503 010001 0706 01026966 0000"
        f"0a{len(bytes.fromhex(body)) + 2:02x} 01{len(bytes.fromhex(body)):02x} {body}"
    )
    assert wasmtime.Module(wasmtime.Engine(), module).exports[0].name == "if"
    with pytest.raises(Unsupported, match="a memory argument that names its memory"):
        rewritten(module)


@pytest.mark.parametrize("size", range(9, len(wasm(GROWS))))
def test_nothing_is_read_beyond_the_end_of_a_module_that_was_cut(size: int) -> None:
    """None is valid, so the engine refuses them before; what ends between two sections may even pass here."""
    whole = wasm(GROWS)
    with contextlib.suppress(Unsupported):
        assert len(instrumented(whole[:size], (), read_sections(whole).memories)) < 2 * len(whole)
