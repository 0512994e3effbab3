"""Texts from outside on a terminal."""

from __future__ import annotations

from kscheduler.input.printable import printable


def test_what_shows_nothing_is_escaped_and_all_else_stays() -> None:
    assert printable("größer ✓ \x1b[2K\x00\u202e") == "größer ✓ \\u001b[2K\\u0000\\u202e"
    assert printable("plain") == "plain"
