"""Label selectors as text."""

from __future__ import annotations

import pytest

from kscheduler.config.selector_text import selector_text_fault

GOOD = [
    "",
    "a",
    "!a",
    "a=b",
    "a==b",
    "a!=b",
    "a=",
    "a in (b,c)",
    "a notin (b)",
    "a>3",
    "a<-3",
    "a=b, c , !d",
    "x.y/z=1",
]
BAD = ["a=b,", ",", "a b", "!a=b", "a in b", "a in (b", "a=b=c", "a>b", "a=b/c", "-a", "a in (b c)", "=b", "a,,b"]


@pytest.mark.parametrize("text", GOOD)
def test_a_selector_is_accepted(text: str) -> None:
    assert selector_text_fault(text) == ""


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_selector_is_refused(text: str) -> None:
    assert selector_text_fault(text)
