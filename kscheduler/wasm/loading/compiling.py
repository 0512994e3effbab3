"""Turns a guest's bytes into a version that can run: reads its interface, and compiles it or uses the cache."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from kscheduler.wasm.engine import Engine, Module
from kscheduler.wasm.loading.abi import Interface, interface_of
from kscheduler.wasm.loading.compiled_cache import CompiledCache, cache_key
from kscheduler.wasm.loading.fetch import LoadError
from kscheduler.wasm.loading.sections import BadModule, Sections, read_sections

log = logging.getLogger(__name__)


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


def compile_version(wasm: bytes, sha256: str, engine: Engine, cache: CompiledCache | None) -> Version:
    """Check and compile a guest. Raises LoadError.

    It takes seconds, mostly without the GIL, so it must not run on the event loop's thread.
    """
    sections, interface = read_interface(wasm)
    return Version(sha256, sections, interface, compile_module(wasm, sha256, engine, cache))


def compile_module(wasm: bytes, sha256: str, engine: Engine, cache: CompiledCache | None) -> Module:
    key = cache_key(sha256, engine)
    if cache is not None and (blob := cache.get(key)) is not None:
        try:
            return engine.load(blob)
        except Exception as error:  # written by another build of the engine, or for another processor
            log.warning("compiled guest is refused by the engine; it is compiled again", extra={"err": str(error)})
            cache.remove(key)
    try:
        module = engine.compile(wasm)
    except Exception as error:
        raise LoadError(f"wasm: error compiling guest: {error}") from error
    if cache is not None:
        try:
            cache.put(key, module.serialize())
        except Exception as error:
            log.warning("compiled guest cannot be kept", extra={"err": str(error)})
    return module
