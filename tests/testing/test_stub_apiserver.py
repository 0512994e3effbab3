"""The stub apiserver distinguishes a scheduler that makes no mistakes from one that does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kscheduler.api.objects import PodCondition
from kscheduler.client.kinds import NODES, PODS
from kscheduler.client.kube import KubeClient
from kscheduler.client.protocol import Binding, EventType, PodStatusPatch
from kscheduler.errors import APIError, Conflict, Gone, NotFound
from kscheduler.testing.controlplane.patience import until
from kscheduler.testing.controlplane.stub_apiserver import StubApiserver
from perf import pod_shapes
from perf.served_objects import NAME, served_node, served_pod
from tests.support.clocks import ManualClock

pytestmark = pytest.mark.controlplane

UID = "7a3f0c52-9b1e-4d08-8f6c-000000000001"


@pytest.fixture
def stub() -> Iterator[StubApiserver]:
    with StubApiserver() as running:
        running.create_nodes(2, "node-{index}", [served_node(pod_shapes.zoned_nodes()[0])])
        pod = served_pod(pod_shapes.basic()[0])
        running.create_pods(3, NAME, [pod.pending], [pod.bound])
        yield running


async def connected(stub: StubApiserver) -> KubeClient:
    return await KubeClient.connect(ManualClock(), kubeconfig=str(stub.admin_kubeconfig), qps=0)


def refused(stub: StubApiserver, binding: Binding) -> type[APIError] | None:
    async def main() -> type[APIError] | None:
        client = await connected(stub)
        try:
            await client.bind(binding)
        except APIError as error:
            return type(error)
        finally:
            await client.close()
        return None

    return asyncio.run(main())


def test_objects_are_listed_as_an_apiserver_lists_them(stub: StubApiserver) -> None:
    async def main() -> None:
        client = await connected(stub)
        try:
            nodes = (await client.list_page(NODES)).items
            pods = list((await client.list_page(PODS)).items)
        finally:
            await client.close()
        assert [node.metadata.name for node in nodes] == ["node-0", "node-1"]
        assert [(pod.metadata.name, pod.spec.node_name) for pod in pods] == [(f"pod-{at}", "") for at in range(3)]
        assert pods[1].metadata.uid == UID

    asyncio.run(main())


def test_a_pod_is_bound_once_and_shown_with_its_node(stub: StubApiserver) -> None:
    assert refused(stub, Binding("default", "pod-1", UID, "node-0")) is None
    assert refused(stub, Binding("default", "pod-1", UID, "node-1")) is Conflict
    state = stub.state()
    assert (state.bound, state.conflicts, state.mistakes) == (1, 1, 1)


@pytest.mark.parametrize(
    ("binding", "error"),
    [
        (Binding("default", "pod-1", UID, "node-9"), NotFound),
        (Binding("default", "pod-9", UID, "node-0"), NotFound),
        (Binding("default", "pod-2", UID, "node-0"), Conflict),
    ],
    ids=["no such node", "no such pod", "another uid"],
)
def test_a_binding_that_no_scheduler_should_send_is_refused(
    stub: StubApiserver, binding: Binding, error: type[APIError]
) -> None:
    assert refused(stub, binding) is error
    assert (stub.state().bound, stub.state().mistakes) == (0, 1)


def test_changes_are_held_until_they_are_shown_at_once(stub: StubApiserver) -> None:
    async def main() -> None:
        client = await connected(stub)
        try:
            version = (await client.list_page(PODS)).resource_version
            watch = client.watch(PODS, resource_version=version)
            shown = asyncio.ensure_future(anext(watch))
            await until(lambda: stub.state().watches["pods"] == 1, "the watch is open")
            stub.hold_watch()
            pod = served_pod(pod_shapes.basic()[0])
            stub.create_pods(2, NAME, [pod.pending], [pod.bound], first=3)
            assert not shown.done()
            stub.hold_watch()
            assert [event.type for event in await shown] == [EventType.ADDED] * 2
            shown = asyncio.ensure_future(anext(watch))
            await client.bind(Binding("default", "pod-1", UID, "node-0"))
            assert not shown.done()
            stub.show_watch()
            [event] = await shown
            assert event.object is not None
            assert (event.object.metadata.name, event.object.spec.node_name) == ("pod-1", "node-0")
            with pytest.raises(Gone):
                await anext(client.watch(PODS, resource_version=version))
        finally:
            await client.close()

    asyncio.run(main())


def test_a_condition_is_counted_and_shown(stub: StubApiserver) -> None:
    condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="0/2 nodes")

    async def main() -> None:
        client = await connected(stub)
        try:
            pod = list((await client.list_page(PODS)).items)[1]
            await client.patch_pod_status(pod, PodStatusPatch(condition))
            pods = list((await client.list_page(PODS)).items)
        finally:
            await client.close()
        assert [each.status.conditions for each in pods] == [None, [condition], None]

    asyncio.run(main())
    assert stub.state().patches == 1


def test_pods_are_deleted_by_their_names(stub: StubApiserver) -> None:
    async def main() -> list[str]:
        client = await connected(stub)
        try:
            return [pod.metadata.name for pod in (await client.list_page(PODS)).items]
        finally:
            await client.close()

    stub.delete_pods(2, NAME, first=1)
    assert asyncio.run(main()) == ["pod-0"]


def test_its_folder_is_gone_afterwards(stub: StubApiserver) -> None:
    with StubApiserver() as other:
        folder = Path(other.directory)
        assert folder.is_dir()
    assert not folder.exists()
