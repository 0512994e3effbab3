from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.client.http_answer import Answer, AnswerReader, BadAnswer

FIXED = b"HTTP/1.1 201 Created\r\nContent-Type: x\r\nContent-Length: 5\r\nRetry-After: 7\r\n\r\nhello"
PLAIN = b"HTTP/1.1 201 Created\r\nContent-Type: x\r\nContent-Length: 5\r\nDate: today\r\n\r\nhello"
BOTH = b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
CLOSING_PLAINLY = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n4;ext=1\r\nhell\r\n1\r\no\r\n0\r\nTrailer: x\r\n\r\n"
)
CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\ncontent-length: 5\r\n\r\nhello"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\n" + FIXED
OLD = b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"

ANSWERS = {
    PLAIN: Answer(201, b"hello", "", True),
    BOTH: Answer(200, b"hello", "", True),
    CLOSING_PLAINLY: Answer(200, b"hello", "", False),
    FIXED: Answer(201, b"hello", "7", True),
    CHUNKED: Answer(409, b"hello", "", True),
    CLOSING: Answer(200, b"hello", "", False),
    EMPTY: Answer(204, b"", "", True),
    CONTINUED: Answer(201, b"hello", "7", True),
    OLD: Answer(200, b"hello", "", False),
}


@given(st.sampled_from(list(ANSWERS)), st.lists(st.integers(0, 120)))
def test_an_answer_is_the_same_however_it_is_cut(raw: bytes, cuts: list[int]) -> None:
    reader = AnswerReader()
    places = [0, *sorted(cut for cut in cuts if cut < len(raw)), len(raw)]
    results = [reader.feed(raw[a:b]) for a, b in itertools.pairwise(places)]
    assert results[-1] == ANSWERS[raw]
    assert results[:-1] == [None] * (len(results) - 1)
    assert reader.is_fresh


def test_one_answer_after_another_on_one_connection() -> None:
    reader = AnswerReader()
    assert [reader.feed(raw) for raw in (FIXED, CHUNKED, EMPTY)] == [ANSWERS[r] for r in (FIXED, CHUNKED, EMPTY)]


def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    reader = AnswerReader()
    assert reader.feed(b"HTTP/1.1 200 OK\r\n\r\nhel") is None
    assert reader.feed(b"lo") is None
    assert reader.end() == Answer(200, b"hello", "", False)


def test_an_answer_cut_short_is_none() -> None:
    reader = AnswerReader()
    assert reader.feed(FIXED[:-1]) is None
    assert reader.end() is None
    assert not reader.is_fresh


def test_more_than_was_asked_for_makes_the_connection_useless() -> None:
    answer = AnswerReader().feed(FIXED + b"x")
    assert answer == Answer(201, b"hello", "7", False)


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-6\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000,
    ],
)
def test_what_is_no_answer_is_refused(raw: bytes) -> None:
    with pytest.raises(BadAnswer):
        AnswerReader().feed(raw)
