"""The part of WASI preview 1 that a language's run time needs to start, print and read a clock.

A guest may read its arguments, write to stdout and stderr (stored up to a limit), read clocks with a resolution of a
millisecond, get random bytes and exit. The environment is empty, stdin is at its end, and no other file is open: every
other function returns "bad file descriptor" or "not supported". Nothing sleeps: poll_oneoff returns at once as if the
time had passed.

Each call does a limited amount of work, since a host function holds the GIL and no deadline stops it.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Sequence

from kscheduler.wasm.engine import HostFunction, Instance, Wasi

MODULE = "wasi_snapshot_preview1"

SUCCESS, BADF, INVAL, NOSYS = 0, 8, 28, 52  # error numbers of WASI
_TICK_NS = 1_000_000  # clocks are coarse, since finer ones allow timing attacks
_MAX_VECTORS = 1024  # as IOV_MAX on Linux
_MAX_RANDOM_BYTES = 65_536
_MAX_SUBSCRIPTIONS = 64
_REALTIME, _MONOTONIC = 0, 1
_CHARACTER_DEVICE = 2
_U32 = 0xFFFF_FFFF
_U64 = (1 << 64) - 1


class ProcessExit(Exception):
    """The guest called proc_exit."""

    def __init__(self, status: int) -> None:
        super().__init__(f"exit status {status}")
        self.status = status


# Functions that are refused: name -> parameters and the error number returned.
_REFUSED = {
    "fd_advise": ("iIIi", BADF),
    "fd_allocate": ("iII", BADF),
    "fd_close": ("i", BADF),
    "fd_datasync": ("i", BADF),
    "fd_fdstat_set_flags": ("ii", BADF),
    "fd_fdstat_set_rights": ("iII", BADF),
    "fd_filestat_get": ("ii", BADF),
    "fd_filestat_set_size": ("iI", BADF),
    "fd_filestat_set_times": ("iIIi", BADF),
    "fd_pread": ("iiiIi", BADF),
    "fd_prestat_dir_name": ("iii", BADF),
    "fd_prestat_get": ("ii", BADF),
    "fd_pwrite": ("iiiIi", BADF),
    "fd_readdir": ("iiiIi", BADF),
    "fd_renumber": ("ii", BADF),
    "fd_seek": ("iIii", BADF),
    "fd_sync": ("i", BADF),
    "fd_tell": ("ii", BADF),
    "path_create_directory": ("iii", BADF),
    "path_filestat_get": ("iiiii", BADF),
    "path_filestat_set_times": ("iiiiIIi", BADF),
    "path_link": ("iiiiiii", BADF),
    "path_open": ("iiiiiIIii", BADF),
    "path_readlink": ("iiiiii", BADF),
    "path_remove_directory": ("iii", BADF),
    "path_rename": ("iiiiii", BADF),
    "path_symlink": ("iiiii", BADF),
    "path_unlink_file": ("iii", BADF),
    "proc_raise": ("i", NOSYS),
    "sock_accept": ("iii", BADF),
    "sock_recv": ("iiiiii", BADF),
    "sock_send": ("iiiii", BADF),
    "sock_shutdown": ("ii", BADF),
}


def functions(wasi: Wasi) -> list[HostFunction]:
    """Return all 45 functions of WASI preview 1, for instances with these arguments and clocks."""
    granted = _Granted(wasi)
    given: list[tuple[str, str, str, Callable[..., int | None]]] = [
        ("args_get", "ii", "i", granted.args_get),
        ("args_sizes_get", "ii", "i", granted.args_sizes_get),
        ("environ_get", "ii", "i", _environ_get),
        ("environ_sizes_get", "ii", "i", _environ_sizes_get),
        ("clock_res_get", "ii", "i", _clock_res_get),
        ("clock_time_get", "iIi", "i", granted.clock_time_get),
        ("fd_fdstat_get", "ii", "i", _fd_fdstat_get),
        ("fd_read", "iiii", "i", _fd_read),
        ("fd_write", "iiii", "i", _fd_write),
        ("poll_oneoff", "iiii", "i", _poll_oneoff),
        ("proc_exit", "i", "", _proc_exit),
        ("random_get", "ii", "i", granted.random_get),
        ("sched_yield", "", "i", _sched_yield),
    ]
    given += [(name, params, "i", _always(errno)) for name, (params, errno) in _REFUSED.items()]
    return [HostFunction(MODULE, *each) for each in given]


class _Granted:
    """The functions that give the guest data of the host: arguments, clocks, random bytes."""

    def __init__(self, wasi: Wasi) -> None:
        self._args = [arg.encode() + b"\0" for arg in wasi.args]
        self._clock = wasi.clock
        self._random = wasi.random or os.urandom

    def args_sizes_get(self, instance: Instance, count_at: int, bytes_at: int) -> int:
        _write_u32(instance, count_at, len(self._args))
        _write_u32(instance, bytes_at, sum(map(len, self._args)))
        return SUCCESS

    def args_get(self, instance: Instance, pointers_at: int, bytes_at: int) -> int:
        address, pointers = bytes_at & _U32, []
        for arg in self._args:
            pointers.append(address)
            address += len(arg)
        instance.write(bytes_at & _U32, b"".join(self._args))
        instance.write(pointers_at & _U32, struct.pack(f"<{len(pointers)}I", *[each & _U32 for each in pointers]))
        return SUCCESS

    def clock_time_get(self, instance: Instance, clock: int, _precision: int, time_at: int) -> int:
        if clock not in (_REALTIME, _MONOTONIC):
            return INVAL
        if self._clock is not None:
            now = self._clock()
        else:
            now = time.time_ns() if clock == _REALTIME else time.monotonic_ns()
        instance.write(time_at & _U32, struct.pack("<Q", (now - now % _TICK_NS) & _U64))
        return SUCCESS

    def random_get(self, instance: Instance, address: int, size: int) -> int:
        if not 0 <= size <= _MAX_RANDOM_BYTES:
            return INVAL
        instance.write(address & _U32, self._random(size))
        return SUCCESS


def _environ_sizes_get(instance: Instance, count_at: int, bytes_at: int) -> int:
    _write_u32(instance, count_at, 0)
    _write_u32(instance, bytes_at, 0)
    return SUCCESS


def _environ_get(_instance: Instance, _pointers_at: int, _bytes_at: int) -> int:
    return SUCCESS


def _clock_res_get(instance: Instance, clock: int, resolution_at: int) -> int:
    if clock not in (_REALTIME, _MONOTONIC):
        return INVAL
    instance.write(resolution_at & _U32, struct.pack("<Q", _TICK_NS))
    return SUCCESS


def _fd_fdstat_get(instance: Instance, descriptor: int, stat_at: int) -> int:
    if not 0 <= descriptor <= 2:
        return BADF
    # type, flags, rights, inherited rights; writing is bit 6, reading bit 1
    rights = 1 << 1 if descriptor == 0 else 1 << 6
    instance.write(stat_at & _U32, struct.pack("<BxHxxxxQQ", _CHARACTER_DEVICE, 0, rights, 0))
    return SUCCESS


def _fd_read(instance: Instance, descriptor: int, _vectors_at: int, _count: int, read_at: int) -> int:
    if descriptor != 0:
        return BADF
    _write_u32(instance, read_at, 0)
    return SUCCESS


def _fd_write(instance: Instance, descriptor: int, vectors_at: int, count: int, written_at: int) -> int:
    if descriptor not in (1, 2):
        return BADF
    if not 0 <= count <= _MAX_VECTORS:
        return INVAL
    output, written = instance.output, 0
    for address, size in _vectors(instance, vectors_at & _U32, count):
        # The guest decides how much it writes: only the bytes that are kept are copied.
        kept = max(0, min(size, output.limit - len(output.data)))
        output.add(instance.read(address, kept))
        if size > kept:
            if address + size > instance.memory_bytes:
                instance.read(address, size)  # raises GuestFault
            output.dropped += size - kept
        written += size
    _write_u32(instance, written_at, written)
    return SUCCESS


def _vectors(instance: Instance, address: int, count: int) -> Sequence[tuple[int, int]]:
    """Read the (address, size) pairs of an array of WASI's `ciovec` structs."""
    return list(struct.iter_unpack("<II", instance.read(address, 8 * count)))


def _poll_oneoff(instance: Instance, subscriptions_at: int, events_at: int, count: int, stored_at: int) -> int:
    if not 1 <= count <= _MAX_SUBSCRIPTIONS:
        return INVAL
    events = b""
    for user_data, kind in struct.iter_unpack("<QB39x", instance.read(subscriptions_at & _U32, 48 * count)):
        events += struct.pack("<QHB21x", user_data, SUCCESS if kind == 0 else BADF, kind)
    instance.write(events_at & _U32, events)
    _write_u32(instance, stored_at, count)
    return SUCCESS


def _proc_exit(_instance: Instance, status: int) -> None:
    raise ProcessExit(status & _U32)


def _sched_yield(_instance: Instance) -> int:
    return SUCCESS


def _always(errno: int) -> Callable[..., int]:
    def refuse(_instance: Instance, *_numbers: int) -> int:
        return errno

    return refuse


def _write_u32(instance: Instance, address: int, number: int) -> None:
    instance.write(address & _U32, struct.pack("<I", number & _U32))
