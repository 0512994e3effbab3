"""Parses CEL: tokens to a tree, with macros expanded.

It descends like the grammar of cel-go, and counts how deep each of its rules is nested, because cel-go refuses an
expression in which one of them is nested more than 250 deep. Operators of one precedence count, too: `1+1+1` is a
`calc` of depth four.
"""

from __future__ import annotations

from kscheduler.cel import macros
from kscheduler.cel.faults import CompileError
from kscheduler.cel.lexer import SyntaxFault, Token, decode_bytes, decode_string, tokenize
from kscheduler.cel.source import Source
from kscheduler.cel.tree import Call, Ident, ListLiteral, Literal, MapLiteral, Node, Select, Struct, children
from kscheduler.cel.values import Uint

MAX_DEPTH = 250
MAX_LENGTH = 100_000  # characters
_MAX_INT64 = (1 << 63) - 1

RESERVED = frozenset(
    "as break const continue else false for function if import in let loop package namespace null return true var void"
    " while".split()
)
_RELATIONS = frozenset({"<", "<=", ">=", ">", "==", "!="})


def parse(source: Source) -> Node:
    """Return the tree of the expression. Raises CompileError with all faults that were found."""
    if len(source.text) > MAX_LENGTH:
        source.report(-1, f"expression code point size exceeds limit: size: {len(source.text)}, limit {MAX_LENGTH}")
        raise CompileError(source.faults())
    try:
        parser = _Parser(source)
        root = parser.expression()
        parser.expect("end")
    except SyntaxFault:
        raise CompileError(source.faults()) from None
    if source.has_faults:
        raise CompileError(source.faults())
    return root


class _Parser:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._tokens = tokenize(source)
        self._next = 0
        self._depth = {"expr": 0, "relation": 0, "calc": 0, "member": 0}
        self._expander = macros.Expander(source)

    # --- operators --------------------------------------------------------------------------------------------------

    def expression(self) -> Node:
        """expr: or ('?' or ':' expr)?"""
        self._enter("expr")
        condition = self._or()
        if self._token.kind == "?":
            position = self._advance().position
            truthy = self._or()
            self.expect(":")
            condition = self._nested(Call(position, "_?_:_", [condition, truthy, self.expression()]))
        self._leave("expr")
        return condition

    def _or(self) -> Node:
        return self._logical("||", "_||_")

    def _and(self) -> Node:
        return self._logical("&&", "_&&_")

    def _logical(self, operator: str, function: str) -> Node:
        """Parse a chain of && or ||. It is one call of many arguments, whichever way cel-go would nest it."""
        parse = self._and if operator == "||" else self._relation
        terms = [parse()]
        position = self._token.position
        while self._token.kind == operator:
            self._advance()
            terms.append(parse())
        return terms[0] if len(terms) == 1 else _holding(Call(position, function, terms))

    def _relation(self, lowest: int = 0) -> Node:
        self._enter("relation")
        left, levels = self._calc(0), 1
        while lowest < 1 and (self._token.kind in _RELATIONS or self._token.text == "in"):
            operator = self._advance()
            self._enter("relation")
            levels += 1
            function = "@in" if operator.text == "in" else f"_{operator.text}_"
            left = self._nested(Call(operator.position, function, [left, self._relation(1)]))
        self._leave("relation", levels)
        return left

    def _calc(self, lowest: int) -> Node:
        self._enter("calc")
        left, levels = self._unary(), 1
        while True:
            kind = self._token.kind
            precedence = 2 if kind in ("*", "/", "%") else 1 if kind in ("+", "-") else 0
            if precedence == 0 or precedence <= lowest:
                break
            operator = self._advance()
            self._enter("calc")
            levels += 1
            left = self._nested(Call(operator.position, f"_{kind}_", [left, self._calc(precedence)]))
        self._leave("calc", levels)
        return left

    def _unary(self) -> Node:
        token = self._token
        if token.kind == "!" or (token.kind == "-" and self._tokens[self._next + 1].kind not in ("int", "float")):
            count = 0
            while self._token.kind == token.kind:
                self._advance()
                count += 1
            operand = self._member(allow_sign=token.kind == "!")
            return operand if count % 2 == 0 else _holding(Call(token.position, f"{token.kind}_", [operand]))
        return self._member(allow_sign=True)

    # --- members ----------------------------------------------------------------------------------------------------

    def _member(self, *, allow_sign: bool) -> Node:
        self._enter("member")
        node, levels = self._primary(allow_sign), 1
        while True:
            token = self._token
            if token.kind == ".":
                self._enter("member")
                node = self._selection(node)
            elif token.kind == "[":
                self._enter("member")
                self._advance()
                function = "_[_]"
                if self._token.kind == "?":
                    self._advance()
                    function = "_[?_]"
                node = self._nested(Call(token.position, function, [node, self.expression()]))
                self.expect("]")
            else:
                break
            levels += 1
        self._leave("member", levels)
        return node

    def _selection(self, operand: Node) -> Node:
        dot = self._advance()
        optional = self._token.kind == "?"
        if optional:
            self._advance()
        name = self._token
        if name.kind == "quoted":
            self._source.report(name.position, "unsupported syntax: '`'")
        elif name.kind != "ident":
            self._fail("IDENTIFIER")
        self._advance()
        if optional:
            return self._nested(Call(dot.position, "_?._", [operand, Literal(name.position, name.text)]))
        if self._token.kind == "(" and name.kind == "ident":
            position = self._advance().position
            arguments = self._arguments()
            call = self._expander.expand(position, name.text, operand, arguments)
            return self._nested(call, max(part.depth for part in (operand, *arguments)))
        return self._nested(Select(dot.position, operand, name.text))

    def _arguments(self) -> list[Node]:
        """Parse the arguments of a call, behind its opening parenthesis, and the closing one."""
        arguments: list[Node] = []
        if self._token.kind != ")":
            arguments.append(self.expression())
            while self._token.kind == ",":
                self._advance()
                arguments.append(self.expression())
        self.expect(")")
        return arguments

    # --- primaries --------------------------------------------------------------------------------------------------

    def _primary(self, allow_sign: bool) -> Node:
        token = self._token
        match token.kind:
            case "ident" | ".":
                return self._name()
            case "(":
                self._advance()
                node = self.expression()
                self.expect(")")
                return node
            case "[":
                return self._list()
            case "{":
                return self._map()
            case "-" if allow_sign and self._tokens[self._next + 1].kind in ("int", "float"):
                self._advance()
                return self._number(token.position, "-")
            case "int" | "float" | "uint":
                return self._number(token.position, "")
            case "string" | "bytes":
                return self._quoted()
            case "keyword" if token.text != "in":
                self._advance()
                return Literal(token.position, {"true": True, "false": False, "null": None}[token.text])
        raise self._fail("{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, ...}")

    def _name(self) -> Node:
        """Parse a variable, a global call or a message literal."""
        dot = ""
        if self._token.kind == ".":
            self._advance()
            dot = "."
        token = self._token
        if token.kind != "ident":
            self._fail("IDENTIFIER")
        if self._is_message_literal():
            return self._message(dot)
        self._advance()
        is_reserved = token.text in RESERVED
        if is_reserved:
            self._source.report(token.position, f"reserved identifier: {token.text}")
        if self._token.kind == "(":
            position = self._advance().position
            arguments = self._arguments()
            if is_reserved:
                return Ident(token.position, token.text)
            call = self._expander.expand(position, dot + token.text, None, arguments)
            call.depth = max((argument.depth for argument in arguments), default=0)
            return call
        return Ident(token.position, dot + token.text)

    def _is_message_literal(self) -> bool:
        ahead = self._next + 1
        while self._tokens[ahead].kind == "." and self._tokens[ahead + 1].kind == "ident":
            ahead += 2
        return self._tokens[ahead].kind == "{"

    def _message(self, name: str) -> Node:
        while self._token.kind != "{":
            name += self._advance().text
        position = self._advance().position
        while self._token.kind != "}":
            if self._token.kind == "?":
                self._advance()
            if self._token.kind == "quoted":
                self._source.report(position, "unsupported syntax: '`'")
                self._advance()
            else:
                self.expect("ident")
            self.expect(":")
            self.expression()
            if self._token.kind != ",":
                break
            self._advance()
        self.expect("}")
        return Struct(position, name)

    def _list(self) -> Node:
        position = self._advance().position
        elements: list[Node] = []
        optional: set[int] = set()
        while self._token.kind != "]":
            if not elements and self._token.kind == ",":
                self._advance()
                break
            if self._token.kind == "?":
                self._advance()
                optional.add(len(elements))
            elements.append(self.expression())
            if self._token.kind != ",":
                break
            self._advance()
        self.expect("]")
        return _holding(ListLiteral(position, elements, frozenset(optional)))

    def _map(self) -> Node:
        position = self._advance().position
        entries: list[tuple[Node, Node, bool]] = []
        while self._token.kind != "}":
            if not entries and self._token.kind == ",":
                self._advance()
                break
            optional = self._token.kind == "?"
            if optional:
                self._advance()
            key = self.expression()
            self.expect(":")
            entries.append((key, self.expression(), optional))
            if self._token.kind != ",":
                break
            self._advance()
        self.expect("}")
        return _holding(MapLiteral(position, entries))

    # --- literals ---------------------------------------------------------------------------------------------------

    def _number(self, position: int, sign: str) -> Node:
        token = self._advance()
        if token.kind == "float":
            number = float(sign + token.text)
            if number in (float("inf"), float("-inf")):
                self._source.report(position, "invalid double literal")
            return Literal(position, number)
        text = token.text.rstrip("uU") if token.kind == "uint" else token.text
        base = 16 if text.startswith("0x") else 10
        digits = text.removeprefix("0x").lstrip("0") or "0"
        value = int(sign + digits, base) if len(digits) <= 20 else 1 << 80
        if token.kind == "uint":
            if value >= 1 << 64:
                self._source.report(position, "invalid uint literal")
            return Literal(position, Uint(value))
        if not -_MAX_INT64 - 1 <= value <= _MAX_INT64:
            self._source.report(position, "invalid int literal")
        return Literal(position, value)

    def _quoted(self) -> Node:
        token = self._advance()
        value: str | bytes = ""
        try:
            value = decode_string(token.text) if token.kind == "string" else decode_bytes(token.text)
        except ValueError as error:
            self._source.report(token.position, str(error))
        return Literal(token.position, value)

    # --- depth ------------------------------------------------------------------------------------------------------

    def _nested(self, node: Node, depth: int | None = None) -> Node:
        """Note how deep a node holds others, and return it. cel-go refuses more than 250 levels of all rules."""
        node.depth = 1 + (max(part.depth for part in children(node)) if depth is None else depth)
        if node.depth > MAX_DEPTH:
            self._source.report(-1, "max recursion depth exceeded")
            raise SyntaxFault
        return node

    def _enter(self, rule: str) -> None:
        self._depth[rule] += 1
        if self._depth[rule] > MAX_DEPTH:
            self._source.report(-1, f"expression recursion limit exceeded: {MAX_DEPTH}")
            raise SyntaxFault

    def _leave(self, rule: str, levels: int = 1) -> None:
        self._depth[rule] -= levels

    # --- tokens -----------------------------------------------------------------------------------------------------

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _advance(self) -> Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def expect(self, kind: str) -> Token:
        """Take a token of a kind. Raises SyntaxFault if the next is of another."""
        if self._token.kind != kind:
            self._fail("<EOF>" if kind == "end" else "IDENTIFIER" if kind == "ident" else f"'{kind}'")
        return self._advance() if kind != "end" else self._token

    def _fail(self, expected: str) -> SyntaxFault:
        found = self._token
        self._source.report(found.position, f"Syntax error: mismatched input '{found.text}' expecting {expected}")
        raise SyntaxFault


def _holding(node: Node) -> Node:
    """Note how deep the parts of a node are that is no level itself, and return it."""
    node.depth = max((part.depth for part in children(node)), default=0)
    return node
