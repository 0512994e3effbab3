"""The cluster in memory behaves as an apiserver in all that a scheduler sees."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from kscheduler import testing
from kscheduler.api.devices import ClaimMeta, DeviceClass, ResourceClaim, ResourceSlice
from kscheduler.api.objects import (
    AzureDisk,
    Lease,
    LeaseSpec,
    Namespace,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSchedulingGate,
    PodStatus,
)
from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.api.storage import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    StorageClass,
)
from kscheduler.client.kinds import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE, UNFINISHED_PODS
from kscheduler.client.pod_group_kinds import GROUP_PODS
from kscheduler.client.protocol import Binding, Client, Event, EventSeries, EventType, PodStatusPatch, Regarding
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37
from kscheduler.errors import APIError, Conflict, Gone, NotFound, Unreachable
from kscheduler.simulator.cluster import Cluster, in_order_of_use
from kscheduler.simulator.cluster_client import Latency
from tests.simulator.objects import binding, brief, make_pod, next_batch
from tests.support.changes import set_pod_phase
from tests.support.clocks import ManualClock


def make_node(name: str) -> Node:
    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(capacity={"cpu": "4", "pods": "110"}))


def make_event(name: str, reason: str = "Scheduled", series: EventSeries | None = None) -> Event:
    return Event(
        namespace="default",
        name=name,
        regarding=Regarding("Pod", "v1", "default", "a", ""),
        type="Normal",
        reason=reason,
        action="Binding",
        note="",
        reporting_controller="default-scheduler",
        reporting_instance="x",
        event_time_s=0.0,
        series=series,
    )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cluster(clock: ManualClock) -> Cluster:
    return Cluster(clock, seed=1)


# --- objects ------------------------------------------------------------------------------------------------------


def test_the_client_fits_the_protocol(cluster: Cluster) -> None:
    client: Client = cluster.client()
    assert client is not None


def test_created_objects_get_uid_version_timestamp_and_defaults(cluster: Cluster) -> None:
    pod = cluster.create_pod(Pod(metadata=ObjectMeta(name="a")))
    assert pod.metadata.uid
    assert pod.metadata.resource_version == "1"
    assert pod.metadata.creation_timestamp == "2023-11-14T22:13:20Z"
    assert (pod.key, pod.spec.priority, pod.status.phase) == ("default/a", 0, "Pending")
    assert cluster.create_node(make_node("n0")).status.allocatable == {"cpu": "4", "pods": "110"}


def test_pods_get_the_defaults_of_the_clusters_release(clock: ManualClock) -> None:
    asking = testing.make_pod("a").pod_level_req(cpu="2").req(memory=5).obj()
    for release, requests in ((RELEASE_1_36, {"cpu": "2"}), (RELEASE_1_37, {"cpu": "2", "memory": 5})):
        resources = Cluster(clock, release=release).create_pod(asking).spec.resources
        assert resources is not None
        assert resources.requests == requests


def test_uids_depend_on_the_seed_alone(clock: ManualClock) -> None:
    first, again, other = (Cluster(clock, seed=seed).create_pod(make_pod("a")) for seed in (1, 1, 2))
    assert first.metadata.uid == again.metadata.uid != other.metadata.uid


def test_a_name_is_taken_once(cluster: Cluster) -> None:
    cluster.create_pod(make_pod("a"))
    with pytest.raises(Conflict, match='pods "a" already exists') as caught:
        cluster.create_pod(make_pod("a"))
    assert caught.value.reason == "AlreadyExists"


def test_an_update_of_an_old_version_conflicts_and_cannot_change_the_uid(cluster: Cluster) -> None:
    first = cluster.create_node(make_node("n0"))
    second = cluster.update_node(make_node("n0"))
    assert second.metadata.uid == first.metadata.uid
    with pytest.raises(Conflict, match="the object has been modified"):
        cluster.update_node(first)


def test_graceful_deletion_marks_first_and_removes_second(cluster: Cluster) -> None:
    cluster.create_pod(make_pod("a"))
    cluster.delete_pod("default/a", gracefully=True)
    assert cluster.pods["default/a"].metadata.deletion_timestamp
    cluster.delete_pod("default/a", gracefully=True)
    assert cluster.pods == {}
    with pytest.raises(NotFound):
        cluster.delete_pod("default/a")


@pytest.mark.parametrize(
    ("pod", "is_left"),
    [
        (make_pod("a"), False),  # nothing runs yet
        (make_pod("a", node_name="n0"), True),
        (make_pod("a", node_name="n0", termination_grace_period_seconds=0), False),
        (replace(make_pod("a", node_name="n0"), status=PodStatus(phase="Succeeded")), False),
    ],
    ids=["without a node", "running", "without grace", "finished"],
)
async def test_a_client_deletes_as_the_apiserver_does(cluster: Cluster, pod: Pod, is_left: bool) -> None:
    created = cluster.create_pod(pod)
    client = cluster.client()
    with pytest.raises(Conflict, match="UID in precondition"):
        await client.delete_pod("default", "a", "another")
    await client.delete_pod("default", "a", created.metadata.uid)
    assert ("default/a" in cluster.pods) is is_left
    if is_left:
        ending = cluster.pods["default/a"]
        assert ending.metadata.deletion_timestamp == "2023-11-14T22:13:50Z"  # 30 s from now
        await client.delete_pod("default", "a", created.metadata.uid)
        assert cluster.pods["default/a"] == ending  # it is ending already
    else:
        with pytest.raises(NotFound):
            await client.delete_pod("default", "a", created.metadata.uid)


# --- binding and status -------------------------------------------------------------------------------------------


async def test_binding_sets_the_node_and_the_condition_and_clears_the_nomination(cluster: Cluster) -> None:
    pod = cluster.create_pod(make_pod("a"))
    client = cluster.client()
    await client.patch_pod_status(pod, PodStatusPatch(nominated_node_name="n1"))
    await client.bind(binding(pod))
    bound = cluster.pods["default/a"]
    assert bound.spec.node_name == "n0"
    assert bound.status.nominated_node_name == ""
    assert bound.status.conditions == [
        PodCondition(type="PodScheduled", status="True", last_transition_time="2023-11-14T22:13:20Z")
    ]


async def test_a_pod_is_bound_once_and_only_the_one_that_was_meant(cluster: Cluster) -> None:
    pod = cluster.create_pod(make_pod("a"))
    client = cluster.client()
    with pytest.raises(Conflict, match="UID in precondition"):
        await client.bind(Binding("default", "a", "another", "n0"))
    await client.bind(binding(pod))
    with pytest.raises(Conflict, match='already assigned to node "n0"'):
        await client.bind(binding(pod, "n1"))
    with pytest.raises(NotFound, match='pods "b" not found'):
        await client.bind(Binding("default", "b", "", "n0"))


async def test_a_pod_that_is_deleted_or_gated_is_not_bound(cluster: Cluster) -> None:
    doomed = cluster.create_pod(make_pod("a"))
    gated = cluster.create_pod(make_pod("b", scheduling_gates=[PodSchedulingGate("later")]))
    cluster.delete_pod("default/a", gracefully=True)
    client = cluster.client()
    with pytest.raises(Conflict, match="is being deleted"):
        await client.bind(binding(doomed))
    with pytest.raises(Conflict, match=r"non-empty .*schedulingGates"):
        await client.bind(binding(gated))


async def test_a_condition_is_merged_by_type_and_changing_nothing_makes_no_version(
    cluster: Cluster, clock: ManualClock
) -> None:
    pod = cluster.create_pod(make_pod("a"))
    client = cluster.client()
    patch = PodStatusPatch(PodCondition("PodScheduled", "False", "Unschedulable", "0/0 nodes are available"))
    await client.patch_pod_status(pod, patch)
    version = cluster.version
    clock.advance(60)
    await client.patch_pod_status(pod, patch)
    assert cluster.version == version
    await client.patch_pod_status(pod, PodStatusPatch(PodCondition("PodScheduled", "False", "Unschedulable", "1/2")))
    [condition] = cluster.pods["default/a"].status.conditions or []
    assert (condition.message, condition.last_transition_time) == ("1/2", "2023-11-14T22:13:20Z")


async def test_status_of_a_later_pod_of_the_same_name_is_left_alone(cluster: Cluster) -> None:
    old = cluster.create_pod(make_pod("a"))
    cluster.delete_pod(old.key)
    cluster.create_pod(make_pod("a"))
    with pytest.raises(Conflict, match="UID in precondition"):
        await cluster.client().patch_pod_status(old, PodStatusPatch(nominated_node_name="n0"))


# --- lists --------------------------------------------------------------------------------------------------------


async def test_pages_show_one_version_in_key_order_whatever_happens_between_them(cluster: Cluster) -> None:
    for index in range(5):
        cluster.create_pod(make_pod(f"p{4 - index}"))
    client = cluster.client()
    first = await client.list_page(PODS, limit=2)
    cluster.delete_pod("default/p4")
    second = await client.list_page(PODS, limit=2, continue_token=first.continue_token)
    third = await client.list_page(PODS, limit=2, continue_token=second.continue_token)
    names = [pod.metadata.name for page in (first, second, third) for pod in page.items]
    assert names == ["p0", "p1", "p2", "p3", "p4"]
    assert {page.resource_version for page in (first, second, third)} == {"5"}
    assert third.continue_token == ""


async def test_a_continue_token_from_before_a_compaction_is_gone(cluster: Cluster) -> None:
    for index in range(3):
        cluster.create_pod(make_pod(f"p{index}"))
    client = cluster.client()
    page = await client.list_page(PODS, limit=1)
    cluster.compact()
    with pytest.raises(Gone, match="continue parameter is too old"):
        await client.list_page(PODS, limit=1, continue_token=page.continue_token)


async def test_a_selector_narrows_a_list_and_an_unknown_field_is_refused(cluster: Cluster) -> None:
    bound = cluster.create_pod(make_pod("a"))
    cluster.create_pod(make_pod("b", namespace="other"))
    cluster.bind(binding(bound))
    client = cluster.client()

    async def names(selector: str, namespace: str = "") -> list[str]:
        page = await client.list_page(PODS.within(namespace), field_selector=selector)
        return [pod.metadata.name for pod in page.items]

    assert await names("spec.nodeName=n0") == ["a"]
    assert await names("spec.nodeName!=n0") == ["b"]
    assert await names("metadata.name==a,status.phase!=Failed") == ["a"]
    assert await names("", namespace="other") == ["b"]
    with pytest.raises(APIError, match="field label not supported") as caught:
        await names("spec.hostname=x")
    assert caught.value.status == 400


# --- watches ------------------------------------------------------------------------------------------------------


async def test_a_watch_reports_every_change_after_its_version_in_order_in_one_batch(cluster: Cluster) -> None:
    cluster.create_pod(make_pod("before"))
    events = cluster.client().watch(PODS, resource_version=str(cluster.version))
    pod = cluster.create_pod(make_pod("a"))
    cluster.bind(binding(pod))
    cluster.delete_pod(pod.key)
    batch = await events.__anext__()
    assert brief(batch) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert [event.resource_version for event in batch] == ["2", "3", "4"]
    assert batch[2].object is not None
    assert batch[2].object.metadata.resource_version == "4"


async def test_what_enters_a_selection_is_added_and_what_leaves_it_is_deleted(cluster: Cluster) -> None:
    unassigned = cluster.client().watch(PODS, resource_version="0", field_selector="spec.nodeName=")
    assigned = cluster.client().watch(PODS, resource_version="0", field_selector="spec.nodeName!=")
    unfinished = cluster.client().watch(PODS, resource_version="0", field_selector=UNFINISHED_PODS)
    pod = cluster.create_pod(make_pod("a"))
    cluster.bind(binding(pod))
    set_pod_phase(cluster, pod.key, "Running")
    set_pod_phase(cluster, pod.key, "Succeeded")
    cluster.delete_pod(pod.key)
    assert await next_batch(unassigned) == [("ADDED", "a"), ("DELETED", "a")]
    assert await next_batch(assigned) == [("ADDED", "a"), ("MODIFIED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert await next_batch(unfinished) == [("ADDED", "a"), ("MODIFIED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_only_pods_with_a_label_are_shown_where_it_is_asked_for(cluster: Cluster) -> None:
    changes = cluster.client().watch(GROUP_PODS, resource_version="0")
    cluster.create_pod(make_pod("alone"))
    member = testing.make_pod("member").label(POD_GROUP_LABEL, "train").obj()
    cluster.create_pod(member)
    listed = await cluster.client().list_page(GROUP_PODS)
    assert [pod.metadata.name for pod in listed.items] == ["member"]
    [event] = await changes.__anext__()
    assert event.object is not None
    assert (event.type, event.object.metadata.name) == (EventType.ADDED, "member")


async def test_the_object_of_a_pod_that_left_the_selection_is_the_last_one_inside_with_the_new_version(
    cluster: Cluster,
) -> None:
    pod = cluster.create_pod(make_pod("a"))
    events = cluster.client().watch(PODS, resource_version="1", field_selector="spec.nodeName=")
    cluster.bind(binding(pod))
    [event] = await events.__anext__()
    assert event.type is EventType.DELETED
    assert event.object is not None
    assert (event.object.spec.node_name, event.object.metadata.resource_version) == ("", "2")


async def test_a_version_older_than_the_history_is_gone() -> None:
    cluster = Cluster(ManualClock(), history_limit=8)
    for index in range(30):
        cluster.create_pod(make_pod(f"p{index}"))
    client = cluster.client()
    with pytest.raises(Gone, match="too old resource version: 3"):
        await client.watch(PODS, resource_version="3").__anext__()
    assert await next_batch(client.watch(PODS, resource_version="28")) == [("ADDED", "p28"), ("ADDED", "p29")]


async def test_a_watch_that_falls_behind_the_history_is_closed() -> None:
    cluster = Cluster(ManualClock(), history_limit=4)
    events = cluster.client().watch(PODS, resource_version="0")
    cluster.create_pod(make_pod("first"))
    assert await next_batch(events) == [("ADDED", "first")]
    for index in range(30):
        cluster.create_pod(make_pod(f"p{index}"))
    with pytest.raises(StopAsyncIteration):
        await events.__anext__()


async def test_a_version_from_the_future_or_of_no_number_is_refused(cluster: Cluster) -> None:
    with pytest.raises(APIError, match="Too large resource version: 7"):
        await cluster.client().watch(PODS, resource_version="7").__anext__()
    with pytest.raises(APIError, match='not "abc"'):
        await cluster.client().watch(PODS, resource_version="abc").__anext__()


async def test_an_outage_breaks_watches_and_refuses_requests_and_keeps_the_state(cluster: Cluster) -> None:
    cluster.create_pod(make_pod("a"))
    client = cluster.client()
    events = client.watch(PODS, resource_version="0")
    assert await next_batch(events) == [("ADDED", "a")]
    cluster.stop()
    with pytest.raises(Unreachable):
        await events.__anext__()
    with pytest.raises(Unreachable, match="connection refused"):
        await client.list_page(NODES)
    cluster.start()
    assert len((await client.list_page(PODS)).items) == 1


# --- leases and events --------------------------------------------------------------------------------------------


async def test_of_two_who_update_one_lease_the_second_conflicts(cluster: Cluster) -> None:
    client = cluster.client()
    with pytest.raises(NotFound):
        await client.get_lease("kube-system", "s")
    lease = await client.create_lease(Lease(ObjectMeta(name="s", namespace="kube-system"), LeaseSpec("one")))
    taken = Lease(lease.metadata, LeaseSpec("two"))
    assert (await client.update_lease(taken)).spec.holder_identity == "two"
    with pytest.raises(Conflict, match="has been modified"):
        await client.update_lease(Lease(lease.metadata, LeaseSpec("three")))


async def test_events_are_counted_by_reason_and_a_series_must_exist(cluster: Cluster) -> None:
    client = cluster.client()
    await client.create_event(make_event("a.1"))
    await client.create_event(make_event("a.2", "FailedScheduling"))
    with pytest.raises(Conflict):
        await client.create_event(make_event("a.1"))
    await client.patch_event_series(make_event("a.2", "FailedScheduling", EventSeries(3, 5.0)))
    with pytest.raises(NotFound):
        await client.patch_event_series(make_event("gone"))
    assert cluster.event_counts == {"Scheduled": 1, "FailedScheduling": 1}
    assert cluster.events[1].series == EventSeries(3, 5.0)


async def test_a_closed_client_answers_nothing(cluster: Cluster) -> None:
    client = cluster.client(latency=Latency())
    await client.close()
    with pytest.raises(Unreachable, match="closed"):
        await client.list_page(PODS)


# --- storage ------------------------------------------------------------------------------------------------------


def default_class(name: str, created: str, value: str = "true") -> StorageClass:
    annotations = {"storageclass.kubernetes.io/is-default-class": value}
    return StorageClass(ObjectMeta(name=name, annotations=annotations, creation_timestamp=created), "d")


def made(cluster: Cluster, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    created: PersistentVolumeClaim = cluster.create_object(claim)
    return created


def test_a_namespace_is_found_by_its_name_as_a_label(cluster: Cluster) -> None:
    created = cluster.create_object(Namespace(ObjectMeta(name="shop")))
    assert created.metadata.labels == {"kubernetes.io/metadata.name": "shop"}


async def test_storage_gets_the_defaults_of_the_api(cluster: Cluster) -> None:
    assert cluster.create_object(PersistentVolume(ObjectMeta(name="pv"))).status.phase == "Pending"
    disk = PersistentVolumeSpec(azure_disk=AzureDisk("d", "/d"))
    assert cluster.create_object(PersistentVolume(ObjectMeta(name="disk"), disk)).spec.azure_disk.kind == "Shared"
    assert cluster.create_object(StorageClass(ObjectMeta(name="c"))).volume_binding_mode == "Immediate"
    assert cluster.create_object(CSIStorageCapacity(ObjectMeta(name="s"))).key == "default/s"
    claim = made(cluster, PersistentVolumeClaim(ObjectMeta(name="data")))
    assert (claim.key, claim.status.phase, claim.spec.storage_class_name) == ("default/data", "Pending", None)


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_of_equally_young_default_classes_the_first_by_name_is_used(cluster: Cluster, names: Sequence[str]) -> None:
    for name in names:
        cluster.create_object(default_class(name, "2025"))
    assert made(cluster, PersistentVolumeClaim(ObjectMeta(name="data"))).spec.storage_class_name == "a"


def test_a_class_is_a_default_one_by_the_older_annotation_too(cluster: Cluster) -> None:
    annotations = {"storageclass.beta.kubernetes.io/is-default-class": "true"}
    cluster.create_object(StorageClass(ObjectMeta(name="old", annotations=annotations), "d"))
    assert made(cluster, PersistentVolumeClaim(ObjectMeta(name="data"))).spec.storage_class_name == "old"


async def test_a_claim_without_a_class_gets_the_youngest_default_one(cluster: Cluster) -> None:
    for name, created, value in (("b", "2024", "true"), ("a", "2025", "true"), ("c", "2026", "false")):
        cluster.create_object(default_class(name, created, value))
    spec = PersistentVolumeClaim().spec
    claims = {
        "none": spec,
        "own": replace(spec, storage_class_name="b"),
        "static": replace(spec, storage_class_name=""),
    }
    given = {
        name: made(cluster, PersistentVolumeClaim(ObjectMeta(name=name), spec)).spec.storage_class_name
        for name, spec in claims.items()
    }
    assert given == {"none": "a", "own": "b", "static": ""}


async def test_storage_is_put_in_the_order_of_its_use() -> None:
    claim, made_by = PersistentVolumeClaim(ObjectMeta(name="data")), StorageClass(ObjectMeta(name="c"))
    assert in_order_of_use([claim, PersistentVolume(), made_by]) == [made_by, PersistentVolume(), claim]


async def test_devices_are_put_in_the_order_of_their_use() -> None:
    claim, device_class = ResourceClaim(ClaimMeta(name="gpu")), DeviceClass(ObjectMeta(name="gpu"))
    assert in_order_of_use([claim, ResourceSlice(), device_class]) == [device_class, ResourceSlice(), claim]


async def test_every_storage_kind_can_be_listed(cluster: Cluster) -> None:
    client = cluster.client()
    for resource in STORAGE:
        item = resource.type(metadata=ObjectMeta(name="x", namespace="default" if resource.namespaced else ""))
        cluster.create_object(item)
        assert [found.metadata.name for found in (await client.list_page(resource)).items] == ["x"]


async def test_a_patch_of_an_old_version_conflicts_and_one_that_changes_nothing_makes_no_version(
    cluster: Cluster,
) -> None:
    client = cluster.client()
    version = cluster.create_object(PersistentVolume(ObjectMeta(name="pv"))).metadata.resource_version
    patch: dict[str, object] = {"spec": {"claimRef": {"name": "data"}}}
    patched = await client.patch_volume("pv", version, patch)
    assert patched.spec.claim_ref is not None
    with pytest.raises(Conflict, match="has been modified"):
        await client.patch_volume("pv", version, {"spec": {"claimRef": None}})
    assert await client.patch_volume("pv", patched.metadata.resource_version, patch) == patched
    assert cluster.store(PERSISTENT_VOLUMES).objects == {"pv": patched}
    with pytest.raises(NotFound):
        await client.patch_claim("default", "none", "1", {})


async def test_a_patch_cannot_change_who_an_object_is(cluster: Cluster) -> None:
    claim = made(cluster, PersistentVolumeClaim(ObjectMeta(name="data")))
    patched = await cluster.client().patch_claim(
        "default", "data", claim.metadata.resource_version, {"metadata": {"uid": "other", "labels": {"a": "b"}}}
    )
    assert (patched.metadata.uid, patched.metadata.labels) == (claim.metadata.uid, {"a": "b"})


async def test_storage_that_is_not_there_can_be_neither_deleted_nor_updated(cluster: Cluster) -> None:
    with pytest.raises(NotFound):
        cluster.delete_object(PERSISTENT_VOLUME_CLAIMS, "default/none")
    with pytest.raises(NotFound):
        cluster.update_object(PersistentVolume(ObjectMeta(name="none")))


# --- APIs behind the apiserver ------------------------------------------------------------------------------------


async def test_an_api_is_served_by_what_a_test_puts_there(cluster: Cluster) -> None:
    client = cluster.client()
    path = "/apis/metrics.k8s.io/v1beta1/nodes"
    with pytest.raises(NotFound):
        await client.get_aggregated(path, limit_bytes=100)
    cluster.aggregated["/apis/metrics.k8s.io/v1beta1"] = lambda path: path.encode()
    assert await client.get_aggregated(path, limit_bytes=100) == path.encode()
    with pytest.raises(APIError, match="expected an answer of at most 10 bytes, got more"):
        await client.get_aggregated(path, limit_bytes=10)
    cluster.is_down = True
    with pytest.raises(Unreachable):
        await client.get_aggregated(path, limit_bytes=100)
