"""The answers that nearly every write gets: both forms read the same ones."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.testing.kernels import load_compiled, reference
from tests.support.skips import NOT_BUILT, missing_tool

HEAD = b"HTTP/1.1 201 Created\r\nAudit-Id: 1\r\nContent-Length: %d\r\nDate: today\r\n\r\n"


def answer(body: bytes, head: bytes = HEAD) -> bytearray:
    return bytearray(head % len(body) + body)


@pytest.mark.parametrize("body", [b"", b"{}", b"k8s\x00" + bytes(200)])
def test_a_success_of_an_apiserver_is_read(fast: ModuleType, body: bytes) -> None:
    data = answer(body)
    end = len(data)
    assert fast.read_plain_answer(data, 0, end) == (201, len(body), end)
    assert fast.read_plain_answer(data + b"what came earlier", 0, end) == (201, len(body), end)
    assert fast.read_plain_answer(data + data, 0, 2 * end) == (201, len(body), end)
    assert fast.read_plain_answer(data + data, end, 2 * end) == (201, len(body), 2 * end)


@pytest.mark.parametrize(
    "data",
    [
        answer(b"<html>"),
        answer(b"k8s"),
        answer(b"{}")[:-1],
        answer(b"{}", HEAD.replace(b"201", b"204")),
        answer(b"{}", HEAD.replace(b"201", b"20x")),
        answer(b"{}", HEAD.replace(b"201", b"409")),
        answer(b"{}", HEAD.replace(b"1.1", b"1.0")),
        answer(b"{}", HEAD.replace(b"Date", b"Connection")),
        answer(b"{}", HEAD.replace(b"Audit-Id", b"Transfer-Encoding")),
        answer(b"{}", HEAD.replace(b"Date", b"Retry-After")),
        answer(b"{}", HEAD.replace(b"Length: ", b"Length:")),
        answer(b"{}", HEAD.replace(b"%d", b"+%d")),
        answer(b"{}", HEAD.replace(b"%d", b"000000000%d")),
        bytearray(b"HTTP/1.1 201"),
        bytearray(b"HTTP/1.1 201\r\n\r\n"),
        bytearray(),
    ],
)
def test_all_others_are_left_to_the_slower_reader(fast: ModuleType, data: bytearray) -> None:
    assert fast.read_plain_answer(data, 0, len(data)) is None


def test_more_bytes_than_there_are_and_no_bytes_are_refused(fast: ModuleType) -> None:
    for start, stop in ((0, 3), (-1, 1), (2, 1)):
        with pytest.raises(ValueError, match=f"expected 0 <= start <= stop <= 2, got {start} and {stop}"):
            fast.read_plain_answer(bytearray(2), start, stop)
    with pytest.raises(TypeError):
        fast.read_plain_answer(None, 0, 0)


PIECES = [
    b"HTTP/1.1 201",
    b"\r\n",
    b"\r",
    b"\n",
    b"Content-Length: ",
    b"0",
    b"2",
    b"{}",
    b"k8s\x00",
    b"Connection:",
    b" ",
]


@given(st.lists(st.sampled_from(PIECES), max_size=14), st.integers(0, 3), st.booleans())
def test_both_forms_agree_on_any_bytes(pieces: list[bytes], cut: int, begins_well: bool) -> None:
    compiled = load_compiled()
    if compiled is None:
        missing_tool(NOT_BUILT)
    data = bytearray((b"HTTP/1.1 200 OK\r\nContent-Length: " if begins_well else b"") + b"".join(pieces))
    start, stop = min(cut, len(data)), max(cut, len(data) - cut)
    for begin, end in ((0, max(0, len(data) - cut)), (start, max(start, stop - cut))):
        assert compiled.read_plain_answer(data, begin, end) == reference.read_plain_answer(data, begin, end)
