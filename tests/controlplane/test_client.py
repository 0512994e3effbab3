"""The HTTP client against a real apiserver: what a fake could get wrong as we do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kscheduler.api.objects import ObjectMeta, Pod, PodCondition
from kscheduler.client.credentials import in_cluster
from kscheduler.client.informer import Informer
from kscheduler.client.kinds import NODES, PODS, Resource
from kscheduler.client.kube import KubeClient
from kscheduler.client.protocol import Binding, EventType, PodStatusPatch
from kscheduler.client.recorder import EventRecorder
from kscheduler.client.times import rfc3339
from kscheduler.errors import Conflict, Forbidden, Gone, NotFound, Unreachable
from kscheduler.testing.controlplane import ControlPlane
from kscheduler.testing.controlplane.patience import CEILING_S, ended, until
from kscheduler.testing.controlplane.workspace import Workspace
from tests.support.clocks import CLOCK
from tests.support.recorder import Recorder


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[KubeClient]:
    client = await KubeClient.connect(CLOCK, kubeconfig=str(control_plane.admin_kubeconfig), qps=-1)
    yield client
    await client.close()


async def pods_of(client: KubeClient, namespace: str) -> dict[str, Pod]:
    page = await client.list_page(PODS.within(namespace))
    return {pod.metadata.name: pod for pod in page.items}


def binding(pod: Pod, node: str, uid: str = "") -> Binding:
    return Binding(pod.metadata.namespace, pod.metadata.name, uid or pod.metadata.uid, node)


async def test_a_binding_in_protobuf_binds(workspace: Workspace, client: KubeClient) -> None:
    workspace.create_nodes(2)
    workspace.create_pod("one")
    pod = (await pods_of(client, workspace.namespace))["one"]
    await client.bind(binding(pod, "node-1"))
    assert workspace.bindings() == {"one": "node-1"}
    conditions = workspace.pod("one")["status"]["conditions"]
    assert [(c["type"], c["status"]) for c in conditions] == [("PodScheduled", "True")]
    again = await client.get_pod(workspace.namespace, "one")
    assert again.spec.node_name == "node-1"
    with pytest.raises(Conflict, match="already assigned to node"):
        await client.bind(binding(pod, "node-0"))


async def test_a_binding_for_another_uid_or_no_pod_is_refused(workspace: Workspace, client: KubeClient) -> None:
    workspace.create_nodes(1)
    workspace.create_pod("one")
    pod = (await pods_of(client, workspace.namespace))["one"]
    with pytest.raises(Conflict, match="UID"):
        await client.bind(binding(pod, "node-0", uid="00000000-0000-4000-8000-000000000000"))
    assert workspace.bindings() == {}
    with pytest.raises(NotFound, match='404 NotFound: pods "gone" not found'):
        await client.bind(Binding(workspace.namespace, "gone", "", "node-0"))


async def test_a_condition_is_merged_and_replaced(workspace: Workspace, client: KubeClient) -> None:
    workspace.create_pod("one")
    pod = (await pods_of(client, workspace.namespace))["one"]
    first = PodCondition("PodScheduled", "False", "Unschedulable", "0/0 nodes are available", rfc3339(CLOCK.wall()))
    await client.patch_pod_status(pod, PodStatusPatch(first, nominated_node_name="node-9"))
    second = PodCondition("PodScheduled", "False", "SchedulerError", "oops", observed_generation=1)
    await client.patch_pod_status(pod, PodStatusPatch(second))
    status = workspace.pod("one")["status"]
    (condition,) = status["conditions"]
    assert condition["lastTransitionTime"] == first.last_transition_time
    assert (condition["reason"], condition["message"], condition["observedGeneration"]) == ("SchedulerError", "oops", 1)
    assert status["nominatedNodeName"] == "node-9"
    await client.patch_pod_status(pod, PodStatusPatch(nominated_node_name=""))
    assert "nominatedNodeName" not in workspace.pod("one")["status"]


async def test_a_status_patch_spares_a_namesake(workspace: Workspace, client: KubeClient) -> None:
    workspace.create_pod("one")
    pod = (await pods_of(client, workspace.namespace))["one"]
    old = Pod(metadata=ObjectMeta("one", workspace.namespace, uid="00000000-0000-4000-8000-000000000000"))
    with pytest.raises(Conflict):
        await client.patch_pod_status(old, PodStatusPatch(nominated_node_name="n"))
    assert (await client.get_pod(workspace.namespace, "one")).metadata.uid == pod.metadata.uid


async def test_deleting_a_pod_spares_a_namesake_and_leaves_a_bound_pod_its_grace(
    workspace: Workspace, client: KubeClient
) -> None:
    workspace.create_nodes(1)
    workspace.create_pod("one")
    workspace.create_pod("two")
    pods = await pods_of(client, workspace.namespace)
    with pytest.raises(Conflict, match="UID"):
        await client.delete_pod(workspace.namespace, "one", pods["two"].metadata.uid)
    await client.bind(binding(pods["one"], "node-0"))
    for _ in range(2):
        await client.delete_pod(workspace.namespace, "one", pods["one"].metadata.uid)
        assert (await client.get_pod(workspace.namespace, "one")).metadata.deletion_timestamp
    await client.delete_pod(workspace.namespace, "two", pods["two"].metadata.uid)
    with pytest.raises(NotFound):
        await client.delete_pod(workspace.namespace, "two", pods["two"].metadata.uid)


async def test_events_read_back_as_written(workspace: Workspace, client: KubeClient) -> None:
    workspace.create_pod("one")
    pod = (await pods_of(client, workspace.namespace))["one"]
    recorder = EventRecorder(client, CLOCK, random.Random(1), controller="default-scheduler", instance="host_1")
    running = asyncio.ensure_future(recorder.run())
    note = "0/3 nodes are available: é" + "x" * 2000
    for _ in range(3):
        recorder.record(pod, type="Warning", reason="FailedScheduling", action="Scheduling", note=note)
        assert await recorder.drain(CEILING_S)
    recorder.record(pod, type="Normal", reason="Scheduled", action="Binding", note="Successfully assigned")
    assert await recorder.drain(CEILING_S)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    events = workspace.api.list_all(f"/apis/events.k8s.io/v1/namespaces/{workspace.namespace}/events")
    by_reason: dict[str, Any] = {event["reason"]: event for event in events}
    assert sorted(by_reason) == ["FailedScheduling", "Scheduled"]
    failed = by_reason["FailedScheduling"]
    assert failed["series"]["count"] == 3
    assert failed["regarding"] == {
        "kind": "Pod",
        "namespace": workspace.namespace,
        "name": "one",
        "uid": pod.metadata.uid,
        "apiVersion": "v1",
        "resourceVersion": pod.metadata.resource_version,
    }
    assert (failed["type"], failed["action"]) == ("Warning", "Scheduling")
    assert (failed["reportingController"], failed["reportingInstance"]) == ("default-scheduler", "host_1")
    assert failed["note"].startswith("0/3 nodes are available: é")
    assert len(failed["note"].encode()) == 1024
    assert failed["eventTime"]
    assert recorder.failed == 0


async def test_an_expired_event_series_is_not_found(workspace: Workspace, client: KubeClient) -> None:
    workspace.create_pod("one")
    pod = (await pods_of(client, workspace.namespace))["one"]
    recorder = EventRecorder(client, CLOCK, random.Random(1), controller="c", instance="i")
    running = asyncio.ensure_future(recorder.run())
    events = f"/apis/events.k8s.io/v1/namespaces/{workspace.namespace}/events"
    for _ in range(2):
        recorder.record(pod, type="Warning", reason="R", action="A", note="n")
        assert await recorder.drain(CEILING_S)
        if _ == 0:
            workspace.api.delete(events)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    (event,) = workspace.api.list_all(events)
    assert event["series"]["count"] == 2


async def test_pages_list_every_pod_and_the_watch_reports_every_change(
    workspace: Workspace, client: KubeClient
) -> None:
    workspace.create_pods(7)
    resource = PODS.within(workspace.namespace)
    names: list[str] = []
    token = ""
    while True:
        page = await client.list_page(resource, limit=3, continue_token=token)
        names += [pod.metadata.name for pod in page.items]
        token = page.continue_token
        if not token:
            break
    assert names == [f"pod-{i}" for i in range(7)]
    workspace.create_pod("later")
    workspace.api.delete(f"/api/v1/namespaces/{workspace.namespace}/pods/pod-0")
    seen: list[tuple[EventType, str]] = []
    async for events in client.watch(resource, resource_version=page.resource_version):
        seen += [(event.type, event.object.metadata.name) for event in events if event.object]
        if any(kind == EventType.DELETED for kind, _ in seen):
            break
    assert seen == [
        (EventType.ADDED, "later"),
        (EventType.MODIFIED, "pod-0"),  # marked for deletion
        (EventType.DELETED, "pod-0"),
    ]


async def test_a_watch_ends_in_order_and_bookmarks_are_read(
    workspace: Workspace, client: KubeClient, caplog: pytest.LogCaptureFixture
) -> None:
    page = await client.list_page(PODS)
    stream = client.watch(PODS, resource_version=page.resource_version, timeout_s=3)
    events = [event async for batch in stream for event in batch]
    assert {event.type for event in events} <= {EventType.BOOKMARK}  # one near the end, if it is due
    assert all(int(event.resource_version) >= int(page.resource_version) for event in events)
    assert caplog.text == ""


async def test_an_informer_follows_the_cluster(workspace: Workspace, client: KubeClient) -> None:
    heard = Recorder()
    informer = Informer(client, PODS.within(workspace.namespace), heard, clock=CLOCK, rng=random.Random(1), page_size=2)
    workspace.create_pods(5)
    running = asyncio.ensure_future(informer.run())
    await ended(informer.synced.wait(), "the informer has listed")
    workspace.create_pod("later")
    await until(lambda: f"{workspace.namespace}/later" in informer.store, "the new pod is seen")
    workspace.api.delete(f"/api/v1/namespaces/{workspace.namespace}/pods/later")
    await until(lambda: f"{workspace.namespace}/later" not in informer.store, "its end is seen")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert heard.problems == []
    key = f"{workspace.namespace}/later"
    assert heard.calls[5:] == [f"add {key}", f"update {key}", f"delete {key}"]


async def test_an_informer_survives_the_apiserver(fresh_control_plane: Callable[..., ControlPlane]) -> None:
    control_plane = fresh_control_plane()
    workspace = Workspace(control_plane)
    workspace.create_nodes(2)
    client = await KubeClient.connect(CLOCK, kubeconfig=str(control_plane.admin_kubeconfig))
    heard = Recorder()
    informer = Informer(client, NODES, heard, clock=CLOCK, rng=random.Random(1))
    running = asyncio.ensure_future(informer.run())
    await ended(informer.synced.wait(), "the informer has listed")
    await asyncio.to_thread(control_plane.apiserver.kill)
    await until(lambda: isinstance(informer.last_error, Unreachable), "the loss is noticed")
    await asyncio.to_thread(control_plane.apiserver.start)
    workspace.create_node("after")
    await until(lambda: "after" in informer.store, "the new node is seen")
    with pytest.raises(Gone):  # its watch cache starts where it started
        await anext(aiter(client.watch(NODES, resource_version="1")))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await client.close()
    assert heard.problems == []


async def test_without_a_role_everything_is_forbidden(workspace: Workspace) -> None:
    path = workspace.control_plane.kubeconfig_for_service_account(workspace.namespace, "nobody")
    client = await KubeClient.connect(CLOCK, kubeconfig=str(path))
    resources: list[Resource[Any]] = [PODS, NODES]
    for resource in resources:
        with pytest.raises(Forbidden, match=f'403 Forbidden: {resource.plural} is forbidden: User ".*nobody"'):
            await client.list_page(resource)
    with pytest.raises(Forbidden, match="pods/binding"):
        await client.bind(Binding(workspace.namespace, "a", "", "b"))
    await client.close()


async def test_a_pods_service_account_authenticates_and_a_bad_token_is_unauthorized(workspace: Workspace) -> None:
    control_plane = workspace.control_plane
    directory = control_plane.service_account_directory(workspace.namespace, "reader")
    host, _, port = control_plane.url.removeprefix("https://").partition(":")
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    credentials = await in_cluster(CLOCK, environ=environ, directory=directory)
    client = KubeClient(credentials, CLOCK)
    assert (await client.version())["gitVersion"].startswith("v1.")
    (directory / "token").write_text("stale")
    await credentials._refresh_once(force=True)
    with pytest.raises(Forbidden, match="401 Unauthorized"):
        await client.list_page(NODES)
    (directory / "token").write_text(control_plane.service_account_token(workspace.namespace, "reader"))
    with pytest.raises(Forbidden, match="403"):  # the token is read again, and the account may not list
        await client.list_page(NODES)
    await client.close()
