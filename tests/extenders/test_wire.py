"""What is sent, byte for byte, and what is read of answers that are more or less what was asked for."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.documents import NodeDocument, PodDocument, WholeMeta
from kscheduler.errors import DecodeError, PluginError
from kscheduler.extenders.wire import (
    FilterAnswer,
    Victims,
    binding_question,
    node_question,
    preemption_question,
    read_binding,
    read_filter,
    read_preemption,
    read_priorities,
)

POD = PodDocument(WholeMeta(name="p", namespace="d", uid="u"), msgspec.Raw(b'{"containers":[]}'))
NODE = NodeDocument(WholeMeta(name="n1"), status=msgspec.Raw(b'{"phase":"x"}'))


def encoded(answer: Any) -> bytes:
    return json.dumps(answer).encode()


# --- questions ---------------------------------------------------------------------------------------------------


def test_nodes_are_named_or_shown_whole() -> None:
    by_name = json.loads(node_question(POD, ["n1", "n2"], None))
    pod = {"metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": {"containers": []}}
    assert by_name == {"Pod": pod, "Nodes": None, "NodeNames": ["n1", "n2"]}
    whole = json.loads(node_question(POD, ["n1", "n2"], {"n1": NODE}))
    items = [{"metadata": {"name": "n1"}, "status": {"phase": "x"}}]
    assert whole == {"Pod": pod, "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}


def test_a_binding_is_sent_by_its_names() -> None:
    question = json.loads(binding_question("d", "p", "u", "n1"))
    assert question == {"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "n1"}


def test_victims_are_sent_by_uid_or_whole() -> None:
    victims = {"n1": Victims(["u", "gone"], 1)}
    meta = json.loads(preemption_question(POD, victims, None))
    assert meta["NodeNameToVictims"] is None
    pods = [{"UID": "u"}, {"UID": "gone"}]
    assert meta["NodeNameToMetaVictims"] == {"n1": {"Pods": pods, "NumPDBViolations": 1}}
    whole = json.loads(preemption_question(POD, victims, {"u": POD}))
    assert whole["NodeNameToMetaVictims"] is None
    assert [pod["metadata"]["uid"] for pod in whole["NodeNameToVictims"]["n1"]["Pods"]] == ["u"]


# --- answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelled", ["NodeNames", "nodenames", "nodeNames", "NODENAMES"])
def test_keys_match_whatever_their_case(spelled: str) -> None:
    assert read_filter(encoded({spelled: ["n1"], "further": 1}), by_name=True).nodes == ["n1"]


def test_a_filters_answer_has_nodes_and_two_kinds_of_failures() -> None:
    body = encoded({"NodeNames": ["a"], "FailedNodes": {"b": "x"}, "FailedAndUnresolvableNodes": {"c": "y"}})
    assert read_filter(body, by_name=True) == FilterAnswer(["a"], {"b": "x"}, {"c": "y"})


def test_names_count_only_for_an_extender_that_was_asked_by_name() -> None:
    both = encoded({"NodeNames": ["a"], "Nodes": {"items": [{"metadata": {"name": "b"}}]}})
    assert read_filter(both, by_name=True).nodes == ["a"]
    assert read_filter(both, by_name=False).nodes == ["b"]
    assert read_filter(encoded({"NodeNames": None}), by_name=True) == FilterAnswer([], {}, {})


def test_scores_are_summed_by_host() -> None:
    body = encoded([{"Host": "a", "Score": 3}, {"host": "a", "score": 4}, {"Host": "b"}])
    assert read_priorities(body) == {"a": 7, "b": 0}
    assert read_priorities(b"null") == {}


def test_victims_are_read_by_uid() -> None:
    body = encoded({"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "u"}], "NumPDBViolations": 2}, "n2": None}})
    assert read_preemption(body) == {"n1": Victims(["u"], 2), "n2": Victims([], 0)}
    assert read_preemption(b"{}") == {}


@pytest.mark.parametrize("read", [lambda body: read_filter(body, by_name=True), read_binding])
def test_an_error_text_is_raised_as_it_is(read: Any) -> None:
    with pytest.raises(PluginError, match=r"^no GPUs$"):
        read(encoded({"error": "no GPUs"}))


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'"text"', b"{", b"\xff", b"[" * 5000])
def test_what_is_no_answer_is_refused_with_its_beginning(body: bytes) -> None:
    with pytest.raises(DecodeError, match=r"expected an ExtenderFilterResult as JSON, got"):
        read_filter(body, by_name=True)


def test_null_is_an_answer_without_anything_as_in_go() -> None:
    """What a handler in Go writes that returns a nil pointer or a nil slice."""
    assert read_filter(b"null\n", by_name=True) == FilterAnswer([], {}, {})
    assert read_priorities(b"null\n") == {}
    assert read_preemption(b"null\n") == {}
    read_binding(b"null\n")
    assert read_filter(b'{"FailedNodes": {"n1": null}}', by_name=True).failed == {"n1": ""}
    assert read_priorities(b'[null, {"Host": "a", "Score": 3}]') == {"": 0, "a": 3}
    assert read_filter(b'{"NodeNames": ["a", null]}', by_name=True).nodes == ["a", ""]
    assert read_filter(b'{"Nodes": {"items": [null, {"metadata": {"name": "b"}}]}}', by_name=False).nodes == ["", "b"]
    assert read_filter(b'{"Nodes": {"items": [{"metadata": null}]}}', by_name=False).nodes == [""]
    assert read_filter(b'{"Nodes": {"items": [{"metadata": {"name": null}}]}}', by_name=False).nodes == [""]


@pytest.mark.parametrize("more", [b"\n", b"{", b" ok", b"\n{}", b"\xff"])
def test_what_follows_the_first_value_of_an_answer_is_not_read(more: bytes) -> None:
    names = "é", "n1"
    assert read_filter(b" " + encoded({"NodeNames": names}) + more, by_name=True).nodes == list(names)
    assert read_priorities(encoded([{"Host": "n1", "Score": 3}]) + more) == {"n1": 3}
    assert read_preemption(b"null" + more) == {}
    read_binding(b"{}" + more)
    with pytest.raises(PluginError, match=r"^no GPUs$"):
        read_binding(encoded({"Error": "no GPUs"}) + more)


def test_what_is_no_unicode_in_a_reason_is_replaced_as_in_go() -> None:
    answer = read_filter(b'{"FailedNodes": {"n1": "caf\xe9"}}', by_name=True)
    assert answer.failed == {"n1": "caf\ufffd"}


def test_a_value_of_another_type_is_refused_with_its_key() -> None:
    for answer in ({"NodeNames": "a"}, {"NodeNames": [1]}):
        with pytest.raises(DecodeError, match=r"^NodeNames"):
            read_filter(encoded(answer), by_name=True)
    with pytest.raises(DecodeError, match=r"^Score"):
        read_priorities(encoded([{"Host": "a", "Score": 1.5}]))


@given(st.binary(max_size=60))
def test_no_answer_raises_anything_else(body: bytes) -> None:
    for read in (lambda text: read_filter(text, by_name=True), read_priorities, read_binding, read_preemption):
        with contextlib.suppress(DecodeError, PluginError):
            read(body)
