"""On any cluster both forms say what the rules say; where there are many nodes, too."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.objects import LabelSelector, NodeSelector, NodeSelectorTerm, SelectorRequirement
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.framework.plugins.volumebinding.obstacles import status_of
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node
from tests.framework.plugins.volumebinding.both_forms import Judge
from tests.framework.plugins.volumebinding.objects import (
    HOSTNAME,
    make_capacity,
    make_claim,
    make_class,
    make_driver,
    make_volume,
    pod_with,
    refer_to,
)
from tests.framework.plugins.volumebinding.oracle import judge

NODES = tuple(f"n{i}" for i in range(6))
KEYS = {"zone": ("a", "b"), "rack": tuple(f"r{i}" for i in range(40)), HOSTNAME: NODES}
SIZES = ("1Gi", "2Gi", "5Gi")
CLASSES = ("static", "dynamic")
CHANGES = ("reserve", "reserve", "volume", "no volume", "claim", "class", "capacity", "no capacity", "node")
CSI = "csi.example.com"


@st.composite
def needs(draw: st.DrawFn) -> SelectorRequirement:
    key = draw(st.sampled_from(sorted(KEYS)))
    operator = draw(st.sampled_from(["In", "In", "In", "NotIn", "Exists", "DoesNotExist"]))
    values = draw(st.lists(st.sampled_from(KEYS[key]), min_size=1, max_size=3)) if "In" in operator else []
    return SelectorRequirement(key, operator, values)


@st.composite
def affinities(draw: st.DrawFn) -> NodeSelector | None:
    if draw(st.integers(0, 3)) == 0:
        return None
    terms = draw(st.lists(st.lists(needs(), max_size=2), min_size=1, max_size=2))
    return NodeSelector([NodeSelectorTerm(expressions) for expressions in terms])


@st.composite
def volumes(draw: st.DrawFn, name: str) -> PersistentVolume:
    claim = draw(st.sampled_from(["", "", "", "c0", "c1", "other"]))
    return make_volume(
        name,
        draw(st.sampled_from(CLASSES)),
        draw(st.sampled_from(SIZES)),
        affinity=draw(affinities()),
        claim=refer_to(claim, draw(st.sampled_from([None, None, "", "former"]))) if claim else "",
        mode=draw(st.sampled_from([None, None, "Filesystem", "Block"])),
        modes=draw(st.sampled_from([["ReadWriteOnce"], ["ReadWriteOnce", "ReadWriteMany"]])),
        phase=draw(st.sampled_from(["Available", "Available", "Available", "Released"])),
        labels=draw(st.sampled_from([None, {"tier": "1"}])),
        deleted=draw(st.integers(0, 9)) == 0,
    )


@st.composite
def claims(draw: st.DrawFn, name: str) -> PersistentVolumeClaim:
    kind = draw(st.integers(0, 4))
    return make_claim(
        name,
        draw(st.sampled_from(CLASSES)),
        draw(st.sampled_from(SIZES)),
        volume=draw(st.sampled_from(["v0", "v1", "v2", "gone"])) if kind == 0 else "",
        selected_node=draw(st.sampled_from(NODES)) if kind == 1 else "",
        selector=draw(st.sampled_from([None, None, LabelSelector({"tier": "1"})])),
        modes=draw(st.sampled_from([["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteMany"]])),
    )


@st.composite
def judges(draw: st.DrawFn) -> Judge:
    nodes = []
    for name in NODES:
        node = make_node(name)
        for key in ("zone", "rack"):
            if draw(st.integers(0, 4)):
                node = node.label(key, draw(st.sampled_from(KEYS[key][:6])))
        nodes.append(node)
    # Nodes of many profiles, so that looking for the few with a label pays.
    nodes += [make_node(f"far{i}").label("rack", f"r{i}") for i in range(draw(st.sampled_from([0, 0, 40])))]
    judged = Judge(nodes)
    known = judged.volumes
    known.set_storage_class(make_class("static"))
    allowed = draw(st.sampled_from([[], [], [{"zone": ["a"]}], [{"rack": ["r1", "r2"]}, {HOSTNAME: ["n3"]}]]))
    known.set_storage_class(make_class("dynamic", CSI, "WaitForFirstConsumer", *allowed))
    known.set_csi_driver(make_driver(CSI, draw(st.booleans())))
    for index in range(draw(st.integers(0, 6))):
        known.set_volume(draw(volumes(f"v{index}")))
    for index in range(draw(st.integers(0, 3))):
        topology = draw(st.sampled_from([{"zone": "a"}, {HOSTNAME: "n1"}, {"rack": "r2", "zone": "b"}, {}, None]))
        size, maximum = draw(st.sampled_from(SIZES)), draw(st.sampled_from([None, None, *SIZES]))
        known.set_capacity(make_capacity(f"k{index}", "dynamic", size, topology, maximum))
    for name in ("c0", "c1", "c2"):
        known.set_claim(draw(claims(name)))
    return judged


@settings(max_examples=400, deadline=None)
@given(judges(), st.lists(st.sampled_from(["c0", "c1", "c2"]), min_size=1, max_size=3))
def test_both_forms_say_what_the_rules_say(judged: Judge, names: list[str]) -> None:
    pod = pod_with(*names)
    found = judged.filter(pod)
    for node in judged.cache.table:
        expected = judge(pod.obj(), judged.volumes, node.labels, node.name)
        assert found[node.name] == (status_of(expected) if expected else None), node.name


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_is_remembered_of_one_pod_is_right_for_the_next(data: st.DataObject) -> None:
    judged = data.draw(judges())
    for _ in range(6):
        names = data.draw(st.lists(st.sampled_from(["c0", "c1", "c2"]), min_size=1, max_size=2))
        found = judged.filter(pod_with(*names))
        for node in judged.cache.table:
            expected = judge(pod_with(*names).obj(), judged.volumes, node.labels, node.name)
            assert found[node.name] == (status_of(expected) if expected else None), node.name
        change = data.draw(st.sampled_from(CHANGES))
        known = judged.volumes
        if change == "reserve":
            node_name = next((name for name, status in found.items() if status is None), "n0")
            info = PodInfo(pod_with(*names).obj())
            judged.plugin.reserve(judged.state, info, node_name)
            if data.draw(st.booleans()):
                judged.plugin.unreserve(judged.state, info, node_name)
        elif change == "volume":
            known.set_volume(data.draw(volumes(data.draw(st.sampled_from(["v0", "v1", "new"])))))
        elif change == "no volume":
            known.remove_volume("v0")
        elif change == "claim":
            known.set_claim(data.draw(claims("c0")))
        elif change == "class":
            known.set_storage_class(make_class("dynamic", CSI, "WaitForFirstConsumer", {"zone": ["b"]}))
        elif change == "capacity":
            topology = data.draw(st.sampled_from([{}, {"rack": "r2"}, {HOSTNAME: "n2"}]))
            known.set_capacity(make_capacity("k0", "dynamic", data.draw(st.sampled_from(SIZES)), topology))
        elif change == "no capacity":
            known.remove_capacity("kube-system", "k0")
        else:
            judged.cache.set_node(make_node("n0").label("zone", data.draw(st.sampled_from(["a", "b", "new"]))).obj())
