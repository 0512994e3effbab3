"""The rarely called functions of wasmtime's C API, with integers for pointers, and classes that own its objects.

The wasmtime package's own objects are not used, because at the end of the program they refer to modules that may be
gone by then, and print errors. A class here keeps a reference to the one function that it needs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import wasmtime
from wasmtime import _ffi

pointer, size_t, u8, i64, flag = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint8, ctypes.c_int64, ctypes.c_bool


class Text(ctypes.Structure):
    """The C struct wasm_byte_vec_t; all vectors of the C API have this layout."""

    _fields_ = [("size", size_t), ("data", pointer)]


def function(name: str, result: Any, *args: Any) -> Callable[..., Any]:
    """Return a function of the library, which is called without the GIL."""
    return ctypes.CFUNCTYPE(result, *args)((name, _ffi.dll))


HANDLE: int = _ffi.dll._handle  # the handle of dlopen

store_new = function("wasmtime_store_new", pointer, pointer, pointer, pointer)
store_context = function("wasmtime_store_context", pointer, pointer)
store_limiter = function("wasmtime_store_limiter", None, pointer, i64, i64, i64, i64, i64)
store_epoch_deadline_callback = function(
    "wasmtime_store_epoch_deadline_callback", None, pointer, pointer, pointer, pointer
)
store_delete = function("wasmtime_store_delete", None, pointer)
func_new_unchecked = function("wasmtime_func_new_unchecked", None, pointer, pointer, pointer, pointer, pointer, pointer)
instance_new = function("wasmtime_instance_new", pointer, pointer, pointer, pointer, size_t, pointer, pointer)
instance_export_get = function("wasmtime_instance_export_get", flag, pointer, pointer, ctypes.c_char_p, size_t, pointer)
engine_clone = function("wasmtime_engine_clone", pointer, pointer)
module_new = function("wasmtime_module_new", pointer, pointer, ctypes.c_char_p, size_t, pointer)
module_serialize = function("wasmtime_module_serialize", pointer, pointer, pointer)
module_deserialize = function("wasmtime_module_deserialize", pointer, pointer, ctypes.c_char_p, size_t, pointer)
module_delete = function("wasmtime_module_delete", None, pointer)
valtype_new = function("wasm_valtype_new", pointer, u8)
valtype_vec_new = function("wasm_valtype_vec_new", None, pointer, size_t, pointer)
functype_new = function("wasm_functype_new", pointer, pointer, pointer)
trap_message = function("wasm_trap_message", None, pointer, pointer)
trap_delete = function("wasm_trap_delete", None, pointer)
error_message = function("wasmtime_error_message", None, pointer, pointer)
error_delete = function("wasmtime_error_delete", None, pointer)
text_delete = function("wasm_byte_vec_delete", None, pointer)


class LibraryError(Exception):
    """wasmtime refuses the bytes of a module; the message is wasmtime's."""


def new_engine(config: wasmtime.Config) -> int:
    """Return the address of a new engine, which is never freed."""
    made = wasmtime.Engine(config)
    address: int = engine_clone(ctypes.cast(made.ptr(), pointer))
    made.close()
    return address


_KINDS = {"i": 0, "I": 1, "f": 2, "F": 3}  # wasm_valkind_t


def new_func_type(params: str, results: str) -> int:
    """Return the address of a new function type. Use it with one engine only, since the library registers it there."""
    vectors = []
    for letters in (params, results):
        types = (ctypes.c_void_p * max(1, len(letters)))(*(valtype_new(_KINDS[letter]) for letter in letters))
        vectors.append(Text())
        valtype_vec_new(ctypes.byref(vectors[-1]), len(letters), types)
    address: int = functype_new(*map(ctypes.byref, vectors))
    return address


class Code:
    """Owns a compiled module, which is freed with the last reference. Instances keep alive the parts that they need."""

    __slots__ = ("address",)

    def __init__(self, make: Callable[..., Any], engine: int, data: bytes) -> None:
        """Compile or load a module: `make` is module_new or module_deserialize.

        Raises LibraryError if the library refuses `data`.
        """
        self.address: int | None = None
        made = ctypes.c_void_p()
        error = make(engine, data, len(data), ctypes.byref(made))
        if error:
            raise LibraryError(take_failure(error, None))
        self.address = made.value

    def serialized(self) -> bytes:
        text = Text()
        error = module_serialize(self.address, ctypes.byref(text))
        if error:
            raise LibraryError(take_failure(error, None))
        data = ctypes.string_at(text.data, text.size)
        text_delete(ctypes.byref(text))
        return data

    def __del__(self, delete: Callable[..., Any] = module_delete) -> None:
        if self.address is not None:
            delete(self.address)


class Store:
    """Owns an instance with its memory, which are freed with the last reference."""

    __slots__ = ("_address", "context")

    def __init__(self, engine: int) -> None:
        self._address: int = store_new(engine, None, None)
        self.context: int = store_context(self._address)

    def limit(self, memory_bytes: int) -> None:
        # One instance with one memory; no toolchain makes tables of 100,000 entries.
        store_limiter(self._address, memory_bytes, 100_000, 1, 4, 1)

    def ask_when_due(self, callback: int, environment: int) -> None:
        """Set the callback that decides whether a guest may continue at its epoch deadline.

        It must outlive all calls.
        """
        store_epoch_deadline_callback(self._address, callback, environment, None)

    def __del__(self, delete: Callable[..., Any] = store_delete) -> None:
        delete(self._address)


def take_failure(error: int | None, trap: int | None) -> str:
    """Return the message of a failed call's error or trap, and free both."""
    text = Text(0, None)
    if trap:
        trap_message(trap, ctypes.byref(text))
        trap_delete(trap)
    if error:
        if not text.data:
            error_message(error, ctypes.byref(text))
        error_delete(error)
    message = ctypes.string_at(text.data, text.size).decode("utf-8", "replace") if text.data else ""
    text_delete(ctypes.byref(text))
    return message.rstrip("\0")
