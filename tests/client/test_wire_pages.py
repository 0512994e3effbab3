"""A big page is decoded while it is read, and means what a small one means."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest

from kscheduler.client.kinds import PODS
from kscheduler.client.protocol import EventType
from kscheduler.client.wire import BIG_PAGE_BYTES, LineDecoder, Undecoded, decode_page
from kscheduler.errors import DecodeError
from kscheduler.testing import make_pod

FILLER = "x" * 2_000
COUNT = BIG_PAGE_BYTES // len(FILLER) + 1


def page(*odd: object, count: int = COUNT) -> bytes:
    items = [{"metadata": {"name": f"p{i}", "managedFields": FILLER}} for i in range(count)]
    metadata = {"resourceVersion": "7", "continue": "more"}
    return json.dumps({"kind": "PodList", "metadata": metadata, "items": [*odd, *items]}).encode()


def test_a_big_page_yields_its_objects() -> None:
    found = decode_page(page(), PODS)
    assert isinstance(found.items, Undecoded)
    assert [pod.metadata.name for pod in found.items] == [f"p{i}" for i in range(COUNT)]
    assert (found.resource_version, found.continue_token) == ("7", "more")
    assert len(found.items) == COUNT


def test_a_small_page_is_decoded_at_once() -> None:
    assert isinstance(decode_page(page(count=3), PODS).items, list)


def test_a_bad_object_of_a_big_page_is_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    bad = {"metadata": {"name": "bad", "namespace": "ns"}, "spec": {"priority": "high"}}
    nulls = {"metadata": {"name": "nulls"}, "spec": {"containers": None}}
    found = [pod.metadata.name for pod in decode_page(page(bad, nulls), PODS).items]
    assert found == ["nulls", *(f"p{i}" for i in range(COUNT))]
    assert [(record.__dict__["object"], record.__dict__["err"]) for record in caplog.records] == [
        ("ns/bad", 'spec.priority: expected int | null, got "high"')
    ]


def test_a_big_answer_that_is_no_list_is_refused() -> None:
    with pytest.raises(DecodeError, match="items"):
        decode_page(json.dumps({"items": FILLER * COUNT}).encode(), PODS)
    with pytest.raises(DecodeError, match="expected JSON"):
        decode_page(page()[:-2], PODS)


def test_a_big_list_without_items_is_empty() -> None:
    raw = json.dumps({"metadata": {"resourceVersion": "7", "selfLink": FILLER * COUNT}, "items": None}).encode()
    assert (list(decode_page(raw, PODS).items), decode_page(raw, PODS).resource_version) == ([], "7")


def test_a_line_that_the_resource_reads_itself_needs_no_decoding_and_no_keeping() -> None:
    ready = make_pod("ready").obj()
    decode = LineDecoder(replace(PODS, read_line=lambda line: ("ADDED", ready) if b"ready" in line else None))
    read = decode(b'{"type":"ADDED","object":"ready"}')
    assert (read.type, read.object, read.is_kept) == (EventType.ADDED, ready, True)
    other = decode(b'{"type":"ADDED","object":{"metadata":{"name":"p"}}}')
    assert other.object is not None
    assert (other.object.metadata.name, other.is_kept) == ("p", False)
