"""wasmer's engine and modules, as the parent sees them: compiling is a child's work too."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata

import msgspec

from kscheduler.decoding import msgpack_decoder
from kscheduler.errors import DecodeError
from kscheduler.wasm import faults
from kscheduler.wasm import wasi as wasi_functions
from kscheduler.wasm.engine import (
    DEFAULT_LIMITS,
    EngineUnavailable,
    ExternType,
    FaultKind,
    GuestFault,
    HostFunction,
    Import,
    Instance,
    Limits,
    Wasi,
)
from kscheduler.wasm.linkage import resolve
from kscheduler.wasm.loading.sections import BadModule, read_sections
from kscheduler.wasm.wasmer.instances import ChildProcess, WasmerInstance
from kscheduler.wasm.wasmer.memory_cap import with_cap

COMPILE_DEADLINE_S = 30.0
_DIGEST_BYTES = 32

_Stored = tuple[bytes, dict[int, bytes]]  # wasm, memory cap -> code
_decode = msgpack_decoder(_Stored)


class WasmerEngine:
    name = "wasmer"

    def __init__(self) -> None:
        try:
            importlib.import_module("wasmer_compiler_cranelift")
            importlib.import_module("wasmer").Store  # noqa: B018 (a stub has none, where it does not raise)
        except (ImportError, AttributeError) as error:
            raise EngineUnavailable(
                "engine wasmer needs the packages wasmer==1.1.0 and wasmer-compiler-cranelift==1.1.0"
            ) from error
        self.version = f"{metadata.version('wasmer')}-1"  # the number of our configuration

    def compile(self, wasm: bytes) -> WasmerModule:
        module = WasmerModule(bytes(wasm), {})
        module.code(DEFAULT_LIMITS.memory_bytes, is_first=True)
        return module

    def load(self, serialized: bytes) -> WasmerModule:
        # A child that loads damaged code would crash, or worse.
        digest, stored = serialized[:_DIGEST_BYTES], serialized[_DIGEST_BYTES:]
        if hashlib.sha256(stored).digest() != digest:
            raise GuestFault(FaultKind.BAD_MODULE, "cannot be loaded: its digest is not that of its bytes")
        try:
            return WasmerModule(*_decode(stored))
        except DecodeError as error:
            raise GuestFault(FaultKind.BAD_MODULE, f"cannot be loaded: {error}") from None


class WasmerModule:
    def __init__(self, wasm: bytes, codes: dict[int, bytes]) -> None:
        try:
            declared = read_sections(wasm)
        except BadModule as error:
            raise GuestFault(FaultKind.BAD_MODULE, faults.one_line(f"cannot be compiled: {error}")) from None
        self.exports: Mapping[str, ExternType] = declared.exports
        self.imports: Sequence[Import] = declared.imports
        self._wasm = wasm
        self._codes = codes  # memory cap in bytes -> compiled code

    def serialize(self) -> bytes:
        stored = msgspec.msgpack.encode((self._wasm, self._codes))
        return hashlib.sha256(stored).digest() + stored

    def code(self, memory_bytes: int, *, is_first: bool = False) -> bytes:
        """Compiled with this cap; the first time only to see whether it compiles, whatever memory it begins with."""
        found = self._codes.get(memory_bytes)
        if found is None:
            try:
                capped = with_cap(self._wasm, memory_bytes)
            except GuestFault as fault:
                if not is_first or fault.kind is not FaultKind.MEMORY:
                    raise
                return self._compiled(self._wasm, memory_bytes)
            found = self._codes[memory_bytes] = self._compiled(capped, memory_bytes)
        return found

    def _compiled(self, wasm: bytes, memory_bytes: int) -> bytes:
        child = ChildProcess(memory_bytes)
        try:
            said, given = child.ask(["compile", wasm], COMPILE_DEADLINE_S)
        except (TimeoutError, EOFError) as error:
            raise GuestFault(
                FaultKind.BAD_MODULE, f"cannot be compiled: {faults.one_line(str(error) or 'it takes too long')}"
            ) from None
        finally:
            child.kill()
        if said != "ok" or not isinstance(given, bytes):
            raise GuestFault(FaultKind.BAD_MODULE, faults.one_line(f"cannot be compiled: {given}"))
        return given

    def instantiate(
        self, functions: Iterable[HostFunction] = (), limits: Limits = DEFAULT_LIMITS, *, wasi: Wasi | None = None
    ) -> Instance:
        offered = [*functions, *(wasi_functions.functions(wasi) if wasi is not None else ())]
        wanted = resolve(self.imports, offered)
        return WasmerInstance(self.code(limits.memory_bytes), self.exports, wanted, limits)
