"""The engine and modules of wasmer: compiling, serialization, and the steps from a module to an instance."""

from __future__ import annotations

import atexit
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from kscheduler.errors import DecodeError
from kscheduler.input.decoding import msgpack_decoder
from kscheduler.wasm import faults, stored
from kscheduler.wasm.engine import (
    DEFAULT_LIMITS,
    MEMORY,
    PAGE_BYTES,
    ExternType,
    FaultKind,
    GuestFault,
    HostFunction,
    Import,
    Instance,
    Limits,
    MemoryType,
    Output,
    Wasi,
)
from kscheduler.wasm.linkage import Link, resolve
from kscheduler.wasm.loading.sections import BadModule, Sections, read_sections
from kscheduler.wasm.wasmer import calls
from kscheduler.wasm.wasmer.instrumentation import (
    MAX_TABLE_ENTRIES,
    PAGE_EXPORT,
    START_EXPORT,
    Unsupported,
    instrumented,
    table_minimums,
)

# A deadline is enforced within two ticks, as with wasmtime.
TICK_S = 0.002
_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class Needs:
    """The initial sizes of an instance, which must not exceed its limits, and whether it has a start section."""

    memory_pages: int
    table_entries: int  # entries of all tables together
    has_start: bool  # a function that runs when the module is instantiated


_decode = msgpack_decoder(tuple[Needs, bytes])


class WasmerEngine:
    name = "wasmer"

    def __init__(self, library_version: str) -> None:
        """Create the engine. `library_version` is what library.bind_library returned."""
        self.version = f"{library_version}-2"  # "-2": number of kscheduler's instrumentation
        self.watch = calls.Watch(TICK_S)
        atexit.register(self.watch.close)
        os.register_at_fork(after_in_child=self.watch.forget)

    def compile(self, wasm: bytes) -> WasmerModule:
        wasm = bytes(wasm)
        try:
            declared = read_sections(wasm)
            # The instrumentation requires a valid module, whose code refers to nothing that it adds.
            calls.check(wasm)
            rewritten = instrumented(wasm, declared.imports, declared.memories)
            needs = _needs(wasm, declared)
            code = calls.compiled(rewritten)
        except (calls.LibraryError, BadModule, Unsupported) as error:
            raise GuestFault(FaultKind.BAD_MODULE, faults.one_line(f"cannot be compiled: {error}")) from None
        return WasmerModule(self, code, needs, dict(declared.exports), list(declared.imports))

    def load(self, serialized: bytes) -> WasmerModule:
        # The library does not check the bytes, and crashes the process with damaged ones.
        digest, kept = serialized[:_DIGEST_BYTES], serialized[_DIGEST_BYTES:]
        if hashlib.sha256(kept).digest() != digest:
            raise GuestFault(FaultKind.BAD_MODULE, "cannot be loaded: its digest is not that of its bytes")
        try:
            needs, packed = _decode(kept)
            exports, imports, code = stored.unpack(packed)
            return WasmerModule(self, calls.loaded(code), needs, exports, imports)
        except (DecodeError, calls.LibraryError) as error:
            raise GuestFault(FaultKind.BAD_MODULE, faults.one_line(f"cannot be loaded: {error}")) from None


class WasmerModule:
    def __init__(
        self,
        engine: WasmerEngine,
        code: calls.Code,
        needs: Needs,
        exports: dict[str, ExternType],
        imports: list[Import],
    ) -> None:
        self.engine = engine
        self.code = code
        self.needs = needs
        self.exports = exports
        self.imports = imports

    def serialize(self) -> bytes:
        packed = stored.pack(self.exports, self.imports, self.code.serialized())
        kept = msgspec.msgpack.encode((self.needs, packed))
        return hashlib.sha256(kept).digest() + kept

    def instantiate(
        self, functions: Iterable[HostFunction] = (), limits: Limits = DEFAULT_LIMITS, *, wasi: Wasi | None = None
    ) -> Instance:
        # 1. Host functions for the imports, and the limits, before anything is made.
        wanted = resolve(self.imports, functions, wasi)
        _check_limits(self.needs, limits)
        # 2. The instance, with its host functions in the order of the imports; nothing of it runs yet.
        guest = calls.Guest(self.engine.watch, self.code, Link(self.exports), limits, Output(limits.output_bytes))
        hidden = [PAGE_EXPORT, START_EXPORT] if self.needs.has_start else [PAGE_EXPORT]
        memory = MEMORY if isinstance(self.exports.get(MEMORY), MemoryType) else None
        try:
            try:
                guest.instantiate(
                    [(each.function, each.params, each.results) for each in wanted],
                    [*self.exports, *hidden],
                    PAGE_EXPORT,
                    memory,
                )
            except calls.LibraryError as error:
                raise GuestFault(FaultKind.TRAP, faults.one_line(f"cannot be instantiated: {error}")) from None
            # 3. Its start section, if it has one.
            if self.needs.has_start:
                guest.deadline_s = limits.start_deadline_s
                guest.call_hidden(START_EXPORT, "start section")
                guest.deadline_s = limits.deadline_s
        except BaseException:
            guest.close()
            raise
        return guest


def _needs(wasm: bytes, declared: Sections) -> Needs:
    return Needs(
        max((each.minimum_pages for each in declared.memories), default=0),
        sum(table_minimums(wasm)),
        declared.has_start,
    )


def _check_limits(needs: Needs, limits: Limits) -> None:
    pages = limits.memory_bytes // PAGE_BYTES
    if needs.memory_pages > pages:
        raise GuestFault(
            FaultKind.MEMORY,
            f"cannot be instantiated: memory of {needs.memory_pages} pages, expected at most {pages}",
        )
    if needs.table_entries > MAX_TABLE_ENTRIES:
        raise GuestFault(
            FaultKind.MEMORY,
            f"cannot be instantiated: tables of {needs.table_entries} entries, expected at most {MAX_TABLE_ENTRIES}",
        )
