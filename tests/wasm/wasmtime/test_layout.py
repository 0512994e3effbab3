"""Calls go to the compiled module only where its structs are those of the installed library."""

from __future__ import annotations

import builtins
import importlib.util
import logging
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType

import pytest

from kscheduler.wasm import wasmtime as package
from kscheduler.wasm.engine import EngineUnavailable
from kscheduler.wasm.engines import engine_named
from kscheduler.wasm.wasmtime import calls, calls_ctypes, layout


def test_both_forms_of_the_calls_fit_the_installed_library() -> None:
    assert layout.mismatch(calls.SIZES) is None
    assert layout.mismatch(calls_ctypes.SIZES) is None
    assert calls.SIZES == calls_ctypes.SIZES


def test_a_struct_of_another_size_is_named() -> None:
    assert layout.mismatch({"wasmtime_func": 24}) == "wasmtime_func has 16 bytes, expected 24"


def test_another_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "installed_version", lambda: "51.0.0")
    assert layout.mismatch({}) == "wasmtime 51.0.0 is installed, expected 50.*"


def test_the_compiled_calls_are_used_where_they_fit() -> None:
    assert package.new_engine().calls is calls


def test_the_twin_is_used_where_they_do_not(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    real = layout.mismatch

    def mismatch(sizes: Mapping[str, int]) -> str | None:
        return "too small" if sizes is calls.SIZES else real(sizes)

    monkeypatch.setattr(layout, "mismatch", mismatch)
    with caplog.at_level(logging.WARNING):
        assert package.new_engine().calls is calls_ctypes
    assert caplog.messages == ["compiled wasm calls do not fit; plugins run more slowly"]


def test_the_twin_is_used_where_nothing_was_compiled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: object, **given: object) -> ModuleType:
        fromlist: Sequence[str] = args[2] if len(args) > 2 else ()  # type: ignore[assignment]
        if name == "kscheduler.wasm.wasmtime" and "calls" in (fromlist or ()):
            raise ImportError("not built")
        return real(name, *args, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", refuse)
    with caplog.at_level(logging.WARNING):
        assert package.compiled_calls() is None
    assert caplog.messages == ["wasm calls are not compiled; plugins run more slowly"]


def test_where_neither_fits_the_engine_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "installed_version", lambda: "51.0.0")
    with pytest.raises(EngineUnavailable, match=r"wasmtime 51\.0\.0 is installed, expected 50\.\*"):
        package.new_engine()


def test_without_the_package_the_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineUnavailable, match=r"pip install 'kscheduler\[wasm\]'"):
        package.new_engine()


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
