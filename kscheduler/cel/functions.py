"""Declarations of functions: their overloads, and what is called when an expression is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kscheduler.cel.types import Type
from kscheduler.cel.unification import parameter_names
from kscheduler.cel.values import Value

Implementation = Callable[..., Value]


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One signature of a function."""

    id: str
    arguments: tuple[Type, ...]  # the target of a method is the first
    result: Type
    call: Implementation | None = None  # None: the function has one for all overloads
    is_method: bool = False
    parameters: tuple[str, ...] = ()  # names of the types that each call fills in


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function with all overloads, in the order in which they are tried.

    `call` is for functions that look at their arguments themselves, and takes all overloads' arguments; what it cannot
    take is "no such overload". Without it, the first overload is called whose types fit the arguments, and the error
    names the function and the types. `unchecked` functions have overloads that look at their arguments themselves.
    """

    name: str
    overloads: tuple[Overload, ...]
    call: Implementation | None = None
    unchecked: bool = False


def overload(id_: str, arguments: Iterable[Type], result: Type, call: Implementation | None = None) -> Overload:
    """Declare an overload that is called as a global function."""
    types = tuple(arguments)
    return Overload(id_, types, result, call, False, tuple(sorted(parameter_names(result, *types))))


def method(id_: str, arguments: Iterable[Type], result: Type, call: Implementation | None = None) -> Overload:
    """Declare an overload that is called on its first argument."""
    types = tuple(arguments)
    return Overload(id_, types, result, call, True, tuple(sorted(parameter_names(result, *types))))


def merged(libraries: Iterable[Iterable[Function]]) -> dict[str, Function]:
    """Return the functions of several libraries by name; those of the same name get each other's overloads."""
    found: dict[str, Function] = {}
    for library in libraries:
        for function in library:
            known = found.get(function.name)
            if known is not None:
                function = Function(
                    function.name,
                    known.overloads + function.overloads,
                    known.call or function.call,
                    known.unchecked or function.unchecked,
                )
            found[function.name] = function
    return found
