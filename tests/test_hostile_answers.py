"""Whatever an apiserver, an extender, a metric server or a guest sends, what comes of it is an error of ours.

Sound answers are damaged in the ways that proxies, bugs and liars do. Nothing but our own errors may come out, and
an object that is sound is read whatever stands beside it.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kscheduler.api.decode import UNNAMED, decode_object
from kscheduler.api.objects import Pod
from kscheduler.client.credentials import Credentials, Endpoint
from kscheduler.client.kinds import METRIC_POLICIES, NODES, POD_DOCUMENTS, PODS, Resource
from kscheduler.client.kube import KubeClient
from kscheduler.client.protocol import EventType, WatchEvent
from kscheduler.client.reviews import Reviews, User
from kscheduler.client.transport import status_error
from kscheduler.client.wire import LineDecoder, WatchError, decode_page
from kscheduler.config.metric_policy import Endpoint as MetricEndpoint
from kscheduler.config.metric_policy import Metric, Source
from kscheduler.errors import APIError, DecodeError, PluginError
from kscheduler.extenders import wire as extender
from kscheduler.input.redaction import SecretURL
from kscheduler.serving.routing.admission import read_review
from kscheduler.telemetry.endpoint import MAX_REASON, Answer
from kscheduler.telemetry.limits import AnswerLimits
from kscheduler.telemetry.source import SourceError
from kscheduler.telemetry.sources.custom_metrics import CustomMetricsSource
from kscheduler.telemetry.sources.external_metrics import ExternalMetricsSource
from kscheduler.telemetry.sources.load_watcher import LoadWatcherSource
from kscheduler.telemetry.sources.prometheus import PrometheusSource
from kscheduler.wasm.engine import GuestFault
from kscheduler.wasm.extension.results import normalized_scores
from kscheduler.watch.pod_documents import PodDocuments
from tests.support.clocks import ManualClock

OURS = (APIError, DecodeError, PluginError, SourceError, WatchError, GuestFault)

POD: dict[str, Any] = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "uid": "u-1",
        "resourceVersion": "41",
        "labels": {"app": "web"},
        "annotations": {"note": "caf\u00e9"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": True}
        ],
    },
    "spec": {
        "schedulerName": "default-scheduler",
        "nodeName": "n1",
        "priority": 7,
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}],
        "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 3}],
    },
    "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "none"}]},
}
NODE: dict[str, Any] = {
    "metadata": {"name": "n1", "uid": "n-1", "resourceVersion": "9", "labels": {"zone": "a"}},
    "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}], "unschedulable": True},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "images": [{"names": ["i"], "sizeBytes": 5}],
    },
}
POLICY: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "shop", "uid": "p-1", "resourceVersion": "5"},
    "spec": {"rules": [{"metric": "load", "strategy": "LeastValue"}]},
}
LEASE = {
    "metadata": {"name": "l", "resourceVersion": "3"},
    "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15},
}
TOKEN = {"spec": {"token": "hunter2"}, "status": {"authenticated": True, "user": {"username": "u", "groups": ["g"]}}}
ACCESS = {"spec": {}, "status": {"allowed": True}}
STATUS = {
    "kind": "Status",
    "code": 429,
    "reason": "TooManyRequests",
    "message": "m",
    "details": {"retryAfterSeconds": 5},
}
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "x",
        "operation": "CREATE",
        "namespace": "shop",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "object": POD,
    },
}
FILTER = {"NodeNames": ["a", "b"], "FailedNodes": {"c": "full"}, "FailedAndUnresolvableNodes": {}, "Error": ""}
VICTIMS = {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u"}], "NumPDBViolations": 1}}}
VECTOR = {
    "status": "success",
    "data": {"resultType": "vector", "result": [{"metric": {"node": "a"}, "value": [1, "2"]}]},
}
WATCHER = {
    "timestamp": 1,
    "window": {"duration": "15m"},
    "data": {"NodeMetricsMap": {"a": {"metrics": [{"type": "CPU", "value": 1}]}}},
}
WHEN = "2023-11-14T22:13:20Z"
CUSTOM = {"items": [{"describedObject": {"kind": "Node", "name": "a"}, "timestamp": WHEN, "value": "1"}]}
EXTERNAL = {"items": [{"metricLabels": {"node": "a"}, "timestamp": WHEN, "window": 60, "value": "1"}]}

Read = Callable[[bytes], Awaitable[object]]


def packed(document: object) -> bytes:
    """As Go writes it: in this order, without spaces, in UTF-8."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def event(document: object, type_: str = "MODIFIED") -> bytes:
    return packed({"type": type_, "object": document})


def page(*documents: object) -> bytes:
    return packed({"kind": "List", "metadata": {"resourceVersion": "8"}, "items": documents})


class Apiserver:
    """Answers everything with the same bytes."""

    host = "apiserver"

    def __init__(self, answer: bytes) -> None:
        self.answer = answer

    async def request(self, *asked: Any, **how: Any) -> bytes:
        return self.answer

    async def get_aggregated(self, path: str, *, limit_bytes: int) -> bytes:
        return self.answer

    async def ask(self, *asked: Any) -> Answer:
        return Answer(200, self.answer)

    def quoted(self, text: str) -> str:
        return text[:MAX_REASON]


def client_of(answer: bytes) -> KubeClient:
    client = KubeClient(Credentials(Endpoint("http://apiserver", None), ManualClock()), ManualClock())
    client._transport = Apiserver(answer)  # type: ignore[assignment]
    client.reviews = Reviews(client._transport)
    return client


def watched(resource: Resource[Any]) -> Read:
    async def read(raw: bytes) -> None:
        decode = LineDecoder(resource)
        for _ in range(3):  # the second and third are compared with the ones before
            decode(raw)

    return read


def listed(resource: Resource[Any]) -> Read:
    async def read(raw: bytes) -> None:
        list((await client_of(raw).list_page(resource)).items)

    return read


def asked(ask: Callable[[KubeClient], Awaitable[object]]) -> Read:
    async def read(raw: bytes) -> None:
        await ask(client_of(raw))

    return read


def plain(function: Callable[[bytes], object]) -> Read:
    async def read(raw: bytes) -> None:
        function(raw)

    return read


def document_read(raw: bytes) -> None:
    PodDocuments({"default-scheduler"}).read(decode_object(raw, POD_DOCUMENTS.type))


def measured(make: Callable[[Any], Any], metric: Metric) -> Read:
    """A failure is reported for the metric; nothing is raised, except by a source that has one answer for all."""

    async def read(raw: bytes) -> None:
        source = make(Apiserver(raw))
        if hasattr(source, "_client"):
            source._client = Apiserver(raw)
        await source.fetch([metric])

    return read


LIMITS = AnswerLimits(lambda: 2)
ENDPOINT = MetricEndpoint(url=SecretURL("http://metrics"))
LOAD = Metric(name="load", source="s", query="q", metric="CPU")

READERS: dict[str, tuple[bytes, Read]] = {
    "watch of pods": (event(POD), watched(PODS)),
    "watch of pods whole": (event(POD), watched(POD_DOCUMENTS)),
    "watch of nodes": (event(NODE), watched(NODES)),
    "watch of policies": (event(POLICY, "ADDED"), watched(METRIC_POLICIES)),
    "end of a pod": (event(POD, "DELETED"), watched(PODS)),
    "bookmark": (event({"metadata": {"resourceVersion": "7"}}, "BOOKMARK"), watched(PODS)),
    "error in a watch": (event(STATUS, "ERROR"), watched(PODS)),
    "list of pods": (page(POD, POD), listed(PODS)),
    "list of nodes": (page(NODE, NODE), listed(NODES)),
    "list of pods whole": (page(POD, POD), listed(POD_DOCUMENTS)),
    "pod": (packed(POD), asked(lambda client: client.get_pod("shop", "web"))),
    "pod whole": (packed(POD), asked(lambda client: client.get_pod_document("shop", "web"))),
    "pod kept whole": (packed(POD), plain(document_read)),
    "lease": (packed(LEASE), asked(lambda client: client.get_lease("ns", "l"))),
    "token review": (packed(TOKEN), asked(lambda client: client.reviews.token_review("hunter2"))),
    "access review": (
        packed(ACCESS),
        asked(lambda client: client.reviews.subject_access_review(User("u"), "get", "/metrics")),
    ),
    "version": (packed({"major": "1", "minor": "36"}), asked(lambda client: client.version())),
    "status": (packed(STATUS), plain(lambda raw: status_error("GET", "/api", 500, raw))),
    "admission": (packed(REVIEW), plain(read_review)),
    "extender's filter": (packed(FILTER), plain(lambda raw: extender.read_filter(raw, by_name=True))),
    "extender's scores": (packed([{"Host": "a", "Score": 3}]), plain(extender.read_priorities)),
    "extender's binding": (packed({"Error": ""}), plain(extender.read_binding)),
    "extender's victims": (packed(VICTIMS), plain(extender.read_preemption)),
    "Prometheus": (
        packed(VECTOR),
        measured(lambda _: PrometheusSource(Source(name="s", prometheus=ENDPOINT), LIMITS), LOAD),
    ),
    "load-watcher": (
        packed(WATCHER),
        measured(lambda _: LoadWatcherSource(Source(name="s", load_watcher=ENDPOINT), LIMITS), LOAD),
    ),
    "custom metrics": (packed(CUSTOM), measured(lambda api: CustomMetricsSource(api, LIMITS), LOAD)),
    "external metrics": (packed(EXTERNAL), measured(lambda api: ExternalMetricsSource(api, LIMITS), LOAD)),
    "guest's scores": (packed({"a": 3}), plain(lambda raw: normalized_scores(raw, {"a": 1}))),
}

BITS = [b"\xff", b"\xc3", b"\xed\xa0\x80", rb"\ud800", rb"\udc00x", b"\x00", b'"', b"}", b",", b"\\", b"\xef\xbb\xbf"]
VALUES = [
    b"null",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"9" * 400,
    b"9" * 5_000,
    b"-1",
    b"1.5",
    b'"x"',
    b"[]",
    b"{}",
    b"true",
]
VALUES += [b'"x"', b"[]", b"{}", b"true"]
VALUES += [b"[" * 3_000 + b"]" * 3_000, b'{"a":' * 3_000 + b"1" + b"}" * 3_000, b"[" * 200_000, rb'"\ud800"', b'"\xff"']


def damaged(raw: bytes, draw: random.Random) -> bytes:
    """One thing is wrong with it."""
    kind = draw.randrange(6)
    at = draw.randrange(len(raw))
    if kind == 0:  # a byte, or what may stand for one
        return raw[:at] + draw.choice(BITS) + raw[at + draw.randrange(2) :]
    if kind == 1:  # cut short
        return raw[:at]
    if kind == 2:  # bits flipped
        return raw[:at] + bytes([raw[at] ^ (1 << draw.randrange(8))]) + raw[at + 1 :]
    if kind == 3:  # twice
        end = min(len(raw), at + draw.randrange(60))
        return raw[:end] + raw[at:]
    values = [i for i in range(len(raw)) if raw[i : i + 1] == b":"]
    begin = draw.choice(values) + 1
    if kind == 4:  # another value
        end = next((i for i in range(begin, len(raw)) if raw[i : i + 1] in (b",", b"}")), begin)
        return raw[:begin] + draw.choice(VALUES) + raw[end:]
    key = raw[raw.rindex(b'"', 0, begin - 2) : begin]  # the same key twice
    return raw[: begin - len(key)] + key + draw.choice(VALUES) + b"," + raw[begin - len(key) :]


@pytest.mark.parametrize("name", READERS)
async def test_a_sound_answer_is_read(name: str) -> None:
    raw, read = READERS[name]
    try:
        await read(raw)
    except WatchError:
        assert name == "error in a watch"


@pytest.mark.parametrize("name", READERS)
async def test_of_a_damaged_answer_come_only_our_own_errors(name: str) -> None:
    logging.disable(logging.WARNING)
    try:
        raw, read = READERS[name]
        draw, recorded = random.Random(name), [""]
        for _ in range(400):
            bad = damaged(raw, draw)
            try:
                await read(bad)
            except OURS as error:
                recorded.append(str(error))
            except Exception as error:
                raise AssertionError(f"{type(error).__name__}: {error}, of {bad[:2000]!r}") from error
        assert "hunter2" not in "".join(recorded)
    finally:
        logging.disable(logging.NOTSET)


# In a text that is kept, in one that is skipped, and in keys: there the decoder would drop the field without a word.
DAMAGES = [(b"HERE", b"H\xffRE"), (b"manager", b"man\xc3ger"), (b'"spec"', b'"sp\xff\xc3"'), (b'"name"', b'"n\xffme"')]


@pytest.mark.parametrize("resource", [PODS, POD_DOCUMENTS, NODES], ids=lambda resource: resource.type.__name__)
@pytest.mark.parametrize("is_big", [False, True])
@pytest.mark.parametrize("damage", DAMAGES, ids=["value", "skipped value", "key", "name"])
def test_a_byte_that_is_no_utf8_makes_a_list_and_a_watch_line_unreadable(
    resource: Resource[Any], is_big: bool, damage: tuple[bytes, bytes]
) -> None:
    """An apiserver never writes one. An object without its damaged parts would look sound, and be wrong."""
    odd = json.loads(json.dumps(NODE if resource is NODES else POD))
    odd["metadata"] |= {"name": "odd", "annotations": {"note": "HERE"}}
    odd["metadata"]["managedFields"] = [{"manager": "x" * (600_000 if is_big else 1)}]
    with pytest.raises(DecodeError, match="expected UTF-8, got a byte 0x"):
        decode_page(page(odd, odd).replace(*damage), resource)
    assert [item.metadata.name for item in decode_page(page(odd, odd), resource).items] == ["odd", "odd"]
    read = LineDecoder(resource)
    assert read(event(odd).replace(*damage)) == WatchEvent(EventType.MODIFIED, None, "", UNNAMED)
    assert read(event(odd)).object is not None


@pytest.mark.parametrize("is_big", [False, True])
def test_an_object_of_the_wrong_types_is_named_and_spoils_no_other(is_big: bool) -> None:
    bad = json.loads(json.dumps(POD))
    bad["metadata"]["name"], bad["spec"]["priority"] = "bad", "high"
    bad["metadata"]["managedFields"] = "x" * (600_000 if is_big else 1)
    found = decode_page(page(POD, bad, POD), PODS)
    assert [pod.metadata.name for pod in found.items] == ["web", "web"]
    assert list(found.unread) == ["shop/bad"]


def test_what_is_in_an_environment_is_in_no_error() -> None:
    bad = json.loads(json.dumps(POD))
    bad["spec"]["containers"] = {"env": [{"name": "PASSWORD", "value": "hunter2"}]}
    for raw in (packed(bad), packed(bad["spec"]["containers"]["env"][0])[:-1], b"hunter2"):
        with pytest.raises(DecodeError) as caught:
            decode_object(raw, Pod)
        assert "hunter2" not in str(caught.value)


def test_a_pod_with_nulls_is_kept_whole_too() -> None:
    odd = json.loads(json.dumps(POD))
    odd["metadata"]["selfLink"] = None
    odd["spec"]["furtherFields"] = {"a": 1}
    document = decode_object(packed(odd), POD_DOCUMENTS.type)
    assert json.loads(bytes(document.spec))["furtherFields"] == {"a": 1}
