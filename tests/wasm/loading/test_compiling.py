"""From bytes to a version: compiled once, and again whenever the cache cannot be trusted."""

from __future__ import annotations

import logging
import signal
import threading
from pathlib import Path

import pytest

from kscheduler.wasm.loading.abi import Abi
from kscheduler.wasm.loading.compiled_cache import CompiledCache
from kscheduler.wasm.loading.compiling import Patience, compile_module, compile_version
from kscheduler.wasm.loading.fetch import LoadError
from tests.wasm.loading.modules import FILTER, FakeEngine, FakeModule, module

DIGEST = "d" * 64


def test_a_version_is_a_digest_an_interface_and_a_module() -> None:
    version = compile_version(FILTER, DIGEST, FakeEngine(), None)
    assert version.sha256 == DIGEST
    assert (version.interface.abi, version.interface.points) == (Abi.EXTENSION, ("filter",))
    assert version.module.serialize() == b"compiled " + FILTER


def test_the_second_start_takes_the_compiled_module_from_the_cache(tmp_path: Path) -> None:
    first, second = FakeEngine(), FakeEngine()
    compile_module(FILTER, DIGEST, first, CompiledCache(tmp_path / "c"))
    compile_module(FILTER, DIGEST, second, CompiledCache(tmp_path / "c"))
    assert first.compiled == [FILTER]
    assert (second.compiled, second.loaded) == ([], [b"compiled " + FILTER])


def test_another_engine_version_compiles_again(tmp_path: Path) -> None:
    newer = FakeEngine(version="2")
    for engine in (FakeEngine(), newer):
        compile_module(FILTER, DIGEST, engine, CompiledCache(tmp_path / "c"))
    assert newer.compiled == [FILTER]


def test_a_damaged_blob_never_reaches_the_engine(tmp_path: Path) -> None:
    compile_module(FILTER, DIGEST, FakeEngine(), CompiledCache(tmp_path / "c"))
    (path,) = (tmp_path / "c").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    engine = FakeEngine()
    compile_module(FILTER, DIGEST, engine, CompiledCache(tmp_path / "c"))
    assert (engine.compiled, engine.loaded) == ([FILTER], [])
    again = FakeEngine()
    compile_module(FILTER, DIGEST, again, CompiledCache(tmp_path / "c"))
    assert again.loaded == [b"compiled " + FILTER]


def test_a_blob_the_engine_refuses_is_compiled_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache, engine = CompiledCache(tmp_path / "c"), FakeEngine()
    compile_module(FILTER, DIGEST, engine, cache)
    engine.refuses_blobs = True
    compile_module(FILTER, DIGEST, engine, cache)
    assert engine.compiled == [FILTER, FILTER]
    assert "compiled guest is refused by the engine" in caplog.text


@pytest.mark.parametrize(
    ("wasm", "message"),
    [
        (b"<html>", "wasm: error compiling guest: expected WebAssembly, .* got a page of HTML or XML"),
        (FILTER[:20], "wasm: error compiling guest: byte "),
        (module(), "wasm: guest does not export any plugin functions"),
        (module({"filter": ":i"}, custom=b"BAD"), "wasm: error compiling guest: invalid module at offset 7"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words_that_are_known(wasm: bytes, message: str) -> None:
    with pytest.raises(LoadError, match=f"^{message}"):
        compile_version(wasm, DIGEST, FakeEngine(), None)


class SlowEngine(FakeEngine):
    """Compiles once it is released."""

    def __init__(self, *, interrupts: bool = False) -> None:
        super().__init__()
        self.release = threading.Event()
        self._interrupts = interrupts

    def compile(self, wasm: bytes) -> FakeModule:
        if self._interrupts:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        self.release.wait()
        return super().compile(wasm)


class ReleaseAtFirstWord(logging.Handler):
    """Lets the engine go on once the log says that it takes long."""

    def __init__(self, engine: SlowEngine) -> None:
        super().__init__()
        self._engine = engine

    def emit(self, record: logging.LogRecord) -> None:
        if "takes long" in record.getMessage():
            self._engine.release.set()


def test_a_guest_that_takes_long_is_named_in_the_log_until_it_is_compiled(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    engine = SlowEngine()
    logger, handler = logging.getLogger("kscheduler.wasm.loading.compiling"), ReleaseAtFirstWord(engine)
    logger.addHandler(handler)
    try:
        compile_module(FILTER, DIGEST, engine, None, plugin="Policy", patience=Patience(first_report_s=1e-6))
    finally:
        logger.removeHandler(handler)
    first, *_, last = caplog.records
    assert first.getMessage() == "a wasm plugin takes long to compile"
    assert (vars(first)["plugin"], vars(first)["bytes"]) == ("Policy", len(FILTER))
    assert last.getMessage() == "a wasm plugin has been compiled"


def test_a_guest_that_takes_too_long_is_refused() -> None:
    engine = SlowEngine()
    try:
        with pytest.raises(LoadError, match=r"^wasm: error compiling guest: expected at most 0 s of compiling, got"):
            compile_module(FILTER, DIGEST, engine, None, patience=Patience(limit_s=0.0))
    finally:
        engine.release.set()


def test_an_interrupt_does_not_wait_until_a_guest_is_compiled() -> None:
    engine = SlowEngine(interrupts=True)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            compile_module(FILTER, DIGEST, engine, None)
    finally:
        signal.signal(signal.SIGINT, before)
        engine.release.set()
