"""Calls go to the compiled module only where its structs are those of the installed library."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from kscheduler.wasm import wasmtime as package
from kscheduler.wasm.engine import EngineUnavailable
from kscheduler.wasm.engines import engine_named
from kscheduler.wasm.wasmtime import calls, layout
from kscheduler.wasm.wasmtime.start import new_engine


def test_the_calls_fit_the_installed_library() -> None:
    assert layout.mismatch(calls.SIZES) is None


def test_a_struct_of_another_size_is_named() -> None:
    assert layout.mismatch({"wasmtime_func": 24}) == "wasmtime_func has 16 bytes, expected 24"


def test_another_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "installed_version", lambda: "51.0.0")
    assert layout.mismatch({}) == "wasmtime 51.0.0 is installed, expected 50.*"


def test_where_nothing_was_compiled_the_engine_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kscheduler.wasm.wasmtime.calls", None)
    monkeypatch.delattr(package, "calls", raising=False)
    with pytest.raises(EngineUnavailable, match="its compiled calls cannot be loaded"):
        new_engine()


def test_where_the_calls_do_not_fit_the_engine_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "installed_version", lambda: "51.0.0")
    with pytest.raises(EngineUnavailable, match=r"wasmtime 51\.0\.0 is installed, expected 50\.\*"):
        new_engine()


def test_without_the_package_the_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineUnavailable, match=r"pip install 'kscheduler\[wasm\]'"):
        new_engine()


def test_an_engine_that_does_not_exist_is_named() -> None:
    with pytest.raises(EngineUnavailable, match=r"no engine 'v8': expected one of wasmtime, wasmer"):
        engine_named("v8")


def test_a_guest_that_was_left_open_does_not_disturb_the_end_of_the_program() -> None:
    program = """
import wasmtime
from kscheduler.wasm.engine import Wasi
from kscheduler.wasm.engines import engine_named
module = engine_named("wasmtime").compile(bytes(wasmtime.wat2wasm(
    '(module (memory (export "memory") 1) (func (export "spin") (loop br 0)))')))
guest = module.instantiate(wasi=Wasi())
view = guest.view(0, 8)
try:
    guest.call("spin")
except Exception:
    pass
"""
    for _ in range(3):
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert (ended.returncode, ended.stderr) == (0, "")


def test_no_object_of_the_package_outlives_its_use() -> None:
    """As the program ends each would call into modules that may be gone, and complain."""
    program = """
import gc, wasmtime
from kscheduler.wasm.engine import HostFunction, Wasi
from kscheduler.wasm.engines import engine_named
engine = engine_named("wasmtime")
module = engine.compile(bytes(wasmtime.wat2wasm(
    '(module (import "host" "f" (func (param i64) (result i32))) (memory (export "memory") 1))')))
functions = [HostFunction("host", "f", "I", "i", lambda instance, number: 1)]
guests = [each.instantiate(functions, wasi=Wasi()) for each in (module, engine.load(module.serialize()))]
try:
    engine.compile(b"not wasm")
except Exception:
    pass
for each in gc.get_objects():
    if isinstance(each, wasmtime.Managed):
        try:
            each.ptr()
        except ValueError:
            continue
        print(type(each).__name__)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
