"""The engine and modules of wasmer: compiling, the imports and exports of a module, and serialization."""

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
    ExternType,
    FaultKind,
    GuestFault,
    HostFunction,
    Import,
    Instance,
    Limits,
    Wasi,
)
from kscheduler.wasm.loading.sections import BadModule, Sections, read_sections
from kscheduler.wasm.wasmer import calls, linking
from kscheduler.wasm.wasmer.instrumentation import Unsupported, instrumented, table_minimums

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
        return linking.instantiate(self, functions, limits, wasi)


def _needs(wasm: bytes, declared: Sections) -> Needs:
    return Needs(
        max((each.minimum_pages for each in declared.memories), default=0),
        sum(table_minimums(wasm)),
        declared.has_start,
    )
