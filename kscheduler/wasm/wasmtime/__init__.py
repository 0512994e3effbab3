"""wasmtime, called through its C API: the default engine."""

from __future__ import annotations

import logging
from importlib import util
from types import ModuleType
from typing import TYPE_CHECKING

from kscheduler.wasm.engine import EngineUnavailable

if TYPE_CHECKING:
    from kscheduler.wasm.wasmtime.modules import WasmtimeEngine

_log = logging.getLogger(__name__)


def new_engine() -> WasmtimeEngine:
    """An engine over the compiled calls where they fit the installed library, else over their twin in ctypes."""
    if util.find_spec("wasmtime") is None:
        raise EngineUnavailable("engine wasmtime needs the package wasmtime: pip install 'kscheduler[wasm]'")
    from kscheduler.wasm.wasmtime import layout, modules

    calls = compiled_calls()
    if calls is None:
        from kscheduler.wasm.wasmtime import calls_ctypes

        wrong = layout.mismatch(calls_ctypes.SIZES)
        if wrong is not None:
            raise EngineUnavailable(f"engine wasmtime does not fit: {wrong}")
        calls = calls_ctypes
    return modules.WasmtimeEngine(calls)


def compiled_calls() -> ModuleType | None:
    """calls.pyx, if it is built and its structs are those of the installed library."""
    from kscheduler.wasm.wasmtime import layout

    try:
        from kscheduler.wasm.wasmtime import calls
    except ImportError as error:
        _log.warning("wasm calls are not compiled; plugins run more slowly", extra={"error": str(error)})
        return None
    wrong = layout.mismatch(calls.SIZES)
    if wrong is not None:
        _log.warning("compiled wasm calls do not fit; plugins run more slowly", extra={"error": wrong})
        return None
    return calls
