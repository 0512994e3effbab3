"""The engines of this machine, and guests from their text."""

from __future__ import annotations

import os
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
from kscheduler.wasm.wasmer import build
from kscheduler.wasm.wasmer.library import cached_library
from kscheduler.wasm.wasmtime.modules import WasmtimeEngine
from tests.support.skips import is_ci, missing_tool

ENGINES: dict[str, Callable[[], Engine]] = {
    "wasmtime": WasmtimeEngine,
    "wasmer": lambda: engine_named("wasmer"),
}

# For guests of which the deadline is not the matter.
PATIENT = Limits(deadline_s=5.0)

_MADE: dict[str, Engine | EngineUnavailable] = {}  # name -> the one of this process, or why there is none


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
    """The engine of this process. Without libwasmer, which takes minutes to build, the test is skipped."""
    if name not in _MADE:
        try:
            _MADE[name] = _new_wasmer() if name == "wasmer" else ENGINES[name]()
        except EngineUnavailable as error:
            _MADE[name] = error
    found = _MADE[name]
    if not isinstance(found, EngineUnavailable):
        return found
    if name != "wasmer":
        raise found
    missing_tool(str(found))


def _new_wasmer() -> Engine:
    """CI builds it beside other tests (.ci/run), and here it is waited for, or built if that was left out or failed."""
    try:
        return engine_named("wasmer")
    except EngineUnavailable as error:
        if not is_ci():
            raise
        try:
            build.build(cached_library(os.environ), os.environ)
        except build.NothingToBuildWith as failed:
            missing_tool(f"wasmer cannot be built here: {failed}")
        except build.BuildError as failed:
            raise EngineUnavailable(f"{error}; {failed}") from None
        return engine_named("wasmer")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    return made_engine(request.param)


@pytest.fixture
def guests(engine: Engine) -> Iterator[Guests]:
    made = Guests(engine)
    yield made
    made.close()
