"""A pod names its gang by the marks of open doors only; objects become gangs, or are refused with the field's name."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import ObjectMeta, PodSchedulingGroup
from kscheduler.api.pod_groups import (
    POD_GROUP_LABEL,
    CompositeGangPolicy,
    CompositePodGroup,
    CompositePodGroupPolicy,
    CompositePodGroupSpec,
    CoschedulingPodGroup,
    CoschedulingPodGroupSpec,
    DisruptionMode,
    Empty,
    GangPolicy,
    PodGroup,
    PodGroupConstraints,
    PodGroupPolicy,
    PodGroupSpec,
    TopologyConstraint,
)
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37
from kscheduler.errors import DecodeError
from kscheduler.gangs.doors import (
    COMPOSITE_DOOR,
    COSCHEDULING_DOOR,
    KUBERNETES_DOOR,
    Doors,
    gang_of_composite,
    gang_of_coscheduling,
    gang_of_pod_group,
    open_doors,
)
from kscheduler.gangs.gang import Disruption, Gang, GangKey, Topology
from kscheduler.testing.wrappers import make_pod

META = ObjectMeta(name="train", namespace="ml", uid="u1", generation=3, creation_timestamp="2026-01-01T00:00:00Z")
GANG = PodGroupPolicy(gang=GangPolicy(4))
BOTH = Doors([KUBERNETES_DOOR, COSCHEDULING_DOOR])

BY_FIELD = make_pod("a", "ml").scheduling_group("train").obj()
BY_LABEL = make_pod("a", "ml").label(POD_GROUP_LABEL, "train").obj()
BY_BOTH = make_pod("a", "ml").scheduling_group("train").label(POD_GROUP_LABEL, "other").obj()


def of_kubernetes(**spec: object) -> Gang:
    return gang_of_pod_group(PodGroup(META, PodGroupSpec(**{"scheduling_policy": GANG, **spec})))  # type: ignore[arg-type]


def of_coscheduling(**spec: object) -> Gang:
    return gang_of_coscheduling(CoschedulingPodGroup(META, CoschedulingPodGroupSpec(**spec)))  # type: ignore[arg-type]


def test_each_door_reads_its_own_mark() -> None:
    assert BOTH.key_of(BY_FIELD) == GangKey("scheduling.k8s.io", "ml", "train")
    assert BOTH.key_of(BY_LABEL) == GangKey("scheduling.x-k8s.io", "ml", "train")
    assert BOTH.key_of(make_pod("a").label(app="web").obj()) is None
    assert BOTH.key_of(make_pod("a").obj()) is None


def test_the_mark_of_a_closed_door_is_ignored() -> None:
    assert Doors([COSCHEDULING_DOOR]).key_of(BY_FIELD) is None
    assert Doors([KUBERNETES_DOOR]).key_of(BY_LABEL) is None
    assert Doors([KUBERNETES_DOOR]).apis_of(BY_BOTH) == ["scheduling.k8s.io"]


def test_the_door_of_kubernetes_opens_by_the_feature_gates_of_the_release() -> None:
    off = open_doors(RELEASE_1_37, has_coscheduling=False)
    on = open_doors(RELEASE_1_37.with_gates({"GenericWorkload": True}), has_coscheduling=True)
    half = open_doors(RELEASE_1_36.with_gates({"GenericWorkload": True}), has_coscheduling=False)
    both = {"GenericWorkload": True, "GangScheduling": True}
    assert off == []
    assert on == [KUBERNETES_DOOR, COSCHEDULING_DOOR]
    assert half == []
    assert open_doors(RELEASE_1_36.with_gates(both), has_coscheduling=False) == [KUBERNETES_DOOR]


def test_composite_groups_come_with_two_more_gates_unless_coscheduling_is_enabled() -> None:
    gates = {"GenericWorkload": True, "CompositePodGroup": True}
    without = RELEASE_1_37.with_gates(gates)
    with_both = RELEASE_1_37.with_gates({**gates, "TopologyAwareWorkloadScheduling": True})
    assert open_doors(without, has_coscheduling=False) == [KUBERNETES_DOOR]
    assert open_doors(with_both, has_coscheduling=False) == [KUBERNETES_DOOR, COMPOSITE_DOOR]
    assert open_doors(with_both, has_coscheduling=True) == [KUBERNETES_DOOR, COSCHEDULING_DOOR]


def test_a_composite_group_becomes_a_gang_of_groups() -> None:
    spec = CompositePodGroupSpec(
        parent_composite_pod_group_name="all",
        scheduling_policy=CompositePodGroupPolicy(gang=CompositeGangPolicy(2)),
        disruption_mode=DisruptionMode(all=Empty()),
        priority=7,
    )
    gang = gang_of_composite(CompositePodGroup(META, spec))
    assert (gang.min_members, gang.priority, gang.disruption) == (2, 7, Disruption.ALL)
    assert gang.is_composite
    assert str(gang.parent_key) == f"{META.namespace}/all"
    policy = CompositePodGroupPolicy(gang=CompositeGangPolicy(0))
    with pytest.raises(DecodeError, match="minGroupCount: expected a number from 1 to"):
        gang_of_composite(CompositePodGroup(META, CompositePodGroupSpec(scheduling_policy=policy)))
    with pytest.raises(DecodeError, match="expected exactly one of"):
        gang_of_composite(CompositePodGroup(META, CompositePodGroupSpec()))


def test_a_composite_group_without_a_minimum_is_basic() -> None:
    policy = CompositePodGroupPolicy(basic=Empty())
    gang = gang_of_composite(CompositePodGroup(META, CompositePodGroupSpec(scheduling_policy=policy)))
    assert (gang.is_basic, gang.min_members) == (True, 1)


@pytest.mark.parametrize(("policy", "preempts"), [(None, None), ("Never", False), ("PreemptLowerPriority", True)])
def test_whether_a_group_preempts_is_open_unless_it_says_so(policy: str | None, preempts: bool | None) -> None:
    assert of_kubernetes(preemption_policy=policy).preempts is preempts


def test_a_pod_with_an_empty_mark_names_no_gang() -> None:
    assert BOTH.key_of(make_pod("a").label(POD_GROUP_LABEL, "").obj()) is None
    pod = make_pod("a").obj()
    assert BOTH.key_of(replace(pod, spec=replace(pod.spec, scheduling_group=PodSchedulingGroup()))) is None


def test_a_pod_may_be_marked_for_two_open_doors_and_all_of_them_are_named() -> None:
    assert BOTH.apis_of(BY_BOTH) == ["scheduling.k8s.io", "scheduling.x-k8s.io"]
    assert BOTH.key_of(BY_BOTH) == GangKey("scheduling.k8s.io", "ml", "train")


def test_a_group_of_kubernetes_becomes_a_gang() -> None:
    gang = of_kubernetes(
        priority=7,
        preemption_policy="Never",
        scheduling_constraints=PodGroupConstraints([TopologyConstraint("rack")]),
        disruption_mode=DisruptionMode(all=Empty()),
        parent_composite_pod_group_name="job",
    )
    assert gang == Gang(
        key=GangKey("scheduling.k8s.io", "ml", "train"),
        uid="u1",
        min_members=4,
        priority=7,
        preempts=False,
        created="2026-01-01T00:00:00Z",
        generation=3,
        topology=Topology("rack"),
        disruption=Disruption.ALL,
        parent="job",
    )


def test_a_basic_group_has_a_minimum_of_one() -> None:
    gang = of_kubernetes(scheduling_policy=PodGroupPolicy(basic=Empty()))
    assert gang.is_basic
    assert gang.min_members == 1
    assert gang.priority == 0, "without a priority of its own a group of Kubernetes has 0"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (None, Disruption.SINGLE),
        ("Pod", Disruption.SINGLE),
        ("PodGroup", Disruption.ALL),
        (DisruptionMode(single=Empty()), Disruption.SINGLE),
        (DisruptionMode(all=Empty()), Disruption.ALL),
    ],
)
def test_the_disruption_mode_of_both_releases_is_read(mode: object, expected: Disruption) -> None:
    assert of_kubernetes(disruption_mode=mode).disruption is expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"scheduling_policy": PodGroupPolicy()}, r'spec.schedulingPolicy: expected exactly one of "basic" or "gang"'),
        ({"scheduling_policy": PodGroupPolicy(Empty(), GangPolicy(1))}, "got both"),
        ({"scheduling_policy": PodGroupPolicy(gang=GangPolicy(0))}, r"minCount: expected a number from 1 .*, got 0"),
        ({"scheduling_policy": PodGroupPolicy(gang=GangPolicy(1 << 40))}, r"gang.minCount: .*, got 1099511627776"),
        ({"disruption_mode": "Node"}, r'spec.disruptionMode: expected "Pod" or "PodGroup", got "Node"'),
        ({"disruption_mode": DisruptionMode()}, r"spec.disruptionMode: .*got neither"),
        (
            {"scheduling_constraints": PodGroupConstraints([TopologyConstraint("a"), TopologyConstraint("b")])},
            "topology: expected at most 1 constraint, got 2",
        ),
        ({"scheduling_constraints": PodGroupConstraints([TopologyConstraint()])}, "expected the key of a node label"),
    ],
)
def test_a_group_of_kubernetes_that_makes_no_sense_is_refused(spec: dict[str, object], expected: str) -> None:
    with pytest.raises(DecodeError, match=expected):
        of_kubernetes(**spec)


def test_a_group_of_coscheduling_becomes_a_gang() -> None:
    gang = of_coscheduling(min_member=3, schedule_timeout_seconds=10, min_resources={"cpu": "1500m", "memory": "1Ki"})
    assert gang == Gang(
        key=GangKey("scheduling.x-k8s.io", "ml", "train"),
        uid="u1",
        min_members=3,
        created="2026-01-01T00:00:00Z",
        generation=3,
        timeout_s=10.0,
        min_resources={"cpu": 1500, "memory": 1024_000},
    )


def test_without_a_minimum_a_group_of_coscheduling_is_one_by_name_only() -> None:
    gang = of_coscheduling()
    assert gang.is_basic
    assert gang.min_members == 1
    assert of_coscheduling(min_member=1, schedule_timeout_seconds=0).timeout_s is None


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"min_member": -1}, r"spec.minMember: expected a number from 0 to 2147483647, got -1"),
        ({"min_member": 1, "schedule_timeout_seconds": -5}, r"spec.scheduleTimeoutSeconds: .*got -5"),
        ({"min_member": 1, "min_resources": {"cpu": "lots"}}, r'spec.minResources.cpu: expected a quantity.*"lots"'),
        ({"min_member": 1, "min_resources": {"cpu": "-1"}}, r"spec.minResources.cpu: expected .* at least 0, got -1"),
    ],
)
def test_a_group_of_coscheduling_that_makes_no_sense_is_refused(spec: dict[str, object], expected: str) -> None:
    with pytest.raises(DecodeError, match=expected):
        of_coscheduling(**spec)


def test_annotations_of_a_group_of_coscheduling_ask_for_a_topology() -> None:
    def topology(**annotations: str) -> Topology | None:
        named = {f"kscheduler.io/topology-{name}": value for name, value in annotations.items()}
        return gang_of_coscheduling(CoschedulingPodGroup(replace(META, annotations=named))).topology

    assert topology() is None
    assert topology(required="zone") == Topology("zone")
    assert topology(preferred="example.com/rack, zone") == Topology("", ("example.com/rack", "zone"))


@pytest.mark.parametrize(
    ("topology", "narrower", "keys"),
    [
        (Topology("zone"), (), {"zone": ("zone",)}),
        (Topology("", ("rack", "zone")), ("rack", "zone"), {"rack": ("zone", "rack"), "zone": ("zone",)}),
        (Topology("zone", ("rack",)), ("rack",), {"rack": ("zone", "rack"), "zone": ("zone",)}),
        (Topology("block", ("rack", "block", "zone")), ("rack",), {"block": ("zone", "block")}),
        (Topology("rack", ("rack", "zone")), (), {"rack": ("zone", "rack")}),
    ],
)
def test_labels_of_a_topology_are_a_tree(
    topology: Topology, narrower: tuple[str, ...], keys: dict[str, tuple[str, ...]]
) -> None:
    assert topology.narrower() == narrower
    assert {key: topology.domain_keys(key) for key in keys} == keys
