"""The child process: one instance of one guest, on one thread, at the parent's word. See messages.py.

python -m kscheduler.wasm.wasmer.child DESCRIPTOR MEMORY_BYTES
"""

from __future__ import annotations

import contextlib
import importlib
import resource
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from kscheduler.wasm.engine import MEBIBYTE, STACK_BYTES
from kscheduler.wasm.wasmer.messages import MAX_TEXT, Channel, ChannelClosed

# Beside the guest's own memory: the interpreter, wasmer, and a compiler at work.
OWN_BYTES = 1024 * MEBIBYTE


class HostRaised(Exception):
    """The parent's host function raised; the parent keeps what."""


class Child:
    def __init__(self, channel: Channel) -> None:
        # By name: they exist for one version of Python only.
        wasmer: Any = importlib.import_module("wasmer")
        cranelift: Any = importlib.import_module("wasmer_compiler_cranelift")
        self._channel = channel
        self._wasmer = wasmer
        self._store = wasmer.Store(wasmer.engine.JIT(cranelift.Compiler))
        self._functions: dict[str, tuple[Any, str]] = {}  # export -> function, parameters
        self._memory: Any = None

    def serve(self) -> None:
        while True:
            message = self._channel.receive()
            try:
                self._channel.send(["ok", self._do(*message)])
            except ChannelClosed:
                raise
            except HostRaised:
                self._channel.send(["trap", "a host function raised"])
            except RuntimeError as error:
                self._channel.send(["trap", str(error)[:MAX_TEXT]])
            except BaseException as error:  # PanicException, by which wasmer says the rest, is no Exception
                self._channel.send(["refused", f"{type(error).__name__}: {error}"[:MAX_TEXT]])

    def _do(self, what: str, *given: Any) -> Any:
        if what == "call":
            export, numbers = given
            function, params = self._functions[export]
            return function(*map(_signed, params, numbers))
        if what == "compile":
            return bytes(self._wasmer.Module(self._store, given[0]).serialize())
        if what == "new":
            return self._new(*given)
        return self._touch(what, *given)

    def _touch(self, what: str, *given: Any) -> Any:
        """The guest's memory, whose bounds the parent has checked."""
        if what == "size":
            return 0 if self._memory is None else self._memory.data_size
        bytes_of_guest = memoryview(self._memory.buffer)
        if what == "read":
            address, size = given
            return bytes(bytes_of_guest[address : address + size])
        address, data = given
        bytes_of_guest[address : address + len(data)] = data
        return None

    def _new(self, code: bytes, imports: list[list[str]], exports: list[list[str]]) -> None:
        wasmer = self._wasmer
        types = {"i": wasmer.Type.I32, "I": wasmer.Type.I64, "f": wasmer.Type.F32, "F": wasmer.Type.F64}
        modules: dict[str, dict[str, Any]] = {}
        for index, (module, name, params, results) in enumerate(imports):
            kind = wasmer.FunctionType([types[c] for c in params], [types[c] for c in results])
            modules.setdefault(module, {})[name] = wasmer.Function(
                self._store, self._host_function(index, params, results), kind
            )
        linked = wasmer.ImportObject()
        for module, functions in modules.items():
            linked.register(module, functions)
        instance = wasmer.Instance(wasmer.Module.deserialize(self._store, code), linked)
        for name, params in exports:
            self._functions[name] = (getattr(instance.exports, name), params)
        try:
            self._memory = instance.exports.memory
        except LookupError:
            self._memory = None

    def _host_function(self, index: int, params: str, results: str) -> Callable[..., Any]:
        def ask(*numbers: Any) -> Any:
            channel = self._channel
            channel.send(["host", index, numbers])
            while True:
                message = channel.receive()
                if message[0] == "answer":
                    return _signed(results, message[1]) if results else None
                if message[0] == "raise":
                    raise HostRaised
                channel.send(["ok", self._touch(*message)])

        ask.__annotations__ = {}
        return ask


def _signed(kind: str, number: Any) -> Any:
    """A number of any sign as wasmer takes it."""
    if kind == "i":
        number &= 0xFFFF_FFFF
        return number - (1 << 32) if number >> 31 else number
    if kind == "I":
        number &= 0xFFFF_FFFF_FFFF_FFFF
        return number - (1 << 64) if number >> 63 else number
    return float(number)


def main(descriptor: int, memory_bytes: int) -> None:
    limit = memory_bytes + OWN_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    channel = Channel(socket.socket(fileno=descriptor))

    def serve() -> None:
        with contextlib.suppress(ChannelClosed):  # the parent is done with this guest
            Child(channel).serve()

    # A thread, for its stack: the guest recurses on it.
    threading.stack_size(2 * STACK_BYTES)
    thread = threading.Thread(target=serve)
    thread.start()
    thread.join()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
