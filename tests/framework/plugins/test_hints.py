"""What the plugins that look at a node or at the pod alone register, and whom their hints wake."""

from __future__ import annotations

import random

import msgspec
import pytest

from kscheduler.api.labels import NODE_NAME_FIELD, compile_required_node_affinity
from kscheduler.api.node_change import NodeChange
from kscheduler.api.objects import NodeAffinity as AffinityTerms
from kscheduler.api.objects import NodeSelector, NodeSelectorTerm, SelectorRequirement
from kscheduler.cache.cache import Cache
from kscheduler.config.load import default_config
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    Action,
    ClusterEvent,
    EventResource,
    complete_registrations,
    matches,
    node_events,
    pod_events,
)
from kscheduler.framework.interface import EnqueueExtensions, Handle
from kscheduler.framework.plugins.nodeaffinity import NodeAffinity, compile_added_affinity
from kscheduler.framework.plugins.nodedeclaredfeatures import NodeDeclaredFeatures
from kscheduler.framework.plugins.nodename import NodeName
from kscheduler.framework.plugins.nodeports import NodePorts
from kscheduler.framework.plugins.nodeunschedulable import NodeUnschedulable
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.plugins.schedulinggates import SchedulingGates
from kscheduler.framework.plugins.tainttoleration import TaintToleration
from kscheduler.framework.runtime import Framework
from kscheduler.observability.measurements import Measurements
from kscheduler.testing import NodeBuilder, PodBuilder, make_node, make_pod

CORDON = "node.kubernetes.io/unschedulable"
P = make_pod("p").uid("p")
OTHER = make_pod("other").uid("other").node("n1")
N = make_node("n1")


HANDLE = Handle(table=Cache().table, rng=random.Random(0))
AFFINITY = NodeAffinity(HANDLE)
UNSCHEDULABLE = NodeUnschedulable(HANDLE)
TOLERATION = TaintToleration(HANDLE)
PORTS = NodePorts(HANDLE)


def wakes(plugin: EnqueueExtensions, waiting: PodBuilder, event: ClusterEvent, old: object, new: object) -> bool:
    """Does one of the plugin's registrations for the event want the pod?"""
    return any(
        registration.hint is None or registration.hint(waiting.obj(), old, new)
        for registration in complete_registrations(plugin.events_to_register())
        if matches(registration.event, event)
    )


def nodes(plugin: EnqueueExtensions, old: NodeBuilder | None, new: NodeBuilder, waiting: PodBuilder = P) -> bool:
    if old is None:
        return wakes(plugin, waiting, NODE_ADD, None, new.obj())
    return any(
        wakes(plugin, waiting, event, old.obj(), new.obj())
        for event in node_events(NodeChange.between(old.obj(), new.obj()))
    )


def pods(plugin: EnqueueExtensions, old: PodBuilder, new: PodBuilder | None, waiting: PodBuilder = P) -> bool:
    if new is None:
        return wakes(plugin, waiting, ASSIGNED_POD_DELETE, old.obj(), None)
    return any(wakes(plugin, waiting, event, old.obj(), new.obj()) for event in pod_events(old.obj(), new.obj()))


SPREAD_NODES = "NodeAdd|Delete|UpdateNodeLabel|UpdateNodeTaint"
CLASSES = ClusterEvent(EventResource.DEVICE_CLASS, Action.ADD | Action.UPDATE).label
SLICES = ClusterEvent(EventResource.RESOURCE_SLICE, Action.ADD | Action.UPDATE).label
CLAIMS = ClusterEvent(EventResource.RESOURCE_CLAIM, Action.ADD | Action.UPDATE).label
CLAIMS_1_37 = ClusterEvent(EventResource.RESOURCE_CLAIM, Action.ADD | Action.UPDATE | Action.DELETE).label
REGISTERED_1_36 = {
    "DynamicResources": "NodeAdd|UpdateNodeAllocatable|UpdateNodeLabel "
    f"{CLAIMS} PodUpdatePodGeneratedResourceClaim {CLASSES} {SLICES} NodeUpdateNodeTaint",
    "SchedulingGates": "PodUpdatePodSchedulingGatesEliminated",
    "NodeUnschedulable": "NodeAdd|UpdateNodeTaint PodUpdatePodToleration",
    "NodeName": "NodeAdd NodeUpdateNodeTaint",
    "TaintToleration": "NodeAdd|UpdateNodeTaint PodUpdatePodToleration",
    "NodeAffinity": "NodeAdd|UpdateNodeLabel NodeUpdateNodeTaint",
    "NodePorts": "PodDelete NodeAdd NodeUpdateNodeTaint",
    "NodeResourcesFit": f"PodDelete|UpdatePodScaleDown NodeAdd|UpdateNodeAllocatable {CLASSES} NodeUpdateNodeTaint",
    "PodTopologySpread": f"PodAdd|Delete|UpdatePodLabel|UpdatePodToleration {SPREAD_NODES}",
    "InterPodAffinity": "PodAdd|Delete|UpdatePodLabel NodeAdd|UpdateNodeLabel NodeUpdateNodeTaint",
    "VolumeRestrictions": "PodDelete NodeAdd PersistentVolumeClaimAdd NodeUpdateNodeTaint",
    "DefaultPreemption": "PodDelete",
    "NodeDeclaredFeatures": "NodeAdd|UpdateNodeDeclaredFeature PodUpdate NodeUpdateNodeTaint",
}
REGISTERED_1_37 = {
    "DynamicResources": "NodeAdd|UpdateNodeAllocatable|UpdateNodeLabel "
    f"{CLAIMS_1_37} TargetPodUpdatePodGeneratedResourceClaim {CLASSES} {SLICES}",
    "SchedulingGates": "TargetPodUpdatePodSchedulingGatesEliminated",
    "NodeUnschedulable": "NodeAdd|UpdateNodeTaint TargetPodUpdatePodToleration",
    "NodeName": "NodeAdd",
    "TaintToleration": "NodeAdd|UpdateNodeTaint TargetPodUpdatePodToleration",
    "NodeAffinity": "NodeAdd|UpdateNodeLabel",
    "NodePorts": "AssignedPodDelete NodeAdd",
    "NodeResourcesFit": "AssignedPodDelete AssignedPodUpdatePodScaleDown TargetPodUpdatePodScaleDown "
    f"NodeAdd|UpdateNodeAllocatable {CLASSES}",
    "PodTopologySpread": "AssignedPodAdd|Delete|UpdatePodLabel TargetPodUpdatePodLabel|UpdatePodToleration "
    f"{SPREAD_NODES}",
    "InterPodAffinity": "AssignedPodAdd|Delete|UpdatePodLabel TargetPodUpdatePodLabel NodeAdd|UpdateNodeLabel",
    "VolumeRestrictions": "AssignedPodDelete NodeAdd PersistentVolumeClaimAdd",
    "DefaultPreemption": "AssignedPodDelete",
    "NodeDeclaredFeatures": "NodeAdd|UpdateNodeDeclaredFeature TargetPodUpdate",
}


@pytest.mark.parametrize(
    ("release", "expected"),
    [(RELEASE_1_36, REGISTERED_1_36), (RELEASE_1_37, REGISTERED_1_37)],
    ids=["1.36", "1.37"],
)
def test_every_plugin_registers_what_kube_scheduler_does(release: Release, expected: dict[str, str]) -> None:
    handle = Handle(table=Cache().table, rng=random.Random(0), release=release)
    points = build(default_config(release).profiles[0], handle)
    framework = Framework("default-scheduler", points, handle, observer=Measurements(), stopwatch=lambda: 0.0)
    found = {
        plugin: " ".join(each.event.label for each in complete_registrations(registrations, release))
        for plugin, registrations in framework.events_by_plugin().items()
        if plugin in expected
    }
    assert found == expected


# --- node name, cordons, taints -------------------------------------------------------------------------------------


def test_any_new_node_may_be_the_one_that_is_named() -> None:
    assert nodes(NodeName(), None, N)
    assert nodes(NodeName(), N, N.taint("a"))  # as for all who wait for new nodes
    assert not nodes(NodeName(), N, N.label(zone="a"))


def test_a_node_that_is_not_cordoned_or_no_longer() -> None:
    assert nodes(UNSCHEDULABLE, None, N)
    assert not nodes(UNSCHEDULABLE, None, N.unschedulable())
    assert nodes(UNSCHEDULABLE, N.unschedulable(), N)
    assert not nodes(UNSCHEDULABLE, N.taint("a"), N)


def test_a_toleration_of_cordons_of_the_pods_own() -> None:
    tolerant = P.toleration(CORDON, "Exists")
    assert pods(UNSCHEDULABLE, P, tolerant)
    assert not pods(UNSCHEDULABLE, P, P.toleration("other", "Exists"))
    assert not pods(UNSCHEDULABLE, OTHER, OTHER.toleration(CORDON, "Exists"))


def test_a_node_whose_taints_are_tolerated_now() -> None:
    tolerant = P.toleration("a", "Exists")
    assert nodes(TOLERATION, None, N)
    assert not nodes(TOLERATION, None, N.taint("a"))
    assert nodes(TOLERATION, None, N.taint("a"), tolerant)
    assert nodes(TOLERATION, N.taint("a").taint("b"), N.taint("a"), tolerant)
    assert not nodes(TOLERATION, N.taint("a"), N, tolerant)  # was tolerated before
    assert not nodes(TOLERATION, N.taint("b", "", "PreferNoSchedule"), N)


def test_a_toleration_of_the_pods_own_whatever_it_tolerates() -> None:
    assert pods(TOLERATION, P, P.toleration("a", "Exists"))
    assert not pods(TOLERATION, OTHER, OTHER.toleration("a", "Exists"))


# --- affinity, ports, features, gates -------------------------------------------------------------------------------


def test_a_node_that_the_pod_may_go_to_and_might_not_before() -> None:
    waiting = P.node_selector(zone="a")
    assert nodes(AFFINITY, None, N.label(zone="a"), waiting)
    assert not nodes(AFFINITY, None, N.label(zone="b"), waiting)
    assert nodes(AFFINITY, N, N.label(zone="a"), waiting)
    assert not nodes(AFFINITY, N.label(zone="a"), N.label(zone="a", disk="ssd"), waiting)


def test_a_node_that_matches_the_profile_only_now() -> None:
    term = NodeSelectorTerm(match_expressions=[SelectorRequirement("disk", "In", ["ssd"])])
    terms = AffinityTerms(required_during_scheduling_ignored_during_execution=NodeSelector([term]))
    added = NodeAffinity(HANDLE, compile_added_affinity(terms))
    assert not nodes(added, None, N)
    assert nodes(added, None, N.label(disk="ssd"))
    assert nodes(added, N.label(zone="a"), N.label(zone="a", disk="ssd"), P.node_selector(zone="a"))


def test_waiting_pods_are_found_by_a_label_or_name_that_their_node_must_have() -> None:
    (registration,) = (registration for registration in AFFINITY.events_to_register())
    assert registration.grouping is not None
    assert registration.grouping.index is not None
    index = registration.grouping.index()
    pods = {
        "zone": P.node_selector(zone="a", os="linux"),
        "named": P.node_names("n7"),
        "either": P.node_affinity("disk", "In", ["ssd", "hdd"]),
        "not": P.node_affinity("disk", "NotIn", ["ssd"]),
    }
    keys = {name: compile_required_node_affinity(pod.obj()) for name, pod in pods.items()}
    for key in keys.values():
        index.add(key)
    names = {key: name for name, key in keys.items()}

    def found(node: NodeBuilder) -> set[str]:
        return {names[key] for key in index.find(None, node.obj())}  # type: ignore[index]

    assert found(N) == {"not"}
    assert found(N.label(disk="hdd")) == {"not", "either"}
    assert found(make_node("n7")) == {"not", "named"}
    assert found(N.label(zone="a", os="linux")) == {"not", "zone"}
    assert NODE_NAME_FIELD == "metadata.name"


def test_a_pod_that_leaves_a_port_that_is_wanted() -> None:
    waiting = P.host_port(80)
    assert pods(PORTS, OTHER.host_port(80), None, waiting)
    assert not pods(PORTS, OTHER.host_port(80, "UDP"), None, waiting)
    assert not pods(PORTS, OTHER.host_port(80, host_ip="10.0.0.1"), None, P.host_port(80, host_ip="10.0.0.2"))
    assert not pods(PORTS, OTHER, None, waiting)
    assert nodes(PORTS, None, N, waiting)
    assert not wakes(PORTS, waiting, ASSIGNED_POD_ADD, None, OTHER.obj())


def test_a_node_that_declares_other_features() -> None:
    features = NodeDeclaredFeatures(HANDLE)
    assert nodes(features, None, N)
    assert nodes(features, N, N.declared_feature("A"))
    assert not nodes(features, N.declared_feature("A"), N.declared_feature("A").label(zone="a"))


def test_a_pod_that_needs_other_features_now() -> None:
    features = NodeDeclaredFeatures(HANDLE)
    needy = needing_user_namespaces(P)
    assert pods(features, needy, P)
    assert not pods(features, P, P.host_network())  # needs none either way
    assert not pods(features, needing_user_namespaces(OTHER), OTHER)


def needing_user_namespaces(pod: PodBuilder) -> PodBuilder:
    made = pod.host_network().obj()
    return PodBuilder(msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, host_users=False)))


def test_the_pods_own_gates_are_gone() -> None:
    gates = SchedulingGates()
    assert pods(gates, P.scheduling_gate("a"), P)
    assert not pods(gates, OTHER.scheduling_gate("a"), OTHER)
    assert not pods(gates, P.scheduling_gate("a").scheduling_gate("b"), P.scheduling_gate("a"))
