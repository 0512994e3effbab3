"""Cuts an expression into tokens, and decodes literals."""

from __future__ import annotations

import re
from typing import NamedTuple

from kscheduler.cel.source import Source


class Token(NamedTuple):
    kind: str  # an operator itself, or one of: ident, quoted, int, uint, float, string, bytes, keyword, end
    text: str
    position: int


class SyntaxFault(Exception):
    """The text is no expression. It has been reported to the source."""


KEYWORDS = frozenset({"in", "true", "false", "null"})

_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"""
_STRING = (
    r'(?:[rR](?:"""(?s:.*?)"""|' + r"'''(?s:.*?)'''" + r'|"[^"\n\r]*"|' + r"'[^'\n\r]*')"
    rf'|"""(?:{_ESCAPE}|[^\\])*?"""'
    rf"|'''(?:{_ESCAPE}|[^\\])*?'''"
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*"'
    rf"|'(?:{_ESCAPE}|[^\\'\n\r])*')"
)
_TOKENS = re.compile(
    rf"""
      (?P<space>[\t \r\n\f]+|//[^\n]*)
    | (?P<bytes>[bB]{_STRING})
    | (?P<string>{_STRING})
    | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    | (?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
    | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
    | (?P<ident>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<quoted>`[A-Za-z0-9_.\-/\ ]+`)
    | (?P<operator>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])
    """,
    re.VERBOSE | re.ASCII,
)


def tokenize(source: Source) -> list[Token]:
    """Return the tokens, with one of the kind "end" behind them. Raises SyntaxFault."""
    tokens: list[Token] = []
    text, position = source.text, 0
    while position < len(text):
        match = _TOKENS.match(text, position)
        if match is None:
            source.report(position, f"Syntax error: token recognition error at: '{text[position]}'")
            raise SyntaxFault
        kind = match.lastgroup or ""
        if kind == "operator":
            tokens.append(Token(match[0], match[0], position))
        elif kind == "ident":
            tokens.append(Token("keyword" if match[0] in KEYWORDS else "ident", match[0], position))
        elif kind != "space":
            tokens.append(Token(kind, match[0], position))
        position = match.end()
    tokens.append(Token("end", "<EOF>", len(text)))
    return tokens


_SIMPLE_ESCAPES = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_ANY_ESCAPE = re.compile(_ESCAPE)


def decode_string(token: str) -> str:
    """Return the string that a literal stands for. Raises ValueError with cel-go's words."""
    body, raw = _body(token)
    if raw or "\\" not in body:
        return body
    return _ANY_ESCAPE.sub(_unescape_character, body)


def decode_bytes(token: str) -> bytes:
    """Return the bytes that a literal stands for. Raises ValueError with cel-go's words."""
    body, raw = _body(token[1:])
    if raw or "\\" not in body:
        return body.encode()
    decoded, position = bytearray(), 0
    for match in _ANY_ESCAPE.finditer(body):
        decoded += body[position : match.start()].encode()
        decoded += _unescape_byte(match[0][1:])
        position = match.end()
    return bytes(decoded + body[position:].encode())


def _body(token: str) -> tuple[str, bool]:
    token = token.replace("\r\n", "\n").replace("\r", "\n")
    raw = token[0] in "rR"
    if raw:
        token = token[1:]
    quotes = 3 if len(token) >= 6 and token[:3] in ('"""', "'''") else 1
    return token[quotes:-quotes], raw


def _unescape_character(match: re.Match[str]) -> str:
    escape = match[0][1:]
    code = _code(escape)
    if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
        raise ValueError("invalid unicode code point")
    return chr(code)


def _unescape_byte(escape: str) -> bytes:
    if escape[0] in "uU":
        raise ValueError("unable to unescape string")
    return bytes([_code(escape)])


def _code(escape: str) -> int:
    if escape[0] in "xXuU":
        return int(escape[1:], 16)
    if escape[0] in "0123":
        return int(escape, 8)
    return _SIMPLE_ESCAPES.get(escape, ord(escape[0]))
