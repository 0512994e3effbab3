"""Links a module to the host, for every engine: finds host functions for imports, and reads the types of exports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from kscheduler.wasm import faults
from kscheduler.wasm import wasi as wasi_functions
from kscheduler.wasm.engine import ExternType, FaultKind, FuncType, GuestFault, HostFunction, Import, Wasi

MAX_NUMBERS = 16  # parameters of a function that the host calls

# Codes of a failed call in calls.pxd: a trap or a host function's exception, a range outside the memory, an instance
# that was broken before, CPU time used up, a wait that was too long, the end of the program.
NO_CODE, OUTSIDE, UNUSABLE, OVERDUE, STALLED, ENDING = -1, -2, -3, -4, -5, -6


class Link:
    """The Python part of an instance, beside calls.pyx: knows the types of exports, starts the guest, raises faults."""

    def __init__(self, exports: Mapping[str, ExternType]) -> None:
        self.exports = exports
        self._first_fault: FaultKind | None = None

    def function_type(self, export: str) -> tuple[str, str]:
        """Return (parameters, results) of an exported function. Raises GuestFault if the host cannot call it."""
        kind, name = self.exports.get(export), faults.one_line(export)
        if not isinstance(kind, FuncType):
            found = "has no such export" if kind is None else f"has a {kind} of that name"
            raise GuestFault(FaultKind.BAD_MODULE, f"{name}: expected a function, the guest {found}")
        if len(kind.results) > 1 or len(kind.params) > MAX_NUMBERS or "?" in kind.params + kind.results:
            raise GuestFault(
                FaultKind.BAD_MODULE,
                f"{name}: {kind} cannot be called: expected at most {MAX_NUMBERS} numbers, and one result",
            )
        return kind.params, kind.results

    def start(self, guest: Any) -> None:
        """Call the export that initialises the guest, if any: `_initialize` of a library or `_start` of a program."""
        export = next((each for each in ("_initialize", "_start") if self.exports.get(each) == FuncType("", "")), None)
        if export is None:
            return
        usual, guest.deadline_s = guest.deadline_s, guest.limits.start_deadline_s
        try:
            guest.call(export)
        except GuestFault as fault:
            raised = fault.__cause__
            if not isinstance(raised, wasi_functions.ProcessExit) or raised.status != 0:
                raise
            # main returned with success: the instance stays usable, since its exports are called from now on.
            guest.set_broken(False)
            self._first_fault = None
        finally:
            guest.deadline_s = usual

    def fail(self, guest: Any, where: str, code: int, text: str, pending: BaseException | None) -> NoReturn:
        if code == ENDING:
            raise RuntimeError(f"{where}: the program is ending")
        output = guest.output.text()
        if pending is not None:
            if not isinstance(pending, Exception):
                raise pending  # the program is being stopped, not the guest
            fault = faults.from_host(where, pending, output)
        elif code == OUTSIDE:
            fault = GuestFault(FaultKind.MEMORY, f"{where}: {text}", output)
        elif code == UNUSABLE:
            fault = GuestFault(self._first_fault or FaultKind.TRAP, f"{where}: {text}", output)
        elif code == OVERDUE:
            fault = faults.overdue(where, guest.deadline_s, output)
        elif code == STALLED:
            fault = faults.stalled(where, guest.deadline_s, output)
        else:
            fault = faults.from_trap(where, text, output)
        self._first_fault = self._first_fault or fault.kind
        raise fault from pending


def resolve(imports: Sequence[Import], functions: Iterable[HostFunction], wasi: Wasi | None) -> list[HostFunction]:
    """Return the host function for each import, in order. Raises GuestFault if one is missing or of another type."""
    offered = [*functions, *(wasi_functions.functions(wasi) if wasi is not None else ())]
    by_name = {(function.module, function.name): function for function in offered}
    return [_resolve(wanted, by_name.get((wanted.module, wanted.name))) for wanted in imports]


def _resolve(wanted: Import, function: HostFunction | None) -> HostFunction:
    name = faults.one_line(f"{wanted.module}.{wanted.name}")
    if not isinstance(wanted.type, FuncType):
        raise GuestFault(FaultKind.BAD_IMPORT, f"the guest imports {name}, a {wanted.type}: only functions can be")
    if function is None:
        raise GuestFault(FaultKind.BAD_IMPORT, f"the guest imports {name} {wanted.type}: the host has none")
    if function.type != wanted.type:
        raise GuestFault(
            FaultKind.BAD_IMPORT, f"the guest imports {name} as {wanted.type}: the host has {function.type}"
        )
    return function
