"""Starts the engine wasmtime, or says what it needs. Its modules are imported then only: most programs run no guest."""

from __future__ import annotations

from importlib import util
from typing import TYPE_CHECKING

from kscheduler.wasm.engine import EngineUnavailable

if TYPE_CHECKING:
    from kscheduler.wasm.wasmtime.modules import WasmtimeEngine


def new_engine() -> WasmtimeEngine:
    """Create the engine. Raises EngineUnavailable if the library or the extension module is missing, or they differ."""
    if util.find_spec("wasmtime") is None:
        raise EngineUnavailable("engine wasmtime needs the package wasmtime: pip install 'kscheduler[wasm]'")
    try:
        from kscheduler.wasm.wasmtime import calls, layout, modules
    except ImportError as error:
        raise EngineUnavailable(f"engine wasmtime: its compiled calls cannot be loaded: {error}") from error
    wrong = layout.mismatch(calls.SIZES)
    if wrong is not None:
        raise EngineUnavailable(f"engine wasmtime does not fit: {wrong}")
    return modules.WasmtimeEngine()
