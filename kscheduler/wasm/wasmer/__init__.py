"""wasmer, called through the C API of WebAssembly: libwasmer is built by `make wasmer`, since no package ships it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscheduler.wasm.engine import EngineUnavailable

if TYPE_CHECKING:
    from kscheduler.wasm.wasmer.modules import WasmerEngine


def new_engine() -> WasmerEngine:
    """Make the engine. Raises EngineUnavailable without the compiled calls, or without a library that matches them."""
    try:
        from kscheduler.wasm.wasmer.modules import WasmerEngine
    except ImportError as error:
        raise EngineUnavailable(f"engine wasmer needs the compiled kernels: {error}") from error
    from kscheduler.wasm.wasmer.library import bind_library

    return WasmerEngine(bind_library())
