"""Regular expressions: `matches`, and Kubernetes' `find` and `findAll`.

Go's regexp package and RE2 share their syntax and never backtrack, so no expression of a user takes long. Their
errors for malformed patterns differ, hence the table of words.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from kscheduler.cel.faults import EvaluationError, no_such_overload
from kscheduler.cel.functions import Function, Implementation, method, overload
from kscheduler.cel.types import BOOL, INT, STRING, list_of
from kscheduler.cel.values import Value

if TYPE_CHECKING:
    import re2

_CACHE_SIZE = 256
_MAX_MEMORY = 64 << 20  # bytes for one compiled pattern; the machine that matches has less
_WORDS = {
    "no argument for repetition operator": "missing argument to repetition operator",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
    "pattern too large - compile failed": "expression too large",
}


@functools.lru_cache(maxsize=_CACHE_SIZE)
def _compiled(pattern: str) -> re2._Regexp | str:
    """Return the compiled pattern, or what is wrong with it."""
    import re2  # only here, since it takes 2.5 MiB of memory and most clusters have no expression with a pattern

    if _matches_single_bytes(pattern):
        return "error parsing regexp: invalid escape sequence: `\\C`"
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        what = error.args[0]
        text = what.decode(errors="replace") if isinstance(what, bytes) else str(what)
        words, _, where = text.partition(": ")
        if where.startswith("(?<"):  # for Go, this begins the name of a group
            words, where = "invalid named capture group", pattern[pattern.index(where) :]
        return f"error parsing regexp: {_WORDS.get(words, words)}: `{where}`"


def _matches_single_bytes(pattern: str) -> bool:
    r"""Return whether a pattern has \C, which RE2 supports and Go does not."""
    position = pattern.find("\\")
    while 0 <= position < len(pattern) - 1:
        if pattern[position + 1] == "C":
            return True
        position = pattern.find("\\", position + 2)
    return False


def compile_pattern(pattern: str) -> re2._Regexp:
    """Return a compiled pattern. Raises EvaluationError with the words of Go's regexp package."""
    found = _compiled(pattern)
    if isinstance(found, str):
        raise EvaluationError(found)
    return found


def _matches(text: Value, pattern: Value) -> bool:
    if not isinstance(text, str):
        raise EvaluationError("no such overload: matches")
    if not isinstance(pattern, str):
        raise EvaluationError("no such overload")
    return compile_pattern(pattern).search(text) is not None


def _legal(pattern: str) -> re2._Regexp:
    try:
        return compile_pattern(pattern)
    except EvaluationError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _find(text: str, pattern: str) -> str:
    match = _legal(pattern).search(text)
    return "" if match is None else str(match[0])


def _find_all(text: str, pattern: str, count: int = -1) -> list[str]:
    """Return the matches one after the other. An empty one directly behind another does not count, as in Go."""
    compiled, found = _legal(pattern), list[str]()
    position, previous_end = 0, -1
    while position <= len(text) and (count < 0 or len(found) < count):
        match = compiled.search(text, position)
        if match is None:
            break
        start, end = match.span()
        if end == position:
            is_new = start != previous_end
            position += 1
        else:
            is_new, position = True, end
        previous_end = end
        if is_new:
            found.append(text[start:end])
    return found


def with_pattern(function: str) -> Implementation:
    """Return a function for calls with a constant pattern, which cel-go compiles first, with shorter type errors."""
    call: Implementation = {"matches": _matches, "find": _find, "findAll": _find_all}[function]

    def checked(text: Value, pattern: str, *count: Value) -> Value:
        if not isinstance(text, str) or not all(type(each) is int for each in count):
            raise no_such_overload()
        return call(text, pattern, *count)

    return checked


FUNCTIONS = (
    Function(
        "matches",
        (
            overload("matches", (STRING, STRING), BOOL),
            method("matches_string", (STRING, STRING), BOOL),
        ),
        _matches,
    ),
    Function("find", (method("string_find_string", (STRING, STRING), STRING, _find),)),
    Function(
        "findAll",
        (
            method("string_find_all_string", (STRING, STRING), list_of(STRING), _find_all),
            method("string_find_all_string_int", (STRING, STRING, INT), list_of(STRING), _find_all),
        ),
    ),
)
