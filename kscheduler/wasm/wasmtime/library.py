"""The functions of wasmtime's C API that are not hot, with plain addresses for pointers, and what owns them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from wasmtime import _ffi

pointer, size_t, u8, i64, flag = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint8, ctypes.c_int64, ctypes.c_bool


class Text(ctypes.Structure):
    """wasm_byte_vec_t"""

    _fields_ = [("size", size_t), ("data", pointer)]


def function(name: str, result: Any, *args: Any) -> Callable[..., Any]:
    """A function of the library, called without the GIL."""
    return ctypes.CFUNCTYPE(result, *args)((name, _ffi.dll))


HANDLE: int = _ffi.dll._handle  # of dlopen

store_new = function("wasmtime_store_new", pointer, pointer, pointer, pointer)
store_context = function("wasmtime_store_context", pointer, pointer)
store_limiter = function("wasmtime_store_limiter", None, pointer, i64, i64, i64, i64, i64)
store_delete = function("wasmtime_store_delete", None, pointer)
set_epoch_deadline = function("wasmtime_context_set_epoch_deadline", None, pointer, ctypes.c_uint64)
func_new_unchecked = function("wasmtime_func_new_unchecked", None, pointer, pointer, pointer, pointer, pointer, pointer)
instance_new = function("wasmtime_instance_new", pointer, pointer, pointer, pointer, size_t, pointer, pointer)
instance_export_get = function("wasmtime_instance_export_get", flag, pointer, pointer, ctypes.c_char_p, size_t, pointer)
engine_clone = function("wasmtime_engine_clone", pointer, pointer)
trap_code = function("wasmtime_trap_code", flag, pointer, pointer)
trap_message = function("wasm_trap_message", None, pointer, pointer)
trap_delete = function("wasm_trap_delete", None, pointer)
error_message = function("wasmtime_error_message", None, pointer, pointer)
error_delete = function("wasmtime_error_delete", None, pointer)
text_delete = function("wasm_byte_vec_delete", None, pointer)


def address_of(managed: Any) -> int:
    """Where an object of the wasmtime package lives in the library."""
    found = ctypes.cast(managed.ptr(), pointer).value
    assert found is not None
    return found


class Store:
    """Owns an instance with its memory; freed with the last reference."""

    __slots__ = ("_address", "context")

    def __init__(self, engine: int) -> None:
        self._address: int = store_new(engine, None, None)
        self.context: int = store_context(self._address)

    def limit(self, memory_bytes: int) -> None:
        # One instance with one memory; tables of 100,000 entries are more than any toolchain makes.
        store_limiter(self._address, memory_bytes, 100_000, 1, 4, 1)

    def __del__(self, delete: Callable[..., Any] = store_delete) -> None:
        delete(self._address)


def take_failure(error: int | None, trap: int | None) -> tuple[int | None, str]:
    """(trap code, text) of what a call left behind, which is freed."""
    text, code, known = Text(0, None), u8(), None
    if trap:
        if trap_code(trap, ctypes.byref(code)):
            known = code.value
        trap_message(trap, ctypes.byref(text))
        trap_delete(trap)
    if error:
        if not text.data:
            error_message(error, ctypes.byref(text))
        error_delete(error)
    message = ctypes.string_at(text.data, text.size).decode("utf-8", "replace") if text.data else ""
    text_delete(ctypes.byref(text))
    return known, message.rstrip("\0")
