from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Protocol
from urllib.parse import quote

import pytest
from msgspec import Raw, structs

from kscheduler.api.decode import UNNAMED
from kscheduler.api.devices import (
    AllocationResult,
    ClaimMeta,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    OpaqueConfiguration,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from kscheduler.api.elastic_quotas import ElasticQuota
from kscheduler.api.objects import (
    Lease,
    LeaseSpec,
    MetricPolicyObject,
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodCondition,
)
from kscheduler.api.pod_groups import POD_GROUP_LABEL, CoschedulingPodGroup, GroupCondition
from kscheduler.client import protobuf
from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.client.credentials import Credentials, Endpoint
from kscheduler.client.kinds import PODS, RESOURCE_CLAIMS, UNFINISHED_PODS
from kscheduler.client.kube import KubeClient, _claim_path, status_patch_body
from kscheduler.client.pod_group_kinds import COSCHEDULING_POD_GROUPS, GROUP_PODS, pod_groups
from kscheduler.client.protocol import Event, EventType, Page, PodStatusPatch, Regarding, WatchEvent
from kscheduler.client.ratelimit import Priority
from kscheduler.client.request_observer import NoObserver
from kscheduler.client.reviews import AccessReview, User
from kscheduler.config.releases import RELEASE_1_36
from kscheduler.errors import APIError, Conflict, Forbidden, Gone, NotFound, TooManyRequests, Unreachable
from kscheduler.testing.controlplane.patience import ended
from tests.client.fake_apiserver import BINDING, FakeAPIServer, WatchScript, line, pod
from tests.client.protobuf import decode
from tests.support.clocks import CLOCK


@pytest.fixture
async def server() -> AsyncIterator[FakeAPIServer]:
    async with FakeAPIServer().running() as server:
        yield server


@pytest.fixture
async def client(server: FakeAPIServer) -> AsyncIterator[KubeClient]:
    client = KubeClient(Credentials(Endpoint(server.url, None), CLOCK), CLOCK, qps=-1)
    yield client
    await client.close()


async def list_pods(client: KubeClient, limit: int = 500) -> list[Page[Pod]]:
    pages = [await client.list_page(PODS, limit=limit)]
    while pages[-1].continue_token:
        pages.append(await client.list_page(PODS, limit=limit, continue_token=pages[-1].continue_token))
    return pages


async def iterated(client: KubeClient, timeout_s: float = 300.0) -> Sequence[Sequence[WatchEvent[Pod]]]:
    return [events async for events in client.watch(PODS, resource_version="7", timeout_s=timeout_s)]


async def handed_over(client: KubeClient, timeout_s: float = 300.0) -> Sequence[Sequence[WatchEvent[Pod]]]:
    came: list[Sequence[WatchEvent[Pod]]] = []
    await client.push_watch(PODS, came.append, resource_version="7", timeout_s=timeout_s)
    return came


class WatchPods(Protocol):
    async def __call__(self, client: KubeClient, timeout_s: float = 300.0) -> Sequence[Sequence[WatchEvent[Pod]]]: ...


@pytest.fixture(params=[iterated, handed_over])
def watch_pods(request: pytest.FixtureRequest) -> WatchPods:
    """Both ways of a watch."""
    watch: WatchPods = request.param
    return watch


async def test_the_path_of_the_apiservers_url_comes_before_that_of_every_request(server: FakeAPIServer) -> None:
    """Behind a proxy for several clusters, with connections of our own and with the library's."""
    client = KubeClient(Credentials(Endpoint(f"{server.url}/k8s/clusters/c-1", None), CLOCK), CLOCK, qps=-1)
    server.fail("POST", "/k8s/clusters/c-1/api/v1/namespaces/default/pods/web-1/binding", body=b"{}", status=201)
    server.watches = [WatchScript([])]
    await client.bind(BINDING)
    await iterated(client)
    with contextlib.suppress(APIError):
        await list_pods(client)
    assert [request.path for request in server.requests] == [
        "/k8s/clusters/c-1/api/v1/namespaces/default/pods/web-1/binding",
        "/k8s/clusters/c-1/api/v1/pods",
        "/k8s/clusters/c-1/api/v1/pods",
    ]
    await client.close()


# --- APIs behind the apiserver ---------------------------------------------------------------------------------


async def test_an_aggregated_api_answers_as_it_is(server: FakeAPIServer, client: KubeClient) -> None:
    path = "/apis/custom.metrics.k8s.io/v1beta2/nodes/*/heat?metricLabelSelector=a%3Db"
    server.fail("GET", "/heat", body=b'{"items": []}')
    assert await client.get_aggregated(path, limit_bytes=100) == b'{"items": []}'
    assert (server.requests[-1].path, server.requests[-1].query) == (
        path.partition("?")[0],
        {"metricLabelSelector": "a=b"},
    )


async def test_an_aggregated_answer_is_bounded(server: FakeAPIServer, client: KubeClient) -> None:
    server.fail("GET", "/heat", body=b" " * 1_000_000)
    with pytest.raises(APIError, match="GET /apis/x/v1/heat: expected an answer of at most 1000 bytes, got more"):
        await client.get_aggregated("/apis/x/v1/heat", limit_bytes=1000)


async def test_an_api_that_nobody_serves_is_not_found(client: KubeClient) -> None:
    with pytest.raises(NotFound):
        await client.get_aggregated("/apis/metrics.k8s.io/v1beta1/nodes", limit_bytes=1000)


# --- lists ------------------------------------------------------------------------------------------------------


async def test_a_list_comes_in_pages(server: FakeAPIServer, client: KubeClient) -> None:
    server.pods = [pod(f"p{i}", i + 1) for i in range(5)]
    pages = await list_pods(client, limit=2)
    assert [[p.metadata.name for p in page.items] for page in pages] == [["p0", "p1"], ["p2", "p3"], ["p4"]]
    assert pages[-1].resource_version == "100"


async def test_a_list_passes_its_selector(server: FakeAPIServer, client: KubeClient) -> None:
    await client.list_page(PODS, field_selector=UNFINISHED_PODS)
    query = server.requests[-1].query
    assert (query["fieldSelector"], query["limit"]) == (UNFINISHED_PODS, "500")
    assert server.requests[-1].headers["Accept-Encoding"] == "identity"


async def test_only_objects_with_a_label_are_listed_and_watched(server: FakeAPIServer, client: KubeClient) -> None:
    server.watches = [WatchScript([])]
    await client.list_page(GROUP_PODS)
    async for _ in client.watch(GROUP_PODS, resource_version="0", timeout_s=1.0):
        break
    asked = [request.query.get("labelSelector") for request in server.requests if request.path == "/api/v1/pods"]
    assert asked == [POD_GROUP_LABEL, POD_GROUP_LABEL]


async def test_a_bad_pod_in_a_list_is_logged_with_its_key_and_left_out(
    server: FakeAPIServer, client: KubeClient, caplog: pytest.LogCaptureFixture
) -> None:
    server.pods = [pod("good"), pod("bad", containers="three"), pod("fine")]
    (page,) = await list_pods(client)
    assert [p.metadata.name for p in page.items] == ["good", "fine"]
    assert page.resource_version == "100"
    (record,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert record.__dict__["object"] == "default/bad"
    assert record.__dict__["err"] == 'spec.containers: expected array, got "three"'


async def test_an_answer_that_is_no_list_is_an_api_error(server: FakeAPIServer, client: KubeClient) -> None:
    server.fail("GET", "/pods", body=b"<html>welcome to the hotel</html>")
    with pytest.raises(APIError, match="list of pods"):
        await client.list_page(PODS)


async def test_an_old_continue_token_is_gone(server: FakeAPIServer, client: KubeClient) -> None:
    server.fail("GET", "/pods", status=410, reason="Expired")
    with pytest.raises(Gone, match="410 Expired: as ordered"):
        await client.list_page(PODS, continue_token="9")


# --- watches ----------------------------------------------------------------------------------------------------


async def test_a_watch_yields_the_lines_of_each_chunk(
    server: FakeAPIServer, client: KubeClient, watch_pods: WatchPods
) -> None:
    first = line("ADDED", pod("a", 8)) + line("MODIFIED", pod("a", 9))
    cut = line("DELETED", pod("a", 10))
    bookmark = pod("", 12, containers=None)  # as the apiserver writes an empty pod
    server.watches = [WatchScript([first + cut[:20], cut[20:40], cut[40:], line("BOOKMARK", bookmark)])]
    batches = await watch_pods(client)
    assert [[(e.type, e.resource_version) for e in batch] for batch in batches] == [
        [(EventType.ADDED, "8"), (EventType.MODIFIED, "9")],
        [(EventType.DELETED, "10")],
        [(EventType.BOOKMARK, "12")],
    ]
    assert batches[2][0].object is None
    query = server.requests[-1].query
    assert (query["resourceVersion"], query["allowWatchBookmarks"], query["timeoutSeconds"]) == ("7", "true", "300")


async def test_a_line_longer_than_the_buffers_arrives_whole(
    server: FakeAPIServer, client: KubeClient, watch_pods: WatchPods
) -> None:
    big = pod("big", 8)
    big["metadata"]["annotations"] = {"note": "x" * 3_000_000}
    server.watches = [WatchScript([line("ADDED", big), line("ADDED", pod("small", 9))])]
    batches = await watch_pods(client)
    events = [event for batch in batches for event in batch]
    assert [e.object.metadata.name for e in events if e.object] == ["big", "small"]


async def test_a_watch_of_a_version_too_old_is_gone(server: FakeAPIServer, client: KubeClient) -> None:
    status: dict[str, Any] = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old", "metadata": {}}
    server.watches = [WatchScript([line("ADDED", pod("a", 8)) + line("ERROR", {**status, "status": "Failure"})])]
    stream = aiter(client.watch(PODS, resource_version="7"))
    assert [e.resource_version for e in await anext(stream)] == ["8"]
    with pytest.raises(Gone, match="410 Expired: too old"):
        await anext(stream)


async def test_a_watch_refused_with_410_is_gone(
    server: FakeAPIServer, client: KubeClient, watch_pods: WatchPods
) -> None:
    server.fail("GET", "/pods", status=410, reason="Expired")
    with pytest.raises(Gone):
        await watch_pods(client)


async def test_an_error_event_of_another_kind_is_an_api_error(
    server: FakeAPIServer, client: KubeClient, watch_pods: WatchPods
) -> None:
    server.watches = [WatchScript([line("ERROR", {"code": 500, "status": "Failure", "message": "etcd says no"})])]
    with pytest.raises(APIError, match="etcd says no") as caught:
        await watch_pods(client)
    assert caught.value.status == 500


async def test_a_bad_object_in_a_watch_is_logged_and_keeps_its_version(
    server: FakeAPIServer, client: KubeClient, watch_pods: WatchPods, caplog: pytest.LogCaptureFixture
) -> None:
    server.watches = [WatchScript([line("MODIFIED", pod("bad", 8, containers=7)) + line("ADDED", pod("a", 9))])]
    ((bad, good),) = await watch_pods(client)
    assert (bad.type, bad.object, bad.resource_version) == (EventType.MODIFIED, None, "8")
    assert (bad.unread, good.unread) == ("default/bad", "")
    assert good.object is not None
    assert "default/bad" in [r.__dict__.get("object") for r in caplog.records]


async def test_the_end_of_a_bad_object_still_says_which_one(
    server: FakeAPIServer, client: KubeClient, watch_pods: WatchPods
) -> None:
    server.watches = [WatchScript([line("DELETED", pod("bad", 8, containers=7))])]
    ((event,),) = await watch_pods(client)
    assert event.object is not None
    assert event.object.key == "default/bad"


async def test_a_line_of_bad_json_is_a_change_of_nobody_knows_what(
    server: FakeAPIServer, client: KubeClient, watch_pods: WatchPods, caplog: pytest.LogCaptureFixture
) -> None:
    server.watches = [WatchScript([b'{"type":"ADDED","obj\n' + line("ADDED", pod("a", 9))])]
    ((lost, event),) = await watch_pods(client)
    assert (lost.object, lost.resource_version, lost.unread) == (None, "", UNNAMED)
    assert event.resource_version == "9"
    assert "watch line cannot be read" in caplog.text


async def test_a_watch_that_is_cut_is_unreachable(
    server: FakeAPIServer, client: KubeClient, watch_pods: WatchPods
) -> None:
    server.watches = [WatchScript([line("ADDED", pod("a", 8))], then="cut")]
    with pytest.raises(Unreachable, match="WATCH /api/v1/pods"):
        await watch_pods(client)


@pytest.mark.slow
async def test_a_silent_watch_is_unreachable(
    server: FakeAPIServer, client: KubeClient, watch_pods: WatchPods, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kscheduler.client.kube.WATCH_GRACE_S", 0.1)
    server.watches = [WatchScript([line("ADDED", pod("a", 8))], then="hang")]
    with pytest.raises(Unreachable, match="silent for"):
        await watch_pods(client, timeout_s=0.2)


@pytest.mark.slow
async def test_a_watch_may_be_silent_for_longer_than_its_headers(
    server: FakeAPIServer, client: KubeClient, watch_pods: WatchPods, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kscheduler.client.kube.REQUEST_TIMEOUT_S", 0.5)
    monkeypatch.setattr("kscheduler.client.kube.WATCH_GRACE_S", 0.5)
    server.watches = [WatchScript([], then="hang")]
    with pytest.raises(Unreachable, match="silent for"):
        await watch_pods(client, timeout_s=0.5)


async def test_a_list_that_hangs_is_asked_for_again_on_a_connection_of_its_own(
    server: FakeAPIServer, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kscheduler.client.repeated_requests.OVERDUE_S", 0.05)
    server.fail("GET", "/pods", hang_s=3600.0)
    page = await client.list_page(PODS)
    assert page.resource_version
    first, repeat = server.sent("GET", "/pods")
    assert first.headers.get("Connection", "") != "close"
    assert repeat.headers["Connection"] == "close"


async def test_a_watch_that_is_not_opened_is_opened_beside_itself(
    server: FakeAPIServer, client: KubeClient, watch_pods: WatchPods, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One server of several may hang, and a connection may be lost without anybody saying so."""
    monkeypatch.setattr("kscheduler.client.kube.WATCH_OPENS_S", 0.02)
    server.fail("GET", "/pods", hang_s=3600.0)
    server.watches = [WatchScript([line("ADDED", pod("a", 8))])]
    (events,) = await watch_pods(client)
    assert [event.object.metadata.name for event in events if event.object] == ["a"]
    assert len(server.sent("GET", "/pods")) == 2


async def test_a_server_that_opens_watches_slowly_is_given_its_time(
    server: FakeAPIServer, client: KubeClient, watch_pods: WatchPods, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kscheduler.client.kube.WATCH_OPENS_S", 0.02)
    server.fail("GET", "/pods", hang_s=0.5, times=100)
    server.watches = [WatchScript([line("ADDED", pod("a", 8))])]
    (events,) = await watch_pods(client)
    assert [event.object.metadata.name for event in events if event.object] == ["a"]
    assert 2 <= len(server.sent("GET", "/pods")) <= 4


async def test_what_came_before_an_error_event_is_handed_over(server: FakeAPIServer, client: KubeClient) -> None:
    status: dict[str, Any] = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old", "metadata": {}}
    server.watches = [WatchScript([line("ADDED", pod("a", 8)) + line("ERROR", {**status, "status": "Failure"})])]
    came: list[Sequence[WatchEvent[Pod]]] = []
    with pytest.raises(Gone, match="410 Expired: too old"):
        await client.push_watch(PODS, came.append, resource_version="7")
    assert [batch[0].resource_version for batch in came] == ["8"]  # once, whether both came together or not


async def test_what_the_receiver_raises_ends_the_watch(server: FakeAPIServer, client: KubeClient) -> None:
    script = WatchScript([line("ADDED", pod("a", 8)), line("ADDED", pod("b", 9))], then="hang")
    server.watches = [script]
    came: list[Sequence[WatchEvent[Pod]]] = []

    def receive(events: Sequence[WatchEvent[Pod]]) -> None:
        came.append(events)
        raise APIError("the version went back")

    with pytest.raises(APIError, match="the version went back"):
        await client.push_watch(PODS, receive, resource_version="7")
    assert [batch[0].resource_version for batch in came] == ["8"]  # once, whether both came together or not


async def test_a_watch_given_up_in_the_middle_closes_its_connection(server: FakeAPIServer, client: KubeClient) -> None:
    server.watches = [WatchScript([line("ADDED", pod("a", 8))], then="hang")]
    stream = client.watch(PODS, resource_version="7")
    async for _ in stream:
        break
    await stream.aclose()  # type: ignore[attr-defined]


# --- writes -----------------------------------------------------------------------------------------------------


async def test_a_binding_is_protobuf_with_the_uid(server: FakeAPIServer, client: KubeClient) -> None:
    await client.bind(BINDING)
    request = server.requests[-1]
    assert (request.verb, request.path) == ("POST", "/api/v1/namespaces/default/pods/web-1/binding")
    assert request.headers["Content-Type"] == "application/vnd.kubernetes.protobuf"
    assert request.body[:4] == b"k8s\0"
    raw = decode(decode(request.body[4:])[2])
    assert decode(raw[1]) == {1: b"web-1", 3: b"default", 5: b"uid-1"}


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (409, "Conflict", Conflict),
        (404, "NotFound", NotFound),
        (403, "Forbidden", Forbidden),
        (401, "Unauthorized", Forbidden),
        (500, "InternalError", APIError),
        (503, "", APIError),
    ],
)
async def test_a_refused_binding_says_why(
    server: FakeAPIServer, client: KubeClient, code: int, reason: str, error: type[APIError]
) -> None:
    server.fail("POST", "/binding", status=code, reason=reason)
    with pytest.raises(error, match="as ordered") as caught:
        await client.bind(BINDING)
    assert (caught.value.status, caught.value.reason) == (code, reason)
    assert caught.value.explanation == "as ordered"
    assert str(caught.value).startswith("POST /api/v1/namespaces/default/pods/web-1/binding: ")
    await client.bind(BINDING)  # the connection is still good


async def test_a_429_says_how_long_to_wait(server: FakeAPIServer, client: KubeClient) -> None:
    server.fail("POST", "/binding", status=429, reason="TooManyRequests", retry_after="3")
    with pytest.raises(TooManyRequests) as caught:
        await client.bind(BINDING)
    assert caught.value.retry_after_s == 3.0


async def test_a_binding_cut_off_is_unreachable(server: FakeAPIServer, client: KubeClient) -> None:
    server.fail("POST", "/binding", cut=True)
    with pytest.raises(Unreachable, match=r"POST .*/binding"):
        await client.bind(BINDING)


async def test_a_binding_without_an_answer_times_out(
    server: FakeAPIServer, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kscheduler.client.kube.WRITE_TIMEOUT_S", 0.05)
    server.fail("POST", "/binding", hang_s=5.0)
    with pytest.raises(Unreachable, match="timed out"):
        await client.bind(BINDING)


async def test_an_unreachable_apiserver_is_named_with_the_cause() -> None:
    client = KubeClient(Credentials(Endpoint("http://127.0.0.1:1", None), CLOCK), CLOCK)
    with pytest.raises(Unreachable, match=r"http://127.0.0.1:1.*refused|Connect call failed"):
        await client.bind(BINDING)
    await client.close()


async def test_a_closed_client_sends_nothing(client: KubeClient) -> None:
    await client.close()
    with pytest.raises(Unreachable, match="closed"):
        await client.bind(BINDING)


async def test_a_status_patch_carries_uid_and_condition(server: FakeAPIServer, client: KubeClient) -> None:
    condition = PodCondition(
        type="PodScheduled",
        status="False",
        reason="Unschedulable",
        message="0/1 nodes are available",
        last_transition_time="2026-01-01T00:00:00Z",
        observed_generation=2,
    )
    target = Pod(metadata=ObjectMeta(name="web", namespace="default", uid="u1"))
    await client.patch_pod_status(target, PodStatusPatch(condition, nominated_node_name=""))
    request = server.requests[-1]
    assert (request.verb, request.path) == ("PATCH", "/api/v1/namespaces/default/pods/web/status")
    assert request.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert json.loads(request.body) == {
        "metadata": {"uid": "u1"},
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/1 nodes are available",
                    "lastProbeTime": None,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "observedGeneration": 2,
                }
            ],
            "nominatedNodeName": None,
        },
    }


async def test_deleting_a_pod_carries_its_uid(server: FakeAPIServer, client: KubeClient) -> None:
    await client.delete_pod("default", "web", "u1")
    request = server.requests[-1]
    assert (request.verb, request.path) == ("DELETE", "/api/v1/namespaces/default/pods/web")
    assert json.loads(request.body) == {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "u1"}}
    server.fail("DELETE", "/pods/web", status=409, reason="Conflict")
    with pytest.raises(Conflict):
        await client.delete_pod("default", "web", "u1")


async def test_a_pod_whole_has_what_no_decision_reads(server: FakeAPIServer, client: KubeClient) -> None:
    whole = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"containers": [], "further": {"a": 1}}}
    server.fail("GET", "/pods/web", body=json.dumps(whole).encode())
    document = await client.get_pod_document("default", "web")
    assert (document.key, json.loads(bytes(document.spec))) == ("default/web", whole["spec"])
    server.fail("GET", "/pods/web", body=b'{"metadata": 3}')
    with pytest.raises(APIError, match=r"pod default/web: \(no name\): metadata: expected object, got 3"):
        await client.get_pod_document("default", "web")


async def test_a_status_patch_that_meets_a_namesake_is_a_conflict(server: FakeAPIServer, client: KubeClient) -> None:
    body = json.dumps({"reason": "Invalid", "message": "metadata.uid: Invalid value: field is immutable"}).encode()
    server.fail("PATCH", "/status", status=422, body=body)
    target = Pod(metadata=ObjectMeta(name="web", namespace="default", uid="u1"))
    with pytest.raises(Conflict, match="immutable"):
        await client.patch_pod_status(target, PodStatusPatch(nominated_node_name="n1"))


def test_a_status_patch_leaves_alone_what_it_does_not_name() -> None:
    assert json.loads(status_patch_body("u", PodStatusPatch(nominated_node_name="n1"))) == {
        "metadata": {"uid": "u"},
        "status": {"nominatedNodeName": "n1"},
    }


@pytest.mark.parametrize(
    ("patch", "content_type"),
    [
        (PodStatusPatch(nominated_node_name="n1"), "application/strategic-merge-patch+json"),
        (PodStatusPatch(node_allocatable_resource_claim_statuses=[]), "application/merge-patch+json"),
    ],
)
async def test_lists_that_are_replaced_are_written_by_a_merge_patch(
    client: KubeClient, server: FakeAPIServer, patch: PodStatusPatch, content_type: str
) -> None:
    target = Pod(metadata=ObjectMeta(name="web", namespace="default", uid="u1"))
    await client.patch_pod_status(target, patch)
    [sent] = server.sent("PATCH", "/status")
    assert sent.headers["Content-Type"] == content_type


def test_what_devices_take_is_written_as_the_api_has_it_and_an_empty_list_clears_it() -> None:
    old = NodeAllocatableResourceClaimStatus("c", ["main"], {"cpu": "2"})
    new = NodeAllocatableResourceClaimStatus(
        "c",
        mapping=[NodeAllocatableMappedResources("cpu", "2")],
        overhead=[NodeAllocatableOverheadResources("memory", per_container="1Mi")],
    )
    for statuses, expected in (
        ([old], [{"resourceClaimName": "c", "containers": ["main"], "resources": {"cpu": "2"}}]),
        (
            [new],
            [
                {
                    "resourceClaimName": "c",
                    "mapping": [{"name": "cpu", "quantity": "2"}],
                    "overhead": [{"name": "memory", "perContainer": "1Mi"}],
                }
            ],
        ),
        ([], []),
    ):
        body = json.loads(status_patch_body("u", PodStatusPatch(node_allocatable_resource_claim_statuses=statuses)))
        assert body == {"metadata": {"uid": "u"}, "status": {"nodeAllocatableResourceClaimStatuses": expected}}


async def test_no_number_of_events_delays_a_binding(server: FakeAPIServer) -> None:
    client = KubeClient(Credentials(Endpoint(server.url, None), CLOCK), CLOCK, qps=0.001, burst=2)
    events = [asyncio.ensure_future(client.create_event(an_event(f"e{i}"))) for i in range(20)]
    await asyncio.sleep(0.05)
    await ended(client.bind(BINDING), "the binding is answered")
    assert len(server.sent("POST", "/events")) == 2
    assert len(server.sent("POST", "/binding")) == 1
    await cancel_and_wait(*events)
    await client.close()


async def test_an_event_is_written_on_the_slot_that_was_taken_for_it(server: FakeAPIServer) -> None:
    client = KubeClient(Credentials(Endpoint(server.url, None), CLOCK), CLOCK, qps=0.001, burst=2)
    slot = await client.event_slot(0.0)
    assert client._slots.under_way == 1
    await client.create_event(an_event("a"), slot)
    assert client._slots.under_way == 0
    unused = await client.event_slot(0.0)
    unused.give_back()
    assert client._slots.under_way == 0
    # Each slot came with a token, and no request took another.
    waits = asyncio.ensure_future(client.event_slot(0.0))
    await asyncio.sleep(0)
    assert client._event_limiter.waiting
    assert len(server.sent("POST", "/events")) == 1
    await cancel_and_wait(waits)
    assert not client._event_limiter.waiting
    await client.close()


async def test_an_event_is_sent_without_a_task_and_answered_by_a_call(server: FakeAPIServer) -> None:
    client = KubeClient(Credentials(Endpoint(server.url, None), CLOCK), CLOCK)
    answers: asyncio.Queue[APIError | None] = asyncio.Queue()
    assert client.send_event(an_event("a"), await client.event_slot(0.0), answers.put_nowait)
    assert client._slots.under_way == 1
    assert await ended(answers.get(), "the Event is answered") is None
    server.fail("POST", "/events", status=401)
    assert client.send_event(an_event("b"), await client.event_slot(0.0), answers.put_nowait)
    refusal = await ended(answers.get(), "the Event is refused")
    assert refusal is not None
    assert refusal.status == 401
    assert client._slots.under_way == 0
    assert [request.body for request in server.sent("POST", "/events")] == [
        protobuf.encode_event(an_event(name)) for name in ("a", "b")
    ]
    await client.close()


async def test_an_event_to_a_server_that_is_away_is_answered_as_unreachable(server: FakeAPIServer) -> None:
    client = KubeClient(Credentials(Endpoint("http://127.0.0.1:1", None), CLOCK), CLOCK)
    answers: asyncio.Queue[APIError | None] = asyncio.Queue()
    assert client.send_event(an_event("a"), await client.event_slot(0.0), answers.put_nowait)
    assert isinstance(await ended(answers.get(), "the Event is refused"), Unreachable)
    assert client._slots.under_way == 0
    await client.close()
    slot = await client.event_slot(0.0)
    assert not client.send_event(an_event("a"), slot, answers.put_nowait)


@pytest.mark.parametrize("fault", [{}, {"status": 429}, {"cut": True}, {"body": b"<html>"}])
async def test_events_sent_together_share_connections_and_each_gets_its_own_answer(
    server: FakeAPIServer, fault: dict[str, Any]
) -> None:
    client = KubeClient(Credentials(Endpoint(server.url, None), CLOCK), CLOCK, qps=-1.0)
    answers: dict[str, APIError | None] = {}
    all_came = asyncio.Event()

    def note(name: str, error: APIError | None) -> None:
        assert name not in answers
        answers[name] = error
        if len(answers) == 20:
            all_came.set()

    if fault:
        server.fail("POST", "/namespaces/fifth/events", **fault)
    events = [
        structs.replace(an_event(f"e{number}"), namespace="fifth" if number == 4 else "default") for number in range(20)
    ]
    assert client.send_events([(event, partial(note, event.name)) for event in events])
    await ended(all_came.wait(), "all are answered")
    assert client._slots.under_way == 0
    failed = {name for name, error in answers.items() if error is not None}
    if "cut" in fault:  # with those behind it on its connection
        assert failed == {"e4", "e5", "e6", "e7"}
        assert all(isinstance(answers[name], Unreachable) for name in failed)
    else:
        assert failed == ({"e4"} if fault else set())
    assert len({request.peer for request in server.sent("POST", "/events")}) == 3
    await client.close()


async def test_events_sent_together_to_a_server_that_is_away_or_by_a_client_that_closes_are_unreachable(
    server: FakeAPIServer,
) -> None:
    for url in ("http://127.0.0.1:1", server.url):
        client = KubeClient(Credentials(Endpoint(url, None), CLOCK), CLOCK, qps=-1.0)
        answers: asyncio.Queue[APIError | None] = asyncio.Queue()
        assert client.send_events([(an_event(f"e{number}"), answers.put_nowait) for number in range(10)])
        if url == server.url:
            await client.close()
        for _ in range(10):
            assert isinstance(await ended(answers.get(), "each Event is refused"), Unreachable)
        assert client._slots.under_way == 0
        await client.close()


async def test_several_events_go_in_one_write_or_none_of_them(server: FakeAPIServer) -> None:
    client = KubeClient(Credentials(Endpoint(server.url, None), CLOCK), CLOCK, qps=1.0, burst=5)
    answers: asyncio.Queue[APIError | None] = asyncio.Queue()
    events = [(an_event(f"e{number}"), answers.put_nowait) for number in range(3)]
    binding = client._slots.begin(Priority.BIND)
    assert binding is not None
    assert client.send_events(events)
    assert client._slots.under_way == 4
    assert not client.send_events(events[:1])  # beside a binding one write at a time
    client._slots.drop(binding)
    for _ in events:
        assert await ended(answers.get(), "each Event is answered") is None
    assert client._slots.under_way == 0
    assert not client.send_events(events)  # nor are there three more tokens
    assert client.send_events(events[:2])  # what was refused has taken none
    for _ in range(2):
        assert await ended(answers.get(), "each Event is answered") is None
    sent = server.sent("POST", "/events")
    assert [request.body for request in sent[:3]] == [protobuf.encode_event(event) for event, _ in events]
    assert len({request.peer for request in sent[:3]}) == 1
    await client.close()
    assert not client.send_events(events[:1])


async def test_events_go_in_one_write_with_one_that_has_its_slot_as_far_as_there_are_tokens(
    server: FakeAPIServer,
) -> None:
    client = KubeClient(Credentials(Endpoint(server.url, None), CLOCK), CLOCK, qps=0.001, burst=5)
    answers: asyncio.Queue[APIError | None] = asyncio.Queue()
    slot = await client.event_slot(0.0)
    assert client.take_event_tokens(7) == 4
    client.put_back_event_tokens(2)
    assert client.take_event_tokens(7) == 2
    events = [(an_event(f"e{number}"), answers.put_nowait) for number in range(5)]
    assert client.send_events(events, slot)
    assert client._slots.under_way == 5
    for _ in events:
        assert await ended(answers.get(), "each Event is answered") is None
    assert client._slots.under_way == 0
    assert len({request.peer for request in server.sent("POST", "/events")}) == 1
    assert client.take_event_tokens(1) == 0
    await client.close()
    assert not client.send_events(events, slot)


async def test_tokens_that_came_together_are_kept_for_the_next_events(server: FakeAPIServer) -> None:
    waits_s: list[float] = []

    class Observer(NoObserver):
        def observe_rate_limiter(self, verb: str, host: str, duration_s: float) -> None:
            waits_s.append(duration_s)

    client = KubeClient(Credentials(Endpoint(server.url, None), CLOCK), CLOCK, qps=1000, burst=8, observer=Observer())
    client.direct_binds(100)
    assert client.take_event_tokens(100) >= 8
    while not waits_s:
        client.take_event_tokens(100)
        (await client.event_slot(0.0)).give_back()
    assert client._event_tokens == 7
    assert waits_s[0] > 0
    await client.close()


def an_event(name: str) -> Event:
    regarding = Regarding("Pod", "v1", "default", "web", "u", "1")
    return Event("default", name, regarding, "Normal", "Scheduled", "Binding", "n", "c", "i", 1.0)


# --- leases -----------------------------------------------------------------------------------------------------


async def test_a_lease_is_created_read_and_replaced(server: FakeAPIServer, client: KubeClient) -> None:
    with pytest.raises(NotFound):
        await client.get_lease("kube-system", "me")
    spec = LeaseSpec("a", 15, "2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00.000000Z", 0)
    made = await client.create_lease(Lease(ObjectMeta(name="me", namespace="kube-system"), spec))
    with pytest.raises(Conflict):
        await client.create_lease(made)
    read = await client.get_lease("kube-system", "me")
    assert read == made
    assert server.leases["me"]["kind"] == "Lease"
    replaced = await client.update_lease(Lease(read.metadata, LeaseSpec("", 1, lease_transitions=0, strategy="x")))
    assert replaced.spec.holder_identity == ""
    assert server.leases["me"]["spec"]["strategy"] == "x"
    with pytest.raises(Conflict, match="modified"):
        await client.update_lease(read)


@pytest.mark.parametrize("verb", ["GET", "PUT"])
async def test_a_request_for_the_lease_that_hangs_is_repeated_on_a_connection_of_its_own(
    server: FakeAPIServer, client: KubeClient, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """One connection that was lost without a sign must not cost the leader its Lease."""
    monkeypatch.setattr("kscheduler.client.kube.LEASE_OVERDUE_S", 0.1)
    lease = await client.create_lease(Lease(ObjectMeta(name="me", namespace="kube-system"), LeaseSpec("a", 15)))
    server.fail(verb, "/leases/me", hang_s=3600.0)
    await (client.get_lease("kube-system", "me") if verb == "GET" else client.update_lease(lease))
    first, repeat = server.sent(verb, "/leases/me")[:2]
    assert first.peer != repeat.peer


# --- credentials in use -----------------------------------------------------------------------------------------


async def test_a_refused_token_is_read_again_and_the_request_repeated(server: FakeAPIServer) -> None:
    server.accepted_tokens = {"Bearer new"}
    forced: list[bool] = []

    async def reload(force: bool) -> str:
        forced.append(force)
        return "Bearer new"

    client = KubeClient(Credentials(Endpoint(server.url, None), CLOCK, header="Bearer old", reload=reload), CLOCK)
    await client.bind(BINDING)
    await client.bind(BINDING)
    assert forced == [True]
    assert [r.headers["Authorization"] for r in server.requests] == ["Bearer old", "Bearer new", "Bearer new"]
    await client.close()


async def test_a_token_that_stays_refused_is_forbidden(server: FakeAPIServer) -> None:
    server.accepted_tokens = set()

    async def reload(force: bool) -> str:
        return "Bearer same"

    client = KubeClient(Credentials(Endpoint(server.url, None), CLOCK, header="Bearer same", reload=reload), CLOCK)
    with pytest.raises(Forbidden, match="401 Unauthorized"):
        await client.bind(BINDING)
    await client.close()


async def test_requests_are_observed(server: FakeAPIServer) -> None:
    seen: list[tuple[str, str, str]] = []

    sizes: list[tuple[int, int | None]] = []

    class Observer:
        def observe(
            self,
            verb: str,
            host: str,
            code: str,
            duration_s: float,
            sent_bytes: int | None = None,
            received_bytes: int | None = None,
        ) -> None:
            assert duration_s >= 0
            assert sent_bytes is not None
            seen.append((verb, host, code))
            sizes.append((sent_bytes, received_bytes))

        def observe_rate_limiter(self, verb: str, host: str, duration_s: float) -> None:
            raise AssertionError("nothing was limited")

    client = KubeClient(Credentials(Endpoint(server.url, None), CLOCK), CLOCK, observer=Observer())
    server.fail("POST", "/binding", status=404, reason="NotFound")
    server.faults.append(server.faults[0].__class__("POST", "/binding", cut=True))
    for _ in range(3):
        with contextlib.suppress(APIError):
            await client.bind(BINDING)
    host = server.url.removeprefix("http://")
    assert seen == [("POST", host, "404"), ("POST", host, "<error>"), ("POST", host, "201")]
    body = len(server.requests[0].body)
    assert body > 0
    assert [sent for sent, _ in sizes] == [body] * 3
    assert [bool(received) for _, received in sizes] == [True, False, True]
    assert sizes[1][1] is None
    await client.close()


async def test_a_volume_is_patched_in_the_version_it_was_read(server: FakeAPIServer, client: KubeClient) -> None:
    answer = {"metadata": {"name": "pv", "resourceVersion": "8"}, "spec": {"claimRef": {"name": "data"}}}
    server.fail("PATCH", "/persistentvolumes/pv", body=json.dumps(answer).encode())
    patch: dict[str, object] = {"spec": {"claimRef": {"name": "data"}}, "metadata": {"annotations": {"a": None}}}
    volume = await client.patch_volume("pv", "7", patch)
    assert volume.metadata.resource_version == "8"
    assert volume.spec.claim_ref is not None
    request = server.requests[-1]
    assert (request.verb, request.path) == ("PATCH", "/api/v1/persistentvolumes/pv")
    assert request.headers["Content-Type"] == "application/merge-patch+json"
    assert json.loads(request.body) == {
        "metadata": {"annotations": {"a": None}, "resourceVersion": "7"},
        "spec": {"claimRef": {"name": "data"}},
    }


async def test_a_claim_is_patched_in_its_namespace(server: FakeAPIServer, client: KubeClient) -> None:
    server.fail("PATCH", "/persistentvolumeclaims/data", body=b'{"metadata":{"name":"data","resourceVersion":"8"}}')
    claim = await client.patch_claim("shop", "data", "7", {"metadata": {"annotations": {"a": "b"}}})
    assert claim.metadata.resource_version == "8"
    assert server.requests[-1].path == "/api/v1/namespaces/shop/persistentvolumeclaims/data"


async def test_a_patch_of_an_old_version_is_a_conflict(server: FakeAPIServer, client: KubeClient) -> None:
    server.fail("PATCH", "/persistentvolumes/pv", status=409, reason="Conflict")
    with pytest.raises(Conflict):
        await client.patch_volume("pv", "7", {})


async def test_an_answer_to_a_patch_that_is_no_volume_is_an_api_error(
    server: FakeAPIServer, client: KubeClient
) -> None:
    server.fail("PATCH", "/persistentvolumes/pv", body=b'{"spec": {"capacity": 1}}')
    with pytest.raises(APIError, match=r"/api/v1/persistentvolumes/pv: .*spec\.capacity"):
        await client.patch_volume("pv", "7", {})


CLAIM = "/apis/resource.k8s.io/v1/namespaces/shop/resourceclaims/gpu"
ANSWER = b'{"metadata":{"name":"gpu","namespace":"shop","resourceVersion":"8"},"spec":{}}'


async def test_a_resource_claim_is_patched_in_the_version_it_was_read(
    server: FakeAPIServer, client: KubeClient
) -> None:
    server.fail("PATCH", CLAIM, body=ANSWER)
    finalizers: dict[str, object] = {"metadata": {"finalizers": ["f"]}}
    claim = await client.patch_resource_claim("shop", "gpu", "7", finalizers)
    assert claim.metadata.resource_version == "8"
    request = server.requests[-1]
    assert (request.verb, request.path) == ("PATCH", CLAIM)
    assert request.headers["Content-Type"] == "application/merge-patch+json"
    assert json.loads(request.body) == {"metadata": {"finalizers": ["f"], "resourceVersion": "7"}}


async def test_an_allocation_is_written_to_the_claims_status(server: FakeAPIServer, client: KubeClient) -> None:
    server.fail("PATCH", f"{CLAIM}/status", body=ANSWER)
    result = DeviceRequestAllocationResult("r", "d", "p", "g0", share_id="s")
    opaque = OpaqueConfiguration("d", Raw(b'{"mode": [1, null]}'))
    config = DeviceAllocationConfiguration("FromClass", ["r"], opaque)
    status: dict[str, object] = {
        "allocation": AllocationResult(DeviceAllocationResult([result], [config])),
        "reservedFor": [ResourceClaimConsumerReference(resource="pods", name="p", uid="u")],
    }
    await client.patch_resource_claim("shop", "gpu", "7", {"status": status}, subresource="status")
    request = server.requests[-1]
    assert request.path == f"{CLAIM}/status"
    assert json.loads(request.body)["status"] == {
        "allocation": {
            "devices": {
                "results": [{"request": "r", "driver": "d", "pool": "p", "device": "g0", "shareID": "s"}],
                "config": [
                    {
                        "source": "FromClass",
                        "requests": ["r"],
                        "opaque": {"driver": "d", "parameters": {"mode": [1, None]}},
                    }
                ],
            }
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
    }


async def test_a_reservation_is_taken_back_whatever_the_claims_version(
    server: FakeAPIServer, client: KubeClient
) -> None:
    server.fail("PATCH", f"{CLAIM}/status", body=ANSWER)
    await client.release_resource_claim("shop", "gpu", "u1", "pod-uid")
    request = server.requests[-1]
    assert request.headers["Content-Type"] == "application/strategic-merge-patch+json"
    gone = {"$patch": "delete", "uid": "pod-uid"}
    assert json.loads(request.body) == {"metadata": {"uid": "u1"}, "status": {"reservedFor": [gone]}}


@pytest.mark.parametrize(("namespace", "name"), [("shop", "gpu"), ("shop", ""), ("a b", "c/d?e")])
def test_the_path_of_a_resource_claim_is_that_of_its_kind_and_its_names_are_quoted(namespace: str, name: str) -> None:
    path = RESOURCE_CLAIMS.within(quote(namespace)).path
    assert _claim_path(namespace, name) == (f"{path}/{quote(name)}" if name else path)


async def test_a_resource_claim_is_read_created_and_deleted(server: FakeAPIServer, client: KubeClient) -> None:
    server.fail("GET", CLAIM, body=ANSWER)
    assert (await client.get_resource_claim("shop", "gpu")).key == "shop/gpu"
    collection = CLAIM.rpartition("/")[0]
    server.fail("POST", collection, body=ANSWER)
    owner = OwnerReference("v1", "Pod", "p", "u", controller=True)
    wanted = ResourceClaim(ClaimMeta(namespace="shop", generate_name="p-", owner_references=[owner]))
    assert (await client.create_resource_claim(wanted)).key == "shop/gpu"
    body = json.loads(server.requests[-1].body)
    assert (body["apiVersion"], body["kind"]) == ("resource.k8s.io/v1", "ResourceClaim")
    assert body["metadata"] == {
        "namespace": "shop",
        "generateName": "p-",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}],
    }
    await client.delete_resource_claim("shop", "gpu")
    assert (server.requests[-1].verb, server.requests[-1].path) == ("DELETE", CLAIM)


async def test_the_status_of_a_policy_is_merged_under_its_uid(server: FakeAPIServer, client: KubeClient) -> None:
    policy = MetricPolicyObject(metadata=ObjectMeta(name="cool", namespace="shop", uid="u1"))
    await client.patch_policy_status(policy, {"conditions": []})
    request = server.requests[-1]
    path = "/apis/kscheduler.io/v1alpha1/namespaces/shop/metricpolicies/cool/status"
    assert (request.verb, request.path) == ("PATCH", path)
    assert request.headers["Content-Type"] == "application/merge-patch+json"
    assert json.loads(request.body) == {"metadata": {"uid": "u1"}, "status": {"conditions": []}}


async def test_the_status_of_a_quota_is_merged_under_its_uid(server: FakeAPIServer, client: KubeClient) -> None:
    quota = ElasticQuota(metadata=ObjectMeta(name="half", namespace="shop", uid="u1"))
    await client.patch_quota_status(quota, {"used": {"cpu": "1", "memory": None}})
    request = server.requests[-1]
    path = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/shop/elasticquotas/half/status"
    assert (request.verb, request.path) == ("PATCH", path)
    assert request.headers["Content-Type"] == "application/merge-patch+json"
    assert json.loads(request.body) == {"metadata": {"uid": "u1"}, "status": {"used": {"cpu": "1", "memory": None}}}


async def test_a_condition_of_a_podgroup_is_merged_by_its_type_under_its_uid(
    server: FakeAPIServer, client: KubeClient
) -> None:
    condition = GroupCondition(type="PodGroupScheduled", status="False", reason="Unschedulable", message="no room")
    await client.patch_condition(pod_groups(RELEASE_1_36), "shop", "train", "u1", condition)
    request = server.requests[-1]
    path = "/apis/scheduling.k8s.io/v1alpha2/namespaces/shop/podgroups/train/status"
    assert (request.verb, request.path) == ("PATCH", path)
    assert request.headers["Content-Type"] == "application/strategic-merge-patch+json"
    fields = {"type": "PodGroupScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    assert json.loads(request.body) == {
        "metadata": {"uid": "u1"},
        "status": {"conditions": [{**fields, "observedGeneration": 0}]},
    }


async def test_the_status_of_coscheduling_s_podgroup_is_merged_into_the_version_that_was_seen(
    server: FakeAPIServer, client: KubeClient
) -> None:
    meta = ObjectMeta(name="train", namespace="shop", uid="u1", resource_version="7")
    await client.patch_group_status(
        COSCHEDULING_POD_GROUPS, CoschedulingPodGroup(metadata=meta), {"phase": "Running", "failed": None}
    )
    request = server.requests[-1]
    path = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/shop/podgroups/train/status"
    assert (request.verb, request.path) == ("PATCH", path)
    assert request.headers["Content-Type"] == "application/merge-patch+json"
    assert json.loads(request.body) == {
        "metadata": {"uid": "u1", "resourceVersion": "7"},
        "status": {"phase": "Running", "failed": None},
    }


async def test_annotations_are_merged_into_the_pod_with_that_uid(server: FakeAPIServer, client: KubeClient) -> None:
    await client.annotate_pod("default", "web", "u1", {"a/b": "c"})
    request = server.requests[-1]
    assert (request.verb, request.path) == ("PATCH", "/api/v1/namespaces/default/pods/web")
    assert request.headers["Content-Type"] == "application/merge-patch+json"
    assert json.loads(request.body) == {"metadata": {"uid": "u1", "annotations": {"a/b": "c"}}}
    body = json.dumps({"reason": "Invalid", "message": "metadata.uid: Invalid value: field is immutable"}).encode()
    server.fail("PATCH", "/pods/web", status=422, body=body)
    with pytest.raises(Conflict, match="immutable"):
        await client.annotate_pod("default", "web", "u1", {"a/b": "d"})


# --- who may read our endpoint ---


def answers(server: FakeAPIServer, kind: str, status: dict[str, Any]) -> None:
    server.fail("POST", kind, body=json.dumps({"kind": kind, "status": status}).encode())


async def test_a_token_review_returns_all_that_is_known_of_the_user(server: FakeAPIServer, client: KubeClient) -> None:
    user = {"username": "alice", "uid": "u", "groups": ["g", "h"], "extra": {"scopes": ["a", "b"]}}
    answers(server, "tokenreviews", {"authenticated": True, "user": user})
    assert await client.reviews.token_review("secret") == User("alice", "u", ("g", "h"), (("scopes", ("a", "b")),))
    sent = server.sent("POST", "/apis/authentication.k8s.io/v1/tokenreviews")[-1]
    assert json.loads(sent.body)["spec"] == {"token": "secret"}
    answers(server, "tokenreviews", {"error": "invalid bearer token"})
    assert await client.reviews.token_review("bad") is None


async def test_an_access_review_is_asked_with_all_that_is_known_of_the_user(
    server: FakeAPIServer, client: KubeClient
) -> None:
    asked = {"path": "/metrics", "verb": "get"}
    for user, spec in (
        (User("alice"), {"user": "alice"}),
        (
            User("alice", "u", ("g",), (("scopes", ("a",)),)),
            {"user": "alice", "uid": "u", "groups": ["g"], "extra": {"scopes": ["a"]}},
        ),
    ):
        answers(server, "subjectaccessreviews", {"allowed": True, "reason": "a rule"})
        assert await client.reviews.subject_access_review(user, "get", "/metrics") == AccessReview(True, "a rule")
        sent = server.sent("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")[-1]
        assert json.loads(sent.body)["spec"] == {**spec, "nonResourceAttributes": asked}


@pytest.mark.parametrize(("namespace", "more"), [("", {}), ("shop", {"namespace": "shop"})])
async def test_an_access_review_about_a_resource_names_it_and_its_namespace(
    server: FakeAPIServer, client: KubeClient, namespace: str, more: dict[str, str]
) -> None:
    answers(server, "subjectaccessreviews", {"allowed": True, "reason": "a rule"})
    user = User("alice", groups=("g",))
    assert await client.reviews.resource_access_review(user, "list", "pods", namespace) == AccessReview(True, "a rule")
    sent = server.sent("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")[-1]
    asked = {"verb": "list", "version": "v1", "resource": "pods", **more}
    assert json.loads(sent.body)["spec"] == {"user": "alice", "groups": ["g"], "resourceAttributes": asked}


async def test_a_denial_outweighs_a_permission(server: FakeAPIServer, client: KubeClient) -> None:
    answers(server, "subjectaccessreviews", {"allowed": True, "denied": True, "reason": "no"})
    assert await client.reviews.subject_access_review(User("alice"), "get", "/metrics") == AccessReview(False, "no")
