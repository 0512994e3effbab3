"""wasmer: for CPython 3.10, where its wheels exist. Elsewhere pip installs a stub, so only an import can tell.

It holds the GIL, binds its objects to a thread, cannot be interrupted and may crash over bytes it dislikes: so it
never runs in this process. Each instance has a child process, which is killed when a deadline passes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kscheduler.wasm.engine import EngineUnavailable

if TYPE_CHECKING:
    from kscheduler.wasm.wasmer.modules import WasmerEngine


def new_engine() -> WasmerEngine:
    if sys.version_info[:2] != (3, 10):
        here = ".".join(map(str, sys.version_info[:2]))
        raise EngineUnavailable(f"engine wasmer needs CPython 3.10; this is {here}: use wasmtime")
    from kscheduler.wasm.wasmer.modules import WasmerEngine

    return WasmerEngine()
