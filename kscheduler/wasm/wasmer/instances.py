"""An instance in a child process: each call is a message, each deadline a kill.

A deadline is CPU time, as with wasmtime: of the child, and of this thread, which runs the host functions.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from kscheduler.wasm import faults
from kscheduler.wasm import wasi as wasi_functions
from kscheduler.wasm.engine import (
    ExternType,
    FaultKind,
    FuncType,
    GuestFault,
    HostFunction,
    Limits,
    Output,
    patience_s,
)
from kscheduler.wasm.linkage import callable_type, start_export
from kscheduler.wasm.wasmer.call_time import CallTime
from kscheduler.wasm.wasmer.messages import Channel, ChannelClosed

_CPUCLOCK_SCHED = 2  # as in clock_getcpuclockid(3): the clock of a process, by its id

# Interpreter, wasmer and the code's relocation, before the guest itself has run at all.
BEGIN_S = 10.0


class ChildProcess:
    def __init__(self, memory_bytes: int) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kscheduler.wasm.wasmer.child", str(theirs.fileno()), str(memory_bytes)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PYTHONPATH": ":".join(filter(None, sys.path))},
            )
        self.channel = Channel(ours)

    def ask(self, message: list[Any], timeout_s: float) -> tuple[str, Any]:
        """(ok, trap or refused; what came with it). TimeoutError, or EOFError if the child has ended."""
        try:
            self.channel.send(message)
            said, given = self.channel.receive(timeout_s)
        except (ChannelClosed, ValueError) as error:
            raise EOFError("its process ended") from error
        return said, given

    def times(self) -> tuple[float, float]:
        """(CPU time of the child and of this thread, time on the wall)"""
        try:
            child_s = time.clock_gettime(~self._process.pid << 3 | _CPUCLOCK_SCHED)
        except OSError:  # it has ended, which its channel will tell
            child_s = 0.0
        return child_s + time.thread_time(), time.monotonic()

    def kill(self) -> None:
        """At once, whatever it does; twice is fine."""
        self.channel.close()
        self._process.kill()
        with contextlib.suppress(ProcessLookupError):
            self._process.wait()


class WasmerInstance:
    """See engine.Instance. A view is a copy that cannot be written: the memory is another process's."""

    def __init__(
        self, code: bytes, exports: Mapping[str, ExternType], functions: Sequence[HostFunction], limits: Limits
    ) -> None:
        self.limits = limits
        self.output = Output(limits.output_bytes)
        self.deadline_s = limits.start_deadline_s
        self.data: object = None
        self.is_broken = False
        self._exports = exports
        self._functions = functions
        self._is_running = False
        self._first_fault: FaultKind | None = None
        self._child: ChildProcess | None = ChildProcess(limits.memory_bytes)
        self._begin(code)
        self.deadline_s = limits.deadline_s

    def _begin(self, code: bytes) -> None:
        """Load the code, which may take a while, then run the start section within its deadline."""
        imports = [[each.module, each.name, each.params, each.results] for each in self._functions]
        exports = [
            [name, kind.params]
            for name, kind in self._exports.items()
            if isinstance(kind, FuncType) and _is_plain(kind)
        ]
        try:
            assert self._child is not None
            if self._child.ask(["size"], BEGIN_S) != ("ok", 0):
                raise EOFError("its process did not begin")
            self._run("start section", ["new", code, imports, exports])
        except (TimeoutError, EOFError) as error:
            self.close()
            raise GuestFault(FaultKind.TRAP, f"cannot be instantiated: {error}") from None
        except BaseException:
            self.close()
            raise

    @property
    def memory_bytes(self) -> int:
        if self._child is None:
            return 0
        return int(self._touch(["size"]))

    def start(self) -> None:
        self._check_usable("start")
        export = start_export(self._exports)
        if export is None:
            return
        usual, self.deadline_s = self.deadline_s, self.limits.start_deadline_s
        try:
            self.call(export)
        except GuestFault as fault:
            raised = fault.__cause__
            if not isinstance(raised, wasi_functions.ProcessExit) or raised.status != 0:
                raise
            self.is_broken = False
            self._first_fault = None
        finally:
            self.deadline_s = usual

    def call(self, export: str, *args: int | float) -> int | float | None:
        return self.prepare(export)(*args)

    def prepare(self, export: str) -> Callable[..., int | float | None]:
        self._check_usable(export)
        kind = callable_type(self._exports, export)

        def call(*args: int | float) -> int | float | None:
            self._check_usable(export)
            if len(args) != len(kind.params):
                raise TypeError(f"{export} takes {len(kind.params)} numbers, got {len(args)}")
            numbers = [_cut(letter, number) for letter, number in zip(kind.params, args, strict=True)]
            answer: int | float | None = self._run(export, ["call", export, numbers])
            return answer

        return call

    def read(self, address: int, size: int) -> bytes:
        self._check_range(address, size)
        data: bytes = self._touch(["read", address, size]) if size else b""
        return data

    def write(self, address: int, data: bytes | bytearray | memoryview) -> None:
        self._check_range(address, len(data))
        if len(data):
            self._touch(["write", address, bytes(data)])

    def view(self, address: int, size: int) -> memoryview:
        return memoryview(self.read(address, size))

    def close(self) -> None:
        if self._is_running:
            raise RuntimeError("close: the instance is in a call")
        self.is_broken = True
        if self._child is not None:
            self._child.kill()
            self._child = None
        self._functions = ()
        self.data = None

    def __del__(self) -> None:
        child: ChildProcess | None = getattr(self, "_child", None)  # none if it could not be made
        if child is not None:
            child.kill()

    # --- the child ---

    def _run(self, where: str, message: list[Any]) -> Any:
        """A call, with the host functions it calls, until it ends or its time is over."""
        assert self._child is not None
        channel, pending = self._child.channel, None
        time_of_call = CallTime(where, self.deadline_s, self._child.times)
        self._is_running = True
        try:
            channel.send(message)
            while True:
                while not channel.has_message(time_of_call.left_s()):
                    pass
                said, *given = channel.receive(patience_s(self.deadline_s))
                if said == "host":
                    pending = self._answer(channel, given[0], given[1])
                    continue
                if said == "ok":
                    return given[0]
                break
        except GuestFault as overdue:
            self._stop(overdue, None)
        except TimeoutError:  # half a message
            self._stop(faults.stalled(where, self.deadline_s, ""), None)
        except (ChannelClosed, ValueError, IndexError, TypeError):
            self._stop(GuestFault(FaultKind.TRAP, f"{where}: the guest's process ended"), None)
        finally:
            self._is_running = False
        self._stop(_fault(where, said, str(given[0]), pending), pending)

    def _answer(self, channel: Channel, index: int, numbers: list[Any]) -> BaseException | None:
        """Call a host function and tell the child; what it raises is kept for the end of the call."""
        function = self._functions[index]
        try:
            answer = function.function(self, *numbers)
            if function.results:
                if answer is None:
                    raise TypeError("a host function with a result returned None")
                answer = _cut(function.results, answer)
            elif answer is not None:
                raise TypeError(f"a host function without a result returned {answer!r}")
        except BaseException as error:
            channel.send(["raise"])
            return error
        channel.send(["answer", answer])
        return None

    def _stop(self, fault: GuestFault, cause: BaseException | None) -> NoReturn:
        self.is_broken = True
        if cause is not None and not isinstance(cause, Exception):
            raise cause  # the program is being stopped, not the guest
        self._first_fault = self._first_fault or fault.kind
        fault.output = self.output.text()
        raise fault from cause

    def _touch(self, message: list[Any]) -> Any:
        if self._child is None:
            self._check_usable("memory")
        assert self._child is not None
        try:
            said, given = self._child.ask(message, BEGIN_S)
        except (TimeoutError, EOFError) as error:
            self._stop(GuestFault(FaultKind.TRAP, f"memory: {error}"), None)
        if said != "ok":
            self._stop(GuestFault(FaultKind.TRAP, f"memory: {faults.one_line(str(given))}"), None)
        return given

    def _check_range(self, address: int, size: int) -> None:
        if self._child is None:
            self._check_usable("memory")
        present = self.memory_bytes
        if address < 0 or size < 0 or address + size > present:
            self._stop(
                GuestFault(
                    FaultKind.MEMORY,
                    f"memory: {size} bytes at {address} are outside its memory of {present} bytes",
                ),
                None,
            )

    def _check_usable(self, where: str) -> None:
        if self._child is None:
            raise RuntimeError(f"{where}: the instance is closed")
        if self._is_running:
            raise RuntimeError(f"{where}: the instance is in a call already")
        if self.is_broken:
            self._stop(
                GuestFault(self._first_fault or FaultKind.TRAP, f"{where}: the instance is broken by an earlier fault"),
                None,
            )


def _fault(where: str, said: str, text: str, pending: BaseException | None) -> GuestFault:
    if isinstance(pending, Exception):
        return faults.from_host(where, pending, "")
    if said == "refused":
        return GuestFault(FaultKind.MEMORY, faults.one_line(f"cannot be instantiated: {text}"))
    return GuestFault(FaultKind.TRAP, faults.one_line(f"{where}: {text}"))


def _is_plain(kind: FuncType) -> bool:
    return "?" not in kind.params + kind.results and len(kind.results) <= 1


def _cut(kind: str, number: Any) -> Any:
    """To its width, as unsigned; TypeError for what is no number."""
    if kind in "fF":
        return float(number)
    if not hasattr(number, "__index__"):
        raise TypeError(f"expected a number, got {type(number).__name__}")
    return number.__index__() & (0xFFFF_FFFF if kind == "i" else 0xFFFF_FFFF_FFFF_FFFF)
