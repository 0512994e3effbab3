from __future__ import annotations

import pytest

from kscheduler.api.objects import (
    ISCSI,
    RBD,
    AWSElasticBlockStore,
    CSIVolumeSource,
    EphemeralVolumeSource,
    GCEPersistentDisk,
    Volume,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import Registration
from kscheduler.framework.plugins.volumerestrictions import CLAIM_REASON, DISK_REASON, VolumeRestrictions
from kscheduler.framework.status import SKIP, Code, Status
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_pod
from tests.support.framework_bench import Bench
from tests.support.storage import claim, of_claim, with_claims, with_volumes

RWOP = ("ReadWriteOncePod",)


def gce(name: str = "disk", read_only: bool = False) -> Volume:
    return Volume(gce_persistent_disk=GCEPersistentDisk(name, read_only))


def ebs(name: str = "vol-1", read_only: bool = False) -> Volume:
    return Volume(aws_elastic_block_store=AWSElasticBlockStore(name, read_only))


def iscsi(iqn: str = "iqn", read_only: bool = False, lun: int = 0) -> Volume:
    return Volume(iscsi=ISCSI("portal", iqn, lun, read_only))


def rbd(monitors: str = "ab", image: str = "image", pool: str = "pool", read_only: bool = False) -> Volume:
    return Volume(rbd=RBD(list(monitors), image, pool, read_only))


def bench() -> Bench:
    made = Bench.of(VolumeRestrictions)
    made.nodes("n1", "n2")
    return made


def plugin_of(made: Bench) -> VolumeRestrictions:
    plugin = made._plugins["filter"][0]
    assert isinstance(plugin, VolumeRestrictions)
    return plugin


# --- disks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "wanted", "clash"),
    [
        (gce(), gce(), True),
        (gce(), gce("other"), False),
        (gce(read_only=True), gce(), True),
        (gce(), gce(read_only=True), True),
        (gce(read_only=True), gce(read_only=True), False),
        (ebs(), ebs(), True),
        (ebs(), ebs("vol-2"), False),
        (ebs(read_only=True), ebs(read_only=True), True),
        (iscsi(), iscsi(lun=1), True),
        (iscsi(), iscsi("other"), False),
        (iscsi(read_only=True), iscsi(read_only=True), False),
        (rbd("ab"), rbd("bc"), True),
        (rbd("ab"), rbd("cd"), False),
        (rbd(), rbd(image="other"), False),
        (rbd(), rbd(pool="other"), False),
        (rbd("ab", read_only=True), rbd("b", read_only=True), False),
        (rbd("ab", read_only=True), rbd("b"), True),
        (rbd(""), rbd(""), False),
        (gce("same"), ebs("same"), False),
    ],
)
def test_a_disk_is_mounted_by_one_writer_or_by_readers_only(there: Volume, wanted: Volume, clash: bool) -> None:
    made = bench()
    made.place(with_volumes(make_pod("old"), there), "n1")
    assert made.feasible(with_volumes(make_pod("p"), wanted)) == (["n2"] if clash else ["n1", "n2"])


def test_a_clash_of_disks_may_be_resolved_by_removing_pods() -> None:
    made = bench()
    for node in ("n1", "n2"):
        made.place(with_volumes(make_pod(f"on-{node}"), gce("a"), gce("b", read_only=True)), node)
    rejection = made.reject(with_volumes(make_pod("p"), gce("b")))
    assert rejection.message == f"0/2 nodes are available: 2 {DISK_REASON}."
    assert {status.code for status in rejection.diagnosis.node_statuses().values()} == {Code.UNSCHEDULABLE}
    made.cache.remove_pod("uid-default-on-n2")
    assert made.feasible(with_volumes(make_pod("p"), gce("b"))) == ["n2"]


@pytest.mark.parametrize(
    "volumes", [(), (Volume(csi=CSIVolumeSource("d")),), (Volume(ephemeral=EphemeralVolumeSource()),), (of_claim("c"),)]
)
def test_a_pod_without_disks_and_without_claims_in_use_is_not_looked_at(volumes: tuple[Volume, ...]) -> None:
    made = bench()
    made.handle.volumes.set_claim(claim("c", modes=RWOP))
    made.schedule(with_volumes(make_pod("p"), *volumes))
    assert made.state.skip_filter == {"VolumeRestrictions"}


def test_a_pod_with_a_disk_is_looked_at_even_if_nobody_else_has_one() -> None:
    made = bench()
    made.schedule(with_volumes(make_pod("p"), rbd("")))
    assert made.state.skip_filter == set()


# --- claims for one pod -------------------------------------------------------------------------------------------


def users_of(made: Bench, *, modes: tuple[str, ...] = RWOP, namespace: str = "default") -> None:
    made.handle.volumes.set_claim(claim("c", modes=modes))
    made.place(with_claims(make_pod("old", namespace), "c"), "n1")


def test_a_claim_for_one_pod_that_is_in_use_anywhere_keeps_the_pod_off_all_nodes() -> None:
    made = bench()
    users_of(made)
    rejection = made.reject(with_claims(make_pod("p"), "c"))
    assert rejection.message == f"0/2 nodes are available: 2 {CLAIM_REASON}."
    assert {status.code for status in rejection.diagnosis.node_statuses().values()} == {Code.UNSCHEDULABLE}
    made.cache.remove_pod("uid-default-old")
    assert made.feasible(with_claims(make_pod("p"), "c")) == ["n1", "n2"]


def test_other_access_modes_and_other_namespaces_do_not_matter() -> None:
    made = bench()
    users_of(made, modes=("ReadWriteOnce", "ReadWriteMany"))
    assert made.feasible(with_claims(make_pod("p"), "c")) == ["n1", "n2"]
    made = bench()
    users_of(made, namespace="elsewhere")
    assert made.feasible(with_claims(make_pod("p"), "c")) == ["n1", "n2"]


def test_a_pod_on_a_node_that_is_gone_uses_nothing() -> None:
    made = bench()
    users_of(made)
    made.cache.remove_node("n1")
    assert made.feasible(with_claims(make_pod("p"), "c")) == ["n2"]


def test_a_clash_of_disks_is_reported_before_a_claim_in_use() -> None:
    made = bench()
    made.handle.volumes.set_claim(claim("c", modes=RWOP))
    made.place(with_volumes(make_pod("old"), of_claim("c"), gce()), "n1")
    statuses = made.reject(with_volumes(make_pod("p"), of_claim("c"), gce())).diagnosis.node_statuses()
    assert {name: status.reasons for name, status in statuses.items()} == {"n1": (DISK_REASON,), "n2": (CLAIM_REASON,)}


def test_a_claim_that_is_missing_ends_the_cycle() -> None:
    made = bench()
    rejection = made.reject(with_claims(make_pod("p"), "c"))
    assert rejection.message == '0/2 nodes are available: persistentvolumeclaim "c" not found.'
    status = plugin_of(made).pre_filter(CycleState(), PodInfo(with_claims(make_pod("p"), "c").obj()))[1]
    assert status == Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ('persistentvolumeclaim "c" not found',))


# --- what if ------------------------------------------------------------------------------------------------------


def test_in_thought_the_user_of_a_claim_goes_and_comes_back() -> None:
    made = bench()
    users_of(made)
    plugin, state = plugin_of(made), CycleState()
    pod = PodInfo(with_claims(make_pod("p"), "c").obj())
    assert plugin.pre_filter(state, pod) == (None, None)
    what_if = state.clone()
    node = made.cache.table.get("n1")
    assert node is not None
    old, bystander = node.pods["uid-default-old"], PodInfo(with_claims(make_pod("b"), "other").obj())
    assert plugin.remove_pod(what_if, pod, bystander, node) is None
    assert plugin.filter(what_if, pod, node) == Status(Code.UNSCHEDULABLE, (CLAIM_REASON,))
    assert plugin.remove_pod(what_if, pod, old, node) is None
    assert plugin.filter(what_if, pod, node) is None
    assert plugin.add_pod(what_if, pod, old, node) is None
    assert plugin.filter(what_if, pod, node) == Status(Code.UNSCHEDULABLE, (CLAIM_REASON,))
    assert plugin.filter(state, pod, node) == Status(Code.UNSCHEDULABLE, (CLAIM_REASON,))


def test_a_pod_that_names_a_claim_twice_counts_twice_in_thought() -> None:
    made = bench()
    made.handle.volumes.set_claim(claim("c", modes=RWOP))
    made.place(with_claims(make_pod("old"), "c", "c"), "n1")
    plugin, state = plugin_of(made), CycleState()
    pod = PodInfo(with_volumes(make_pod("p"), of_claim("c")).obj())
    plugin.pre_filter(state, pod)
    node = made.cache.table.get("n1")
    assert node is not None
    old = node.pods["uid-default-old"]
    plugin.remove_pod(state, pod, old, node)  # 1 - 2
    plugin.add_pod(state, pod, PodInfo(with_claims(make_pod("o2"), "c").obj()), node)
    assert plugin.filter(state, pod, node) is None


def test_pods_of_a_what_if_hold_their_disks() -> None:
    made = bench()
    made.place(with_volumes(make_pod("old"), gce()), "n1")
    plugin, state = plugin_of(made), CycleState()
    pod = PodInfo(with_volumes(make_pod("p"), gce()).obj())
    plugin.pre_filter(state, pod)
    node = made.cache.table.get("n1")
    assert node is not None
    held = dict(node.pods)
    node.pods.clear()  # the index still has the pod
    assert plugin.filter(state, pod, node) is None
    node.pods.update(held)
    assert plugin.filter(state, pod, node) == Status(Code.UNSCHEDULABLE, (DISK_REASON,))


def test_skip_is_returned_before_anything_is_remembered() -> None:
    state = CycleState()
    assert plugin_of(bench()).pre_filter(state, PodInfo(make_pod("p").obj())) == (None, SKIP)
    assert state.get("VolumeRestrictions/needs", object) is None


# --- hints --------------------------------------------------------------------------------------------------------


def hint(event: str, waiting: PodBuilder, old: object, new: object) -> bool:
    registered = {
        registration.event.label: registration.hint
        for registration in plugin_of(bench()).events_to_register()
        if isinstance(registration, Registration) and registration.hint is not None
    }
    return registered[event](waiting.obj(), old, new)


def test_a_pod_that_held_a_disk_or_a_claim_wakes_those_that_want_it() -> None:
    waiting = with_volumes(make_pod("waiting"), gce(), of_claim("c"))
    gone = make_pod("gone")
    for volumes, wakes in (((gce(),), True), ((gce("other"),), False), ((of_claim("c"),), True), ((), False)):
        assert hint("AssignedPodDelete", waiting, with_volumes(gone, *volumes).obj(), None) == wakes
    assert not hint("AssignedPodDelete", waiting, with_volumes(make_pod("gone", "elsewhere"), gce()).obj(), None)


def test_a_claim_that_comes_wakes_the_pods_that_name_it() -> None:
    waiting = with_claims(make_pod("waiting"), "c")
    assert hint("PersistentVolumeClaimAdd", waiting, None, claim("c"))
    assert not hint("PersistentVolumeClaimAdd", waiting, None, claim("other"))
    assert not hint("PersistentVolumeClaimAdd", waiting, None, claim("c", namespace="elsewhere"))


def test_what_is_no_such_object_wakes() -> None:
    assert hint("AssignedPodDelete", make_pod("waiting"), None, None)
    assert hint("PersistentVolumeClaimAdd", make_pod("waiting"), None, None)
