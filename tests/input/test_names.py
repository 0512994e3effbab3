"""Names follow the API's rules."""

from __future__ import annotations

import pytest

from kscheduler.input.names import is_label_value, is_qualified_name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("app", True),
        ("app.kubernetes.io/name", True),
        ("A_b.c-9", True),
        ("a/b/c", False),
        ("", False),
        ("/a", False),
        ("a/", False),
        ("Example.com/a", False),
        ("-a", False),
        ("a.", False),
        ("a b", False),
        ("a\n", False),
        ("é", False),
        ("a" * 63, True),
        ("a" * 64, False),
        (f"{'a' * 253}/b", True),
        (f"{'a' * 254}/b", False),
    ],
)
def test_a_qualified_name_is_recognised(text: str, expected: bool) -> None:
    assert is_qualified_name(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", True), ("a", True), ("1.2-3_4", True), ("-1", False), ("a/b", False), ("a" * 63, True), ("a" * 64, False)],
)
def test_a_label_value_is_recognised(text: str, expected: bool) -> None:
    assert is_label_value(text) is expected
