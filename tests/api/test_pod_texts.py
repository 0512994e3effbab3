"""A pod read by its text is the pod that its line decodes to, whatever was read before."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.decode import decode_object
from kscheduler.api.objects import APIStruct, Pod
from kscheduler.api.pod_texts import MAX_LINE_BYTES, MOST_LUCK, PASSED_OVER, PodTexts
from kscheduler.api.sharing import PodSharing

Object = dict[str, Any]
TOKEN = "kube-api-access-"


class _Line(APIStruct, frozen=True):
    object: Pod


def a_pod(name: str, node: str = "", **changes: Any) -> Object:
    """Return a pod as an apiserver would write it: with its token's volume, and mounts that name it."""
    token = f"{TOKEN}{name}"
    mounts = [{"name": token, "mountPath": "/var/run/secrets", "readOnly": True}]
    spec = {
        "volumes": [{"name": token, "projected": {"sources": []}}],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}, "volumeMounts": mounts}],
        **({"nodeName": node} if node else {}),
        "schedulerName": "default-scheduler",
        **changes,
    }
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": "7"},
        "spec": spec,
        "status": {"phase": "Pending", **({"conditions": [bound]} if node else {})},
    }


def line_of(pod: Object, event_type: str = "ADDED") -> bytes:
    return json.dumps({"type": event_type, "object": pod}, separators=(",", ":")).encode()


def decoded(line: bytes) -> Pod:
    return PodSharing().keep(decode_object(line, _Line).object)


@pytest.fixture
def texts() -> PodTexts:
    return PodTexts(PodSharing())


# --- equal to decoding --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event_type", ["ADDED", "MODIFIED", "DELETED"])
@pytest.mark.parametrize("node", ["", "n1"])
def test_pods_of_a_template_are_read_by_their_text_and_share_its_parts(
    texts: PodTexts, node: str, event_type: str
) -> None:
    found = []
    for name in ("a", "b", "c-longer"):
        line = line_of(a_pod(name, node), event_type)
        read = texts.read(line)
        assert read is not None
        assert read == (event_type, decoded(line))
        found.append(read[1])
    assert found[0].spec.containers is found[2].spec.containers
    assert (found[0].spec is found[2].spec) == (not node), "a pod without a node has nothing of its own in its spec"
    assert found[0].status is found[2].status


def test_the_status_of_a_pod_with_claims_of_its_own_is_not_kept_for_others(texts: PodTexts) -> None:
    assert texts.read(line_of(a_pod("plain"))) is not None
    kept = len(texts._statuses)
    for number in range(20):
        pod = a_pod(f"p{number}", "n1" if number % 2 else "")
        claims = [{"name": "gpu", "resourceClaimName": f"p{number}-gpu"}]
        if number % 3:
            pod["status"]["resourceClaimStatuses"] = claims
        else:
            pod["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": f"p{number}-x", "requestMappings": []}
        line = line_of(pod, "MODIFIED")
        assert texts.read(line) == ("MODIFIED", decoded(line))
    assert len(texts._statuses) == kept


def test_a_bound_pod_shares_the_parts_it_had_while_it_waited(texts: PodTexts) -> None:
    pending, bound = texts.read(line_of(a_pod("a"))), texts.read(line_of(a_pod("a", "n1"), "MODIFIED"))
    assert pending is not None
    assert bound is not None
    assert bound[1].spec.node_name == "n1"
    assert bound[1].spec.containers is pending[1].spec.containers


names = st.sampled_from(["n1", "n2", "x", "", "a\\nb", 'q"q', "ü"])
tokens = st.sampled_from([TOKEN, f"{TOKEN}abc", f"{TOKEN}xyz", f"my-{TOKEN}abc", f"{TOKEN}ab"])
values = st.one_of(names, tokens)
pods = st.builds(
    lambda name, node, token, selector, key, value, claim, swap, status: with_traps(
        name, node, token, selector, key, value, claim=claim, swap=swap, status=status
    ),
    st.sampled_from(["p", "q"]),
    names,
    tokens,
    values,
    st.sampled_from(["nodeName", "zone", TOKEN]),
    values,
    st.booleans(),
    st.booleans(),
    st.sampled_from([{}, {"phase": "Pending"}, {"phase": "Running", "podIP": "10.0.0.1"}]),
)


def with_traps(
    name: str, node: str, token: str, selector: str, key: str, value: str, *, claim: bool, swap: bool, status: Object
) -> Object:
    """Return a pod with the names that are cut out of texts in places where they mean something."""
    source: Object = {"persistentVolumeClaim": {"claimName": "c"}} if claim else {"projected": {}}
    fields: list[tuple[str, Any]] = [
        ("volumes", [{"name": token, **source}]),
        ("containers", [{"name": "c", "volumeMounts": [{"name": token}]}]),
        ("nodeSelector", {key: selector}),
        ("tolerations", [{"key": "k", "value": value}]),
    ]
    fields.insert(1 if swap else 3, ("nodeName", node))
    metadata = {"name": name, "namespace": "shop", "uid": name, "labels": {key: value}, "resourceVersion": "1"}
    return {"metadata": metadata, "spec": dict(fields), "status": status}


@given(st.lists(pods, min_size=1, max_size=12))
def test_whatever_was_read_before_a_pod_is_what_its_line_decodes_to(drawn: list[Object]) -> None:
    texts = PodTexts(PodSharing())
    for pod in drawn:
        line = line_of(pod)
        read = texts.read(line)
        assert read is None or read[1] == decoded(line)


def test_a_selector_named_as_the_node_is_not_taken_for_the_node(texts: PodTexts) -> None:
    for selector in ("n1", "n2"):
        line = line_of(a_pod("a", nodeSelector={"nodeName": selector}))
        assert texts.read(line) is None
    both = line_of(a_pod("a", "n1", nodeSelector={"nodeName": "n1"}))
    assert texts.read(both) is None


def test_a_token_name_that_means_something_is_not_left_out(texts: PodTexts) -> None:
    for name in ("a", "b"):
        line = line_of(a_pod(name, nodeSelector={"pool": f"{TOKEN}{name}"}))
        assert texts.read(line) is None


# --- what is left to the decoder ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"},"spec":{"containers":null}}}',
        b'{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410}}',
        b'{"type":"ADDED","object":{"metadata":{"name":null},"spec":{}}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"p"},"spec":{"priority":"high"}}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"p"},"spec":{},"status":{"phase":1}}}',
        b'{"type":"ADDED"',
        line_of(a_pod("long", nodeSelector={"x": "y" * MAX_LINE_BYTES})),
    ],
)
def test_a_line_with_anything_unusual_is_left_to_the_decoder(texts: PodTexts, line: bytes) -> None:
    assert texts.read(line) is None
    assert texts.read(line) is None


def test_lines_that_never_have_equal_texts_are_soon_passed_over(texts: PodTexts) -> None:
    lines = [line_of(a_pod("p", hostname=f"db-{number}")) for number in range(MOST_LUCK + 2)]
    read = [texts.read(line) is not None for line in lines]
    assert read[:MOST_LUCK] == [True] * MOST_LUCK
    assert not read[-1]
    assert len(texts._parts) <= 1  # nothing is kept of what no other pod shares
    for _ in range(PASSED_OVER):
        texts.read(lines[0])
    assert texts.read(lines[-2]) is not None


def test_the_texts_of_ever_new_templates_are_bounded() -> None:
    texts = PodTexts(PodSharing(), max_bytes=20_000)
    sizes = []
    for number in range(400):
        texts.read(line_of(a_pod("p", hostname=f"db-{number}")))
        sizes.append(len(texts._parts))
    assert max(sizes[100:]) <= max(sizes[:100])
