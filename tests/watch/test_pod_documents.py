"""Pods that wait are kept whole, and no others; decisions go by what is read from them."""

from __future__ import annotations

import copy
import json
import logging
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.documents import PodDocument
from kscheduler.api.objects import Pod
from kscheduler.testing import make_pod
from kscheduler.wasm.extension.encoding.messages import encode
from kscheduler.wasm.extension.encoding.objects import ObjectEncoder
from kscheduler.watch.pod_documents import PodDocuments
from tests.wasm.extension.encoding.generate import Generator
from tests.wasm.extension.encoding.kept_objects import KeptObjects
from tests.wasm.extension.encoding.samples import POD

OURS = {"default-scheduler"}
UID = POD["metadata"]["uid"]


def document(changes: dict[str, Any] | None = None, **of_spec: Any) -> PodDocument:
    found = copy.deepcopy(POD)
    found["spec"].update(of_spec)
    found.update(changes or {})
    return msgspec.json.decode(json.dumps(found), type=PodDocument)


class Heard:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_add(self, pod: Pod) -> None:
        self.calls.append("add")

    def on_update(self, old: Pod, new: Pod) -> None:
        self.calls.append("update")

    def on_delete(self, pod: Pod) -> None:
        self.calls.append("delete")


def test_decisions_read_of_a_document_what_they_read_of_the_pod() -> None:
    read = PodDocuments(OURS).read(document())
    expected = msgspec.json.decode(json.dumps(POD), type=Pod)
    assert read is not None
    assert msgspec.to_builtins(read.spec) == msgspec.to_builtins(expected.spec)
    assert read.status == expected.status
    shown = msgspec.to_builtins(read.metadata)
    assert msgspec.convert(shown, type(expected.metadata)) == expected.metadata


def test_a_guest_sees_all_of_a_pod_that_waits() -> None:
    documents = PodDocuments(OURS)
    pod = documents.reader(lambda pod: pod)(document())
    assert pod is not None
    encoder = ObjectEncoder(KeptObjects(documents.pods, {}))
    assert encoder.pod(encoder.whole(pod)) == encode("Pod", POD)


@pytest.mark.parametrize("fullness", [0.1, 0.4, 0.8])
def test_any_pod_crosses_as_it_is(fullness: float) -> None:
    """What the encoder is compared with Kubernetes' own on, by way of what the watch keeps."""
    checked = 0
    for seed in range(20):
        made = Generator(seed, fullness).document("Pod")
        made["metadata"] = {**made.get("metadata", {}), "uid": "u"}
        made.setdefault("spec", {}).update(schedulerName="default-scheduler", nodeName="")
        raw = json.dumps(made)
        documents = PodDocuments(OURS)
        try:
            pod = documents.read(msgspec.json.decode(raw, type=PodDocument))
        except msgspec.ValidationError:
            continue
        if pod is not None:
            encoder = ObjectEncoder(KeptObjects(documents.pods, {}))
            assert encoder.pod(encoder.whole(pod)) == encode("Pod", made)
            checked += 1
    assert checked >= 10


@pytest.mark.parametrize("of_spec", [{"nodeName": "n1"}, {"schedulerName": "another"}])
def test_what_does_not_wait_for_us_is_not_kept(of_spec: dict[str, Any]) -> None:
    documents = PodDocuments(OURS)
    documents.read(document())
    assert list(documents.pods) == [UID]
    assert documents.read(document(**of_spec)) is not None
    assert (documents.pods, documents.bytes) == ({}, 0)


def test_a_pod_that_is_gone_is_forgotten() -> None:
    documents, heard = PodDocuments(OURS), Heard()
    pod = documents.read(document())
    assert pod is not None
    handler = documents.follow(heard)
    handler.on_add(pod)
    handler.on_update(pod, pod)
    assert UID in documents.pods
    handler.on_delete(pod)
    assert (documents.pods, documents.bytes, heard.calls) == ({}, 0, ["add", "update", "delete"])


def test_a_pod_that_cannot_be_read_is_left_out_by_name(caplog: pytest.LogCaptureFixture) -> None:
    documents = PodDocuments(OURS)
    documents.read(document())
    assert documents.read(document(priority="high")) is None
    assert documents.pods == {}
    (record,) = caplog.records
    assert (record.object, record.err) == ("shop/web-7d4b9c-x2x7k", 'spec.priority: expected int | null, got "high"')  # type: ignore[attr-defined]


def test_a_null_means_absent() -> None:
    documents = PodDocuments(OURS)
    pod = documents.read(document(priority=None, containers=None))
    assert pod is not None
    assert not pod.spec.containers
    assert documents.read(document({"status": None})) is not None


def test_what_is_kept_does_not_keep_the_page_it_came_on() -> None:
    documents = PodDocuments(OURS)
    page = msgspec.json.decode(json.dumps([POD, {"padding": "x" * 100_000}]), type=list[msgspec.Raw])
    documents.read(msgspec.json.decode(page[0], type=PodDocument))
    kept = documents.pods[UID]
    assert memoryview(kept.spec).obj is not memoryview(page[0]).obj
    assert documents.bytes < 10_000


def test_beyond_its_bounds_pods_are_shown_as_decisions_see_them(caplog: pytest.LogCaptureFixture) -> None:
    one = PodDocuments(OURS)
    one.read(document())
    documents = PodDocuments(OURS, max_bytes=one.bytes * 3)
    made = [make_pod(f"p{number}").obj().metadata.uid for number in range(6)]
    for uid in made:
        assert documents.read(document({"metadata": {**POD["metadata"], "uid": uid}})) is not None
    assert list(documents.pods) == made[:3]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    documents.forget(made[0])
    documents.read(document())
    assert UID in documents.pods


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["wait", "bound", "gone"])), max_size=30))
def test_what_is_counted_is_what_is_kept(steps: list[tuple[int, str]]) -> None:
    documents = PodDocuments(OURS)
    waiting: set[str] = set()
    for number, step in steps:
        uid = f"u{number}"
        if step == "gone":
            documents.forget(uid)
        else:
            node = "n1" if step == "bound" else ""
            documents.read(document({"metadata": {"uid": uid, "name": "p"}}, nodeName=node))
        waiting = waiting | {uid} if step == "wait" else waiting - {uid}
        assert set(documents.pods) == waiting
    for uid in list(waiting):
        documents.forget(uid)
    assert documents.bytes == 0
