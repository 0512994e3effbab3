"""Decides whether types fit, and what the types that are not known yet must be, as cel-go's checker does."""

from __future__ import annotations

from kscheduler.cel.types import DYN, Kind, Type

_SIMPLE = frozenset(
    {
        Kind.BOOL,
        Kind.BYTES,
        Kind.DOUBLE,
        Kind.INT,
        Kind.STRING,
        Kind.UINT,
        Kind.DURATION,
        Kind.TIMESTAMP,
        Kind.STRUCT,
    }
)
_NULLABLE = frozenset({Kind.OPAQUE, Kind.STRUCT, Kind.ANY, Kind.DURATION, Kind.TIMESTAMP, Kind.NULL, Kind.DYN})


class Substitutions:
    """What is known about the types that are not known yet, by name. Guesses that fail are undone."""

    def __init__(self) -> None:
        self._known: dict[str, Type] = {}
        self._undo: list[tuple[str, Type | None]] = []
        self._names = 0

    def new_type(self) -> Type:
        """Return a type of which nothing is known."""
        self._names += 1
        return Type(Kind.PARAM, f"_var{self._names}")

    def assignable(self, first: Type, second: Type) -> bool:
        """Return whether a value of the second type can be used as the first, and learn from it if so."""
        return self.all_assignable((first,), (second,))

    def all_assignable(self, first: tuple[Type, ...], second: tuple[Type, ...]) -> bool:
        """Return whether all pairs are assignable, and learn from it if so."""
        self._undo.clear()
        if self._pairs(first, second):
            return True
        for name, former in reversed(self._undo):
            if former is None:
                del self._known[name]
            else:
                self._known[name] = former
        return False

    def resolved(self, type_: Type, *, unknown_is_dyn: bool = False) -> Type:
        """Return the type with all that is known put in."""
        while type_.kind is Kind.PARAM:
            known = self._known.get(type_.name)
            if known is None:
                return DYN if unknown_is_dyn else type_
            type_ = known
        if not type_.parameters:
            return type_
        parameters = tuple(self.resolved(each, unknown_is_dyn=unknown_is_dyn) for each in type_.parameters)
        return type_ if parameters == type_.parameters else Type(type_.kind, type_.name, parameters)

    def _add(self, name: str, type_: Type) -> None:
        self._undo.append((name, self._known.get(name)))
        self._known[name] = type_

    def _pairs(self, first: tuple[Type, ...], second: tuple[Type, ...]) -> bool:
        return len(first) == len(second) and all(map(self._fits, first, second))

    def _fits(self, first: Type, second: Type) -> bool:
        if second.kind is Kind.PARAM:
            valid, has_known = self._substitutes(first, second)
            if valid or has_known:
                return valid
        if first.kind is Kind.PARAM:
            return self._substitutes(second, first)[0]
        if _is_wild(first) or _is_wild(second):
            return True
        if first.kind is Kind.NULL:
            return second.kind in _NULLABLE
        if second.kind is Kind.NULL:
            return first.kind in _NULLABLE
        if first.kind in _SIMPLE:
            return first.kind is second.kind and first.name == second.name
        if first.kind is Kind.TYPE:
            return second.kind is Kind.TYPE
        return (
            first.kind is second.kind and first.name == second.name and self._pairs(first.parameters, second.parameters)
        )

    def _substitutes(self, type_: Type, unknown: Type) -> tuple[bool, bool]:
        """Return whether a type can stand for an unknown one, and whether something was known about that."""
        if type_ == unknown:
            return True, True
        known = self._known.get(unknown.name)
        if known is None:
            if self._is_apart(unknown, type_):
                self._add(unknown.name, type_)
                return True, False
            return False, False
        if type_ == known:
            return True, True
        if not self._fits(type_, known):
            return False, True
        general = most_general(type_, known)
        if self._is_apart(unknown, general):
            self._add(unknown.name, general)
        return True, True

    def _is_apart(self, unknown: Type, within: Type) -> bool:
        """Return whether an unknown type is no part of another."""
        if unknown == within:
            return False
        if within.kind is Kind.PARAM:
            known = self._known.get(within.name)
            return known is None or self._is_apart(unknown, known)
        return all(self._is_apart(unknown, parameter) for parameter in within.parameters)


def most_general(first: Type, second: Type) -> Type:
    """Return the less specific of two types that fit."""
    return first if _is_at_most_as_specific(first, second) else second


def instantiated(type_: Type, names: dict[str, Type]) -> Type:
    """Return the type with its named parameters replaced."""
    if type_.kind is Kind.PARAM:
        return names.get(type_.name, type_)
    if not type_.parameters:
        return type_
    return Type(type_.kind, type_.name, tuple(instantiated(each, names) for each in type_.parameters))


def parameter_names(*types: Type) -> set[str]:
    """Return the names of all parameters in some types."""
    found: set[str] = set()
    for type_ in types:
        if type_.kind is Kind.PARAM:
            found.add(type_.name)
        found |= parameter_names(*type_.parameters)
    return found


def _is_wild(type_: Type) -> bool:
    return type_.kind is Kind.ERROR or type_.is_dyn


def _is_at_most_as_specific(first: Type, second: Type) -> bool:
    if first.is_dyn or first.kind is Kind.PARAM:
        return True
    if second.is_dyn or second.kind is Kind.PARAM or first.kind is not second.kind:
        return False
    if first.kind is Kind.TYPE:
        return True
    return (
        first.name == second.name
        and len(first.parameters) == len(second.parameters)
        and all(map(_is_at_most_as_specific, first.parameters, second.parameters))
    )
