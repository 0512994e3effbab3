"""What links a module to the host, whatever the engine: host functions for its imports, and exports by their types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kscheduler.wasm import faults
from kscheduler.wasm.engine import ExternType, FaultKind, FuncType, GuestFault, HostFunction, Import

MAX_NUMBERS = 16  # parameters of a function that the host calls


def resolve(imports: Sequence[Import], offered: Iterable[HostFunction]) -> list[HostFunction]:
    """The host function of each import, in their order."""
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


def callable_type(exports: Mapping[str, ExternType], export: str) -> FuncType:
    """The type of an exported function that the host can call."""
    kind, name = exports.get(export), faults.one_line(export)
    if not isinstance(kind, FuncType):
        found = "has no such export" if kind is None else f"has a {kind} of that name"
        raise GuestFault(FaultKind.BAD_MODULE, f"{name}: expected a function, the guest {found}")
    if len(kind.results) > 1 or len(kind.params) > MAX_NUMBERS or "?" in kind.params + kind.results:
        raise GuestFault(
            FaultKind.BAD_MODULE,
            f"{name}: {kind} cannot be called: expected at most {MAX_NUMBERS} numbers, and one result",
        )
    return kind


def start_export(exports: Mapping[str, ExternType]) -> str | None:
    """What sets the guest's run time up: `_initialize` of a library, `_start` of a program."""
    for export in ("_initialize", "_start"):
        if exports.get(export) == FuncType("", ""):
            return export
    return None
