"""Starts the engine wasmer, or says what it needs. Its modules are imported then only: most programs run no guest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscheduler.wasm.engine import EngineUnavailable

if TYPE_CHECKING:
    from kscheduler.wasm.wasmer.modules import WasmerEngine


def new_engine() -> WasmerEngine:
    """Create the engine.

    Raises EngineUnavailable without the compiled extension module, or a library that matches it.
    """
    try:
        from kscheduler.wasm.wasmer.modules import WasmerEngine
    except ImportError as error:
        raise EngineUnavailable(f"engine wasmer needs the compiled kernels: {error}") from error
    from kscheduler.wasm.wasmer.library import bind_library

    return WasmerEngine(bind_library())
