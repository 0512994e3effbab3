"""Plans a checked expression: chooses a Python closure for each operation. `calls` and `loops` have most closures.

A plan is made in two forms. Where the costs of a selector are certain to stay far below the limit, which is the rule,
nothing is counted. Otherwise each operation adds what it costs in cel-go.
"""

from __future__ import annotations

from typing import Any, Final

from kscheduler.cel import costs, types
from kscheduler.cel.calls import alternative, call_of, charged, counted_call, equality, guarded, logical, unequal
from kscheduler.cel.environment import Environment
from kscheduler.cel.faults import CompileError, EvaluationError
from kscheduler.cel.frame import FIRST_SLOT, Evaluate, Frame, spend
from kscheduler.cel.functions import Function, Implementation
from kscheduler.cel.library.regex import compile_pattern, with_pattern
from kscheduler.cel.loops import accumulating, loop, variable
from kscheduler.cel.paths import Path, Step, resolver
from kscheduler.cel.tree import Call, Comprehension, Ident, ListLiteral, Literal, MapLiteral, Node, Select, descendants
from kscheduler.cel.values import PLAIN, Map, Optional, Value, check_hashable, equal, go_type_of, key_of, shown

_CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})
_PATTERNS = frozenset({"matches", "find", "findAll"})  # functions whose second argument is a regular expression
_UNSET: Final = object()
_FAILED = "program instantiation failed: "


class Planned:
    """An operation: a constant, a path or anything else."""

    __slots__ = ("constant", "evaluate", "path")

    def __init__(self, evaluate: Evaluate, *, constant: Any = _UNSET, path: Path | None = None) -> None:
        self.evaluate = evaluate
        self.constant = constant
        self.path = path

    @property
    def is_constant(self) -> bool:
        return self.constant is not _UNSET


class Planner:
    """Plans one expression."""

    def __init__(self, environment: Environment, *, counted: bool) -> None:
        self._environment = environment
        self._functions = environment.functions
        self._counted = counted
        self._scopes: list[dict[str, tuple[int, Evaluate | None]]] = []  # name -> slot, and how it starts if lazily
        self.slots = FIRST_SLOT  # the length of a frame
        self._trusts_types = False  # whether values are certain to have the types that the checker found

    def plan(self, root: Node) -> Evaluate:
        """Return what evaluates the expression. Raises CompileError if a constant part of it fails."""
        # or and orValue return anything that is no optional as it is, whatever type they should have.
        self._trusts_types = not any(
            isinstance(node, Call) and node.function in ("or", "orValue") for node in descendants(root)
        )
        return self._plan(root).evaluate

    def _plan(self, node: Node) -> Planned:
        match node:
            case Literal():
                return _constant(node.value)
            case Ident():
                return self._plan_ident(node)
            case Select():
                return self._plan_select(node)
            case Call():
                return self._plan_call(node)
            case ListLiteral():
                return self._plan_list(node)
            case MapLiteral():
                return self._plan_map(node)
            case Comprehension():
                return self._plan_loop(node)
        raise TypeError(f"expected a checked expression, got {type(node).__name__}")

    # --- paths ------------------------------------------------------------------------------------------------------

    def _plan_ident(self, node: Ident) -> Planned:
        if node.constant is not None:
            return _constant(node.constant)
        if node.type.kind is types.Kind.TYPE:  # cel-go takes the variable for the name of a type
            raise CompileError(f"{_FAILED}reference to undefined type: {node.name}")
        for scope in reversed(self._scopes):
            found = scope.get(node.name)
            if found is not None:
                return self._reading(Path(variable(*found)))
        return self._reading(Path(lambda frame: frame[0], is_device=True))

    def _plan_select(self, node: Select) -> Planned:
        if node.qualified is not None:
            return _constant(node.qualified)
        path = self._path(self._plan(node.operand))
        path.take(Step(node.field, is_test=node.is_test))
        if not node.is_test:
            return self._reading(path)
        resolve = resolver(path, counted=self._counted)

        def test(frame: Frame) -> Value:
            found = resolve(frame)
            return found.has_value if type(found) is Optional else found

        return Planned(test, path=path)

    def _plan_index(self, node: Call) -> Planned:
        planned = [self._plan(argument) for argument in node.arguments]
        path, key = self._path(planned[0]), planned[1]
        is_optional = node.function != "_[_]"
        if key.is_constant:
            if type(key.constant) not in PLAIN or isinstance(key.constant, bytes):
                raise CompileError(f"{_FAILED}invalid qualifier type: {go_type_of(key.constant)}")
            path.take(Step(key.constant, is_optional=is_optional))
        else:
            compute = key.evaluate if key.path is None else resolver(key.path, counted=self._counted)
            path.take(Step(None, compute, is_optional))
        return self._reading(path)

    def _plan_choice(self, node: Call) -> Planned:
        condition, first, second = [self._plan(argument) for argument in node.arguments]
        return self._reading(Path(condition.evaluate, (self._path(first), self._path(second))))

    def _path(self, planned: Planned) -> Path:
        return planned.path or Path(planned.evaluate)

    def _reading(self, path: Path) -> Planned:
        """Return the operation that reads a path. It costs 1, except for choices."""
        resolve = resolver(path, counted=self._counted)
        if not self._counted or path.branches is not None:
            return Planned(resolve, path=path)

        def read(frame: Frame) -> Value:
            try:
                value = resolve(frame)
            except EvaluationError:
                spend(frame, 1)
                raise
            spend(frame, 1)
            return value

        return Planned(read, path=path)

    # --- literals ---------------------------------------------------------------------------------------------------

    def _plan_list(self, node: ListLiteral) -> Planned:
        planned = [self._plan(element) for element in node.elements]
        if all(each.is_constant for each in planned) and not node.optional:
            return _constant([each.constant for each in planned])
        elements, optional, counted = [each.evaluate for each in planned], node.optional, self._counted

        def build(frame: Frame) -> list[Value]:
            values = []
            for index, element in enumerate(elements):
                value = element(frame)
                if index in optional:
                    if type(value) is not Optional:
                        raise EvaluationError(
                            f"cannot initialize optional list element from non-optional value {shown(value)}"
                        )
                    if not value.has_value:
                        continue
                    value = value.value
                values.append(value)
            return values

        return Planned(charged(build, costs.LIST_COST) if counted else build)

    def _plan_map(self, node: MapLiteral) -> Planned:
        entries = [(self._plan(key), self._plan(value), is_optional) for key, value, is_optional in node.entries]
        counted = self._counted

        def build(frame: Frame) -> Value:
            values: dict[Any, Value] = {}
            for key_plan, value_plan, is_optional in entries:
                key, value = key_plan.evaluate(frame), value_plan.evaluate(frame)
                if is_optional:
                    if type(value) is not Optional:
                        raise EvaluationError(
                            f"cannot initialize optional entry '{shown(key)}' from non-optional value {shown(value)}"
                        )
                    if not value.has_value:
                        values.pop(key_of(key), None)
                        continue
                    value = value.value
                check_hashable(key)
                values[key_of(key)] = value
            return Map(values)

        if all(key.is_constant and value.is_constant and not optional for key, value, optional in entries):
            return _constant(Map({key_of(key.constant): value.constant for key, value, _ in entries}))
        return Planned(charged(build, costs.MAP_COST) if counted else build)

    # --- loops ------------------------------------------------------------------------------------------------------

    def _plan_loop(self, node: Comprehension) -> Planned:
        range_ = self._plan(node.range).evaluate
        start = self._plan(node.start).evaluate
        accumulated, first, second = self.slots, self.slots + 1, self.slots + 2
        self.slots += 3
        self._scopes.append({node.accumulator: (accumulated, accumulating(start))})
        self._scopes.append({node.variable: (first, None)})
        if node.variable2:
            self._scopes[-1][node.variable2] = (second, None)
        condition = self._plan(node.condition)
        step = self._plan(node.step).evaluate
        self._scopes.pop()
        result = self._plan(node.result).evaluate
        self._scopes.pop()
        test = None if condition.is_constant and condition.constant is True else condition.evaluate
        slots = accumulated, first, second
        return Planned(loop(range_, slots, test, step, result, has_two_variables=bool(node.variable2)))

    # --- calls ------------------------------------------------------------------------------------------------------

    def _plan_call(self, node: Call) -> Planned:
        match node.function:
            case "_&&_":
                return Planned(logical([self._plan(each).evaluate for each in node.arguments], decisive=False))
            case "_||_":
                return Planned(logical([self._plan(each).evaluate for each in node.arguments], decisive=True))
            case "_?_:_":
                return self._plan_choice(node)
            case "_[_]" | "_[?_]" | "_?._":
                return self._plan_index(node)
        operands = [self._plan(operand) for operand in node.operands()]
        if node.function in ("_==_", "_!=_"):
            return Planned(self._equality(node.function, operands[0].evaluate, operands[1].evaluate))
        if node.overloads in (("optional_or_optional",), ("optional_orValue_value",)):
            unwrap = node.function == "orValue"
            checks = self._environment.checks_optionals
            return Planned(alternative(operands[0].evaluate, operands[1].evaluate, unwrap=unwrap, checks=checks))
        return self._plan_function(node, operands)

    def _plan_function(self, node: Call, operands: list[Planned]) -> Planned:
        function = self._functions[node.function]
        single = node.overloads[0] if len(node.overloads) == 1 else ""
        if node.function in _CONVERSIONS and operands[0].is_constant:
            return _constant(_folded(self._implementation(function, single, node), operands[0].constant))
        if single == "in_list" and operands[1].is_constant:
            planned = _membership(operands[0].evaluate, operands[1].constant)
            if planned is not None:
                return planned
        if node.function in _PATTERNS and operands[1].is_constant and isinstance(operands[1].constant, str):
            try:
                compile_pattern(operands[1].constant)
            except EvaluationError as error:
                raise CompileError(f"{_FAILED}{error}") from None
            call = with_pattern(node.function)
        else:
            call = self._implementation(function, single, node)
        if node.function == "@not_strictly_false":
            return Planned(self._not_strictly_false(operands[0].evaluate))
        evaluates = [each.evaluate for each in operands]
        if self._counted:
            dispatched = function.call is None and not single
            cost = costs.cost_of(node.function, single, has_later_costs=self._environment.has_later_costs)
            stops_early = dispatched or node.function == "format"
            return Planned(counted_call(call, evaluates, cost, stops_early=stops_early))
        return Planned(call_of(call, evaluates))

    def _implementation(self, function: Function, single: str, node: Call) -> Implementation:
        """Return what a call calls: the only overload that may fit, or the first that fits the arguments that come."""
        if function.call is not None:
            return function.call
        if not single:
            return guarded(function.name, function.overloads)
        chosen = next(each for each in function.overloads if each.id == single)
        assert chosen.call is not None
        static = [operand.type for operand in node.operands()]
        if function.unchecked or (self._trusts_types and all(map(_is_certain, chosen.arguments, static))):
            return chosen.call
        return guarded(function.name, (chosen,))

    def _equality(self, function: str, left: Evaluate, right: Evaluate) -> Evaluate:
        if self._counted:
            if function == "_==_":
                return counted_call(equal, [left, right], costs.equality)
            return counted_call(unequal, [left, right], costs.inequality)
        return equality(left, right) if function == "_==_" else call_of(unequal, [left, right])

    def _not_strictly_false(self, operand: Evaluate) -> Evaluate:
        """Return the condition of `all` and `exists`: errors do not end the loop."""
        counted = self._counted

        def goes_on(frame: Frame) -> Value:
            try:
                value = operand(frame)
            except EvaluationError:
                value = True
            if counted:
                spend(frame, 1)
            return value if isinstance(value, bool) else True

        return goes_on


# --- parts that are decided while planning --------------------------------------------------------------------------


def _is_certain(expected: types.Type, static: types.Type) -> bool:
    """Return whether values of a static type need no check at run time."""
    if expected.is_dyn or expected.kind is types.Kind.PARAM:
        return True
    if static.name != expected.name:
        return False
    return all(map(_is_certain, expected.parameters, static.parameters))


def _folded(call: Implementation, constant: Value) -> Value:
    try:
        return call(constant)
    except EvaluationError as error:
        raise CompileError(f"{_FAILED}{error}") from None


def _membership(operand: Evaluate, elements: list[Value]) -> Planned | None:
    """Return the test whether a value is in a constant list, or None if it is better searched."""
    if not elements:
        return _constant(False)
    if any(type(element) not in PLAIN or isinstance(element, bytes) for element in elements):
        return None
    known = {key_of(element) for element in elements if element == element}

    def test(frame: Frame) -> Value:
        value = operand(frame)
        check_hashable(value)
        try:
            return key_of(value) in known
        except TypeError:
            return False

    return Planned(test)


def _constant(value: Value) -> Planned:
    return Planned(lambda _frame: value, constant=value)
