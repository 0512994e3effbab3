"""wasmtime, called through its C API: the default engine."""

from __future__ import annotations

from kscheduler.wasm.engine import Engine, EngineUnavailable


def new_engine() -> Engine:
    raise EngineUnavailable("engine wasmtime needs the package wasmtime: pip install 'kscheduler[wasm]'")
