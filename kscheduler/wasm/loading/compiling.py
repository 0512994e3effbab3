"""Turns a guest's bytes into a version that can run: reads its interface, and compiles it or uses the cache."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial

from kscheduler.wasm.engine import Engine, Module
from kscheduler.wasm.loading.abi import Interface, interface_of
from kscheduler.wasm.loading.apart import begin_apart
from kscheduler.wasm.loading.compiled_cache import CompiledCache, cache_key
from kscheduler.wasm.loading.fetch import LoadError
from kscheduler.wasm.loading.sections import BadModule, Sections, read_sections

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a guest may take to compile. Large ones written in Go take some seconds; engines cannot be stopped."""

    first_report_s: float = 10.0  # until the log says that it takes long; twice as long each time
    limit_s: float = 300.0  # then it is given up


PATIENCE = Patience()


@dataclass(frozen=True, slots=True)
class Version:
    """A compiled version of a guest, with its digest and interface."""

    sha256: str
    sections: Sections
    interface: Interface
    module: Module


def read_interface(wasm: bytes) -> tuple[Sections, Interface]:
    """Return the module's imports and exports, and its interface as a plugin.

    Raises LoadError if it cannot be a plugin.
    """
    try:
        sections = read_sections(wasm)
    except BadModule as error:
        raise LoadError(f"wasm: error compiling guest: {error}") from error
    interface = interface_of(sections)
    if interface.faults:
        raise LoadError("; ".join(interface.faults))
    return sections, interface


def compile_version(
    wasm: bytes, sha256: str, engine: Engine, cache: CompiledCache | None, *, plugin: str = ""
) -> Version:
    """Check and compile a guest. Raises LoadError. `plugin` is its name in the log.

    It takes seconds, mostly without the GIL, so it must not run on the event loop's thread.
    """
    sections, interface = read_interface(wasm)
    return Version(sha256, sections, interface, compile_module(wasm, sha256, engine, cache, plugin=plugin))


def compile_module(
    wasm: bytes,
    sha256: str,
    engine: Engine,
    cache: CompiledCache | None,
    *,
    plugin: str = "",
    patience: Patience = PATIENCE,
) -> Module:
    key = cache_key(sha256, engine)
    if cache is not None and (blob := cache.get(key)) is not None:
        try:
            return engine.load(blob)
        except Exception as error:  # written by another build of the engine, or for another processor
            log.warning("compiled guest is refused by the engine; it is compiled again", extra={"err": str(error)})
            cache.remove(key)
    # Apart, so that a signal to stop is not held up until it is done.
    compiling = begin_apart(partial(engine.compile, wasm), "guest-compile")
    try:
        _wait(compiling, patience, {"plugin": plugin, "sha256": sha256, "bytes": len(wasm)})
        module = compiling.result()
    except Exception as error:
        raise LoadError(f"wasm: error compiling guest: {error}") from error
    if cache is not None:
        try:
            cache.put(key, module.serialize())
        except Exception as error:
            log.warning("compiled guest cannot be kept", extra={"err": str(error)})
    return module


def _wait(compiling: Future[Module], patience: Patience, fields: dict[str, object]) -> None:
    """Wait until a guest is compiled, and log now and then that it is not. Raises LoadError when patience ends."""
    start = time.monotonic()
    report_s, has_reported = patience.first_report_s, False
    while True:
        passed_s = time.monotonic() - start
        if wait((compiling,), max(0.0, min(report_s, patience.limit_s) - passed_s)).done:
            if has_reported:
                took_s = time.monotonic() - start
                log.info("a wasm plugin has been compiled", extra={**fields, "seconds": round(took_s, 1)})
            return
        if report_s >= patience.limit_s:
            raise LoadError(f"expected at most {patience.limit_s:g} s of compiling, got more")
        log.warning("a wasm plugin takes long to compile", extra={**fields, "seconds": round(report_s, 1)})
        report_s, has_reported = 2.0 * report_s, True
