"""The engine and modules of wasmtime: configuration, compiling, and the steps from a module to an instance."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import wasmtime

from kscheduler.wasm import faults, stored
from kscheduler.wasm.engine import (
    DEFAULT_LIMITS,
    MEBIBYTE,
    MEMORY,
    STACK_BYTES,
    ExternType,
    FaultKind,
    FuncType,
    GuestFault,
    HostFunction,
    Import,
    Instance,
    Limits,
    MemoryType,
    Output,
    Wasi,
)
from kscheduler.wasm.linkage import resolve
from kscheduler.wasm.loading.sections import BadModule, read_sections
from kscheduler.wasm.wasmtime import calls, layout, library
from kscheduler.wasm.wasmtime.library import Code, LibraryError, Store
from kscheduler.wasm.wasmtime.linking import StoreLink

# A deadline is enforced within two ticks: time counts from the first one. Holders of the GIL may take 5 ms anyway.
TICK_S = 0.002

# Reserved address space of a memory. A memory whose limit is not larger never moves.
RESERVED_BYTES = 64 * MEBIBYTE
GUARD_BYTES = 64 * 1024


def configuration() -> wasmtime.Config:
    """Return a configuration for interruptible guests with little address space and only the usual wasm features."""
    config = wasmtime.Config()
    config.epoch_interruption = True
    config.memory_reservation = RESERVED_BYTES
    config.memory_reservation_for_growth = RESERVED_BYTES
    config.memory_guard_size = GUARD_BYTES
    config.max_wasm_stack = STACK_BYTES
    # Compiling uses one core, and leaves the others to the scheduler. It also does not hang in a forked child, which
    # would wait forever for its parent's compiling threads.
    config.parallel_compilation = False
    config.wasm_threads = False
    config.wasm_memory64 = False
    config.wasm_multi_memory = False
    config.wasm_exceptions = False
    config.wasm_gc = False
    config.wasm_function_references = False
    return config


class WasmtimeEngine:
    name = "wasmtime"

    def __init__(self) -> None:
        calls.bind(library.HANDLE)
        self.calls: Any = calls
        self.version = f"{layout.installed_version()}-1"  # "-1": number of kscheduler's configuration
        self.address = library.new_engine(configuration())
        self._func_types: dict[FuncType, int] = {}  # addresses of host functions' types; some dozens
        self.epoch = calls.Epoch(self.address, TICK_S)
        atexit.register(self.epoch.stop)
        os.register_at_fork(after_in_child=self.epoch.forget)

    def compile(self, wasm: bytes) -> WasmtimeModule:
        try:
            declared = read_sections(wasm)
            code = Code(library.module_new, self.address, bytes(wasm))
        except (LibraryError, BadModule) as error:
            raise GuestFault(FaultKind.BAD_MODULE, faults.one_line(f"cannot be compiled: {error}")) from None
        return WasmtimeModule(self, code, declared.exports, declared.imports)

    def load(self, serialized: bytes) -> WasmtimeModule:
        exports, imports, code = stored.unpack(serialized)
        try:
            return WasmtimeModule(self, Code(library.module_deserialize, self.address, code), exports, imports)
        except LibraryError as error:
            raise GuestFault(FaultKind.BAD_MODULE, faults.one_line(f"cannot be loaded: {error}")) from None

    def func_type_address(self, kind: FuncType) -> int:
        found = self._func_types.get(kind)
        if found is None:
            found = self._func_types[kind] = library.new_func_type(kind.params, kind.results)
        return found

    def may_move(self, limits: Limits) -> bool:
        """Return whether a memory with these limits can outgrow its reserved address space, so that it has to move."""
        return limits.memory_bytes > RESERVED_BYTES


class WasmtimeModule:
    def __init__(
        self,
        engine: WasmtimeEngine,
        code: Code,
        exports: Mapping[str, ExternType],
        imports: Sequence[Import],
    ) -> None:
        self.engine = engine
        self.exports = exports
        self.imports = imports
        self.code = code

    def serialize(self) -> bytes:
        return stored.pack(self.exports, self.imports, self.code.serialized())

    def instantiate(
        self, functions: Iterable[HostFunction] = (), limits: Limits = DEFAULT_LIMITS, *, wasi: Wasi | None = None
    ) -> Instance:
        # 1. Host functions for the imports, before anything is made.
        wanted = resolve(self.imports, functions, wasi)
        # 2. A store with its limits.
        engine = self.engine
        link = StoreLink(Store(engine.address), self.exports)
        link.store.limit(limits.memory_bytes)
        guest: Any = engine.calls.Guest(
            engine.epoch, link.store.context, link, limits, Output(limits.output_bytes), engine.may_move(limits)
        )
        link.store.ask_when_due(*guest.epoch_callback)
        try:
            # 3. The host functions, in the order of the imports.
            externs = link.externs(guest, wanted, engine.func_type_address)
            # 4. The instance; its start section, if it has one, runs here.
            link.instantiate(guest, self.code, externs, len(wanted))
            # 5. Its memory.
            if isinstance(self.exports.get(MEMORY), MemoryType):
                guest.set_memory(link.memory())
        except BaseException:
            guest.close()
            raise
        instance: Instance = guest
        return instance
