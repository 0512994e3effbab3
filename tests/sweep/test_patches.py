"""Values are set in a document at JSON paths, and lists of values give every combination."""

from __future__ import annotations

from typing import Any

import pytest

from kscheduler.errors import ConfigError
from kscheduler.sweep.patches import Selected, choice_name, choices, count_choices, parse_path, patched


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("a.b", ["a", "b"]),
        ("$.a[0].b", ["a", 0, "b"]),
        ('a["b.c/d"]', ["a", "b.c/d"]),
        ("a[name=X y].w", ["a", Selected("name", "X y"), "w"]),
        ('$.a[?(@.name=="X")].w', ["a", Selected("name", "X"), "w"]),
    ],
)
def test_a_path_is_read(path: str, steps: list[Any]) -> None:
    assert parse_path(path) == steps


@pytest.mark.parametrize("path", ["", "$", ".a", "a..b", "a[", "a[*]", "a.b c", "a[-1]"])
def test_a_path_that_cannot_be_read_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="expected a path such as"):
        parse_path(path)


@pytest.mark.parametrize(
    ("document", "path", "value", "result"),
    [
        ({"a": {"b": 1}}, "a.b", 2, {"a": {"b": 2}}),
        ({}, "a.b[name=x].c", 2, {"a": {"b": [{"name": "x", "c": 2}]}}),
        ({"b": [{"name": "x", "d": 1}]}, "b[name=x].c", 2, {"b": [{"name": "x", "d": 1, "c": 2}]}),
        ({"b": [1, 2]}, "b[1]", 3, {"b": [1, 3]}),
        ({"b": [1]}, "b[1]", 3, {"b": [1, 3]}),
        ({"b": 1, "c": 1}, "b", None, {"c": 1}),
        ({"b": [{"name": "x"}, {"name": "y"}]}, "b[name=x]", None, {"b": [{"name": "y"}]}),
    ],
)
def test_a_value_is_set_and_what_is_missing_is_created(
    document: dict[str, Any], path: str, value: Any, result: dict[str, Any]
) -> None:
    before = repr(document)
    assert patched(document, {path: value}) == result
    assert repr(document) == before


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("a.b", 'patches["a.b"]: "b": expected a mapping above it, got the integer 1'),
        ("a[0]", 'patches["a[0]"]: "[0]": expected a list above it, got the integer 1'),
        ("list[5]", 'patches["list[5]"]: [5]: expected an index of at most 1'),
    ],
)
def test_a_path_that_does_not_fit_is_refused(path: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        patched({"a": 1, "list": [1]}, {path: 2})
    assert str(raised.value) == message


def test_lists_of_values_give_every_combination_with_its_name() -> None:
    patches = {"x.weight": [1, 2], "y.type": ["A", "B"], "z": True}
    assert count_choices(patches) == 4
    assert [choice_name("fit", patches, choice) for choice in choices(patches)] == [
        "fit[weight=1,type=A]",
        "fit[weight=1,type=B]",
        "fit[weight=2,type=A]",
        "fit[weight=2,type=B]",
    ]
    assert list(choices(patches))[1] == {"x.weight": 1, "y.type": "B", "z": True}


def test_paths_with_the_same_end_are_named_in_full() -> None:
    patches = {"x.weight": [1, 2], "y.weight": [3, 4]}
    assert choice_name("fit", patches, next(choices(patches))) == "fit[x.weight=1,y.weight=3]"
