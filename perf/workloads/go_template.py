"""Evaluates the Go template actions that workloads use, such as `{{.Index}}`, `{{.Count}}` and `{{Mod .Index 25}}`.

An action is a value or a call; arguments are values, numbers, or calls in parentheses. `if`, `range` and the rest of
the language are not supported, and rejected with an error that names them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence

ACTION = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
TOKEN = re.compile(r"\s*(?:(\(|\))|(-?\d+(?:\.\d+)?)(?=[\s)]|$)|\.([A-Za-z]\w*)|([A-Za-z]\w*))")

Render = Callable[[int, int], float]  # index, count -> value


class BadTemplate(ValueError):
    """An action is not supported, or cannot be computed."""


def _divide(numbers: Sequence[float]) -> float:
    if numbers[1] == 0:
        raise BadTemplate("a division by zero")
    return numbers[0] / numbers[1]


def _mod(numbers: Sequence[float]) -> float:
    if int(numbers[1]) == 0:
        raise BadTemplate("a division by zero")
    return math.fmod(int(numbers[0]), int(numbers[1]))  # the sign of the first, as in Go


def _subtract(numbers: Sequence[float]) -> float:
    return numbers[0] - numbers[1]


# name without Int or Float -> what it does, and how many arguments it takes (0: any number)
FUNCTIONS: dict[str, tuple[Callable[[Sequence[float]], float], int]] = {
    "Add": (math.fsum, 0),
    "Multiply": (math.prod, 0),
    "Subtract": (_subtract, 2),
    "Divide": (_divide, 2),
}
KNOWN = (*(f"{name}{kind}" for name in FUNCTIONS for kind in ("Int", "Float")), "Mod")


class GoTemplate:
    """A text with actions in it. Raises BadTemplate for an action that is not supported."""

    def __init__(self, text: str) -> None:
        self._literals = ACTION.split(text)[::2]
        self._values = [_parse(action) for action in ACTION.findall(text)]
        if any("{{" in literal for literal in self._literals):
            raise BadTemplate("an action that does not end: {{ without }}")

    @property
    def has_actions(self) -> bool:
        """Whether objects of it differ."""
        return bool(self._values)

    def render(self, index: int, count: int) -> str:
        """The text of one object out of so many."""
        parts = [self._literals[0]]
        for value, literal in zip(self._values, self._literals[1:], strict=True):
            parts += [_written(value(index, count)), literal]
        return "".join(parts)


def _parse(action: str) -> Render:
    tokens = list(_tokens(action))
    value, rest = _expression(tokens, action)
    if rest:
        raise BadTemplate(f"{{{{{action}}}}}: expected one value or call")
    return value


def _tokens(action: str) -> Iterator[str]:
    position = 0
    while position < len(action):
        match = TOKEN.match(action, position)
        if match is None:
            raise BadTemplate(f"{{{{{action}}}}}: expected .Index, .Count, a number or a function")
        position = match.end()
        yield match.group().strip()


def _expression(tokens: list[str], action: str) -> tuple[Render, list[str]]:
    """A call with all that follows as its arguments, or one operand."""
    if not tokens or not tokens[0][0].isalpha():
        return _operand(tokens, action)
    name, rest = tokens[0], tokens[1:]
    arguments: list[Render] = []
    while rest and rest[0] != ")":
        argument, rest = _operand(rest, action)
        arguments.append(argument)
    return _call(name, arguments, action), rest


def _operand(tokens: list[str], action: str) -> tuple[Render, list[str]]:
    if not tokens:
        raise BadTemplate(f"{{{{{action}}}}}: expected a value")
    first, rest = tokens[0], tokens[1:]
    if first == "(":
        value, rest = _expression(rest, action)
        if rest[:1] != [")"]:
            raise BadTemplate(f"{{{{{action}}}}}: expected )")
        return value, rest[1:]
    if first == ".Index":
        return lambda index, count: index, rest
    if first == ".Count":
        return lambda index, count: count, rest
    if first[0].isdigit() or first[0] == "-":
        number = float(first) if "." in first else int(first)
        return lambda index, count: number, rest
    raise BadTemplate(f"{{{{{action}}}}}: {first!r} is not known, expected .Index, .Count or one of {', '.join(KNOWN)}")


def _call(name: str, arguments: list[Render], action: str) -> Render:
    if name not in KNOWN:
        raise BadTemplate(f"{{{{{action}}}}}: {name!r} is not known, expected one of {', '.join(KNOWN)}")
    is_whole = not name.endswith("Float")
    function, wanted = FUNCTIONS.get(name.removesuffix("Int").removesuffix("Float"), (_mod, 2))
    if wanted and len(arguments) != wanted:
        raise BadTemplate(f"{{{{{action}}}}}: {name} takes {wanted} arguments, not {len(arguments)}")

    def value(index: int, count: int) -> float:
        found = function([argument(index, count) for argument in arguments])
        return int(found) if is_whole else found

    return value


def _written(value: float) -> str:
    """As Go prints it: whole numbers without a point."""
    return str(int(value)) if value == int(value) else repr(value)
