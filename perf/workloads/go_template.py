"""Evaluates the parts of Go templates that workloads use: `{{.Index}}`, `{{Mod .Index 25}}`, `{{range $i := 8}}`.

An action is a value or a call; arguments are values, numbers, or calls in parentheses. A value is `.Index`, `.Count`, a
parameter of the template, or the variable of a `range`, which repeats what follows up to `{{end}}` and counts from 0.
`if` and the rest of the language are not supported, and rejected with an error that names them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

ACTION = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
TOKEN = re.compile(r"\s*(?:(\(|\))|(-?\d+(?:\.\d+)?)(?=[\s)]|$)|([.$][A-Za-z]\w*)|([A-Za-z]\w*))")
RANGE = re.compile(r"range\s+(\$[A-Za-z]\w*)\s*:=\s*(.+)", re.DOTALL)
MAX_REPEATS = 10_000  # of one range

Value = float | str
Values = Mapping[str, Value]  # .Index, .Count, parameters with the point before them, variables of ranges
Evaluate = Callable[[Values], Value]


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
    """A text with actions in it. Raises BadTemplate for an action that is not supported.

    `parameters`: the values of `.name`, besides `.Index` and `.Count`.
    """

    def __init__(self, text: str, parameters: Values | None = None) -> None:
        self._parameters = {f".{name}": value for name, value in (parameters or {}).items()}
        pieces = iter(_pieces(text))
        self._parts = _block(pieces, frozenset({".Index", ".Count", *self._parameters}), is_inner=False)

    @property
    def has_actions(self) -> bool:
        """Whether objects of it differ."""
        return any(not isinstance(part, str) for part in self._parts)

    def render(self, index: int, count: int) -> str:
        """The text of one object out of so many."""
        values = {**self._parameters, ".Index": index, ".Count": count}
        return "".join(_rendered(self._parts, values))


@dataclass(frozen=True, slots=True)
class _Range:
    """What is between `range` and `end`."""

    variable: str
    repeats: Evaluate
    body: Sequence[_Part]


_Part = str | Evaluate | _Range


def _rendered(parts: Sequence[_Part], values: Values) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, _Range):
            repeats = int(_number(part.repeats(values)))
            if repeats > MAX_REPEATS:
                raise BadTemplate(f"range {part.variable}: expected at most {MAX_REPEATS} times, got {repeats}")
            for number in range(repeats):
                yield from _rendered(part.body, {**values, part.variable: number})
        else:
            yield _written(part(values))


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Texts and the insides of actions, in turn; whether each is an action."""
    for number, piece in enumerate(ACTION.split(text)):
        is_action = number % 2 == 1
        if not is_action and "{{" in piece:
            raise BadTemplate("an action that does not end: {{ without }}")
        yield piece, is_action


def _block(pieces: Iterator[tuple[str, bool]], known: frozenset[str], *, is_inner: bool) -> list[_Part]:
    """Read up to the end of a range, or of the text."""
    parts: list[_Part] = []
    for piece, is_action in pieces:
        if not is_action:
            if piece:
                parts.append(piece)
        elif piece == "end":
            if not is_inner:
                raise BadTemplate("{{end}}: there is no range that it ends")
            return parts
        elif (found := RANGE.fullmatch(piece)) is not None:
            variable, repeats = found.groups()
            body = _block(pieces, known | {variable}, is_inner=True)
            parts.append(_Range(variable, _parse(repeats, known), body))
        else:
            parts.append(_parse(piece, known))
    if is_inner:
        raise BadTemplate("a range that does not end: {{range}} without {{end}}")
    return parts


def _parse(action: str, known: frozenset[str]) -> Evaluate:
    value, rest = _expression(list(_tokens(action)), action, known)
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


def _expression(tokens: list[str], action: str, known: frozenset[str]) -> tuple[Evaluate, list[str]]:
    """A call with all that follows as its arguments, or one operand."""
    if not tokens or not tokens[0][0].isalpha():
        return _operand(tokens, action, known)
    name, rest = tokens[0], tokens[1:]
    arguments: list[Evaluate] = []
    while rest and rest[0] != ")":
        argument, rest = _operand(rest, action, known)
        arguments.append(argument)
    return _call(name, arguments, action), rest


def _operand(tokens: list[str], action: str, known: frozenset[str]) -> tuple[Evaluate, list[str]]:
    if not tokens:
        raise BadTemplate(f"{{{{{action}}}}}: expected a value")
    first, rest = tokens[0], tokens[1:]
    if first == "(":
        value, rest = _expression(rest, action, known)
        if rest[:1] != [")"]:
            raise BadTemplate(f"{{{{{action}}}}}: expected )")
        return value, rest[1:]
    if first in known:
        return lambda values: values[first], rest
    if first[0].isdigit() or first[0] == "-":
        number = float(first) if "." in first else int(first)
        return lambda values: number, rest
    expected = ", ".join((*sorted(known), *KNOWN))
    raise BadTemplate(f"{{{{{action}}}}}: {first!r} is not known, expected one of {expected}")


def _call(name: str, arguments: list[Evaluate], action: str) -> Evaluate:
    if name not in KNOWN:
        raise BadTemplate(f"{{{{{action}}}}}: {name!r} is not known, expected one of {', '.join(KNOWN)}")
    is_whole = not name.endswith("Float")
    function, wanted = FUNCTIONS.get(name.removesuffix("Int").removesuffix("Float"), (_mod, 2))
    if wanted and len(arguments) != wanted:
        raise BadTemplate(f"{{{{{action}}}}}: {name} takes {wanted} arguments, not {len(arguments)}")

    def value(values: Values) -> float:
        found = function([_number(argument(values)) for argument in arguments])
        return int(found) if is_whole else found

    return value


def _number(value: Value) -> float:
    if isinstance(value, str):
        raise BadTemplate(f"expected a number, got {value!r}")
    return value


def _written(value: Value) -> str:
    """As Go prints it: whole numbers without a point."""
    if isinstance(value, str):
        return value
    return str(int(value)) if value == int(value) else repr(value)
