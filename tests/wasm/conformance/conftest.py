"""The engines of this machine, and guests from their text."""

from __future__ import annotations

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
    "wasmer": lambda: engine_named("wasmer"),
}

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


def made_engine(name: str) -> Engine:
    """The engine of this process; the test is skipped without libwasmer, which takes minutes to build."""
    if name not in _MADE:
        try:
            _MADE[name] = ENGINES[name]()
        except EngineUnavailable as error:
            if name != "wasmer":
                raise
            pytest.skip(f"wasmer: {error}")
    return _MADE[name]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    return made_engine(request.param)


@pytest.fixture
def guests(engine: Engine) -> Iterator[Guests]:
    made = Guests(engine)
    yield made
    made.close()
