from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.cut_text import MOST_BYTES, cut_text


@pytest.mark.parametrize("letter", ["x", "é", "ヌ", "🐳"])
def test_a_text_is_cut_between_letters_and_only_if_it_is_too_long(letter: str) -> None:
    most = MOST_BYTES // len(letter.encode())
    assert cut_text(letter * most) == letter * most
    cut = cut_text(letter * (most + 1))
    assert cut.endswith(" ...")
    assert set(cut.removesuffix(" ...")) == {letter}
    assert MOST_BYTES - 4 < len(cut.encode()) <= MOST_BYTES


@given(st.text(max_size=50), st.integers(0, 3 * MOST_BYTES))
def test_no_text_is_longer_and_none_is_cut_twice(text: str, times: int) -> None:
    long = text * (times // max(len(text), 1))
    cut = cut_text(long)
    assert cut == long or (len(cut.encode()) <= MOST_BYTES and cut.endswith(" ..."))
    assert cut_text(cut) == cut


def test_half_of_a_surrogate_pair_in_a_long_text_does_not_keep_it_from_being_cut() -> None:
    assert len(cut_text("\ud800" * 5 * MOST_BYTES)) <= MOST_BYTES
