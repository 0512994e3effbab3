"""The engines of this machine, and guests from their text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

import pytest
import wasmtime

from kscheduler.wasm.engine import (
    Engine,
    EngineUnavailable,
    HostFunction,
    Instance,
    Limits,
    Module,
    Wasi,
)
from kscheduler.wasm.engines import engine_named
from kscheduler.wasm.wasmtime import calls, calls_ctypes
from kscheduler.wasm.wasmtime.modules import WasmtimeEngine

ENGINES: dict[str, Callable[[], Engine]] = {
    "wasmtime": lambda: WasmtimeEngine(calls),
    "wasmtime-ctypes": lambda: WasmtimeEngine(calls_ctypes),
}


def _wasmer_is_here() -> bool:
    try:
        engine_named("wasmer")
    except EngineUnavailable:
        return False
    return True


if sys.version_info[:2] == (3, 10) and _wasmer_is_here():
    ENGINES["wasmer"] = lambda: engine_named("wasmer")

# For guests of which the deadline is not the matter.
PATIENT = Limits(deadline_s=5.0)

_MADE: dict[str, Engine] = {}  # name -> the one of this process


class Guests:
    """Makes instances from text, and closes them after the test."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._instances: list[Instance] = []

    def module(self, text: str) -> Module:
        return self.engine.compile(bytes(wasmtime.wat2wasm(text)))

    def __call__(
        self,
        text: str,
        functions: Sequence[HostFunction] = (),
        limits: Limits = PATIENT,
        wasi: Wasi | None = None,
    ) -> Instance:
        instance = self.module(text).instantiate(functions, limits, wasi=wasi)
        self._instances.append(instance)
        return instance

    def close(self) -> None:
        for instance in self._instances:
            instance.close()


def skip_in_processes(guests: Guests, reason: str) -> None:
    """For what an engine in processes of its own cannot do."""
    if guests.engine.name == "wasmer":
        pytest.skip(f"wasmer: {reason}")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    name: str = request.param
    if name not in _MADE:
        _MADE[name] = ENGINES[name]()
    return _MADE[name]


@pytest.fixture
def guests(engine: Engine) -> Iterator[Guests]:
    made = Guests(engine)
    yield made
    made.close()
