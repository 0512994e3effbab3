"""Any cluster with volumes, claims, classes and capacities, as hypothesis draws it."""

from __future__ import annotations

from hypothesis import strategies as st

from kscheduler.api.objects import LabelSelector, NodeSelector, NodeSelectorTerm, SelectorRequirement
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.testing import make_node
from tests.framework.plugins.volumebinding.both_forms import Judge
from tests.framework.plugins.volumebinding.objects import (
    HOSTNAME,
    make_capacity,
    make_claim,
    make_class,
    make_driver,
    make_volume,
    refer_to,
)

NODES = tuple(f"n{i}" for i in range(6))
KEYS = {"zone": ("a", "b"), "rack": tuple(f"r{i}" for i in range(40)), HOSTNAME: NODES}
SIZES = ("1Gi", "2Gi", "5Gi")
CLASSES = ("static", "dynamic")
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
