"""Random objects with every field of the schema, as JSON documents that Kubernetes would read."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kscheduler.wasm.extension.encoding.schema import TABLE

DEEP = 6  # messages inside messages; further in, optional ones are left out

_TEXTS = ("", "a", "nginx:1.27", "zone/ä", "x" * 200, "日本", 'tab\tquote"', "0")
_TIMES = (
    "2026-11-21T23:50:32Z", "1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "2026-01-02T03:04:05+05:30",
    "0001-01-01T00:00:00Z", "2024-02-29T12:00:00.75Z", "1950-06-01T00:00:00.5Z",
)  # fmt: skip
_INTEGERS = (0, 1, -1, 80, 127, 128, 300, 65_535, 2**31 - 1, -(2**31))


def quantity(rng: random.Random) -> str:
    sign = rng.choice(("", "", "", "-", "+"))
    digits = rng.choice(
        ("0", "1", "7", "8", "10", "100", "512", "1000", "1024", "1536", "120000", "00012", "999999999999")
    )
    places = rng.choice(("", "", "", ".", ".5", ".500", ".125", ".0000000001", ".25"))
    suffix = rng.choice(
        (
            "",
            "",
            "m",
            "u",
            "n",
            "k",
            "M",
            "G",
            "T",
            "P",
            "E",
            "Ki",
            "Mi",
            "Gi",
            "Ti",
            "Pi",
            "Ei",
            "e3",
            "E2",
            "e-2",
            "e0",
        )
    )
    return f"{sign}{digits}{places}{suffix}"


class Generator:
    """`fullness` is the chance that an optional field is there."""

    def __init__(self, seed: int, fullness: float) -> None:
        self._rng = random.Random(seed)
        self._fullness = fullness
        self._messages = _fields()
        self._values: dict[str, Callable[[], Any]] = {
            "string": lambda: self._rng.choice(_TEXTS),
            "bool": lambda: self._rng.random() < 0.5,
            "int": lambda: self._rng.choice(_INTEGERS),
            "Time": lambda: self._rng.choice(_TIMES),
            "Quantity": lambda: quantity(self._rng),
            "IntOrString": lambda: self._rng.choice((80, 0, "http", "25%", "")),
        }

    def document(self, message: str, depth: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, kind, shape in self._messages[message]:
            if not name:
                found |= self.document(kind, depth + 1)
            elif self._rng.random() < self._fullness and not (depth >= DEEP and kind not in self._values):
                found[name] = self._field(kind, shape, depth)
        return found

    def _field(self, kind: str, shape: str, depth: int) -> Any:
        if shape == "*":
            return [self._value(kind, depth) for _ in range(self._rng.randrange(3))]
        if shape == "%":
            return {
                self._rng.choice(("b", "a", "é", "cpu", "kubernetes.io/x", "")): self._value(kind, depth)
                for _ in range(3)
            }
        return None if self._rng.random() < 0.02 else self._value(kind, depth)

    def _value(self, kind: str, depth: int) -> Any:
        make = self._values.get(kind)
        return self.document(kind, depth + 1) if make is None else make()


def _fields() -> dict[str, list[tuple[str, str, str]]]:
    """Message -> (name, kind, mark) of each field."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for word in TABLE.split():
        if word.endswith(":"):
            fields = found[word[:-1]] = []
            continue
        name, _, rest = word.partition("=")
        kind = rest.partition(":")[2]
        fields.append((name, kind.rstrip("?*%"), kind[-1] if kind[-1] in "?*%" else ""))
    return found
