"""Makes an instance from a module: sets limits, links host functions and exports, and runs the start section."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kscheduler.wasm import faults
from kscheduler.wasm.engine import (
    MEMORY,
    PAGE_BYTES,
    FaultKind,
    GuestFault,
    HostFunction,
    Instance,
    Limits,
    MemoryType,
    Output,
    Wasi,
)
from kscheduler.wasm.linkage import Link, resolve
from kscheduler.wasm.wasmer import calls
from kscheduler.wasm.wasmer.instrumentation import MAX_TABLE_ENTRIES, PAGE_EXPORT, START_EXPORT

if TYPE_CHECKING:
    from kscheduler.wasm.wasmer.modules import Needs, WasmerModule


def instantiate(module: WasmerModule, functions: Iterable[HostFunction], limits: Limits, wasi: Wasi | None) -> Instance:
    # 1. Host functions for the imports, and the limits, before anything is made.
    wanted = resolve(module.imports, functions, wasi)
    _check_limits(module.needs, limits)
    # 2. The instance, with its host functions in the order of the imports; nothing of it runs yet.
    guest = calls.Guest(module.engine.watch, module.code, Link(module.exports), limits, Output(limits.output_bytes))
    hidden = [PAGE_EXPORT, START_EXPORT] if module.needs.has_start else [PAGE_EXPORT]
    memory = MEMORY if isinstance(module.exports.get(MEMORY), MemoryType) else None
    try:
        try:
            guest.instantiate(
                [(each.function, each.params, each.results) for each in wanted],
                [*module.exports, *hidden],
                PAGE_EXPORT,
                memory,
            )
        except calls.LibraryError as error:
            raise GuestFault(FaultKind.TRAP, faults.one_line(f"cannot be instantiated: {error}")) from None
        # 3. Its start section, if it has one.
        if module.needs.has_start:
            guest.deadline_s = limits.start_deadline_s
            guest.call_hidden(START_EXPORT, "start section")
            guest.deadline_s = limits.deadline_s
    except BaseException:
        guest.close()
        raise
    return guest


def _check_limits(needs: Needs, limits: Limits) -> None:
    pages = limits.memory_bytes // PAGE_BYTES
    if needs.memory_pages > pages:
        raise GuestFault(
            FaultKind.MEMORY,
            f"cannot be instantiated: memory of {needs.memory_pages} pages, expected at most {pages}",
        )
    if needs.table_entries > MAX_TABLE_ENTRIES:
        raise GuestFault(
            FaultKind.MEMORY,
            f"cannot be instantiated: tables of {needs.table_entries} entries, expected at most {MAX_TABLE_ENTRIES}",
        )
