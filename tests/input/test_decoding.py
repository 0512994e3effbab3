"""Every fault of a decoder is a DecodeError that quotes nothing; and nobody goes around it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.errors import DecodeError
from kscheduler.input.decoding import convert, decode_document, json_decoder, msgpack_decoder, with_unicode

ROOT = Path(__file__).parents[2]


class Thing(msgspec.Struct):
    name: str = ""
    count: int = 0
    share: float = 0.0
    rest: object = None


read = json_decoder(Thing)
DEEP = b"[" * 100_000

FAULTY = {
    "no UTF-8": b'{"name":"hunter2\xff"}',
    "a surrogate alone": rb'{"name":"hunter2\ud800"}',
    "cut short": b'{"name":"hunter2',
    "deep": b'{"rest":' + DEEP,
    "deep, in a field that nobody reads": b'{"hunter2":' + DEEP,
    "a number of any length": b'{"count":' + b"9" * 5_000 + b"}",
    "a number beyond floats": b'{"share":1e999}',
    "no number": b'{"share":NaN}',
    "another type": b'{"count":"hunter2"}',
    "the same key twice": b'{"count":1,"count":"hunter2"}',
    "nothing": b"",
    "more behind it": b'{"name":"hunter2"}\xff',
}


@pytest.mark.parametrize("raw", FAULTY.values(), ids=FAULTY)
def test_every_fault_is_ours_and_quotes_nothing(raw: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        read(raw)
    assert str(caught.value)
    assert "hunter2" not in str(caught.value)


@given(st.binary(max_size=200))
def test_any_msgpack_is_read_or_refused(raw: bytes) -> None:
    for kind in (object, Thing, str, dict[str, Thing]):
        with contextlib.suppress(DecodeError):
            msgpack_decoder(kind)(raw)


def test_a_document_that_nests_without_end_is_refused() -> None:
    document: dict[str, object] = {}
    document["rest"] = document
    with pytest.raises(DecodeError):
        convert({"rest": document}, dict[str, dict[str, dict[str, int]]])


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'"caf\xff"', "caf�"),
        (rb'"\ud800"', "�"),
        (rb'"\udc00\ud83d\ude00\ud83dx"', "�\U0001f600�x"),
        (rb'"\\ud800"', r"\ud800"),
        (rb'"\ud83d\ud83d\ude00"', "�\U0001f600"),
    ],
)
def test_text_that_is_no_unicode_is_read_as_go_reads_it(raw: bytes, text: str) -> None:
    assert decode_document(raw) == text
    assert json_decoder(str, as_go=True)(raw) == text


@given(st.text(st.characters(codec="utf-8")))
def test_unicode_stays_as_it_is(text: str) -> None:
    raw = msgspec.json.encode(text)
    assert with_unicode(raw) == raw


@pytest.mark.parametrize(
    "line",
    [
        "import msgspec\nprint(msgspec.json.decode(b''))",
        "from msgspec import json\nprint(json.Decoder(int).decode)",
        "from msgspec.json import decode as read\nprint(read(b''))",
        "import msgspec as m\nprint(m.convert({}, dict))",
        "import msgspec.msgpack as packed\nprint(packed.decode(b''))",
        "import json\nprint(json.loads('{}'))",
    ],
)
def test_nobody_decodes_around_the_one_module(line: str) -> None:
    command = [sys.executable, "-m", "ruff", "check", "--quiet", "--select", "TID251", "--stdin-filename"]
    for path, is_fine in (("kscheduler/client/some.py", False), ("kscheduler/input/decoding.py", True)):
        done = subprocess.run([*command, path, "-"], input=line + "\n", cwd=ROOT, text=True, capture_output=True)
        assert (done.returncode == 0) is is_fine, done.stdout
    everything = subprocess.run([*command[:-1], "kscheduler"], cwd=ROOT, text=True, capture_output=True)
    assert everything.returncode == 0, everything.stdout
