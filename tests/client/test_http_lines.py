from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.client.http_answer import BadAnswer
from kscheduler.client.http_lines import LineReader

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
LINES = [b'{"a":1}', b"", b'{"b":"' + b"x" * 300 + b'"}', b"{}"]
TEXT = b"".join(line + b"\n" for line in LINES)


def chunked(*parts: bytes) -> bytes:
    return HEAD + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\nTrailer: x\r\n\r\n"


def cut(raw: bytes, places: list[int]) -> list[bytes]:
    at = [0, *sorted(place for place in places if place < len(raw)), len(raw)]
    return [raw[a:b] for a, b in itertools.pairwise(at)]


PLACES = st.lists(st.integers(0, 600), max_size=30)


@given(PLACES, PLACES)
def test_lines_are_the_same_however_they_are_cut(chunks: list[int], arrivals: list[int]) -> None:
    raw = chunked(*(part for part in cut(TEXT, chunks) if part))
    reader = LineReader()
    lines = [line for part in cut(raw, arrivals) for line in reader.feed(part)]
    assert lines == LINES
    assert reader.is_over
    assert reader.status == 200
    assert reader.end()


@given(PLACES)
def test_a_body_of_known_length_is_over_when_all_of_it_has_come(arrivals: list[int]) -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(TEXT), TEXT)
    reader = LineReader()
    assert [line for part in cut(raw, arrivals) for line in reader.feed(part)] == LINES
    assert reader.is_over


@given(PLACES)
def test_a_body_without_a_length_is_over_with_the_connection(arrivals: list[int]) -> None:
    reader = LineReader()
    parts = cut(b"HTTP/1.0 200 OK\r\n\r\n" + TEXT, arrivals)
    assert [line for part in parts for line in reader.feed(part)] == LINES
    assert not reader.is_over
    assert reader.end()


@given(PLACES)
def test_a_refusal_is_read_whole(arrivals: list[int]) -> None:
    raw = b"HTTP/1.1 410 Gone\r\nContent-Length: 12\r\nRetry-After: 3\r\n\r\ntoo old\n\n\n\n\n"
    reader = LineReader()
    assert [line for part in cut(raw, arrivals) for line in reader.feed(part)] == []
    assert reader.refusal is not None
    assert (reader.refusal.status, reader.refusal.retry_after) == (410, "3")
    assert reader.refusal.body.startswith(b"too old")
    assert not reader.status


@pytest.mark.parametrize("length", [0, 20, len(HEAD), len(HEAD) + 1, len(HEAD) + 5, -6, -1])
def test_an_answer_cut_short_is_not_over(length: int) -> None:
    reader = LineReader()
    reader.feed(chunked(TEXT)[:length])
    assert not reader.end()


def test_an_empty_answer_is_over() -> None:
    reader = LineReader()
    assert reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") == []
    assert reader.is_over


@pytest.mark.parametrize(
    "raw",
    [
        b"220 smtp.example.com\r\n\r\n",
        HEAD + b"xyz\r\n",
        HEAD + b"-5\r\n",
        HEAD + b"1" * 2000,
        b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000,
    ],
)
def test_what_is_no_stream_is_refused(raw: bytes) -> None:
    with pytest.raises(BadAnswer):
        LineReader().feed(raw)


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.client.http_lines.MAX_LINE_BYTES", 1000)
    reader = LineReader()
    reader.feed(HEAD)
    for _ in range(10):
        reader.feed(b"64\r\n" + b"x" * 100 + b"\r\n")
    with pytest.raises(BadAnswer, match="a line of more than 1000 bytes"):
        reader.feed(b"64\r\n" + b"x" * 100 + b"\r\n")


@given(st.binary(max_size=300), PLACES)
def test_no_bytes_break_the_reader(garbage: bytes, arrivals: list[int]) -> None:
    reader = LineReader()
    try:
        for part in cut(HEAD + garbage, arrivals):
            reader.feed(part)
        reader.end()
    except BadAnswer:
        pass
