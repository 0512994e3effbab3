"""Makes an instance from a module: a wasmtime store with its limits, host functions and exports."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kscheduler.wasm import faults
from kscheduler.wasm.engine import (
    MEMORY,
    ExternType,
    FaultKind,
    GuestFault,
    HostFunction,
    Instance,
    Limits,
    MemoryType,
    Output,
    Wasi,
)
from kscheduler.wasm.linkage import NO_CODE, Link, resolve
from kscheduler.wasm.wasmtime import library
from kscheduler.wasm.wasmtime.library import Code, Store

if TYPE_CHECKING:
    from kscheduler.wasm.wasmtime.modules import WasmtimeModule

# wasmtime_extern: a byte for the kind, then at 8 the struct of that kind
_EXTERN_BYTES, _STRUCT_AT, _FUNC_BYTES, _MEMORY_BYTES = 32, 8, 16, 24
_EXTERN_FUNC, _EXTERN_MEMORY = 0, 3


def instantiate(
    module: WasmtimeModule, functions: Iterable[HostFunction], limits: Limits, wasi: Wasi | None
) -> Instance:
    # 1. Host functions for the imports, before anything is made.
    wanted = resolve(module.imports, functions, wasi)
    # 2. A store with its limits.
    engine = module.engine
    link = StoreLink(Store(engine.address), module.exports)
    link.store.limit(limits.memory_bytes)
    guest: Any = engine.calls.Guest(
        engine.epoch, link.store.context, link, limits, Output(limits.output_bytes), engine.may_move(limits)
    )
    link.store.ask_when_due(*guest.epoch_callback)
    try:
        # 3. The host functions, in the order of the imports.
        externs = ctypes.create_string_buffer(_EXTERN_BYTES * max(1, len(wanted)))
        for index, function in enumerate(wanted):
            callback, environment = guest.add_binding(function.function, function.params, function.results)
            at = ctypes.addressof(externs) + _EXTERN_BYTES * index + _STRUCT_AT
            library.func_new_unchecked(
                link.store.context, engine.func_type_address(function.type), callback, environment, None, at
            )
        # 4. The instance; its start section, if it has one, runs here.
        link.instantiate(guest, module.code, externs, len(wanted))
        # 5. Its memory.
        if isinstance(module.exports.get(MEMORY), MemoryType):
            guest.set_memory(link.export(MEMORY, _EXTERN_MEMORY, _MEMORY_BYTES))
    except BaseException:
        guest.close()
        raise
    instance: Instance = guest
    return instance


class StoreLink(Link):
    """An instance in a wasmtime store; finds its exports by name."""

    take_failure = staticmethod(library.take_failure)

    def __init__(self, store: Store, exports: Mapping[str, ExternType]) -> None:
        super().__init__(exports)
        self.store = store
        self._instance = ctypes.create_string_buffer(16)

    def instantiate(self, guest: Any, code: Code, externs: ctypes.Array[ctypes.c_char], count: int) -> None:
        trap = ctypes.c_void_p()
        guest.deadline_s = guest.limits.start_deadline_s
        guest.begin()
        try:
            error = library.instance_new(
                self.store.context, code.address, externs, count, self._instance, ctypes.byref(trap)
            )
        finally:
            verdict = guest.end()
        if error or trap.value:
            text = self.take_failure(error, trap.value)
            pending = guest.take_pending()
            if error and pending is None and not verdict:
                # The imports were checked before, so it can only be a limit of the store.
                raise GuestFault(FaultKind.MEMORY, faults.one_line(f"cannot be instantiated: {text}"))
            self.fail(guest, "start section", verdict or NO_CODE, text, pending)
        guest.deadline_s = guest.limits.deadline_s

    def export(self, name: str, kind: int, size: int) -> bytes:
        """Return the C struct of an export, as bytes. Raises GuestFault if there is none of this name and kind."""
        item = ctypes.create_string_buffer(_EXTERN_BYTES)
        encoded = name.encode()
        found = library.instance_export_get(self.store.context, self._instance, encoded, len(encoded), item)
        if not found or item.raw[0] != kind:
            raise GuestFault(FaultKind.BAD_MODULE, faults.one_line(f"the export {name} is not there"))
        return item.raw[_STRUCT_AT : _STRUCT_AT + size]

    def find(self, export: str) -> tuple[bytes, str, str]:
        """Return (C struct, parameters, results) of an exported function.

        Raises GuestFault if the host cannot call it.
        """
        params, results = self.function_type(export)
        return self.export(export, _EXTERN_FUNC, _FUNC_BYTES), params, results
