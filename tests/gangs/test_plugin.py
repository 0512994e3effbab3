"""GangScheduling holds pods back with kube-scheduler's texts, and registers its events, in each release."""

from __future__ import annotations

import pytest

from kscheduler.api.objects import ObjectMeta
from kscheduler.api.pod_groups import GangPolicy, PodGroup, PodGroupPolicy, PodGroupSpec
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.framework.events import ClusterEvent
from kscheduler.framework.status import Code
from kscheduler.gangs.doors import KUBERNETES_DOOR, Doors, gang_of_pod_group
from kscheduler.gangs.plugin import GangScheduling
from kscheduler.gangs.registry import Registry, Stage
from kscheduler.gangs.rules import upstream_rules
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import make_pod

BOTH = pytest.mark.parametrize("release", [RELEASE_1_36, RELEASE_1_37])
DOORS = Doors([KUBERNETES_DOOR])


def grouped(name: str, group: str = "train", namespace: str = "default") -> PodInfo:
    return PodInfo(make_pod(name, namespace).scheduling_group(group).obj())


def group(name: str = "train", least: int | None = 2, namespace: str = "default") -> PodGroup:
    policy = PodGroupPolicy(gang=None if least is None else GangPolicy(least))
    return PodGroup(ObjectMeta(name=name, namespace=namespace), PodGroupSpec(scheduling_policy=policy))


def plugin(release: Release, *pods: PodInfo, objects: tuple[PodGroup, ...] = ()) -> GangScheduling:
    registry = Registry(DOORS, upstream_rules(release))
    for each in pods:
        registry.set_member(each.pod, Stage.QUEUED)
    for each_object in objects:
        registry.set_gang(gang_of_pod_group(each_object))
    return GangScheduling(registry, DOORS.key_of, release)


@BOTH
def test_a_pod_without_a_group_is_let_through(release: Release) -> None:
    assert plugin(release).pre_enqueue(PodInfo(make_pod("a").obj())) is None


@BOTH
def test_a_pod_waits_for_the_object_of_its_group(release: Release) -> None:
    for gang_scheduling in (plugin(release), plugin(release, grouped("a"))):
        status = gang_scheduling.pre_enqueue(grouped("a"))
        assert status is not None
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert status.plugin == "GangScheduling"
        assert status.message == 'waiting for pods\'s pod group "train" to appear in scheduling queue'


@BOTH
def test_a_pod_waits_for_the_minimum_of_its_group(release: Release) -> None:
    status = plugin(release, grouped("a"), objects=(group(),)).pre_enqueue(grouped("a"))
    assert status is not None
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == "waiting for minCount pods from a gang to appear in scheduling queue"


@BOTH
def test_with_enough_pods_all_are_let_through(release: Release) -> None:
    gang_scheduling = plugin(release, grouped("a"), grouped("b"), objects=(group(),))
    assert gang_scheduling.pre_enqueue(grouped("a")) is None
    assert gang_scheduling.pre_enqueue(grouped("b")) is None


@BOTH
def test_a_group_of_that_name_in_another_namespace_is_another_one(release: Release) -> None:
    gang_scheduling = plugin(release, grouped("a"), grouped("b", namespace="other"), objects=(group(),))
    assert gang_scheduling.pre_enqueue(grouped("a")) is not None
    assert gang_scheduling.pre_enqueue(grouped("b", namespace="other")) is not None


def labels(gang_scheduling: GangScheduling) -> list[str]:
    return [registration.event.label for registration in gang_scheduling.events_to_register()]


def test_the_events_are_those_of_the_release() -> None:
    assert labels(plugin(RELEASE_1_36)) == ["PodAdd", "scheduling.k8s.io/PodGroupAdd"]
    assert labels(plugin(RELEASE_1_37)) == [
        "UnscheduledPodAdd",
        "AssignedPodAdd",
        "scheduling.k8s.io/PodGroupAdd",
        "scheduling.k8s.io/PodGroupUpdate",
    ]


def hint(event: str, new: object, old: object = None, release: Release = RELEASE_1_37) -> bool:
    waiting = grouped("a").pod
    for registration in plugin(release).events_to_register():
        if registration.event.label == event:
            assert isinstance(registration.event, ClusterEvent)
            assert registration.hint is not None
            return registration.hint(waiting, old, new)
    raise AssertionError(f"{event} is not registered")


@pytest.mark.parametrize(
    ("event", "new", "expected"),
    [
        ("UnscheduledPodAdd", grouped("b").pod, True),
        ("AssignedPodAdd", grouped("b").pod, True),
        ("UnscheduledPodAdd", grouped("b", "serve").pod, False),
        ("UnscheduledPodAdd", grouped("b", namespace="other").pod, False),
        ("UnscheduledPodAdd", make_pod("b").obj(), False),
        ("scheduling.k8s.io/PodGroupAdd", group(), True),
        ("scheduling.k8s.io/PodGroupAdd", group("serve"), False),
        ("scheduling.k8s.io/PodGroupAdd", group(namespace="other"), False),
    ],
)
def test_only_what_concerns_its_group_wakes_a_pod(event: str, new: object, expected: bool) -> None:
    assert hint(event, new) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (group(least=3), group(least=2), True),
        (group(least=2), group(least=2), False),
        (group(least=2), group(least=3), False),
        (group(least=None), group(least=2), False),
        (group("serve", 3), group("serve", 2), False),
    ],
)
def test_a_changed_group_wakes_its_pods_only_if_its_minimum_sinks(old: PodGroup, new: PodGroup, expected: bool) -> None:
    assert hint("scheduling.k8s.io/PodGroupUpdate", new, old) is expected
