"""Kubernetes' library of semantic versions, and their parser, which is that of blang/semver."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple, TypeAlias

from kscheduler.cel.faults import EvaluationError, no_such_overload
from kscheduler.cel.functions import Function, method, overload
from kscheduler.cel.gofmt import quote
from kscheduler.cel.types import BOOL, INT, SEMVER, STRING
from kscheduler.cel.values import MAX_INT64, MAX_UINT64, Opaque, Value

_DIGITS = re.compile(r"[0-9]*", re.ASCII)
_ALPHANUMERIC = re.compile(r"[0-9A-Za-z-]*", re.ASCII)
_CACHE_SIZE = 1024

# Numeric parts come before alphanumeric ones.
_Part: TypeAlias = tuple[int, int, str]


class _Version(NamedTuple):
    core: tuple[int, int, int]
    pre_release: tuple[_Part, ...]
    build: tuple[str, ...]


class Semver(Opaque):
    """A semantic version."""

    __slots__ = ("version",)
    cel_type = SEMVER
    go_type = "cel.Semver"
    hashable = False

    def __init__(self, version: _Version) -> None:
        self.version = version

    def order(self, other: Semver) -> int:
        """Return -1, 0 or 1. The build is ignored."""
        if self.version.core != other.version.core:
            return 1 if self.version.core > other.version.core else -1
        mine, others = self.version.pre_release, other.version.pre_release
        if not mine or not others:
            return bool(others) - bool(mine)
        return (mine > others) - (mine < others)

    def same(self, other: Value) -> bool:
        if not isinstance(other, Semver):
            raise no_such_overload()
        return self.order(other) == 0

    def __str__(self) -> str:
        version = self.version
        text = ".".join(map(str, version.core))
        if version.pre_release:
            text += "-" + ".".join(word if kind else str(number) for kind, number, word in version.pre_release)
        return text + ("+" + ".".join(version.build) if version.build else "")


def _fault(text: str) -> EvaluationError:
    return EvaluationError(text)


def _number(text: str, name: str) -> int:
    if _DIGITS.fullmatch(text) is None or not text:
        if text:
            raise _fault(f"Invalid character(s) found in {name.lower()} number {quote(text)}")
        raise _fault('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 1 and text[0] == "0":
        raise _fault(f"{name} number must not contain leading zeroes {quote(text)}")
    return _uint64(text)


def _uint64(digits: str) -> int:
    if len(digits) > 20 or int(digits) > MAX_UINT64:
        raise _fault(f'strconv.ParseUint: parsing "{digits}": value out of range')
    return int(digits)


def _pre_release(text: str) -> _Part:
    if not text:
        raise _fault("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise _fault(f"Numeric PreRelease version must not contain leading zeroes {quote(text)}")
        return 0, _uint64(text), ""
    if _ALPHANUMERIC.fullmatch(text):
        return 1, 0, text
    raise _fault(f"Invalid character(s) found in prerelease {quote(text)}")


def _build(text: str) -> str:
    if not text:
        raise _fault("Build meta data is empty")
    if _ALPHANUMERIC.fullmatch(text) is None:
        raise _fault(f"Invalid character(s) found in build meta data {quote(text)}")
    return text


@functools.lru_cache(maxsize=_CACHE_SIZE)
def parse_semver(text: str) -> Semver:
    """Return a semantic version. Raises EvaluationError with the words of blang/semver."""
    if not text:
        raise _fault("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise _fault("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "Major"), _number(parts[1], "Minor")
    rest, plus, build = parts[2].partition("+")
    patch, dash, pre_release = rest.partition("-")
    core = (major, minor, _number(patch, "Patch"))
    return Semver(
        _Version(
            core,
            tuple(_pre_release(part) for part in pre_release.split(".")) if dash else (),
            tuple(_build(part) for part in build.split(".")) if plus else (),
        )
    )


def _normalized(text: str) -> str:
    """Return a version with all three numbers and no zeros before them. Raises EvaluationError."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1] and stripped[0] in "0123456789" else "0" + stripped
    if len(parts) < 3:
        if any(character in "+-" for character in parts[-1]):
            raise _fault("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _semver(text: str, normalize: bool = False) -> Semver:
    return parse_semver(_normalized(text) if normalize else text)


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _semver(text, normalize)
    except EvaluationError:
        return False
    return True


def _int64(number: int) -> int:
    return number if number <= MAX_INT64 else number - (1 << 64)


_V = SEMVER

FUNCTIONS = (
    Function(
        "semver",
        (
            overload("string_to_semver", (STRING,), _V, _semver),
            overload("string_bool_to_semver", (STRING, BOOL), _V, _semver),
        ),
    ),
    Function(
        "isSemver",
        (
            overload("is_semver_string", (STRING,), BOOL, _is_semver),
            overload("is_semver_string_bool", (STRING, BOOL), BOOL, _is_semver),
        ),
    ),
    Function(
        "isGreaterThan",
        (method("semver_is_greater_than", (_V, _V), BOOL, lambda left, right: left.order(right) == 1),),
    ),
    Function(
        "isLessThan", (method("semver_is_less_than", (_V, _V), BOOL, lambda left, right: left.order(right) == -1),)
    ),
    Function("compareTo", (method("semver_compare_to", (_V, _V), INT, lambda left, right: left.order(right)),)),
    Function("major", (method("semver_major", (_V,), INT, lambda value: _int64(value.version.core[0])),)),
    Function("minor", (method("semver_minor", (_V,), INT, lambda value: _int64(value.version.core[1])),)),
    Function("patch", (method("semver_patch", (_V,), INT, lambda value: _int64(value.version.core[2])),)),
)
