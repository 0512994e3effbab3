"""Texts of plugins become what can be encoded as JSON and UTF-8, and others stay as they are."""

from __future__ import annotations

import enum

import msgspec
import pytest

from kscheduler.framework.plain_text import plain_text


class Text(str):
    """As numpy has one."""

    def __str__(self) -> str:
        raise RuntimeError("not meant to be called")


class Reason(enum.StrEnum):
    FULL = "full"


@pytest.mark.parametrize("text", ["", "no GPU", "caf\u00e9 \U0001f600"])
def test_a_plain_text_stays_the_same_object(text: str) -> None:
    assert plain_text(text) is text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (Text("no GPU"), "no GPU"),
        (Reason.FULL, "full"),
        ("a\ud800b", "a\ufffdb"),
        ("\udcff", "\ufffd"),
        (Text("caf\u00e9\ud800"), "caf\u00e9\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
    ],
)
def test_others_become_one_that_can_be_encoded(text: str, expected: str) -> None:
    plain = plain_text(text)
    assert type(plain) is str
    assert plain == expected
    assert msgspec.json.decode(msgspec.json.encode(plain)) == expected
