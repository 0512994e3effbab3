"""Expands the macros of the environment: calls that are written like functions and stand for loops and tests."""

from __future__ import annotations

from collections.abc import Callable

from kscheduler.cel.lexer import SyntaxFault
from kscheduler.cel.source import Source
from kscheduler.cel.tree import Call, Comprehension, Ident, ListLiteral, Literal, MapLiteral, Node, Select, copied
from kscheduler.cel.tree import descendants

ACCUMULATOR = "@result"  # no name that an expression can write
UNUSED = "#unused"
SORT_INPUT = "@__sortBy_input__"
_FORMER_ACCUMULATOR = "__result__"

# optMap and sortBy copy what they are applied to, so chains of them could grow without bound.
MAX_NODES = 100_000


class MacroFault(Exception):
    """A macro was called with arguments that it cannot take."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position


class Expander:
    """Builds calls, or what macros make of them."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._copied_nodes = 0

    def expand(self, position: int, function: str, target: Node | None, arguments: list[Node]) -> Node:
        """Return the expansion if it is a macro that is called, else the call."""
        macro = _MACROS.get((function, len(arguments), target is not None))
        if macro is not None:
            try:
                expanded = macro(_Builder(self, position), target, arguments)
            except MacroFault as fault:
                self._source.report(fault.position, str(fault))
                return Literal(position, False)
            if expanded is not None:
                return expanded
        return Call(position, function, arguments, target)

    def copy(self, node: Node) -> Node:
        """Return a deep copy. Raises SyntaxFault if the expression would become too large."""
        self._copied_nodes += len(descendants(node))
        if self._copied_nodes > MAX_NODES:
            self._source.report(-1, f"the expression is longer than {MAX_NODES} nodes when its macros are expanded")
            raise SyntaxFault
        return copied(node)


class _Builder:
    """Makes nodes at the place of a macro."""

    def __init__(self, expander: Expander, position: int) -> None:
        self._expander = expander
        self._position = position

    def copy(self, node: Node) -> Node:
        return self._expander.copy(node)

    def literal(self, value: object) -> Node:
        return Literal(self._position, value)

    def ident(self, name: str) -> Node:
        return Ident(self._position, name)

    def accumulator(self) -> Node:
        return Ident(self._position, ACCUMULATOR)

    def call(self, function: str, *arguments: Node) -> Node:
        return Call(self._position, function, list(arguments))

    def method(self, function: str, target: Node, *arguments: Node) -> Node:
        return Call(self._position, function, list(arguments), target)

    def list(self, *elements: Node) -> Node:
        return ListLiteral(self._position, list(elements))

    def map(self) -> Node:
        return MapLiteral(self._position, [])

    def presence(self, operand: Node, field: str) -> Node:
        return Select(self._position, operand, field, is_test=True)

    def loop(
        self,
        range_: Node,
        variables: tuple[str, str],
        start: Node,
        condition: Node,
        step: Node,
        result: Node | None = None,
    ) -> Node:
        result = self.accumulator() if result is None else result
        return Comprehension(self._position, range_, variables, ACCUMULATOR, start, condition, step, result)

    def bind(self, name: str, value: Node, result: Node) -> Node:
        """Return a loop over nothing, which gives a value a name."""
        never = self.literal(False)
        return Comprehension(self._position, self.list(), (UNUSED, ""), name, value, never, self.ident(name), result)


_Macro = Callable[[_Builder, Node | None, list[Node]], Node | None]
_Variables = tuple[str, str]


def _has(build: _Builder, _target: Node | None, arguments: list[Node]) -> Node:
    operand = arguments[0]
    if not isinstance(operand, Select):
        raise MacroFault(operand.position, "invalid argument to has() macro")
    return build.presence(operand.operand, operand.field)


# --- quantifiers ----------------------------------------------------------------------------------------------------


def _all(build: _Builder, range_: Node, variables: _Variables, predicate: Node) -> Node:
    condition = build.call("@not_strictly_false", build.accumulator())
    step = build.call("_&&_", build.accumulator(), predicate)
    return build.loop(range_, variables, build.literal(True), condition, step)


def _exists(build: _Builder, range_: Node, variables: _Variables, predicate: Node) -> Node:
    condition = build.call("@not_strictly_false", build.call("!_", build.accumulator()))
    step = build.call("_||_", build.accumulator(), predicate)
    return build.loop(range_, variables, build.literal(False), condition, step)


def _exists_one(build: _Builder, range_: Node, variables: _Variables, predicate: Node) -> Node:
    counted = build.call("_+_", build.accumulator(), build.literal(1))
    step = build.call("_?_:_", predicate, counted, build.accumulator())
    is_one = build.call("_==_", build.accumulator(), build.literal(1))
    return build.loop(range_, variables, build.literal(0), build.literal(True), step, is_one)


def _transform(build: _Builder, range_: Node, variables: _Variables, parts: list[Node]) -> Node:
    """map, filter and transformList: `parts` are a predicate, if there are two of them, and the new element."""
    step = build.call("_+_", build.accumulator(), build.list(parts[-1]))
    return _collect(build, range_, variables, build.list(), parts, step)


def _collect(build: _Builder, range_: Node, variables: _Variables, start: Node, parts: list[Node], step: Node) -> Node:
    if len(parts) == 2:
        step = build.call("_?_:_", parts[0], step, build.accumulator())
    return build.loop(range_, variables, start, build.literal(True), step)


def _one_variable(argument: Node, message: str) -> _Variables:
    if not isinstance(argument, Ident):
        raise MacroFault(argument.position, message)
    _check_accumulator(argument, argument.name)
    return argument.name, ""


def _two_variables(first: Node, second: Node) -> _Variables:
    names = []
    for argument in (first, second):
        if not isinstance(argument, Ident):
            raise MacroFault(argument.position, "argument must be a simple name")
        names.append(argument.name)
    if names[0] == names[1]:
        raise MacroFault(second.position, f"duplicate variable name: {names[0]}")
    _check_accumulator(first, names[0])
    _check_accumulator(second, names[1])
    return names[0], names[1]


def _check_accumulator(argument: Node, name: str) -> None:
    if name in (ACCUMULATOR, _FORMER_ACCUMULATOR):
        raise MacroFault(argument.position, "iteration variable overwrites accumulator variable")


_Quantifier = Callable[[_Builder, Node, _Variables, Node], Node]


def _quantifier(quantify: _Quantifier) -> _Macro:
    def expand(build: _Builder, target: Node | None, arguments: list[Node]) -> Node:
        assert target is not None
        return quantify(build, target, _one_variable(arguments[0], "argument must be a simple name"), arguments[1])

    return expand


def _quantifier2(quantify: _Quantifier) -> _Macro:
    def expand(build: _Builder, target: Node | None, arguments: list[Node]) -> Node:
        assert target is not None
        return quantify(build, target, _two_variables(arguments[0], arguments[1]), arguments[2])

    return expand


def _map(build: _Builder, target: Node | None, arguments: list[Node]) -> Node:
    assert target is not None
    return _transform(build, target, _one_variable(arguments[0], "argument is not an identifier"), arguments[1:])


def _filter(build: _Builder, target: Node | None, arguments: list[Node]) -> Node:
    assert target is not None
    variables = _one_variable(arguments[0], "argument is not an identifier")
    return _transform(build, target, variables, [arguments[1], arguments[0]])


def _transform_list(build: _Builder, target: Node | None, arguments: list[Node]) -> Node:
    assert target is not None
    return _transform(build, target, _two_variables(arguments[0], arguments[1]), arguments[2:])


def _transform_map(build: _Builder, target: Node | None, arguments: list[Node]) -> Node:
    assert target is not None
    variables, parts = _two_variables(arguments[0], arguments[1]), arguments[2:]
    step = build.call("cel.@mapInsert", build.accumulator(), build.ident(variables[0]), parts[-1])
    return _collect(build, target, variables, build.map(), parts, step)


def _transform_map_entry(build: _Builder, target: Node | None, arguments: list[Node]) -> Node:
    assert target is not None
    variables, parts = _two_variables(arguments[0], arguments[1]), arguments[2:]
    step = build.call("cel.@mapInsert", build.accumulator(), parts[-1])
    return _collect(build, target, variables, build.map(), parts, step)


# --- bindings -------------------------------------------------------------------------------------------------------


def _bind(build: _Builder, target: Node | None, arguments: list[Node]) -> Node | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    if not isinstance(arguments[0], Ident):
        raise MacroFault(arguments[0].position, "cel.bind() variable names must be simple identifiers")
    return build.bind(arguments[0].name, arguments[1], arguments[2])


def _opt_map(build: _Builder, target: Node | None, arguments: list[Node]) -> Node:
    return _with_value(build, target, arguments, "optMap", wrap=True)


def _opt_flat_map(build: _Builder, target: Node | None, arguments: list[Node]) -> Node:
    return _with_value(build, target, arguments, "optFlatMap", wrap=False)


def _with_value(build: _Builder, target: Node | None, arguments: list[Node], name: str, *, wrap: bool) -> Node:
    assert target is not None
    if not isinstance(arguments[0], Ident):
        raise MacroFault(arguments[0].position, f"{name}() variable name must be a simple identifier")
    computed = build.bind(arguments[0].name, build.method("value", build.copy(target)), arguments[1])
    return build.call(
        "_?_:_",
        build.method("hasValue", target),
        build.call("optional.of", computed) if wrap else computed,
        build.call("optional.none"),
    )


def _sort_by(build: _Builder, target: Node | None, arguments: list[Node]) -> Node:
    assert target is not None
    if not isinstance(target, ListLiteral | Select | Ident | Comprehension | Call):
        raise MacroFault(
            target.position,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        )
    keys = _map(build, build.ident(SORT_INPUT), arguments)
    ordered = build.method("@sortByAssociatedKeys", build.ident(SORT_INPUT), keys)
    return build.bind(SORT_INPUT, target, ordered)


_MACROS: dict[tuple[str, int, bool], _Macro] = {
    ("has", 1, False): _has,
    ("all", 2, True): _quantifier(_all),
    ("exists", 2, True): _quantifier(_exists),
    ("exists_one", 2, True): _quantifier(_exists_one),
    ("existsOne", 2, True): _quantifier(_exists_one),
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("all", 3, True): _quantifier2(_all),
    ("exists", 3, True): _quantifier2(_exists),
    ("exists_one", 3, True): _quantifier2(_exists_one),
    ("existsOne", 3, True): _quantifier2(_exists_one),
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _opt_map,
    ("optFlatMap", 2, True): _opt_flat_map,
    ("sortBy", 2, True): _sort_by,
}
