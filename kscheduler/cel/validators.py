"""Checks that Kubernetes adds to the types: literals that are no durations, lists of mixed types, wrong formats."""

from __future__ import annotations

from collections.abc import Iterator

from kscheduler.cel.faults import EvaluationError
from kscheduler.cel.library.formatting import REFUSALS, FormatFault, is_allowed, parts_of
from kscheduler.cel.library.regex import compile_pattern
from kscheduler.cel.library.times import parse_duration, parse_timestamp
from kscheduler.cel.source import Source
from kscheduler.cel.tree import Call, ListLiteral, Literal, MapLiteral, Node, children, descendants
from kscheduler.cel.types import Kind, Type, unwrapped_optional


def validate(source: Source, root: Node) -> None:
    """Report the faults of a checked expression to its source."""
    for node in descendants(root):
        if isinstance(node, Call):
            _check_literal(source, node)
            if node.function == "format" and "string_format" in node.overloads:
                _check_format(source, node)
    for literal in _outside_formats(root):
        if isinstance(literal, ListLiteral):
            _check_elements(source, literal)
        elif isinstance(literal, MapLiteral):
            _check_entries(source, literal)


def _check_literal(source: Source, node: Call) -> None:
    if not node.arguments or not isinstance(node.arguments[0], Literal):
        return
    argument = node.arguments[0]
    text = argument.value
    if not isinstance(text, str):
        return
    try:
        match node.function:
            case "duration":
                valid = parse_duration(text) is not None
            case "timestamp":
                valid = parse_timestamp(text) is not None
            case "matches":
                compile_pattern(text)
                valid = True
            case _:
                return
    except EvaluationError:
        valid = False
    if not valid:
        source.report(argument.position, f"invalid {node.function} argument")


def _outside_formats(root: Node) -> Iterator[Node]:
    """Yield the nodes that are no arguments of `format`, which takes lists of mixed types."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        if not (isinstance(node, Call) and node.function == "format"):
            waiting.extend(children(node))


def _check_elements(source: Source, node: ListLiteral) -> None:
    expected: Type | None = None
    for index, element in enumerate(node.elements):
        found = unwrapped_optional(element.type)[0] if index in node.optional else element.type
        if expected is None:
            expected = found
        elif found != expected:
            _mismatch(source, element, expected, found)
            break


def _check_entries(source: Source, node: MapLiteral) -> None:
    expected: tuple[Type, Type] | None = None
    for key, value, is_optional in node.entries:
        found = unwrapped_optional(value.type)[0] if is_optional else value.type
        if expected is None:
            expected = key.type, found
            continue
        if key.type != expected[0]:
            _mismatch(source, key, expected[0], key.type)
        if found != expected[1]:
            _mismatch(source, value, expected[1], found)


def _mismatch(source: Source, node: Node, expected: Type, found: Type) -> None:
    source.report(node.position, f"expected type '{expected.shown()}' but found '{found.shown()}'")


def _check_format(source: Source, node: Call) -> None:
    """Check a format that is known against the types of its arguments, if they are a list that is written out."""
    text, arguments = node.target, node.arguments[0]
    if not isinstance(text, Literal) or not isinstance(arguments, ListLiteral):
        return
    used = 0
    try:
        for part in parts_of(str(text.value), len(arguments.elements)):
            if isinstance(part, str):
                continue
            refused = _refused(part.letter, arguments.elements[used])
            if refused is not None:
                words = REFUSALS[part.letter].format(refused.type.name)
                source.report(refused.position, f"error during formatting: {words}")
                return
            used += 1
    except FormatFault as fault:
        source.report(node.position, str(fault))
        return
    if len(arguments.elements) > used:
        source.report(
            node.position,
            f"too many arguments supplied to string.format (expected {used}, got {len(arguments.elements)})",
        )


def _refused(letter: str, node: Node) -> Node | None:
    """Return the argument, or the part of it, that a verb does not take."""
    if not is_allowed(letter, node.type):
        return node
    if letter == "s" and node.type.kind in (Kind.LIST, Kind.MAP) and isinstance(node, ListLiteral | MapLiteral):
        for part in children(node):
            refused = _refused(letter, part)
            if refused is not None:
                return refused
    return None
