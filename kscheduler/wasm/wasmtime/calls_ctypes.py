"""The twin of calls.pyx in ctypes, for where that is not built or does not fit: same classes, same errors, slower.

Pointers are plain integers (`c_void_p` prototypes): ctypes then converts no objects. The epoch's thread needs the
GIL here, and so does the look at the clocks: a deadline is late by as long as another thread holds it.
"""

from __future__ import annotations

import ctypes
import functools
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from kscheduler.wasm.engine import Limits, Output, patience_s
from kscheduler.wasm.wasmtime.library import flag, function, pointer, set_epoch_deadline, size_t, take_failure

MAX_NUMBERS = 16  # parameters of one function

# linked.fail's codes
NO_CODE = -1  # a trap, or what a host function raised
OUTSIDE = -2
UNUSABLE = -3
OVERDUE = -4  # its CPU time is used up
STALLED = -5  # it took far longer than that, but waited for the most part

SIZES = {
    "wasmtime_func": 16,
    "wasmtime_memory": 24,
    "wasmtime_extern": 32,
    "wasmtime_val_raw": 16,
    "wasm_byte_vec_t": 16,
}
_SLOT = SIZES["wasmtime_val_raw"]
_EXTERN_MEMORY = 3
_IDLE_TICKS = 50


_func_call_unchecked = function("wasmtime_func_call_unchecked", pointer, pointer, pointer, pointer, size_t, pointer)
_increment_epoch = function("wasmtime_engine_increment_epoch", None, pointer)
_memory_data = function("wasmtime_memory_data", pointer, pointer, pointer)
_memory_data_size = function("wasmtime_memory_data_size", size_t, pointer, pointer)
_caller_export_get = function("wasmtime_caller_export_get", flag, pointer, ctypes.c_char_p, size_t, pointer)
_error_new = function("wasmtime_error_new", pointer, ctypes.c_char_p)
_trap_new = function("wasmtime_trap_new", pointer, ctypes.c_char_p, size_t)


class _Linked(Protocol):
    def find(self, guest: Any, export: str) -> tuple[bytes, str, str]: ...
    def fail(self, guest: Any, where: str, code: int, text: str, pending: BaseException | None) -> None: ...
    def start(self, guest: Any) -> None: ...


def bind(handle: int) -> None:
    """Nothing to do: the functions were found when this module was imported."""


class Epoch:
    """The clock of one engine: a thread that advances the epoch while calls run, and else sleeps."""

    _thread: threading.Thread | None
    _is_parked: bool
    _stopping: bool

    def __init__(self, engine: int, tick_s: float) -> None:
        self._engine = engine
        self.tick_s = tick_s
        self._frozen: tuple[float, float] | None = None
        self.forget()

    def freeze(self, cpu_s: float, wall_s: float) -> None:
        """For tests: from now on clocks stand at these times, and only `advance` advances the epoch."""
        self.stop()
        self._frozen = cpu_s, wall_s

    def advance(self) -> None:
        """One tick."""
        _increment_epoch(self._engine)

    def times(self) -> tuple[float, float]:
        """(CPU time of this thread, time on the wall)"""
        return self._frozen or (time.thread_time(), time.monotonic())

    def enter(self) -> None:
        """A call begins."""
        if self._thread is None and self._frozen is None:
            self._start()
        self._active.append(None)
        if self._is_parked:
            self._wake.set()

    def leave(self) -> None:
        """A call has ended."""
        self._active.pop()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self.run, name="wasm-epoch", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self._thread = None  # no call may run without it
            raise

    def run(self) -> None:
        idle = 0
        while not self._stopping:
            # As in calls.pyx: late ticks are not made up for.
            time.sleep(self.tick_s)
            if self._active:
                idle = 0
                _increment_epoch(self._engine)
                continue
            idle += 1
            if idle < _IDLE_TICKS:
                continue
            # Said before looking again, so that a call that begins now either is seen or wakes this thread.
            self._wake.clear()
            self._is_parked = True
            if not self._active and not self._stopping:
                self._wake.wait()
            self._is_parked = False
            idle = 0

    def stop(self) -> None:
        thread = self._thread
        if thread is not None:
            self._stopping = True
            self._wake.set()
            thread.join()
            self.forget()

    def forget(self) -> None:
        self._thread = None
        self._wake = threading.Event()
        self._active: deque[None] = deque()  # one for each call that runs now; both ends are safe without a lock
        self._is_parked = False
        self._stopping = False


class Guest:
    """One instance: its calls, its memory, and what its host functions left behind."""

    def __init__(
        self, epoch: Epoch, context: int, linked: _Linked, limits: Limits, output: Output, may_move: bool
    ) -> None:
        self.epoch = epoch
        self.context = context
        self.linked: _Linked | None = linked
        self.running = False
        self.has_memory = False
        self.pending: BaseException | None = None
        self.limits = limits
        self.output = output
        self.data: object = None
        self.broken = False
        self._functions: dict[str, Function] = {}  # export -> its call
        self._bindings: list[object] = []  # callbacks that C holds by address
        self._memory = ctypes.create_string_buffer(SIZES["wasmtime_memory"])
        self._may_move = may_move
        self.views = 0
        self.verdict = 0  # of the present call: OVERDUE or STALLED once it was ended
        self._begun: tuple[float, float] | None = None  # the times at its first tick
        self._on_tick: Any = _tick_type(self._tick_came)
        self.deadline_s = limits.deadline_s

    @property
    def deadline_s(self) -> float:
        return self._deadline_s

    @deadline_s.setter
    def deadline_s(self, seconds: float) -> None:
        if not 0 < seconds <= 1e6:
            raise ValueError(f"a deadline is above 0 and at most 1000000 seconds, not {seconds}")
        self._patience_s = patience_s(seconds)
        self._deadline_s = float(seconds)

    @property
    def epoch_callback(self) -> tuple[int, int]:
        address = ctypes.cast(self._on_tick, ctypes.c_void_p).value
        assert address is not None
        return address, 0

    def begin(self) -> None:
        self.epoch.enter()
        self.verdict, self._begun = 0, None
        set_epoch_deadline(self.context, 1)

    def end(self) -> int:
        self.epoch.leave()
        return self.verdict

    def _tick_came(self, _context: int, _environment: int, ticks: Any, kind: Any) -> int | None:
        """As in calls.pyx."""
        cpu_s, wall_s = self.epoch.times()
        if self._begun is None:
            self._begun = cpu_s, wall_s
        cpu_left_s = self._deadline_s - (cpu_s - self._begun[0])
        wall_left_s = self._patience_s - (wall_s - self._begun[1])
        if cpu_left_s <= 0 or wall_left_s <= 0:
            self.verdict = OVERDUE if cpu_left_s <= 0 else STALLED
            error: int = _error_new(b"its time is over")
            return error
        ticks[0] = math.ceil(min(cpu_left_s, wall_left_s) / self.epoch.tick_s)
        kind[0] = 0  # go on
        return None

    @property
    def is_broken(self) -> bool:
        return self.broken

    def set_broken(self, broken: bool) -> None:
        self.broken = broken

    @property
    def memory_bytes(self) -> int:
        return _memory_data_size(self.context, self._memory) if self.has_memory else 0

    def add_binding(self, function: Callable[..., int | float | None], params: str, results: str) -> tuple[int, int]:
        callback = _callback_type(_host_function(self, function, params, results))
        self._bindings.append(callback)
        address = ctypes.cast(callback, ctypes.c_void_p).value
        assert address is not None
        return address, 0

    def set_memory(self, memory: bytes) -> None:
        if len(memory) != SIZES["wasmtime_memory"]:
            raise ValueError(f"a memory has {SIZES['wasmtime_memory']} bytes, got {len(memory)}")
        ctypes.memmove(self._memory, memory, len(memory))
        self.has_memory = True

    def take_pending(self) -> BaseException | None:
        pending, self.pending = self.pending, None
        return pending

    def start(self) -> None:
        self.check_usable("start").start(self)

    def call(self, export: str, *args: int | float) -> int | float | None:
        function = self._functions.get(export)
        if function is None:
            function = self.prepare(export)
        return function(*args)

    def prepare(self, export: str) -> Function:
        found = self._functions.get(export)
        if found is not None:
            return found
        struct, params, results = self.check_usable(export).find(self, export)
        if len(struct) != SIZES["wasmtime_func"] or len(params) > MAX_NUMBERS or len(results) > 1:
            raise ValueError(f"{export} does not fit: {len(struct)} bytes, {len(params)} -> {len(results)}")
        function = self._functions[export] = Function(self, export, struct, params, results)
        return function

    def read(self, address: int, size: int) -> bytes:
        return ctypes.string_at(self._at(address, size), size)

    def write(self, address: int, data: bytes | bytearray | memoryview) -> None:
        given = data if isinstance(data, bytes) else bytes(data)
        ctypes.memmove(self._at(address, len(given)), given, len(given))

    def view(self, address: int, size: int) -> memoryview:
        start = self._at(address, size)
        span = _span_type(size).from_address(start)
        span.guest, span.linked = self, self.linked
        self.views += 1
        return memoryview(span).cast("B")

    def _at(self, address: int, size: int) -> int:
        """The first of `size` bytes of the guest's memory, all of which exist."""
        if self.linked is None:
            self.check_usable("memory")
        present = self.memory_bytes
        if address < 0 or size < 0 or address + size > present:
            self.broken = True
            assert self.linked is not None
            self.linked.fail(
                self, "memory", OUTSIDE, f"{size} bytes at {address} are outside its memory of {present} bytes", None
            )
        return _memory_data(self.context, self._memory) + address if present else 0

    def check_usable(self, where: str) -> _Linked:
        if self.linked is None:
            raise RuntimeError(f"{where}: the instance is closed")
        if self.running:
            raise RuntimeError(f"{where}: the instance is in a call already")
        if self.broken:
            self.linked.fail(self, where, UNUSABLE, "the instance is broken by an earlier fault", None)
        if self.views and self._may_move:
            raise RuntimeError(f"{where}: a view of the instance's memory is still held")
        return self.linked

    def find_memory(self, caller: int) -> None:
        """A module's start section runs before anybody could look at its exports."""
        item = ctypes.create_string_buffer(SIZES["wasmtime_extern"])
        if _caller_export_get(caller, b"memory", 6, item) and item.raw[0] == _EXTERN_MEMORY:
            self.set_memory(item.raw[8:])

    def close(self) -> None:
        if self.running:
            raise RuntimeError("close: the instance is in a call")
        self.broken = True
        self._functions = {}
        self._bindings = []
        self._on_tick = None
        self.pending = None
        self.has_memory = False
        self.linked = None  # with it the store, unless a view holds it
        self.data = None


class _Span(ctypes.Array[ctypes.c_uint8]):
    """A range of a guest's memory: counts itself, and keeps the store. Each length is a class of its own."""

    _type_ = ctypes.c_uint8
    _length_ = 0
    guest: Guest
    linked: object

    def __del__(self) -> None:
        self.guest.views -= 1


@functools.lru_cache(maxsize=64)
def _span_type(size: int) -> type[_Span]:
    kind: type[_Span] = type("_SizedSpan", (_Span,), {"_length_": size})
    return kind


class Function:
    """An export, with the type the module declares."""

    def __init__(self, guest: Guest, name: str, struct: bytes, params: str, results: str) -> None:
        self._guest = guest
        self._name = name
        self._struct = ctypes.create_string_buffer(struct, len(struct))
        self._slots = max(1, len(params))
        self._numbers = ctypes.create_string_buffer(_SLOT * self._slots)
        self._address = ctypes.addressof(self._numbers)
        self._cells = [_cell(kind, self._address + _SLOT * index, _IN) for index, kind in enumerate(params)]
        self._result = _cell(results, self._address, _OUT) if results else None
        self._trap = ctypes.c_void_p()
        self._trap_address = ctypes.addressof(self._trap)

    def __call__(self, *args: int | float) -> int | float | None:
        guest = self._guest
        if guest.running or guest.broken or guest.views:
            guest.check_usable(self._name)
        if len(args) != len(self._cells):
            raise TypeError(f"{self._name} takes {len(self._cells)} numbers, got {len(args)}")
        guest.running = True
        try:
            for cell, number in zip(self._cells, args):  # noqa: B905 (just compared)
                cell.value = number
            guest.begin()
            try:
                error = _func_call_unchecked(
                    guest.context, self._struct, self._address, self._slots, self._trap_address
                )
            finally:
                guest.end()
        finally:
            guest.running = False
        if error or self._trap.value:
            guest.broken = True
            trap, self._trap.value = self._trap.value, None
            _fail(guest, self._name, error, trap)
        return None if self._result is None else self._result.value


# Unsigned types take a number of any sign, cut to their width; what comes out is signed.
_IN: dict[str, Any] = {"i": ctypes.c_uint32, "I": ctypes.c_uint64, "f": ctypes.c_float, "F": ctypes.c_double}
_OUT: dict[str, Any] = {"i": ctypes.c_int32, "I": ctypes.c_int64, "f": ctypes.c_float, "F": ctypes.c_double}


def _cell(kind: str, address: int, types: dict[str, Any]) -> Any:
    """A number in memory; it does not keep that memory."""
    return types[kind].from_address(address)


def _fail(guest: Guest, where: str, error: int | None, trap: int | None) -> None:
    """Free both and let `linked` raise what they mean."""
    text = take_failure(error, trap)
    assert guest.linked is not None
    guest.linked.fail(guest, where, guest.verdict or NO_CODE, text, guest.take_pending())
    raise RuntimeError("a fault was not raised")


_tick_type = ctypes.CFUNCTYPE(
    pointer, pointer, pointer, ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint8)
)
_callback_type = ctypes.CFUNCTYPE(pointer, pointer, pointer, pointer, size_t)


def _host_function(
    guest: Guest, function: Callable[..., int | float | None], params: str, results: str
) -> Callable[[int, int, int, int], int | None]:
    """wasmtime_func_unchecked_callback_t: the one way from a guest into Python. A trap for what is raised."""
    readers = [(_OUT[kind].from_address, _SLOT * index) for index, kind in enumerate(params)]
    answer_at = _IN[results].from_address if results else None

    def callback(_environment: int, caller: int, numbers: int, _count: int) -> int | None:
        try:
            if not guest.has_memory:
                guest.find_memory(caller)
            answer = function(guest, *[cell_at(numbers + offset).value for cell_at, offset in readers])
            if answer_at is not None:
                if answer is None:
                    raise TypeError("a host function with a result returned None")
                answer_at(numbers).value = answer
            elif answer is not None:
                raise TypeError(f"a host function without a result returned {answer!r}")
            return None
        except BaseException as error:
            guest.pending = error
            trap: int = _trap_new(b"host function", 13)
            return trap

    return callback
