"""Which source an object is encoded from, and how often."""

from __future__ import annotations

import json

import msgspec

from kscheduler.api.documents import NodeDocument, PodDocument
from kscheduler.api.objects import Node, Pod
from kscheduler.testing.wrappers import make_node, make_pod
from kscheduler.wasm.extension.encoding.messages import encode
from kscheduler.wasm.extension.encoding.objects import ObjectEncoder, _Kept
from tests.wasm.extension.encoding.kept_objects import KeptObjects
from tests.wasm.extension.encoding.samples import NODE, POD


def test_an_object_that_somebody_keeps_whole_is_shown_whole() -> None:
    pod = msgspec.json.decode(json.dumps(POD), type=Pod)
    node = msgspec.json.decode(json.dumps(NODE), type=Node)
    kept = KeptObjects(
        {pod.metadata.uid: msgspec.json.decode(json.dumps(POD), type=PodDocument)},
        {node.metadata.name: msgspec.json.decode(json.dumps(NODE), type=NodeDocument)},
    )
    encoder = ObjectEncoder(kept)
    assert encoder.pod(encoder.whole(pod)) == encode("Pod", POD)
    assert encoder.node(node) == encode("Node", NODE)


def test_an_object_that_nobody_keeps_is_shown_as_decisions_see_it() -> None:
    pod = make_pod("p").req(cpu="1").obj()
    shown = ObjectEncoder().pod(pod)
    assert b"p" in shown
    assert shown == encode("Pod", msgspec.to_builtins(pod))


def test_a_version_of_an_object_is_encoded_once() -> None:
    encoder = ObjectEncoder()
    first = make_node("n").label(zone="a").obj()
    second = make_node("n").label(zone="b").obj()
    assert encoder.node(first) is encoder.node(first)
    assert encoder.node(second) != encoder.node(first)


def test_a_list_of_nodes_is_its_nodes_after_an_empty_metadata() -> None:
    nodes = [make_node("a").obj(), make_node("b").label(zone="z").obj()]
    items = [msgspec.to_builtins(node) for node in nodes]
    assert ObjectEncoder().node_list(nodes) == encode("NodeList", {"items": items})


def test_what_was_not_asked_for_longest_goes_first() -> None:
    kept: _Kept[str] = _Kept(limit=2500)
    sources = {name: object() for name in "abc"}
    for name in "ab":
        kept.keep(name, sources[name], bytes(900))
    assert kept.find("a", sources["a"]) is not None
    kept.keep("c", sources["c"], bytes(900))
    assert [name for name in "abc" if kept.find(name, sources[name]) is not None] == ["a", "c"]


def test_one_object_is_kept_however_large_it_is() -> None:
    kept: _Kept[str] = _Kept(limit=10)
    source = object()
    kept.keep("a", source, bytes(900))
    assert kept.find("a", source) == bytes(900)
