"""What the volume plugins say of groups of waiting pods is what their hints say of each pod."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.objects import AWSElasticBlockStore, GCEPersistentDisk, Pod, Volume
from kscheduler.api.topology_labels import ZONE
from kscheduler.framework.events import EventResource, Registration
from kscheduler.framework.plugins.nodevolumelimits.plugin import NodeVolumeLimits
from kscheduler.framework.plugins.volumerestrictions import VolumeRestrictions
from kscheduler.framework.plugins.volumezone import VolumeZone
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod
from tests.support.framework_bench import Bench
from tests.support.storage import (
    EBS,
    attachment,
    claim,
    csi_node,
    ephemeral,
    labelled_volume,
    of_claim,
    storage_class,
    with_volumes,
)

VOLUMES = (
    of_claim("a"),
    of_claim("b"),
    ephemeral("own"),
    Volume(gce_persistent_disk=GCEPersistentDisk("disk")),
    Volume(gce_persistent_disk=GCEPersistentDisk("disk", read_only=True)),
    Volume(aws_elastic_block_store=AWSElasticBlockStore("vol-1")),
    Volume(aws_elastic_block_store=AWSElasticBlockStore("aws://zone/x")),
    Volume(),
)
NAMESPACES = st.sampled_from(["default", "elsewhere"])


def pods(name: str) -> st.SearchStrategy[Pod]:
    return st.builds(
        lambda namespace, volumes: with_volumes(make_pod(name, namespace), *volumes).obj(),
        NAMESPACES,
        st.lists(st.sampled_from(VOLUMES), max_size=3),
    )


claims = st.builds(
    lambda name, namespace: claim(name, namespace=namespace), st.sampled_from(["a", "b", "p0-own"]), NAMESPACES
)
EVENTS: dict[EventResource | str, st.SearchStrategy[tuple[object, object]]] = {  # resource -> (before, after)
    EventResource.ASSIGNED_POD: st.tuples(pods("gone"), st.none()),
    EventResource.PERSISTENT_VOLUME_CLAIM: st.tuples(st.one_of(st.none(), claims), claims),
    EventResource.PERSISTENT_VOLUME: st.tuples(
        st.sampled_from([None, labelled_volume("v")]),
        st.sampled_from([labelled_volume("v"), labelled_volume("v", ZONE, "a")]),
    ),
    EventResource.STORAGE_CLASS: st.tuples(
        st.none(), st.sampled_from([storage_class("s"), storage_class("s", mode="Immediate")])
    ),
    EventResource.CSI_NODE: st.tuples(
        st.just(csi_node("n", {EBS: 1})), st.sampled_from([csi_node("n", {EBS: 1}), csi_node("n", {EBS: 2})])
    ),
    EventResource.VOLUME_ATTACHMENT: st.tuples(
        st.sampled_from([attachment("t", "n", "v"), attachment("t", "n", "v", "other")]), st.none()
    ),
}


@given(st.tuples(pods("p0"), pods("p1"), pods("p2"), pods("p0")), st.data())
def test_groups_answer_for_their_pods_and_an_index_leaves_none_out(
    waiting: tuple[Pod, ...], data: st.DataObject
) -> None:
    grouped = 0
    for plugin in (VolumeRestrictions, VolumeZone, NodeVolumeLimits):
        registrations: Any = Bench.of(plugin)._plugins["filter"][0].events_to_register()
        for registration in registrations:
            if isinstance(registration, Registration) and registration.hint is not None:
                grouped += 1
                happened = data.draw(EVENTS[registration.event.resource])
                check(registration, waiting, *data.draw(st.sampled_from([happened, happened, (None, None)])))
    assert grouped == 9


def check(registration: Registration, waiting: tuple[Pod, ...], old: object, new: object) -> None:
    assert registration.hint is not None
    assert registration.grouping is not None
    answers: dict[object, set[bool]] = {}  # key -> the answers for its pods
    for pod in waiting:
        answers.setdefault(registration.grouping.key(PodInfo(pod)), set()).add(registration.hint(pod, old, new))
    assert all(len(recorded) == 1 for recorded in answers.values()), registration.event.label
    if registration.grouping.index is not None:
        index = registration.grouping.index()
        for key in answers:
            index.add(key)
        assert {key for key, recorded in answers.items() if True in recorded} <= set(index.find(old, new)), (
            registration.event.label
        )
        for key in answers:
            index.remove(key)
        assert not list(index.find(old, new))
