"""The volume plugins give the same answers in both forms while storage, nodes and pods change under them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from kscheduler._fast import FEASIBLE, Verdicts
from kscheduler.api.objects import (
    RBD,
    AWSElasticBlockStore,
    AzureFile,
    Cinder,
    GCEPersistentDisk,
    Pod,
    Volume,
)
from kscheduler.api.storage import PersistentVolume, PersistentVolumeSpec
from kscheduler.api.topology_labels import BETA_ZONE, REGION, ZONE
from kscheduler.cache.cache import Cache
from kscheduler.config.releases import RELEASES, Release
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.faults import CycleFault, running
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.nodevolumelimits.plugin import NodeVolumeLimits
from kscheduler.framework.plugins.volumerestrictions import VolumeRestrictions
from kscheduler.framework.plugins.volumezone import VolumeZone
from kscheduler.framework.status import Code, Status
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from tests.support.checks import check_attached, check_cache
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
    with_volumes,
)

CODE = 7
OTHER = "other.example.com"
NODES = ("n0", "n1", "n2", "n3")
PODS = ("p0", "p1", "p2", "p3", "p4", "p5")
CLAIMS = ("a", "b", "c", "p0-own", "p1-own", "new-own")
VOLUMES = ("va", "vb", "vc")
CLASSES = ("fast", "in-tree")
TEXTS = ("", "a", "b", "a__b")

pod_volumes = st.lists(
    st.one_of(
        st.sampled_from([of_claim("a"), of_claim("b"), of_claim("c"), of_claim("b"), ephemeral("own"), Volume()]),
        st.builds(
            lambda name, ro: Volume(gce_persistent_disk=GCEPersistentDisk(name, ro)),
            st.sampled_from(["d1", "d2"]),
            st.booleans(),
        ),
        st.builds(
            lambda name: Volume(aws_elastic_block_store=AWSElasticBlockStore(name)),
            st.sampled_from(["vol-1", "vol-2", "vol-3", "va", "aws://x/vol-1", "aws://x/vol-2", "aws://x/y"]),
        ),
        st.builds(
            lambda monitors, ro: Volume(rbd=RBD(list(monitors), "image", "pool", ro)),
            st.sampled_from(["", "m", "mn", "n"]),
            st.booleans(),
        ),
        st.sampled_from([Volume(azure_file=AzureFile()), Volume(cinder=Cinder("x")), of_claim("a"), of_claim("c")]),
    ),
    max_size=3,
)


@st.composite
def volumes(draw: st.DrawFn) -> PersistentVolume:
    name = draw(st.sampled_from(VOLUMES))
    labels = {
        label: draw(st.sampled_from(TEXTS)) for label in draw(st.sets(st.sampled_from([ZONE, BETA_ZONE, REGION])))
    }
    kind = draw(st.integers(0, 3))
    if kind == 0:
        source = PersistentVolumeSpec(
            aws_elastic_block_store=AWSElasticBlockStore(draw(st.sampled_from(["vol-1", "aws://x/vol-2", "aws://x/y"])))
        )
    elif kind == 1:
        source = PersistentVolumeSpec(gce_persistent_disk=GCEPersistentDisk("d1"))
    else:
        driver = draw(st.sampled_from([EBS, EBS, OTHER, ""]))
        source = csi_volume(name, driver, draw(st.sampled_from(["vol-1", "vol-2", "h", ""]))).spec
    return in_tree_volume(name, source, **labels)


class World:
    """A cluster, and the three plugins from its beginning on."""

    def __init__(self, release: Release) -> None:
        self.cache = Cache()
        self.handle = Handle(table=self.cache.table, rng=random.Random(0), bind=_no_bind, release=release)
        self.limits = NodeVolumeLimits(self.handle)
        self.plugins: tuple[Any, ...] = (VolumeRestrictions(self.handle), VolumeZone(self.handle), self.limits)

    def change(self, draw: st.DrawFn) -> None:
        """One change of anything."""
        known = self.handle.volumes
        kind = draw(st.integers(0, 16))
        node, name = draw(st.sampled_from(NODES)), draw(st.sampled_from(PODS))
        if kind < 3:
            labels = {label: draw(st.sampled_from(TEXTS)) for label in draw(st.sets(st.sampled_from([ZONE, REGION])))}
            self.cache.set_node(make_node(node).label(**labels).obj())
        elif kind == 3:
            self.cache.remove_node(node)
        elif kind < 7:
            self.cache.remove_pod(_pod(name, []).metadata.uid)
            self.cache.set_pod(PodInfo(_pod(name, draw(pod_volumes), node)))
        elif kind == 7:
            self.cache.remove_pod(_pod(name, []).metadata.uid)
        elif kind < 10:
            made = draw(st.sampled_from(CLAIMS))
            owner = _pod(made.removesuffix("-own"), []) if made.endswith("-own") and draw(st.integers(0, 7)) else None
            volume = draw(st.sampled_from(["", *VOLUMES]))
            modes = draw(st.sampled_from([(), ("ReadWriteOncePod",)]))
            known.set_claim(claim(made, volume, of_class=draw(st.sampled_from(CLASSES)), modes=modes, owner=owner))
        elif kind == 10:
            known.remove_claim("default", draw(st.sampled_from(CLAIMS)))
        elif kind == 11:
            known.set_volume(draw(volumes()))
        elif kind == 12:
            known.remove_volume(draw(st.sampled_from(VOLUMES)))
        elif kind == 13:
            provisioner = draw(st.sampled_from([EBS, "kubernetes.io/aws-ebs", "kubernetes.io/azure-file"]))
            known.set_storage_class(storage_class(draw(st.sampled_from(CLASSES)), provisioner))
        elif kind == 14:
            installed = draw(st.sets(st.sampled_from([EBS, EBS, OTHER])))
            limits = {driver: draw(st.sampled_from([None, 0, 1, 2])) for driver in sorted(installed)}
            known.set_csi_node(csi_node(node, limits)) if draw(st.integers(0, 5)) else known.remove_csi_node(node)
        elif kind == 15:
            known.set_csi_driver(csi_driver(draw(st.sampled_from([EBS, OTHER])), must_be_there=draw(st.booleans())))
        else:
            made = draw(st.sampled_from(["1", "2", "3"]))
            if draw(st.booleans()):
                known.set_attachment(attachment(made, node, draw(st.sampled_from(VOLUMES))))
            else:
                known.remove_attachment(made)


async def _no_bind(pod: PodInfo, node: str) -> None:
    raise AssertionError("nothing is bound here")


def _pod(name: str, volumes: list[Volume], node: str = "") -> Pod:
    return with_volumes(make_pod(name).node(node), *volumes).obj()


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_both_forms_agree_after_any_changes(data: st.DataObject) -> None:
    world = World(data.draw(st.sampled_from(list(RELEASES.values()))))
    for node in NODES:
        world.cache.set_node(make_node(node).label(ZONE, "a").obj())
        world.handle.volumes.set_csi_node(csi_node(node, {EBS: 2}))
    for name, volume in zip("abc", VOLUMES, strict=True):
        world.handle.volumes.set_claim(claim(name, volume))
        world.handle.volumes.set_volume(csi_volume(volume))
    for _ in range(data.draw(st.integers(1, 4))):
        for _ in range(data.draw(st.integers(0, 12))):
            data.draw(st.composite(lambda draw: world.change(draw))())
        pod = PodInfo(_pod("new", data.draw(pod_volumes)))
        for plugin in world.plugins:
            compare(world, plugin, pod)
    check_cache(world.cache)
    check_attached(world.limits._attached)


def compare(world: World, plugin: Any, pod: PodInfo) -> None:
    state = CycleState()
    status = plugin.pre_filter(state, pod)[1]
    if status is not None:
        return
    table = world.cache.table
    expected: dict[str, Status | None] = {node.name: plugin.filter(state, pod, node) for node in table}
    verdicts = Verdicts()
    verdicts.reset(table.columns)
    answers = expected.values()
    faults = {running("Filter", plugin, answer).reasons for answer in answers if answer and answer.code is Code.ERROR}
    if faults:
        event(f"{plugin.name}: error")
        with pytest.raises(CycleFault) as raised:
            plugin.filter_table(state, pod, table, verdicts, CODE)
        assert raised.value.status.reasons in faults
        return
    plugin.filter_table(state, pod, table, verdicts, CODE)
    for node in table:
        found = None
        if verdicts.code(node.row) != FEASIBLE:
            found = plugin.explain(state, pod, verdicts.detail(node.row))
        assert found == expected[node.name], (plugin.name, node.name)
        event(f"{plugin.name}: {'fits' if found is None else found.reasons[0][:30]}")
