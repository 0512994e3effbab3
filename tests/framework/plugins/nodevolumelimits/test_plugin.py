from __future__ import annotations

import pytest

from kscheduler.api.objects import (
    ISCSI,
    AWSElasticBlockStore,
    AzureFile,
    GCEPersistentDisk,
    Volume,
    VsphereVolume,
)
from kscheduler.api.storage import PersistentVolumeSpec
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, RELEASES, Release
from kscheduler.framework.plugins.nodevolumelimits.plugin import REASON, NodeVolumeLimits
from kscheduler.framework.status import Code
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_pod
from tests.support.framework_bench import Bench
from tests.support.storage import (
    EBS,
    attachment,
    claim,
    csi_driver,
    csi_node,
    csi_volume,
    ephemeral,
    in_tree_volume,
    of_claim,
    storage_class,
    with_claims,
    with_volumes,
)

OTHER = "other.example.com"
FAULT = 'running "NodeVolumeLimits" filter plugin: '  # how kube-scheduler names the plugin of an error


def ebs(volume_id: str) -> Volume:
    return Volume(aws_elastic_block_store=AWSElasticBlockStore(volume_id))


def bench(release: Release = RELEASE_1_36, **limits: int | None) -> Bench:
    """Node n1 with a limit for EBS and perhaps others; node n2 without a CSINode. Claims a to d are bound."""
    made = Bench.of(NodeVolumeLimits, release=release)
    made.nodes("n1", "n2")
    made.handle.volumes.set_csi_node(csi_node("n1", {EBS: limits.get("ebs", 2), OTHER: limits.get("other")}))
    for name in "abcd":
        bind(made, name)
    return made


def bind(made: Bench, name: str, driver: str = EBS, handle: str | None = None) -> None:
    made.handle.volumes.set_claim(claim(name, f"v-{name}"))
    made.handle.volumes.set_volume(csi_volume(f"v-{name}", driver, handle))


def pod(*claims: str) -> PodBuilder:
    return with_claims(make_pod("p"), *claims)


def place(made: Bench, name: str, *volumes: Volume) -> None:
    made.place(with_volumes(make_pod(name), *volumes), "n1")


def fits(made: Bench, *volumes: Volume) -> bool:
    """On n1; n2 has no limits."""
    found = made.feasible(with_volumes(make_pod("p"), *volumes))
    assert "n2" in found
    return "n1" in found


# --- counting -----------------------------------------------------------------------------------------------------


def test_a_node_takes_as_many_volumes_as_its_driver_can_attach() -> None:
    made = bench()
    assert made.feasible(pod("a", "b")) == ["n1", "n2"]
    assert made.feasible(pod("a", "b", "c")) == ["n2"]
    place(made, "old", of_claim("d"))
    assert made.feasible(pod("a")) == ["n1", "n2"]
    assert made.feasible(pod("a", "b")) == ["n2"]
    made.cache.remove_pod("uid-default-old")
    assert made.feasible(pod("a", "b")) == ["n1", "n2"]


def test_a_full_node_may_be_helped_by_removing_pods() -> None:
    made = bench(ebs=0)
    made.cache.remove_node("n2")
    rejection = made.reject(pod("a"))
    assert rejection.message == f"0/1 nodes are available: 1 {REASON}."
    assert rejection.diagnosis.node_statuses()["n1"].code is Code.UNSCHEDULABLE


def test_a_volume_counts_once_however_many_pods_use_it() -> None:
    made = bench()
    bind(made, "a2", handle="v-a")
    place(made, "one", of_claim("a"), of_claim("b"))
    place(made, "two", of_claim("a"))
    assert fits(made, of_claim("a"), of_claim("b"))
    assert fits(made, of_claim("a2"))
    assert not fits(made, of_claim("c"))
    made.cache.remove_pod("uid-default-one")
    assert fits(made, of_claim("c"))


def test_an_overcommitted_node_still_takes_what_is_there_anyway() -> None:
    made = bench(ebs=1)
    place(made, "old", of_claim("a"), of_claim("b"))
    assert fits(made, of_claim("b"))
    assert not fits(made, of_claim("b"), of_claim("c"))


def test_drivers_are_counted_apart_and_only_those_with_a_limit() -> None:
    made = bench(ebs=1, other=1)
    bind(made, "x", OTHER)
    bind(made, "y", OTHER)
    bind(made, "z", "unlimited.example.com")
    place(made, "old", of_claim("a"))
    assert fits(made, of_claim("x"))
    assert not fits(made, of_claim("x"), of_claim("y"))
    assert not fits(made, of_claim("x"), of_claim("b"))
    assert fits(made, of_claim("z"))
    unlimited = bench(ebs=None)
    assert fits(unlimited, *map(of_claim, "abcd"))


def test_volumes_that_are_attached_without_a_pod_count_too() -> None:
    made = bench()
    volumes = made.handle.volumes
    place(made, "old", of_claim("a"))
    volumes.set_attachment(attachment("1", "n1", "v-a"))  # in use, hence counted already
    assert fits(made, of_claim("c"))
    volumes.set_attachment(attachment("2", "n1", "v-b"))
    assert not fits(made, of_claim("c"))
    assert not fits(made, of_claim("b"))  # as kube-scheduler: attached is not in use
    volumes.set_attachment(attachment("2", "n2", "v-b"))
    assert fits(made, of_claim("c"))
    volumes.set_attachment(attachment("2", "n1", "v-b", driver=OTHER))
    assert fits(made, of_claim("c"))
    volumes.remove_attachment("2")
    for useless in (None, "unknown"):
        volumes.set_attachment(attachment(f"{useless}", "n1", useless))
    volumes.set_attachment(attachment("nameless", "n1", "v-b", driver=""))
    volumes.set_volume(in_tree_volume("disk", PersistentVolumeSpec(aws_elastic_block_store=AWSElasticBlockStore("x"))))
    volumes.set_attachment(attachment("in-tree", "n1", "disk"))
    assert fits(made, of_claim("c"))


def test_claims_without_a_volume_count_for_the_provisioner_of_their_class() -> None:
    made = bench(ebs=1)
    volumes = made.handle.volumes
    volumes.set_storage_class(storage_class("fast"))
    volumes.set_claim(claim("pending", of_class="fast"))
    volumes.set_claim(claim("pending2", of_class="fast"))
    volumes.set_claim(claim("ahead", "not-there-yet", of_class="fast"))
    volumes.set_claim(claim("classless"))
    volumes.set_claim(claim("lost", "gone", of_class="unknown"))
    assert fits(made, of_claim("pending"), of_claim("classless"), of_claim("lost"))
    assert not fits(made, of_claim("pending"), of_claim("pending2"))
    assert not fits(made, of_claim("pending"), of_claim("ahead"))
    place(made, "old", of_claim("pending"))
    assert fits(made, of_claim("pending"))
    assert not fits(made, of_claim("pending2"))
    volumes.set_storage_class(storage_class("fast", OTHER))
    assert fits(made, of_claim("pending2"))


def test_a_claim_that_is_bound_counts_as_its_volume_from_then_on() -> None:
    made = bench(ebs=1)
    volumes = made.handle.volumes
    volumes.set_storage_class(storage_class("fast", OTHER))
    volumes.set_claim(claim("pending", of_class="fast"))
    place(made, "old", of_claim("pending"))
    assert fits(made, of_claim("a"))
    volumes.set_claim(claim("pending", "v-late", of_class="fast"))
    assert fits(made, of_claim("a"))
    volumes.set_volume(csi_volume("v-late"))
    assert not fits(made, of_claim("a"))
    volumes.remove_volume("v-late")
    assert fits(made, of_claim("a"))


def test_volumes_without_a_driver_or_a_handle_are_not_counted() -> None:
    made = bench(ebs=0)
    bind(made, "x", driver="")
    bind(made, "y", handle="")
    assert fits(made, of_claim("x"), of_claim("y"))


# --- in-tree volumes ----------------------------------------------------------------------------------------------


def test_in_tree_volumes_count_as_those_of_their_successors() -> None:
    made = bench(ebs=1)
    source = PersistentVolumeSpec(aws_elastic_block_store=AWSElasticBlockStore("aws://zone/vol-1"))
    made.handle.volumes.set_volume(in_tree_volume("disk", source))
    made.handle.volumes.set_claim(claim("bound", "disk"))
    made.handle.volumes.set_storage_class(storage_class("in-tree", "kubernetes.io/aws-ebs"))
    made.handle.volumes.set_claim(claim("pending", of_class="in-tree"))
    assert fits(made, ebs("vol-1"), of_claim("bound"))  # one disk, named in two ways
    assert not fits(made, ebs("vol-1"), ebs("vol-2"))
    assert not fits(made, ebs("vol-1"), of_claim("pending"))
    place(made, "old", ebs("vol-1"))
    assert fits(made, of_claim("bound"))
    assert not fits(made, of_claim("a"))


def test_in_tree_kinds_whose_migration_is_not_on_do_not_count() -> None:
    made = bench()
    made.handle.volumes.set_csi_node(csi_node("n1", {"file.csi.azure.com": 0, "csi.vsphere.vmware.com": 0}))
    made.handle.volumes.set_volume(in_tree_volume("share", PersistentVolumeSpec(azure_file=AzureFile())))
    made.handle.volumes.set_claim(claim("bound", "share"))
    made.handle.volumes.set_storage_class(storage_class("files", "kubernetes.io/azure-file"))
    made.handle.volumes.set_claim(claim("pending", of_class="files"))
    assert fits(made, Volume(azure_file=AzureFile()), Volume(vsphere_volume=VsphereVolume("p")), of_claim("bound"))
    assert fits(made, of_claim("pending"))


def test_a_volume_whose_handle_cannot_be_translated_is_not_counted_behind_a_claim_and_an_error_in_a_pod() -> None:
    made = bench(ebs=0)
    source = PersistentVolumeSpec(aws_elastic_block_store=AWSElasticBlockStore("aws://zone/x"))
    made.handle.volumes.set_volume(in_tree_volume("disk", source))
    made.handle.volumes.set_claim(claim("bound", "disk"))
    assert fits(made, of_claim("bound"))
    rejection = made.reject(with_volumes(make_pod("p"), ebs("aws://zone/x")))
    assert rejection.status.code is Code.ERROR
    assert rejection.message == (
        f"{FAULT}converting volume(v0) from inline to csi: failed to translate Kubernetes ID to EBS Volume ID "
        "Invalid format for AWS volume (aws://zone/x)"
    )
    made.cache.remove_node("n1")  # without a CSINode nothing is translated
    assert made.feasible(with_volumes(make_pod("p"), ebs("aws://zone/x"))) == ["n2"]


# --- claims of the pod's own --------------------------------------------------------------------------------------


def test_claims_made_for_the_pod_alone_count_like_others() -> None:
    made = bench(ebs=1)
    builder = with_volumes(make_pod("p"), ephemeral("scratch"), of_claim("a"))
    made.handle.volumes.set_claim(claim("p-scratch", "v-b", owner=builder.obj()))
    assert made.feasible(builder) == ["n2"]
    made.handle.volumes.set_claim(claim("p-scratch", "v-a", owner=builder.obj()))
    assert made.feasible(builder) == ["n1", "n2"]


def test_a_claim_that_has_the_name_by_chance_is_an_error() -> None:
    made = bench()
    made.handle.volumes.set_claim(claim("p-scratch", "v-b"))
    rejection = made.reject(with_volumes(make_pod("p"), ephemeral("scratch")))
    assert rejection.status.code is Code.ERROR
    assert rejection.status.plugin == "NodeVolumeLimits"
    assert rejection.message == f"{FAULT}PVC default/p-scratch was not created for pod default/p (pod is not owner)"


@pytest.mark.parametrize("volume", [ephemeral("scratch"), of_claim("p-scratch")])
def test_a_claim_that_is_missing_keeps_the_pod_off_all_nodes(volume: Volume) -> None:
    made = bench()
    rejection = made.reject(with_volumes(make_pod("p"), volume))
    assert rejection.message == (
        '0/2 nodes are available: 2 looking up PVC default/p-scratch: persistentvolumeclaim "p-scratch" not found.'
    )
    codes = {status.code for status in rejection.diagnosis.node_statuses().values()}
    assert codes == {Code.UNSCHEDULABLE_AND_UNRESOLVABLE}


def test_a_claim_without_a_name_is_an_error() -> None:
    rejection = bench().reject(pod(""))
    assert (rejection.status.code, rejection.message) == (Code.ERROR, f"{FAULT}PersistentVolumeClaim had no name")


# --- pods on nodes that cannot be counted -------------------------------------------------------------------------


def test_missing_claims_of_pods_on_nodes_are_not_counted() -> None:
    made = bench(ebs=1)
    place(made, "old", of_claim("late"))
    assert fits(made, of_claim("a"))
    bind(made, "late")
    assert not fits(made, of_claim("a"))
    made.handle.volumes.remove_claim("default", "late")
    assert fits(made, of_claim("a"))


def test_a_pod_on_a_node_with_limits_that_cannot_be_counted_is_an_error_of_new_pods_with_volumes() -> None:
    made = bench()
    place(made, "old", ephemeral("scratch"))
    made.handle.volumes.set_claim(claim("old-scratch", "v-b"))
    rejection = made.reject(pod("a"))
    assert rejection.status.code is Code.ERROR
    assert rejection.message == f"{FAULT}PVC default/old-scratch was not created for pod default/old (pod is not owner)"
    made.handle.volumes.set_claim(claim("uncounted"))
    assert made.feasible(pod("uncounted")) == ["n1", "n2"]
    made.handle.volumes.set_csi_node(csi_node("n1", {}))
    assert made.feasible(pod("a")) == ["n1", "n2"]


# --- what is looked at, and when it is read again -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("volume", "skipped"),
    [
        (Volume(), True),
        (Volume(iscsi=ISCSI()), True),
        (of_claim("a"), False),
        (Volume(gce_persistent_disk=GCEPersistentDisk("d")), False),
        (Volume(azure_file=AzureFile()), False),
    ],
)
def test_pods_without_volumes_that_may_count_are_not_looked_at(volume: Volume, skipped: bool) -> None:
    made = bench()
    made.schedule(with_volumes(make_pod("p"), volume))
    assert (made.state.skip_filter == {"NodeVolumeLimits"}) == skipped


def test_limits_come_change_and_go_with_the_csi_node() -> None:
    made = bench(ebs=1)
    assert not fits(made, of_claim("a"), of_claim("b"))
    made.handle.volumes.set_csi_node(csi_node("n1", {EBS: 2}))
    assert fits(made, of_claim("a"), of_claim("b"))
    made.handle.volumes.set_csi_node(csi_node("n1", {EBS: 0}))
    assert not fits(made, of_claim("a"))
    made.handle.volumes.remove_csi_node("n1")
    assert fits(made, of_claim("a"))


def test_a_node_that_takes_the_row_of_another_is_judged_by_its_own_volumes() -> None:
    made = bench(ebs=1)
    place(made, "old", of_claim("a"))
    assert not fits(made, of_claim("b"))
    made.cache.remove_node("n1")
    assert made.feasible(pod("b")) == ["n2"]
    made.nodes("n3")
    made.handle.volumes.set_csi_node(csi_node("n3", {EBS: 1}))
    assert made.feasible(pod("b")) == ["n2", "n3"]
    made.nodes("n1")
    assert made.feasible(pod("b")) == ["n2", "n3"]


def test_a_row_is_read_again_only_after_a_change_of_what_it_was_read_from(monkeypatch: pytest.MonkeyPatch) -> None:
    made = bench()
    made.nodes(*(f"m{i}" for i in range(20)))
    plugin: NodeVolumeLimits = made._plugins["filter"][0]
    attached = plugin._attached
    read: list[str] = []
    original = attached._read

    def reading(row: int, name: str) -> None:
        read.append(name)
        original(row, name)

    monkeypatch.setattr(attached, "_read", reading)
    place(made, "old", of_claim("a"))
    made.schedule(pod("b"))
    assert len(read) == 22
    read.clear()
    made.schedule(pod("b"))
    made.handle.volumes.set_claim(claim("unrelated"))
    made.handle.volumes.set_volume(csi_volume("unrelated"))
    made.schedule(pod("b"))
    assert read == []
    bind(made, "a")
    made.schedule(pod("b"))
    assert read == ["n1"]
    read.clear()
    made.cache.set_pod(PodInfo(with_claims(make_pod("more"), "c").node("m7").obj()))
    made.schedule(pod("b"))
    assert read == ["m7"]


# --- drivers that must be installed -------------------------------------------------------------------------------


def _statuses(made: Bench, tried: PodBuilder) -> dict[str, tuple[Code, tuple[str, ...]]]:
    found = made.reject(tried).diagnosis.node_statuses()
    return {node: (status.code, status.reasons) for node, status in found.items()}


MISSING = f"{EBS} CSI driver is not installed on the node"


@pytest.mark.parametrize(("release", "nodes"), [(RELEASE_1_36, ["n1", "n2", "n3"]), (RELEASE_1_37, ["n1"])])
def test_in_1_37_a_driver_may_ask_for_nodes_where_it_is_installed(release: Release, nodes: list[str]) -> None:
    made = bench(release)
    made.nodes("n3")
    made.handle.volumes.set_csi_node(csi_node("n3", {OTHER: None}))
    made.handle.volumes.set_csi_driver(csi_driver(EBS, must_be_there=True))
    assert made.feasible(pod("a")) == nodes
    made.handle.volumes.set_csi_node(csi_node("n3", {OTHER: None, EBS: None}))
    assert made.feasible(pod("a")) == sorted({*nodes, "n3"})
    made.handle.volumes.remove_csi_node("n3")
    assert made.feasible(pod("a")) == nodes


def test_a_node_without_the_driver_is_no_help_before_its_limits_are_counted() -> None:
    made = bench(RELEASE_1_37, ebs=0)
    made.handle.volumes.set_csi_driver(csi_driver(EBS, must_be_there=True))
    expected = {"n1": (Code.UNSCHEDULABLE, (REASON,)), "n2": (Code.UNSCHEDULABLE, (MISSING,))}
    assert _statuses(made, pod("a")) == expected


def test_of_several_drivers_the_first_that_is_missing_is_named() -> None:
    made = bench(RELEASE_1_37)
    bind(made, "x", OTHER)
    for driver in (EBS, OTHER):
        made.handle.volumes.set_csi_driver(csi_driver(driver, must_be_there=True))
    made.handle.volumes.set_csi_node(csi_node("n1", {EBS: 2}))
    expected = {
        "n1": (Code.UNSCHEDULABLE, (f"{OTHER} CSI driver is not installed on the node",)),
        "n2": (Code.UNSCHEDULABLE, (MISSING,)),
    }
    assert _statuses(made, pod("a", "x")) == expected


@pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))
@pytest.mark.parametrize("asks", [None, False])
def test_a_driver_that_does_not_ask_may_be_missing(release: Release, asks: bool | None) -> None:
    made = bench(release)
    made.handle.volumes.set_csi_driver(csi_driver(EBS, must_be_there=asks))
    assert made.feasible(pod("a")) == ["n1", "n2"]


def test_in_tree_volumes_need_no_driver_on_a_node_without_a_csi_node() -> None:
    made = bench(RELEASE_1_37)
    made.handle.volumes.set_csi_driver(csi_driver(EBS, must_be_there=True))
    made.handle.volumes.set_csi_node(csi_node("n1", {OTHER: None}))
    assert made.feasible(with_volumes(make_pod("p"), ebs("vol-1"))) == ["n2"]
