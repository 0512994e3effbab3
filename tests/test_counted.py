"""Numbers with their nouns: one of them is no plural."""

from __future__ import annotations

import pytest

from kscheduler.counted import counted


@pytest.mark.parametrize(("number", "text"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods"), (5_000, "5,000 pods")])
def test_one_is_no_plural(number: int, text: str) -> None:
    assert counted(number, "pod") == text


def test_a_plural_may_be_another_word_and_have_a_verb() -> None:
    assert [counted(number, "entry is", "entries are") for number in (1, 2)] == ["1 entry is", "2 entries are"]
