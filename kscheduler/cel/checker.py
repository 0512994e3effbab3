"""Checks the types of a parsed expression, and decides which overloads its calls may mean.

What is wrong is reported with cel-go's words. Every node has its type afterwards; what stayed unknown is `dyn`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler.cel import types
from kscheduler.cel.functions import Function, Overload
from kscheduler.cel.source import Source
from kscheduler.cel.tree import (
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    Struct,
    descendants,
)
from kscheduler.cel.types import Kind, Type
from kscheduler.cel.unification import Substitutions, instantiated, most_general
from kscheduler.cel.values import type_of


class Checker:
    """Checks one expression against variables, types, functions and the fields of the only struct, the device."""

    def __init__(
        self,
        source: Source,
        variables: Mapping[str, Type],
        type_names: Mapping[str, Type],
        functions: Mapping[str, Function],
        fields: Mapping[str, Type],
    ) -> None:
        self._source = source
        self._scopes: list[Mapping[str, Type]] = [variables]
        self._type_names = type_names
        self._functions = functions
        self._fields = fields
        self._substitutions = Substitutions()

    def check(self, root: Node) -> None:
        """Check the expression. Faults are reported to the source."""
        self._check(root)
        for node in descendants(root):
            node.type = self._substitutions.resolved(node.type, unknown_is_dyn=True)

    def _check(self, node: Node) -> None:
        match node:
            case Literal():
                node.type = type_of(node.value)
            case Ident():
                self._check_ident(node)
            case Select():
                self._check_select(node)
            case Call():
                self._check_call(node)
            case ListLiteral():
                self._check_list(node)
            case MapLiteral():
                self._check_map(node)
            case Comprehension():
                self._check_comprehension(node)
            case Struct():
                self._undeclared(node, node.name)

    # --- names and fields -------------------------------------------------------------------------------------------

    def _check_ident(self, node: Ident) -> None:
        name = node.name.removeprefix(".")
        for scope in reversed(self._scopes):
            if name in scope:
                node.type = scope[name]
                return
        denoted = self._type_names.get(name)
        if denoted is None:
            self._undeclared(node, node.name)
            return
        node.constant = denoted
        node.type = types.type_of(denoted)

    def _check_select(self, node: Select) -> None:
        name = _qualified_name(node)
        denoted = self._type_names.get(name.removeprefix(".")) if name is not None else None
        if denoted is not None:
            node.qualified = denoted
            node.type = types.type_of(denoted)
            return
        selected, is_optional = self._select(node, node.operand, node.field)
        if node.is_test:
            node.type = types.BOOL
        else:
            node.type = self._substitutions.resolved(types.optional_of(selected) if is_optional else selected)

    def _check_optional_select(self, node: Call) -> None:
        operand, field = node.arguments
        assert isinstance(field, Literal)
        field.type = types.STRING
        selected, _ = self._select(node, operand, str(field.value))
        node.type = self._substitutions.resolved(types.optional_of(selected))
        node.overloads = ("select_optional_field",)

    def _select(self, node: Node, operand: Node, field: str) -> tuple[Type, bool]:
        """Return the type of a field of an operand, and whether the operand is an optional, which the field is then."""
        self._check(operand)
        operand_type, is_optional = types.unwrapped_optional(self._substitutions.resolved(operand.type))
        return self._field_type(node, operand_type, field), is_optional

    def _field_type(self, node: Node, operand: Type, field: str) -> Type:
        if operand.kind is Kind.MAP:
            return operand.parameters[1]
        if operand.kind is Kind.STRUCT:
            return self._struct_field(node, operand, field)
        if operand.kind is Kind.PARAM:
            self._substitutions.assignable(types.DYN, operand)
        elif not operand.is_dyn and operand.kind is not Kind.ERROR:
            self._source.report(node.position, f"type '{operand.shown()}' does not support field selection")
        return types.DYN

    def _struct_field(self, node: Node, struct: Type, field: str) -> Type:
        if struct != types.DEVICE:
            self._source.report(node.position, f"unexpected failed resolution of '{struct.name}'")
        elif field in self._fields:
            return self._fields[field]
        else:
            self._source.report(node.position, f"undefined field '{field}'")
        return types.ERROR

    # --- calls ------------------------------------------------------------------------------------------------------

    def _check_call(self, node: Call) -> None:
        if node.function == "_?._":
            self._check_optional_select(node)
            return
        for argument in node.arguments:
            self._check(argument)
        if node.target is not None:
            prefix = _qualified_name(node.target)
            qualified = self._functions.get(f"{prefix}.{node.function}".removeprefix(".")) if prefix else None
            if qualified is not None:
                node.target, node.function = None, qualified.name
            else:
                self._check(node.target)
        function = self._functions.get(node.function.removeprefix("."))
        if function is None:
            self._undeclared(node, node.function)
            return
        node.function = function.name
        if function.name in ("_&&_", "_||_"):
            self._check_logical(node, function)
        else:
            self._resolve(node, function)

    def _check_logical(self, node: Call, function: Function) -> None:
        node.type = types.BOOL
        node.overloads = (function.overloads[0].id,)
        for argument in node.arguments:
            if not self._substitutions.assignable(argument.type, types.BOOL):
                self._mismatch(argument, types.BOOL, argument.type)
                node.type = types.ERROR

    def _resolve(self, node: Call, function: Function) -> None:
        arguments = tuple(operand.type for operand in node.operands())
        candidates: list[str] = []
        result: Type | None = None
        for overload in function.overloads:
            if overload.is_method != (node.target is not None):
                continue
            expected, returned = self._instance(overload)
            if not self._substitutions.all_assignable(arguments, expected):
                continue
            candidates.append(overload.id)
            found = self._substitutions.resolved(returned)
            if result is None:
                result = found
            elif not result.is_dyn and found != result:
                result = types.DYN
        if result is None:
            self._no_overload(node, arguments)
            return
        node.type = result
        node.overloads = tuple(candidates)

    def _instance(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        """Return the types of arguments and result, with new unknown types for those that each call fills in."""
        if not overload.parameters:
            return overload.arguments, overload.result
        names = {name: self._substitutions.new_type() for name in overload.parameters}
        return tuple(instantiated(each, names) for each in overload.arguments), instantiated(overload.result, names)

    def _no_overload(self, node: Call, arguments: tuple[Type, ...]) -> None:
        shown = [self._substitutions.resolved(each, unknown_is_dyn=True).shown() for each in arguments]
        target = f"{shown.pop(0)}." if node.target is not None else ""
        self._source.report(
            node.position,
            f"found no matching overload for '{node.function}' applied to '{target}({', '.join(shown)})'",
        )

    # --- literals ---------------------------------------------------------------------------------------------------

    def _check_list(self, node: ListLiteral) -> None:
        element_type: Type | None = None
        for index, element in enumerate(node.elements):
            self._check(element)
            found = self._value_type(element, is_optional=index in node.optional)
            element_type = self._joined(element_type, found)
        node.type = types.list_of(element_type or self._substitutions.new_type())

    def _check_map(self, node: MapLiteral) -> None:
        key_type: Type | None = None
        value_type: Type | None = None
        for key, value, is_optional in node.entries:
            self._check(key)
            key_type = self._joined(key_type, key.type)
            self._check(value)
            value_type = self._joined(value_type, self._value_type(value, is_optional=is_optional))
        if key_type is None or value_type is None:
            key_type, value_type = self._substitutions.new_type(), self._substitutions.new_type()
        node.type = types.map_of(key_type, value_type)

    def _value_type(self, node: Node, *, is_optional: bool) -> Type:
        if not is_optional:
            return node.type
        value, unwrapped = types.unwrapped_optional(node.type)
        if not unwrapped and not value.is_dyn:
            self._mismatch(node, types.optional_of(value), value)
        return value

    def _joined(self, previous: Type | None, current: Type) -> Type:
        """Return a type for both; `validators` refuses mixed types where they are not wanted."""
        if previous is None:
            return current
        return most_general(previous, current) if self._substitutions.assignable(previous, current) else types.DYN

    # --- loops ------------------------------------------------------------------------------------------------------

    def _check_comprehension(self, node: Comprehension) -> None:
        self._check(node.range)
        self._check(node.start)
        accumulated = node.start.type
        first, second = self._variable_types(node)
        self._scopes.append({node.accumulator: accumulated})
        self._scopes.append(
            {node.variable: first, node.variable2: second} if node.variable2 else {node.variable: first}
        )
        self._check(node.condition)
        self._expect(node.condition, types.BOOL)
        self._check(node.step)
        self._expect(node.step, accumulated)
        self._scopes.pop()
        self._check(node.result)
        self._scopes.pop()
        node.type = self._substitutions.resolved(node.result.type)

    def _variable_types(self, node: Comprehension) -> tuple[Type, Type]:
        """Return the types of the variables of a loop; with one variable, the second means nothing."""
        range_type = self._substitutions.resolved(node.range.type)
        if range_type.kind is Kind.LIST:
            element = range_type.parameters[0]
            return (types.INT, element) if node.variable2 else (element, element)
        if range_type.kind is Kind.MAP:
            return range_type.parameters[0], range_type.parameters[1]
        if range_type.kind in (Kind.DYN, Kind.ERROR, Kind.PARAM):
            self._substitutions.assignable(types.DYN, range_type)
            return types.DYN, types.DYN
        self._source.report(
            node.range.position,
            f"expression of type '{range_type.shown()}' cannot be range of a comprehension"
            " (must be list, map, or dynamic)",
        )
        return types.ERROR, types.ERROR

    # --- faults -----------------------------------------------------------------------------------------------------

    def _expect(self, node: Node, expected: Type) -> None:
        if not self._substitutions.assignable(expected, node.type):
            self._mismatch(node, expected, node.type)

    def _mismatch(self, node: Node, expected: Type, found: Type) -> None:
        self._source.report(node.position, f"expected type '{expected.shown()}' but found '{found.shown()}'")

    def _undeclared(self, node: Node, name: str) -> None:
        node.type = types.ERROR
        self._source.report(node.position, f"undeclared reference to '{name}' (in container '')")


def _qualified_name(node: Node) -> str | None:
    """Return the dotted name that a node is, or None if it is something else."""
    fields: list[str] = []
    while isinstance(node, Select) and not node.is_test:
        fields.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(fields)]) if isinstance(node, Ident) else None
