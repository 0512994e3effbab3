"""Makes at most one engine object of each name in a process."""

from __future__ import annotations

import functools

from kscheduler.wasm.engine import NAMES, Engine, EngineUnavailable


@functools.cache
def engine_named(name: str) -> Engine:
    if name == "wasmtime":
        from kscheduler.wasm.wasmtime.start import new_engine

        return new_engine()
    if name == "wasmer":
        from kscheduler.wasm.wasmer.start import new_engine as new_wasmer

        return new_wasmer()
    raise EngineUnavailable(f"no engine {name!r}: expected one of {', '.join(NAMES)}")
