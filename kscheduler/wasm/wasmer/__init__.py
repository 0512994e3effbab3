"""wasmer: for CPython 3.10, where its wheels exist. Elsewhere pip installs a stub, so only an import can tell."""

from __future__ import annotations

import sys

from kscheduler.wasm.engine import Engine, EngineUnavailable


def new_engine() -> Engine:
    if sys.version_info[:2] != (3, 10):
        here = ".".join(map(str, sys.version_info[:2]))
        raise EngineUnavailable(f"engine wasmer needs CPython 3.10; this is {here}: use wasmtime")
    raise EngineUnavailable("engine wasmer is not built in: use wasmtime")
