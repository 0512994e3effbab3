"""Reads YAML as Kubernetes does (sigs.k8s.io/yaml, which converts it to JSON), within safe limits.

Numbers follow Go (0x10, 0o17, 017, 0b11, 1_000, 1e3; 1:30 is text), `y` and `n` are booleans, dates and unknown tags
are text, `=` has no special meaning, and a key that is not text becomes text. A merge (`<<`) sets its keys at its
position in the mapping. A document that nests too deeply, contains itself, or expands too much by aliases (by Go's own
rule) is refused before any other code processes it.

Documents are built from the parser's events with an explicit stack, so that deep nesting causes no deep recursion.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import yaml
from yaml.reader import ReaderError

from kscheduler.errors import DecodeError
from kscheduler.input.redaction import HIDDEN

MAX_DEPTH = 200  # a schema in a CustomResourceDefinition comes to some fifty

# Go's rule against texts that grow by aliases: so many nodes are never too many; then the share that may come from
# aliases falls from 99 % at 400,000 nodes to 10 % at 4,000,000.
_FEW_NODES, _FEW_ALIASED = 1_000, 100
_LOW_NODES, _HIGH_NODES = 400_000, 4_000_000

_CONSTANTS: Final[dict[str, Any]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[oO]?([0-7]+)|0[bB]([01]+)|(0|[1-9][0-9]*))", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_TAG = "tag:yaml.org,2002:"
_TYPED: Final[dict[str, Any]] = {
    "int": int,
    "float": (int, float),
    "bool": bool,
    "null": type(None),
}  # tag -> what may come of it
_MERGE: Final = object()  # the key `<<`
_NO_KEY: Final = object()
_LINE_ENDS = tuple("\r\n\x85\u2028\u2029")  # YAML's, as the parser writes them
_SURROGATE = re.compile("[\ud800-\udfff]")


class YAMLDocument(NamedTuple):
    value: Any  # of what JSON has: dict[str, ...], list, str, int, float, bool, None
    repeated: list[str]  # an error for each key that is set a second time; the last value counts


def read_yaml(data: str | bytes, *, is_large: bool = False) -> Iterator[YAMLDocument]:
    """Yield the documents in a text, one after the other; an empty text has none.

    Raises DecodeError with line and column, but without quoting the text, which may be a password. `is_large` uses
    libyaml if it is installed, which is ten times faster but has slightly shorter messages.
    """
    loader = getattr(yaml, "CSafeLoader", _Loader) if is_large else _Loader
    try:
        builder = _Builder()
        for event in yaml.parse(_text(data), Loader=loader):
            if isinstance(event, yaml.DocumentStartEvent):
                builder = _Builder()
            elif isinstance(event, yaml.DocumentEndEvent):
                yield YAMLDocument(builder.value, builder.repeated)
            elif isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
                builder.take(event)
    except (yaml.YAMLError, UnicodeError, ValueError) as error:
        raise DecodeError(_fault(error)) from None


def read_one_yaml(data: str | bytes) -> YAMLDocument:
    """Return the only document in a text; None if it is empty.

    Raises DecodeError, also if there is a second document with anything in it: a `---` at the end separates nothing.
    """
    documents = read_yaml(data)
    found = next(documents, YAMLDocument(None, []))
    if any(further.value is not None for further in documents):
        raise DecodeError("expected one document, got more")
    return found


def write_yaml(document: Any) -> str:
    """Encode plain values as YAML that Go can read: texts that look like a number or a boolean are quoted."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=120)


class _Dumper(yaml.SafeDumper):
    pass


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if _resolved(text) == text else "'"
    return dumper.represent_scalar(f"{_TAG}str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def _text(data: str | bytes) -> str:
    if isinstance(data, str):
        return data
    return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")


class _Loader(yaml.SafeLoader):
    """Takes tabs for spaces where Go does: between tokens and words, but not where a line is indented by them.

    Left out is what nobody writes: tabs behind a tag or the `|` of a block, and in the second line of a text.
    """

    def scan_to_next_token(self) -> None:
        super().scan_to_next_token()
        while self.peek() == "\t" and (self.flow_level or not self.allow_simple_key):
            self.forward()
            super().scan_to_next_token()

    def scan_plain_spaces(self, indent: int, start_mark: yaml.Mark) -> list[str] | None:
        """Return what separates two words of a text without quotes; nothing if it ends here."""
        length = 0
        while self.peek(length) in (" ", "\t"):
            length += 1
        blanks = self.prefix(length)
        if "\t" in blanks:
            self.forward(length)
            if self.peek() not in _LINE_ENDS:
                return [blanks]
        return super().scan_plain_spaces(indent, start_mark)


# --- from events to values --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been read yet."""

    value: list[Any] | dict[str, Any]
    start: int  # number of YAML nodes read before this one
    anchor: str | None
    key: Any = _NO_KEY


@dataclass(slots=True)
class _Builder:
    """Builds one document from the parser's events. Lists and mappings that aliases refer to are shared, not copied."""

    value: Any = None
    repeated: list[str] = field(default_factory=list)
    _open: list[_Open] = field(default_factory=list)
    _anchors: dict[str, tuple[Any, int] | _Open] = field(default_factory=dict)  # anchor -> value, its nodes
    _nodes: int = 0  # with those that aliases repeat
    _aliased: int = 0

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.CollectionEndEvent):
            done = self._open.pop()
            if done.anchor is not None and self._anchors[done.anchor] is done:  # it was not given again meanwhile
                self._anchors[done.anchor] = done.value, self._nodes - done.start
            self._put(done.value, event)
            return
        if isinstance(event, yaml.AliasEvent):
            self._put(self._named(event), event)
            return
        self._nodes += 1
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
            if event.anchor is not None:
                self._anchors[event.anchor] = value, 1
            is_plain = event.tag is None and event.implicit[0]
            self._put(_MERGE if is_plain and value == "<<" and self._is_key() else value, event)
            return
        if len(self._open) >= MAX_DEPTH:
            raise _marked(event, f"nested more than {MAX_DEPTH} levels deep")
        value = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._open.append(_Open(value, self._nodes - 1, event.anchor))
        if event.anchor is not None:
            self._anchors[event.anchor] = self._open[-1]

    def _is_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is _NO_KEY

    def _named(self, event: Any) -> Any:
        named = self._anchors.get(event.anchor)
        if named is None:
            raise _marked(event, "found undefined alias")
        if isinstance(named, _Open):
            raise _marked(event, "an anchor's value contains itself")
        value, nodes = named
        self._nodes += nodes
        self._aliased += nodes
        if self._nodes > _FEW_NODES and self._aliased > _FEW_ALIASED:
            beyond = min(max(self._nodes - _LOW_NODES, 0) / (_HIGH_NODES - _LOW_NODES), 1)
            if self._aliased > self._nodes * (0.99 - 0.89 * beyond):
                raise _marked(event, "document contains excessive aliasing")
        return value

    def _put(self, value: Any, event: Any) -> None:
        """Add a value to the innermost open list or mapping."""
        if not self._open:
            self.value = _number(value, event)
            return
        inner = self._open[-1]
        if isinstance(inner.value, list):
            inner.value.append(_number(value, event))
        elif inner.key is _NO_KEY:
            inner.key = value if value is _MERGE else _key(value, event)
        elif inner.key is _MERGE:
            self._merge(inner.value, value, event)
            inner.key = _NO_KEY
        else:
            self._set(inner.value, inner.key, _number(value, event), event)
            inner.key = _NO_KEY

    def _set(self, mapping: dict[str, Any], key: str, value: Any, event: Any) -> None:
        if key in mapping:
            self.repeated.append(f'line {event.start_mark.line + 1}: key "{key}" already set in map')
        mapping[key] = value

    def _merge(self, mapping: dict[str, Any], value: Any, event: Any) -> None:
        """Add the keys of a merge (`<<`) to a mapping; if several merged mappings have a key, the first counts."""
        merged = value if isinstance(value, list) else [value]
        if not all(isinstance(each, dict) for each in merged):
            raise _marked(event, "map merge requires map or sequence of maps as the value")
        for each in reversed(merged):
            for key, item in each.items():
                self._set(mapping, key, item, event)


# --- from texts to values ---------------------------------------------------------------------------------------


def _scalar(event: Any) -> Any:
    text, tag = _whole(event), event.tag
    if tag is None:
        return _resolved(text) if event.implicit[0] else text
    kind = tag.removeprefix(_TAG) if tag.startswith(_TAG) else ""
    if kind == "binary":
        try:
            return base64.b64decode(text, validate=False).decode(errors="replace")
        except binascii.Error as error:
            raise _marked(event, "!!binary value contains invalid base64 data") from error
    if kind not in _TYPED:
        return text
    value = _resolved(text)
    if not isinstance(value, _TYPED[kind]) or (isinstance(value, bool) and kind != "bool"):
        raise _marked(event, f"cannot decode the value as a !!{kind}")
    if kind == "int" and not _INTEGER.fullmatch(text.replace("_", "")):
        raise _marked(event, "cannot decode the value as a !!int")
    return value


def _resolved(text: str) -> Any:
    """Return the value of an unquoted YAML text: null, a boolean, a number or the text itself."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if not text or text[0] not in "+-.0123456789":
        return text
    plain = text.replace("_", "")
    if (found := _INTEGER.fullmatch(plain)) is not None:
        value = _integer(*found.groups())
        if -(1 << 63) <= value < 1 << (63 if found[1] else 64):
            return value
    if _FLOAT.fullmatch(plain) is None or (text[0] == "." and text[1:2] == "_"):
        return text
    number = float(plain)
    return number if math.isfinite(number) else text


def _integer(sign: str, hexadecimal: str | None, octal: str | None, binary: str | None, decimal: str | None) -> int:
    for digits, base in ((hexadecimal, 16), (octal, 8), (binary, 2)):
        if digits is not None:
            return int(sign + digits, base)
    return int(sign + decimal) if decimal is not None and len(decimal) < 30 else 1 << 65


def _number(value: Any, event: Any) -> Any:
    """Return a number as in JSON, where 1e3 becomes 1000. Raises DecodeError for infinity."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        raise _marked(event, "unsupported value: JSON has neither infinity nor NaN")
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def _key(value: Any, event: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value < 1 << 63:
        return str(value)
    if isinstance(value, float):
        return {math.inf: ".inf", -math.inf: "-.inf"}.get(value, ".nan" if math.isnan(value) else f"{value:g}")
    raise _marked(event, "unsupported map key")


def _whole(event: Any) -> str:
    """Return the text of a scalar, with two 16-bit escapes of a surrogate pair joined to one character, as in JSON."""
    text: str = event.value
    if _SURROGATE.search(text) is None:
        return text
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise _marked(event, "found invalid Unicode character escape code") from error


# --- faults -----------------------------------------------------------------------------------------------------


def _marked(event: Any, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


def _fault(error: Exception) -> str:
    """Describe a parser's error and position without quoting the text: a password may look like an alias or a tag."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        problem = _QUOTED.sub(_own_quote, error.problem or error.context or "malformed")
        hint = " (a tab: YAML is indented by spaces)" if r"'\t'" in problem else ""
        return f"line {mark.line + 1}, column {mark.column + 1}: {problem}{hint}"
    if isinstance(error, ReaderError):
        return f"a character that is not allowed: position {error.position}"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is no part of {error.encoding.upper()} text"
    return "malformed"


def _own_quote(found: re.Match[str]) -> str:
    return found["own"] or HIDDEN


# What the parser quotes of its own, one character or a token such as '<block end>'; or else all up to the last quote.
_QUOTED = re.compile(
    r"""(?P<own>(?P<mark>['"])"""
    r"""(?:[^'"\\]|\\(?:[abefnrtv\\]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})|<[a-z ]+>)"""
    r"""(?P=mark))"""
    r"""|(?P<quote>['"]).*(?P=quote)"""
)
