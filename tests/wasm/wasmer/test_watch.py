"""wasmer's watch, a thread that ends calls whose time is over, comes and goes with the calls."""

from __future__ import annotations

import threading

import pytest
import wasmtime

from kscheduler.wasm.engine import GuestFault, Limits
from kscheduler.wasm.wasmer.library import bind_library
from kscheduler.wasm.wasmer.modules import WasmerEngine
from tests.wasm.conformance.conftest import made_engine


@pytest.fixture
def engine() -> WasmerEngine:
    made_engine("wasmer")  # or the test is skipped
    return WasmerEngine(bind_library())


def test_the_watch_ends_and_begins_again(engine: WasmerEngine) -> None:
    module = engine.compile(bytes(wasmtime.wat2wasm('(module (func (export "spin") (loop br 0)))')))
    for _ in range(2):
        guest = module.instantiate((), Limits(deadline_s=0.005))
        with pytest.raises(GuestFault, match="spin: ran longer than 5 ms"):
            guest.call("spin")
        assert "wasm-watch" in {each.name for each in threading.enumerate()}
        guest.close()
        engine.watch.stop()


def test_a_call_that_cannot_be_watched_is_not_made(engine: WasmerEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    module = engine.compile(bytes(wasmtime.wat2wasm('(module (func (export "spin") (loop br 0)))')))
    guest = module.instantiate((), Limits(deadline_s=0.005))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="can't start new thread"):
                guest.call("spin")
    with pytest.raises(GuestFault, match="spin: ran longer than 5 ms"):
        guest.call("spin")
    guest.close()
    engine.watch.stop()
