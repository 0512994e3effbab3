"""An instance in a wasmtime store, as kscheduler's calls see it: it is instantiated here, and its exports are found."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kscheduler.wasm import faults
from kscheduler.wasm.engine import MEMORY, ExternType, FaultKind, FuncType, GuestFault, HostFunction
from kscheduler.wasm.linkage import NO_CODE, Link
from kscheduler.wasm.wasmtime import library
from kscheduler.wasm.wasmtime.library import Code, Store

# wasmtime_extern: a byte for the kind, then at 8 the struct of that kind
_EXTERN_BYTES, _STRUCT_AT, _FUNC_BYTES, _MEMORY_BYTES = 32, 8, 16, 24
_EXTERN_FUNC, _EXTERN_MEMORY = 0, 3


class StoreLink(Link):
    """An instance in a wasmtime store; finds its exports by name."""

    take_failure = staticmethod(library.take_failure)

    def __init__(self, store: Store, exports: Mapping[str, ExternType]) -> None:
        super().__init__(exports)
        self.store = store
        self._instance = ctypes.create_string_buffer(16)

    def externs(
        self, guest: Any, functions: Sequence[HostFunction], type_address: Callable[[FuncType], int]
    ) -> ctypes.Array[ctypes.c_char]:
        """Define host functions in the store; return their C structs, in this order.

        `type_address` returns the address of a function's type as the engine has it.
        """
        structs = ctypes.create_string_buffer(_EXTERN_BYTES * max(1, len(functions)))
        for index, function in enumerate(functions):
            callback, environment = guest.add_binding(function.function, function.params, function.results)
            at = ctypes.addressof(structs) + _EXTERN_BYTES * index + _STRUCT_AT
            library.func_new_unchecked(self.store.context, type_address(function.type), callback, environment, None, at)
        return structs

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

    def memory(self) -> bytes:
        """Return the C struct of the exported memory. Raises GuestFault if there is none."""
        return self.export(MEMORY, _EXTERN_MEMORY, _MEMORY_BYTES)

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
