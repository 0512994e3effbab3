"""Storage capacity as a score: in 1.37 nodes are preferred by what the pod's volumes would use there, in 1.36 not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler._fast import Scores, Verdicts
from kscheduler.api.objects import LabelSelector
from kscheduler.config.load import default_config
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, RELEASES, Release
from kscheduler.config.types import PluginConfig, Profile, UtilizationShapePoint, VolumeBindingArgs
from kscheduler.framework.interface import extension_points
from kscheduler.framework.plugins.registry import IN_TREE, build
from kscheduler.framework.plugins.volumebinding.scoring import DEFAULT_SHAPE, ScoringVolumeBinding
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from tests.framework.plugins.volumebinding.both_forms import Judge
from tests.framework.plugins.volumebinding.objects import (
    HOSTNAME,
    make_capacity,
    make_claim,
    make_class,
    make_driver,
    make_volume,
    pod_with,
)
from tests.framework.plugins.volumebinding.oracle import scores as scores_by_rules
from tests.framework.plugins.volumebinding.test_forms import judges
from tests.support.framework_bench import Bench

CSI = "csi.example.com"
UPHILL = (UtilizationShapePoint(utilization=0, score=0), UtilizationShapePoint(utilization=100, score=10))


def bench(release: Release = RELEASE_1_37, shape: tuple[UtilizationShapePoint, ...] | None = None) -> Bench:
    """Nodes a, b and none, with VolumeBinding as the release has it; class wait provisions, class static does not."""
    profile = Profile(plugin_config=(PluginConfig(name="VolumeBinding", args=VolumeBindingArgs(shape=shape)),))
    made = Bench.of(lambda handle: IN_TREE["VolumeBinding"](profile, handle), release=release)
    for name in ("a", "b", "none"):
        made.node(make_node(name).label(zone=name))
    known = made.handle.volumes
    known.set_storage_class(make_class("wait", CSI))
    known.set_storage_class(make_class("static"))
    known.set_csi_driver(make_driver(CSI))
    return made


def publish(made: Bench, **sizes: str) -> None:
    """Capacities of class wait, by zone."""
    for zone, size in sizes.items():
        made.handle.volumes.set_capacity(make_capacity(zone, "wait", size, {"zone": zone}))


# --- the releases ---


@pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))
def test_only_1_37_scores(release: Release) -> None:
    handle = Bench({}, release=release).handle
    built = build(default_config(release).profiles[0], handle)
    scoring = {plugin.name: weight for plugin, weight in built["score"]}
    pre_scoring = {plugin.name for plugin, _ in built["preScore"]}
    is_there = release is RELEASE_1_37
    assert scoring.get("VolumeBinding") == (1 if is_there else None)
    assert ("VolumeBinding" in pre_scoring) is is_there


@pytest.mark.parametrize(
    ("release", "scores"),
    [(RELEASE_1_36, {"a": 0, "b": 0, "none": 0}), (RELEASE_1_37, {"a": 50, "b": 95})],
)
def test_the_node_with_more_free_capacity_is_preferred_in_1_37(release: Release, scores: dict[str, int]) -> None:
    made = bench(release)
    publish(made, a="10Gi", b="100Gi", none="1Gi")
    made.handle.volumes.set_claim(make_claim("c", size="5Gi"))
    expected = {name: score for name, score in scores.items() if name != "none"}
    assert made.scores(pod_with("c")) == expected


def test_the_gate_turns_scoring_on_in_1_36_and_off_in_1_37() -> None:
    for release, is_on in ((RELEASE_1_36, True), (RELEASE_1_37, False)):
        made = bench(release.with_gates({"StorageCapacityScoring": is_on}))
        publish(made, a="10Gi", b="100Gi")
        made.handle.volumes.set_claim(make_claim("c", size="5Gi"))
        assert made.scores(pod_with("c")) == ({"a": 50, "b": 95} if is_on else {"a": 0, "b": 0})


def test_the_shape_of_the_arguments_replaces_the_default() -> None:
    made = bench(shape=UPHILL)
    publish(made, a="10Gi", b="100Gi")
    made.handle.volumes.set_claim(make_claim("c", size="5Gi"))
    assert made.scores(pod_with("c")) == {"a": 50, "b": 5}


# --- what counts ---


def test_pods_without_claims_and_with_bound_ones_score_nothing() -> None:
    made = bench()
    publish(made, a="10Gi")
    assert made.scores(make_pod("p")) == {"a": 0, "b": 0, "none": 0}
    made.handle.volumes.set_claim(make_claim("c", volume="v"))
    made.handle.volumes.set_volume(make_volume("v"))
    assert made.scores(pod_with("c")) == {"a": 0, "b": 0, "none": 0}


def test_capacity_counts_only_if_the_driver_tracks_it_and_the_claim_has_a_size() -> None:
    made = bench()
    publish(made, a="10Gi", b="100Gi")
    made.handle.volumes.set_claim(make_claim("c", size=None))
    assert made.scores(pod_with("c")) == {"a": 0, "b": 0, "none": 0}
    made.handle.volumes.set_claim(make_claim("c", size="5Gi"))
    made.handle.volumes.set_csi_driver(make_driver(CSI, storage_capacity=False))
    assert made.scores(pod_with("c")) == {"a": 0, "b": 0, "none": 0}


def test_the_capacity_counts_though_the_largest_volume_decides_whether_there_is_room() -> None:
    made = bench()
    for zone, capacity in (("a", "10Gi"), ("b", None)):
        made.handle.volumes.set_capacity(make_capacity(zone, "wait", capacity, {"zone": zone}, maximum="8Gi"))
    made.handle.volumes.set_claim(make_claim("c", size="5Gi"))
    assert made.scores(pod_with("c")) == {"a": 50, "b": 0}  # what is free in b is not stated


def test_claims_of_one_class_are_added_up_against_one_capacity() -> None:
    made = bench()
    publish(made, a="10Gi", b="100Gi")
    for name in ("c", "d"):
        made.handle.volumes.set_claim(make_claim(name, size="3Gi"))
    assert made.scores(pod_with("c", "d")) == {"a": 40, "b": 94}
    made.handle.volumes.set_claim(make_claim("d", size="8Gi"))  # together they are more than a has
    assert made.scores(pod_with("c", "d")) == {"a": 0, "b": 89}


def test_several_classes_have_one_voice_each_and_the_mean_is_rounded_half_up() -> None:
    made = bench()
    made.handle.volumes.set_storage_class(make_class("other", CSI))
    publish(made, a="100Gi", b="100Gi")
    for zone, size in (("a", "100Gi"), ("b", "1000Gi")):
        made.handle.volumes.set_capacity(make_capacity(f"other-{zone}", "other", size, {"zone": zone}))
    made.handle.volumes.set_claim(make_claim("c", size="10Gi"))
    made.handle.volumes.set_claim(make_claim("d", "other", size="11Gi"))
    # 90 and 89, and 90 and 99: Go rounds 89.5 and 94.5 up.
    assert made.scores(pod_with("c", "d")) == {"a": 90, "b": 95}


def test_existing_volumes_count_instead_of_capacities() -> None:
    made = bench()
    publish(made, a="100Gi", b="100Gi", none="100Gi")
    known = made.handle.volumes
    known.set_volume(make_volume("small", "static", "5Gi", on={HOSTNAME: ["a"]}))
    known.set_volume(make_volume("large", "static", "20Gi", on={HOSTNAME: ["b"]}))
    known.set_claim(make_claim("c", "static", size="5Gi"))
    known.set_claim(make_claim("d", size="50Gi"))
    assert made.scores(pod_with("c")) == {"a": 0, "b": 75}
    assert made.scores(pod_with("c", "d")) == {"a": 0, "b": 75}


def test_local_volumes_score_by_the_smallest_that_fits_on_each_node() -> None:
    made = bench()
    publish(made, none="50Gi")
    unnamed = make_node("unnamed").obj()
    made.node(replace(unnamed, metadata=replace(unnamed.metadata, labels={"zone": "none"})))
    known = made.handle.volumes
    for name, size, host in (("v1", "10Gi", "a"), ("v2", "20Gi", "a"), ("v3", "25Gi", "b"), ("v4", "100Gi", "gone")):
        known.set_volume(make_volume(name, "wait", size, on={HOSTNAME: [host]}))
    known.set_claim(make_claim("c", size="5Gi"))
    # On the two others a volume is provisioned from what is free in their zone.
    assert made.scores(pod_with("c")) == {"a": 50, "b": 80, "none": 90, "unnamed": 90}
    known.remove_volume("v1")
    assert made.scores(pod_with("c")) == {"a": 75, "b": 80, "none": 90, "unnamed": 90}
    known.set_volume(make_volume("anywhere", "wait", "8Gi"))
    assert made.scores(pod_with("c")) == {"a": 38, "b": 38, "none": 38, "unnamed": 38}


def test_a_claim_that_is_being_provisioned_counts_on_its_node() -> None:
    judged = Judge([make_node("a").label(zone="a"), make_node("b").label(zone="b")])
    plugin = judged.plugin = ScoringVolumeBinding(judged.handle)
    judged.volumes.set_storage_class(make_class("wait", CSI))
    judged.volumes.set_csi_driver(make_driver(CSI))
    judged.volumes.set_capacity(make_capacity("k", "wait", "10Gi", LabelSelector()))
    judged.volumes.set_claim(make_claim("c", size="5Gi", selected_node="a"))
    pod = pod_with("c")
    assert [name for name, status in judged.filter(pod).items() if status is None] == ["a"]
    node = judged.cache.table.get("a")
    assert node is not None
    assert plugin.score(judged.state, PodInfo(pod.obj()), node) == (50, None)


def test_a_capacity_that_changes_is_seen() -> None:
    made = bench()
    publish(made, a="10Gi", b="100Gi")
    made.handle.volumes.set_claim(make_claim("c", size="5Gi"))
    assert made.scores(pod_with("c")) == {"a": 50, "b": 95}
    publish(made, a="50Gi")
    assert made.scores(pod_with("c")) == {"a": 90, "b": 95}


# --- both forms ---


@st.composite
def shapes(draw: st.DrawFn) -> list[tuple[int, int]]:
    points = draw(st.lists(st.integers(0, 100), min_size=1, max_size=4, unique=True))
    return [(point, draw(st.integers(0, 10))) for point in sorted(points)]


@settings(max_examples=400, deadline=None)
@given(
    judges(),
    st.lists(st.sampled_from(["c0", "c1", "c2"]), min_size=1, max_size=3),
    st.one_of(st.just(list(DEFAULT_SHAPE)), shapes()),
)
def test_both_forms_score_what_the_rules_say(judged: Judge, names: list[str], shape: list[tuple[int, int]]) -> None:
    plugin = judged.plugin = ScoringVolumeBinding(judged.handle, shape=shape)
    pod, table = pod_with(*names), judged.cache.table
    if judged.pre_filter(pod) is not None:
        return
    info, verdicts, scores = PodInfo(pod.obj()), Verdicts(), Scores()
    verdicts.reset(table.columns)
    scores.reset(table.columns)
    plugin.filter_table(judged.state, info, table, verdicts, 7)
    assert plugin.pre_score(judged.state, info) is None
    plugin.score_table(judged.state, info, table, verdicts, scores)
    for row in verdicts.feasible_rows():
        node = table.at(row)
        score, status = plugin.score(judged.state, info, node)
        assert status is None
        assert scores.raw(row) == score, node.name
        assert score in scores_by_rules(pod.obj(), judged.volumes, node.labels, shape), node.name


def test_the_plugin_extends_what_it_did_before_and_scores() -> None:
    plain = bench(RELEASE_1_36)._plugins.keys()
    assert extension_points(ScoringVolumeBinding) == {*plain, "preScore", "score"}
