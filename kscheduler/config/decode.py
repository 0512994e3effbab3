"""Decodes a plain document to configuration values, strictly, and reports all errors at once, each with its field path.

msgspec alone would stop at the first error and call the document `$`, so the document is first compared with the type
here. An unknown field is `strict decoding error: unknown field "a.b"`, as in kube-scheduler; a wrong type is reported
with what was expected and what was found. `null` counts as absent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from msgspec import inspect

from kscheduler.config.duration import Duration
from kscheduler.config.releases import Release
from kscheduler.errors import ConfigError, DecodeError, InternalError
from kscheduler.input.decoding import convert
from kscheduler.input.redaction import Secret, hide_urls

T = TypeVar("T")

MAX_DEPTH = 32  # the deepest legal document has 9 levels; a YAML alias to itself has infinitely many


@dataclass(slots=True)
class Faults:
    """The errors found in a document: unknown fields, and values of a wrong type."""

    unknown: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def raise_if_any(self) -> None:
        """Raise ConfigError with all wrong values and all unknown fields."""
        messages = self.wrong + ([strict_error(self.unknown)] if self.unknown else [])
        if messages:
            raise ConfigError(aggregate(messages))


def aggregate(messages: list[str]) -> str:
    """Join messages as Kubernetes prints them: without duplicates, and in brackets if there is more than one."""
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def strict_error(messages: list[str]) -> str:
    return f"strict decoding error: {', '.join(messages)}"


def decode(kind: type[T], document: Any, path: str = "", *, faults: Faults | None = None) -> T | None:
    """Decode `document` to a `kind`. Errors are added to `faults`, and None is returned if a value has a wrong type.

    Without `faults` any error raises ConfigError instead.
    """
    found = Faults()
    cleaned = _walk(_type_info(kind), document, path, found)
    if faults is None:
        found.raise_if_any()
    else:
        faults.unknown += found.unknown
        faults.wrong += found.wrong
    if found.wrong:
        return None
    try:
        return convert(cleaned, kind, dec_hook=_decode_custom)
    except DecodeError as error:
        raise InternalError(f"{path or 'configuration'}: the check and the reader disagree: {error}") from error


_TYPE_INFO: dict[Any, inspect.Type] = {}  # type -> its description, which costs a millisecond to make


def _type_info(kind: Any) -> inspect.Type:
    if kind not in _TYPE_INFO:
        _TYPE_INFO[kind] = inspect.type_info(kind)
    return _TYPE_INFO[kind]


def _decode_custom(kind: type[Any], value: Any) -> Any:
    if kind is Duration:
        return Duration.parse(value)
    if issubclass(kind, Secret):
        return kind(value)
    raise NotImplementedError(kind)


def _walk(info: inspect.Type, value: Any, path: str, faults: Faults, depth: int = 0) -> Any:
    """Return `value` without nulls and unknown fields; errors are added to `faults` instead of raised."""
    if depth > MAX_DEPTH:
        faults.wrong.append(f"{path}: nested more than {MAX_DEPTH} levels deep")
        return None
    info = _without_none(info)
    if isinstance(info, inspect.StructType):
        return _walk_struct(info, value, path, faults, depth)
    if isinstance(info, (inspect.VarTupleType, inspect.ListType)):
        return _walk_list(info.item_type, value, path, faults, depth)
    if isinstance(info, inspect.DictType):
        return _walk_dict(info.value_type, value, path, faults, depth)
    expected = _mismatch(info, value)
    if expected:
        faults.wrong.append(f"{path}: expected {expected}, got {_shown(info, value)}")
    elif isinstance(info, inspect.CustomType) and info.cls is Duration:
        _check_custom(value, path, faults)
    elif isinstance(info, inspect.IntType):
        return int(value)
    return value


def _without_none(info: inspect.Type) -> inspect.Type:
    """Return the type X of `X | None`, since nulls are removed before; annotations are removed, too."""
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(info, inspect.UnionType):
        members = [member for member in info.types if not isinstance(member, inspect.NoneType)]
        if len(members) == 1:
            return _without_none(members[0])
    return info


def _walk_struct(info: inspect.StructType, value: Any, path: str, faults: Faults, depth: int) -> Any:
    if not isinstance(value, dict):
        faults.wrong.append(f"{path or 'document'}: expected a mapping, got {_shown(info, value)}")
        return None
    types = {member.encode_name: member.type for member in info.fields if not _is_outside(member.type)}
    cleaned = {}
    for key, item in value.items():
        child = f"{path}.{key}" if path else str(key)
        if key not in types:
            faults.unknown.append(f'unknown field "{child}"')
        elif item is not None:
            cleaned[key] = _walk(types[key], item, child, faults, depth + 1)
    return cleaned


def _is_outside(info: inspect.Type) -> bool:
    """Return whether a field is set by the program and is no part of documents."""
    return isinstance(info, inspect.DataclassType) and info.cls is Release


def _walk_list(item_type: inspect.Type, value: Any, path: str, faults: Faults, depth: int) -> Any:
    if not isinstance(value, list):
        faults.wrong.append(f"{path}: expected a list, got {_shown(item_type, value)}")
        return None
    empty: Any = {} if isinstance(_without_none(item_type), inspect.StructType) else ""
    return [
        _walk(item_type, empty if item is None else item, f"{path}[{index}]", faults, depth + 1)
        for index, item in enumerate(value)
    ]


def _walk_dict(item_type: inspect.Type, value: Any, path: str, faults: Faults, depth: int) -> Any:
    if not isinstance(value, dict):
        faults.wrong.append(f"{path}: expected a mapping, got {_shown(item_type, value)}")
        return None
    return {
        str(key): _walk(item_type, "" if item is None else item, f"{path}[{key}]", faults, depth + 1)
        for key, item in value.items()
    }


def _mismatch(info: inspect.Type, value: Any) -> str:
    """Return what was expected instead of `value`, or "" if `value` is of the right type."""
    if isinstance(info, inspect.BoolType):
        return "" if isinstance(value, bool) else "true or false"
    if isinstance(info, inspect.IntType):
        return _integer_mismatch(info, value)
    if isinstance(info, inspect.FloatType):
        return "" if isinstance(value, (int, float)) and not isinstance(value, bool) else "a number"
    if isinstance(info, inspect.StrType):
        return "" if isinstance(value, str) else "a string"
    if isinstance(info, inspect.CustomType):
        expected = 'a duration such as "15s"' if info.cls is Duration else "a string"
        return "" if isinstance(value, str) else expected
    if isinstance(info, inspect.AnyType):
        return ""
    if isinstance(info, inspect.UnionType):  # of text and numbers; there is no other
        fits = any(not _mismatch(member, value) for member in info.types if not isinstance(member, inspect.NoneType))
        return "" if fits else 'a quantity such as "500m" or 80'
    raise InternalError(f"no check for values of {type(info).__name__}")


def _integer_mismatch(info: inspect.IntType, value: Any) -> str:
    if isinstance(value, bool) or not (isinstance(value, int) or (isinstance(value, float) and value.is_integer())):
        return "an integer"  # 3.0 is one, as it is for Kubernetes
    low, high = info.ge, info.le
    if low is not None and high is not None and not low <= value <= high:
        return f"an integer of {high.bit_length() + 1} bits"
    return ""


def _check_custom(value: str, path: str, faults: Faults) -> None:
    try:
        Duration.parse(value)
    except ValueError as error:
        faults.wrong.append(f"{path}: {error}")


def _shown(info: inspect.Type, value: Any) -> str:
    """Return a wrong value for a message; only its kind if it is or may contain a secret."""
    return describe_kind(value) if _holds_secrets(info, frozenset()) else describe(value)


def _holds_secrets(info: inspect.Type, above: frozenset[type]) -> bool:
    info = _without_none(info)
    if isinstance(info, inspect.AnyType):  # arguments of a plugin from elsewhere
        return True
    if isinstance(info, inspect.CustomType):
        return issubclass(info.cls, Secret)
    if isinstance(info, inspect.StructType):
        inner = above | {info.cls}
        return info.cls not in above and any(_holds_secrets(member.type, inner) for member in info.fields)
    if isinstance(info, (inspect.VarTupleType, inspect.ListType)):
        return _holds_secrets(info.item_type, above)
    return isinstance(info, inspect.DictType) and _holds_secrets(info.value_type, above)


def describe_kind(value: Any) -> str:
    """Return the kind of a value that may be a secret, such as "a string", for a message."""
    if isinstance(value, str):
        return "a string"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return "a number"
    return describe(value)


def describe(value: Any) -> str:
    """Return a value's kind for a message, and the value itself if it is short; a URL is shown without secrets."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f'the string "{hide_urls(value)[:60]}"'
    return f"the {'integer' if isinstance(value, int) else 'number'} {str(value)[:40]}"
