"""The tree of a parsed expression. The checker writes a type, and the overloads of a call, into its nodes."""

from __future__ import annotations

from typing import Any

from kscheduler.cel.types import ERROR, Type


class Node:
    """A node; `position` is its offset in the text, in characters."""

    __slots__ = ("depth", "position", "type")

    def __init__(self, position: int) -> None:
        self.position = position
        self.depth = 0  # of the operators, selections and calls of methods in it, as the parser found them nested
        self.type: Type = ERROR


class Literal(Node):
    __slots__ = ("value",)

    def __init__(self, position: int, value: Any) -> None:
        super().__init__(position)
        self.value = value


class Ident(Node):
    """A name. `constant` is the type that it denotes, if the checker finds it to be the name of a type."""

    __slots__ = ("constant", "name")

    def __init__(self, position: int, name: str) -> None:
        super().__init__(position)
        self.name = name
        self.constant: Type | None = None


class Select(Node):
    """`operand.field`, or `has(operand.field)`."""

    __slots__ = ("field", "is_test", "operand", "qualified")

    def __init__(self, position: int, operand: Node, field: str, *, is_test: bool = False) -> None:
        super().__init__(position)
        self.operand = operand
        self.field = field
        self.is_test = is_test
        self.qualified: Type | None = None  # the type that the dotted name denotes, if it is one


class Call(Node):
    """A call. The checker may find that `target` belongs to the name of the function, and clears it."""

    __slots__ = ("arguments", "function", "overloads", "target")

    def __init__(self, position: int, function: str, arguments: list[Node], target: Node | None = None) -> None:
        super().__init__(position)
        self.function = function
        self.target = target
        self.arguments = arguments
        self.overloads: tuple[str, ...] = ()

    def operands(self) -> list[Node]:
        return self.arguments if self.target is None else [self.target, *self.arguments]


class ListLiteral(Node):
    __slots__ = ("elements", "optional")

    def __init__(self, position: int, elements: list[Node], optional: frozenset[int] = frozenset()) -> None:
        super().__init__(position)
        self.elements = elements
        self.optional = optional  # indices of elements that are left out if they have no value


class MapLiteral(Node):
    __slots__ = ("entries",)

    def __init__(self, position: int, entries: list[tuple[Node, Node, bool]]) -> None:
        super().__init__(position)
        self.entries = entries  # key, value, and whether it is optional


class Struct(Node):
    """A message literal. None of the environment's types can be built like that."""

    __slots__ = ("name",)

    def __init__(self, position: int, name: str) -> None:
        super().__init__(position)
        self.name = name


class Comprehension(Node):
    """A loop over `range`: `accumulator` starts as `start` and becomes `step` while `condition` is not false."""

    __slots__ = ("accumulator", "condition", "range", "result", "start", "step", "variable", "variable2")

    def __init__(
        self,
        position: int,
        range_: Node,
        variables: tuple[str, str],
        accumulator: str,
        start: Node,
        condition: Node,
        step: Node,
        result: Node,
    ) -> None:
        super().__init__(position)
        self.range = range_
        self.variable, self.variable2 = variables  # the second is "" in a loop with one variable
        self.accumulator = accumulator
        self.start = start
        self.condition = condition
        self.step = step
        self.result = result


def children(node: Node) -> list[Node]:
    """Return the direct parts of a node."""
    match node:
        case Select():
            return [node.operand]
        case Call():
            return node.operands()
        case ListLiteral():
            return node.elements
        case MapLiteral():
            return [part for key, value, _ in node.entries for part in (key, value)]
        case Comprehension():
            return [node.range, node.start, node.condition, node.step, node.result]
    return []


def descendants(root: Node) -> list[Node]:
    """Return the nodes of a tree, parents before their parts."""
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting.extend(reversed(children(node)))
    return found


def copied(node: Node) -> Node:
    """Return a deep copy."""
    match node:
        case Literal():
            return Literal(node.position, node.value)
        case Ident():
            return Ident(node.position, node.name)
        case Select():
            return Select(node.position, copied(node.operand), node.field, is_test=node.is_test)
        case Call():
            target = copied(node.target) if node.target is not None else None
            return Call(node.position, node.function, [copied(each) for each in node.arguments], target)
        case ListLiteral():
            return ListLiteral(node.position, [copied(each) for each in node.elements], node.optional)
        case MapLiteral():
            return MapLiteral(node.position, [(copied(k), copied(v), optional) for k, v, optional in node.entries])
        case Struct():
            return Struct(node.position, node.name)
        case Comprehension():
            return Comprehension(
                node.position,
                copied(node.range),
                (node.variable, node.variable2),
                node.accumulator,
                copied(node.start),
                copied(node.condition),
                copied(node.step),
                copied(node.result),
            )
    raise TypeError(f"expected a node, got {node!r}")
