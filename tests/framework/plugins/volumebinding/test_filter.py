"""Where a pod may go because of its volumes; each case is judged by both forms."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscheduler.api.objects import (
    AWSElasticBlockStore,
    AzureDisk,
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    SelectorRequirement,
)
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.framework.events import Action, EventResource
from kscheduler.framework.faults import CycleFault
from kscheduler.framework.plugins.volumebinding import obstacles
from kscheduler.framework.status import Code, Status
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.volumes import Volumes
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.framework.plugins.volumebinding.both_forms import Judge
from tests.framework.plugins.volumebinding.objects import (
    HOSTNAME,
    make_capacity,
    make_claim,
    make_class,
    make_csi_node,
    make_driver,
    make_volume,
    pod_with,
    refer_to,
)

NODES = [
    make_node("a1").label(zone="a", rack="r1"),
    make_node("a2").label(zone="a", rack="r2"),
    make_node("b1").label(zone="b", rack="r3"),
]
CSI = "csi.example.com"
P = pod_with("c")
NODE_CONFLICT, BIND_CONFLICT = obstacles.NODE_CONFLICT_REASON, obstacles.BIND_CONFLICT_REASON
NO_SPACE, MISSING = obstacles.NOT_ENOUGH_SPACE_REASON, obstacles.VOLUME_MISSING_REASON


def judge(fill: Callable[[Volumes], None], pod: PodBuilder = P) -> dict[str, Status | None]:
    """Node name -> status, after both forms agreed."""
    judged = Judge(NODES)
    fill(judged.volumes)
    return judged.filter(pod)


def reasons(fill: Callable[[Volumes], None], pod: PodBuilder = P) -> dict[str, tuple[str, ...]]:
    """Node name -> reasons, () where the pod may go."""
    found = judge(fill, pod)
    assert {status.code for status in found.values() if status} <= {Code.UNSCHEDULABLE_AND_UNRESOLVABLE}
    return {name: status.reasons if status else () for name, status in found.items()}


def feasible(fill: Callable[[Volumes], None], pod: PodBuilder = P) -> list[str]:
    return [name for name, status in judge(fill, pod).items() if status is None]


def static(claim: PersistentVolumeClaim, *volumes: PersistentVolume) -> Callable[[Volumes], None]:
    """A claim of a class that makes no volumes, and the volumes there are."""

    def fill(known: Volumes) -> None:
        known.set_storage_class(make_class())
        known.set_claim(claim)
        for volume in volumes:
            known.set_volume(volume)

    return fill


# --- volumes that are bound ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        (make_volume("v"), ["a1", "a2", "b1"]),
        (make_volume("v", on={"zone": ["a"]}), ["a1", "a2"]),
        (make_volume("v", on={HOSTNAME: ["b1"]}), ["b1"]),
        (make_volume("v", on={HOSTNAME: ["a1", "b1"], "zone": ["a"]}), ["a1"]),
        (make_volume("v", on={"rack": ["r2"]}), ["a2"]),
        (make_volume("v", on={"zone": ["c"]}), []),
        (make_volume("v", on={HOSTNAME: ["elsewhere"]}), []),
        (make_volume("v", on={}), []),  # a term without requirements matches nothing
    ],
)
def test_a_bound_volume_must_be_accessible(volume: PersistentVolume, expected: list[str]) -> None:
    found = reasons(static(make_claim("c", volume="v"), volume))
    assert [name for name, why in found.items() if not why] == expected
    assert {why for why in found.values() if why} <= {(NODE_CONFLICT,)}


@pytest.mark.parametrize(
    ("labels", "names", "expected"),
    [
        ([], ["a1"], ["a1", "a2", "b1"]),
        ([SelectorRequirement("zone", "In", ["b"])], ["a1"], ["b1"]),
        ([], ["a1", "a2"], []),  # a name must be one: the term cannot be read, and matches nothing
    ],
)
def test_a_volume_cannot_tie_itself_to_a_nodes_name(
    labels: list[SelectorRequirement], names: list[str], expected: list[str]
) -> None:
    term = NodeSelectorTerm(labels, [SelectorRequirement("metadata.name", "In", names)])
    found = reasons(static(make_claim("c", volume="v"), make_volume("v", affinity=NodeSelector([term]))))
    assert [name for name, why in found.items() if not why] == expected


def test_a_volume_that_is_gone_fits_no_node() -> None:
    assert set(reasons(static(make_claim("c", volume="v"))).values()) == {(MISSING,)}


def test_the_first_of_several_bound_volumes_that_is_wrong_is_reported() -> None:
    def fill(known: Volumes) -> None:
        known.set_claim(make_claim("near", volume="near"))
        known.set_claim(make_claim("lost", volume="lost"))
        known.set_volume(make_volume("near", on={"zone": ["a"]}))

    assert reasons(fill, pod_with("near", "lost")) == {"a1": (MISSING,), "a2": (MISSING,), "b1": (NODE_CONFLICT,)}
    assert set(reasons(fill, pod_with("lost", "near")).values()) == {(MISSING,)}


def test_an_in_tree_volume_is_reached_by_the_drivers_label_where_it_is_migrated() -> None:
    nodes = [
        make_node("old").label("topology.kubernetes.io/zone", "z1"),
        make_node("new").label("topology.ebs.csi.aws.com/zone", "z1"),
        make_node("both").label("topology.kubernetes.io/zone", "z1"),
    ]
    judged = Judge(nodes)
    known = judged.volumes
    known.set_claim(make_claim("c", volume="v"))
    disk = AWSElasticBlockStore(volume_id="vol-1")
    known.set_volume(make_volume("v", on={"topology.kubernetes.io/zone": ["z1"]}, aws_elastic_block_store=disk))
    known.set_csi_node(make_csi_node("new", "kubernetes.io/aws-ebs"))
    known.set_csi_node(make_csi_node("both", "kubernetes.io/gce-pd", "kubernetes.io/aws-ebs"))
    assert [name for name, status in judged.filter(P).items() if status is None] == ["old", "new"]


def test_an_in_tree_volume_that_no_driver_can_have_ends_the_cycle() -> None:
    judged = Judge(NODES)
    judged.volumes.set_claim(make_claim("c", volume="v"))
    judged.volumes.set_volume(make_volume("v", azure_disk=AzureDisk(kind="Shared")))
    judged.volumes.set_csi_node(make_csi_node("a2", "kubernetes.io/azure-disk"))
    judged.pre_filter(P)
    info, node = PodInfo(P.obj()), judged.cache.table.get("a2")
    assert node is not None
    status = judged.plugin.filter(judged.state, info, node)
    assert status is not None
    assert status.code is Code.ERROR
    assert status.message == "could not translate pv: kind(Shared) is not supported in csi migration"
    with pytest.raises(CycleFault, match=r'^running "VolumeBinding" filter plugin: could not translate pv'):
        judged.filter_table(info)


# --- existing volumes for unbound claims --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "volume",
    [
        make_volume("v", size="512Mi"),
        make_volume("v", size="nonsense"),
        make_volume("v", "other"),
        make_volume("v", modes=["ReadOnlyMany"]),
        make_volume("v", mode="Block"),
        make_volume("v", attributes_class="gold"),
        make_volume("v", phase="Released"),
        make_volume("v", deleted=True),
        make_volume("v", claim="another"),
        make_volume("v", claim=refer_to("c", uid="of-one-that-had-the-name")),
    ],
)
def test_a_volume_that_does_not_suit_the_claim_is_not_taken(volume: PersistentVolume) -> None:
    assert set(reasons(static(make_claim("c"), volume)).values()) == {(BIND_CONFLICT,)}


@pytest.mark.parametrize(
    ("claim", "volume"),
    [
        (make_claim("c"), make_volume("v", size="1Ti")),
        (make_claim("c", size=None), make_volume("v", size="1")),
        (make_claim("c"), make_volume("v", mode="Filesystem")),
        (make_claim("c", mode="Block"), make_volume("v", mode="Block")),
        (make_claim("c", attributes_class="gold"), make_volume("v", attributes_class="gold")),
        (make_claim("c"), make_volume("v", modes=["ReadWriteMany", "ReadWriteOnce"])),
        (make_claim("c", selector=LabelSelector({"tier": "1"})), make_volume("v", labels={"tier": "1"})),
        (make_claim("c"), make_volume("v", claim="c")),
        (make_claim("c"), make_volume("v", claim=refer_to("c", uid=""))),
        # What is reserved for the claim need not be available, nor match its selector.
        (
            make_claim("c", selector=LabelSelector({"tier": "1"})),
            make_volume("v", claim="c", phase="Pending", modes=[]),
        ),
    ],
)
def test_a_volume_that_suits_the_claim_is_taken(claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
    assert feasible(static(claim, volume)) == ["a1", "a2", "b1"]


def test_a_selector_narrows_the_volumes() -> None:
    claim = make_claim("c", selector=LabelSelector(None, [SelectorRequirement("tier", "In", ["1"])]))
    assert feasible(static(claim, make_volume("v", labels={"tier": "2"}))) == []


def test_an_existing_volume_serves_its_accessible_nodes() -> None:
    volumes = [make_volume("v1", on={HOSTNAME: ["a2"]}), make_volume("v2", on={"zone": ["b"]})]
    found = reasons(static(make_claim("c"), *volumes))
    assert found == {"a1": (BIND_CONFLICT,), "a2": (), "b1": ()}


def test_a_host_that_a_volume_names_must_meet_the_rest_of_its_affinity_too() -> None:
    assert feasible(static(make_claim("c"), make_volume("v", on={HOSTNAME: ["a1", "b1"], "zone": ["a"]}))) == ["a1"]


def test_a_volume_on_the_host_does_not_make_up_for_a_bound_one_elsewhere() -> None:
    def fill(known: Volumes) -> None:
        static(make_claim("c"), make_volume("v", on={HOSTNAME: ["b1"]}))(known)
        known.set_claim(make_claim("mine", volume="mine"))
        known.set_volume(make_volume("mine", on={"zone": ["a"]}, claim="mine"))

    assert feasible(fill, pod_with("c", "mine")) == []


def test_an_inaccessible_volume_that_is_reserved_cannot_be_replaced_by_another() -> None:
    volumes = [make_volume("v1", on={"zone": ["b"]}, claim="c"), make_volume("v2")]
    assert feasible(static(make_claim("c"), *volumes)) == ["b1"]


def test_two_claims_need_two_volumes() -> None:
    def fill(known: Volumes) -> None:
        static(make_claim("c"))(known)
        known.set_claim(make_claim("d"))
        known.set_volume(make_volume("v1", on={"zone": ["a"]}))
        known.set_volume(make_volume("v2", on={HOSTNAME: ["a1", "b1"]}))

    assert feasible(fill, pod_with("c", "d")) == ["a1"]


def test_the_small_claim_leaves_the_large_volume_to_the_large_claim() -> None:
    def fill(known: Volumes) -> None:
        static(make_claim("large", size="10Gi"))(known)
        known.set_claim(make_claim("small", size="1Gi"))
        known.set_volume(make_volume("v10", size="10Gi"))
        known.set_volume(make_volume("v5", size="5Gi"))

    assert feasible(fill, pod_with("large", "small")) == ["a1", "a2", "b1"]


def test_bound_and_unbound_claims_both_have_their_say() -> None:
    def fill(known: Volumes) -> None:
        static(make_claim("c"), make_volume("v", on={HOSTNAME: ["a1"]}))(known)
        known.set_claim(make_claim("mine", volume="mine"))
        known.set_volume(make_volume("mine", on={"zone": ["a"]}, claim="mine"))

    found = reasons(fill, pod_with("c", "mine"))
    assert found == {"a1": (), "a2": (BIND_CONFLICT,), "b1": (NODE_CONFLICT, BIND_CONFLICT)}


# --- volumes that are to be made ----------------------------------------------------------------------------------


def dynamic(
    claim: PersistentVolumeClaim, *allowed: dict[str, list[str]], driver: bool | None = None
) -> Callable[[Volumes], None]:
    """A claim of a class whose volumes are made. `driver`: it is there, and publishes capacity or not."""

    def fill(known: Volumes) -> None:
        known.set_storage_class(make_class("wait", CSI, "WaitForFirstConsumer", *allowed))
        known.set_claim(claim)
        if driver is not None:
            known.set_csi_driver(make_driver(CSI, driver))

    return fill


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        ([], ["a1", "a2", "b1"]),
        ([{"zone": ["a"]}], ["a1", "a2"]),
        ([{"zone": ["a"], "rack": ["r2", "r3"]}], ["a2"]),
        ([{"rack": ["r1"]}, {"zone": ["b"]}], ["a1", "b1"]),
        ([{HOSTNAME: ["b1"]}], ["b1"]),
        ([{}], []),
        ([{"zone": []}, {"rack": ["r1"]}], ["a1"]),
    ],
)
def test_a_volume_is_made_where_its_class_allows(allowed: list[dict[str, list[str]]], expected: list[str]) -> None:
    found = reasons(dynamic(make_claim("c"), *allowed))
    assert [name for name, why in found.items() if not why] == expected
    assert {why for why in found.values() if why} <= {(BIND_CONFLICT,)}


def test_a_volume_being_made_for_a_node_ties_the_pod_to_it() -> None:
    found = reasons(dynamic(make_claim("c", selected_node="a2")))
    assert found == {"a1": (BIND_CONFLICT,), "a2": (), "b1": (BIND_CONFLICT,)}


def test_volumes_being_made_for_different_nodes_fit_none() -> None:
    def fill(known: Volumes) -> None:
        dynamic(make_claim("c", selected_node="a2"))(known)
        known.set_claim(make_claim("d", selected_node="a1"))

    assert feasible(fill, pod_with("c", "d")) == []


def test_a_volume_being_made_still_needs_an_allowed_node() -> None:
    assert feasible(dynamic(make_claim("c", selected_node="a2"), {"zone": ["b"]})) == []


def test_what_no_existing_volume_serves_is_made() -> None:
    def fill(known: Volumes) -> None:
        dynamic(make_claim("c"), {"zone": ["b"]})(known)
        known.set_volume(make_volume("v", on={HOSTNAME: ["a1"]}))

    assert reasons(fill) == {"a1": (), "a2": (BIND_CONFLICT,), "b1": ()}


# --- capacity -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        (make_capacity("k", on={"zone": "a"}), ["a1", "a2"]),
        (make_capacity("k", on={HOSTNAME: "b1"}), ["b1"]),
        (make_capacity("k", on={}), ["a1", "a2", "b1"]),
        (make_capacity("k", on=None), []),
        (make_capacity("k", capacity="5Gi", on={}), ["a1", "a2", "b1"]),
        (make_capacity("k", capacity="4Gi", on={}), []),
        (make_capacity("k", capacity=None, on={}), []),
        (make_capacity("k", capacity="nonsense", on={}), []),
        (make_capacity("k", capacity="100Gi", on={}, maximum="1Gi"), []),
        (make_capacity("k", capacity="1Gi", on={}, maximum="100Gi"), ["a1", "a2", "b1"]),
        (make_capacity("k", "other", on={}), []),
        (make_capacity("k", on=LabelSelector(None, [SelectorRequirement("zone", "NotIn", ["a"])])), ["b1"]),
        (make_capacity("k", on=LabelSelector(None, [SelectorRequirement("zone", "Near", ["a"])])), []),
    ],
)
def test_a_volume_is_made_where_there_is_room(capacity: object, expected: list[str]) -> None:
    def fill(known: Volumes) -> None:
        dynamic(make_claim("c", size="5Gi"), driver=True)(known)
        known.set_capacity(capacity)  # type: ignore[arg-type]

    found = reasons(fill)
    assert [name for name, why in found.items() if not why] == expected
    assert {why for why in found.values() if why} <= {(NO_SPACE,)}


@pytest.mark.parametrize(
    ("claim", "driver"),
    [
        (make_claim("c", size="5Gi"), None),
        (make_claim("c", size="5Gi"), False),
        (make_claim("c", size=None), True),
    ],
)
def test_capacity_counts_only_where_it_is_published_and_asked_for(
    claim: PersistentVolumeClaim, driver: bool | None
) -> None:
    assert feasible(dynamic(claim, driver=driver)) == ["a1", "a2", "b1"]


def test_capacity_that_changes_is_seen_at_once() -> None:
    judged = Judge(NODES)
    known = judged.volumes
    dynamic(make_claim("c", size="5Gi"), driver=True)(known)

    def fits() -> list[str]:
        return [name for name, status in judged.filter(P).items() if status is None]

    assert fits() == []
    known.set_capacity(make_capacity("k", on={"zone": "a"}))
    assert fits() == ["a1", "a2"]
    known.set_capacity(make_capacity("k", capacity="1Gi", on={"zone": "a"}))
    assert fits() == []
    known.set_capacity(make_capacity("k", capacity=None, on={"zone": "a"}))
    assert fits() == []
    known.set_capacity(make_capacity("k", capacity="5Gi", on={"zone": "a"}))
    assert fits() == ["a1", "a2"]
    known.set_capacity(make_capacity("k", on={"zone": "b"}))
    assert fits() == ["b1"]
    known.remove_capacity("kube-system", "k")
    assert fits() == []


def test_a_class_that_changes_is_seen_at_once() -> None:
    judged = Judge(NODES)
    known = judged.volumes
    dynamic(make_claim("c"), {"zone": ["a"]})(known)
    assert judged.filter(P)["b1"] is not None
    dynamic(make_claim("c"), {"zone": ["b"]})(known)
    assert judged.filter(P)["b1"] is None


# --- pods ---------------------------------------------------------------------------------------------------------


def test_a_pod_without_claims_is_not_looked_at() -> None:
    assert Judge(NODES).filter(make_pod("p")) == {"a1": None, "a2": None, "b1": None}


def test_the_events_that_may_help() -> None:
    judged = Judge()
    registered = {each.event.resource: each.event.action for each in judged.plugin.events_to_register()}
    comes = Action.ADD | Action.UPDATE
    assert registered == {
        EventResource.STORAGE_CLASS: comes,
        EventResource.PERSISTENT_VOLUME_CLAIM: comes,
        EventResource.PERSISTENT_VOLUME: comes,
        EventResource.NODE: Action.ADD | Action.UPDATE_NODE_LABEL,
        EventResource.CSI_NODE: comes,
        EventResource.CSI_DRIVER: Action.UPDATE,
        EventResource.CSI_STORAGE_CAPACITY: comes,
    }
