"""Objects are decoded one by one; a bad one is refused with its name and field, and spoils nothing else."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.decode import (
    UNNAMED,
    DecodedEvent,
    DecodedList,
    check_pod,
    convert_object,
    decode_list,
    decode_object,
    decode_watch_line,
)
from kscheduler.api.objects import (
    Affinity,
    LabelSelector,
    Node,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    SelectorRequirement,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from kscheduler.api.resources import node_allocatable
from kscheduler.errors import DecodeError
from kscheduler.testing import make_node, make_pod

GOOD = b'{"metadata":{"name":"web","namespace":"shop","resourceVersion":"7"},"spec":{"containers":[{"name":"c"}]}}'
BAD = b'{"metadata":{"name":"bad","namespace":"shop","resourceVersion":"8"},"spec":{"priority":"high"}}'


class Bad(list[tuple[str, str]]):
    """Collects what is reported."""

    def __call__(self, key: str, what: str) -> None:
        self.append((key, what))


# --- single objects ---------------------------------------------------------------------------------------------


def test_an_object_is_decoded_and_fields_nobody_reads_are_skipped() -> None:
    raw = b'{"kind":"Pod","metadata":{"name":"a","managedFields":[{"x":1}]},"spec":{"dnsPolicy":"Default"}}'
    assert decode_object(raw, Pod).metadata.name == "a"


@pytest.mark.parametrize(
    "raw",
    [
        b'{"metadata":{"name":"a","creationTimestamp":null,"labels":null,"namespace":null}}',
        b'{"metadata":{"name":"a"},"spec":{"containers":null,"initContainers":null,"nodeName":null}}',
        b'{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","ports":null,"image":null}]}}',
        b'{"metadata":{"name":"a"},"spec":{"affinity":{"nodeAffinity":{'
        b'"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":null}}}}}',
        b'{"metadata":{"name":"a"},"spec":null,"status":null}',
        b'{"metadata":{"name":"a"},"status":{"conditions":[{"type":"Ready","lastProbeTime":null,"message":null}]}}',
    ],
)
def test_null_means_absent(raw: bytes) -> None:
    assert decode_object(raw, Pod).metadata.name == "a"
    assert decode_object(raw, Pod).spec.node_name == ""


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (BAD, 'shop/bad: spec.priority: expected int | null, got "high"'),
        (b'{"metadata":{"name":"n"},"spec":[]}', "n: spec: expected object, got []"),
        (b'{"metadata":{"name":"n","labels":{"a":1}}}', "n: metadata.labels[...]: expected str, got int"),
        (
            b'{"metadata":{"name":"n"},"spec":{"containers":[{},{"ports":[{"hostPort":"x"}]}]}}',
            'n: spec.containers[1].ports[0].hostPort: expected int, got "x"',
        ),
        (b"[]", f"{UNNAMED}: expected object, got []"),
        (b"{", f"{UNNAMED}: expected JSON, got 1 byte of what is none: "),
        (b'{"metadata":7}', f"{UNNAMED}: metadata: expected object, got 7"),
        (b'{"spec":"' + b"x" * 500 + b'"}', f"{UNNAMED}: spec: expected object, got "),
    ],
)
def test_a_bad_object_is_refused_with_name_field_and_value(raw: bytes, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_object(raw, Pod)
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "raw",
    [
        b'{"metadata":{"name":"a"},"spec":{"node\xffame":"n","containers":[]}}',  # nodeName would be absent
        b'{"metadata":{"name":"a","unknown":"\xff"},"spec":{"containers":[]}}',
    ],
)
def test_an_object_with_a_byte_that_is_no_utf8_is_refused_though_nothing_that_is_read_holds_it(raw: bytes) -> None:
    with pytest.raises(DecodeError, match="expected UTF-8, got a byte 0xff"):
        decode_object(raw, Pod)


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(DecodeError):
        decode_object(b'{"spec":' * 100_000, Pod)


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_any_bytes_are_decoded_or_refused(raw: bytes) -> None:
    try:
        decode_object(raw, Pod)
    except DecodeError:
        return


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["metadata", "name", "spec", "containers", "labels", "resources"]), inner)
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_document_is_converted_or_refused(document: object) -> None:
    try:
        pod = convert_object(document, Pod)
    except DecodeError:
        return
    assert decode_object(msgspec.json.encode(document), Pod) == pod


# --- lists ------------------------------------------------------------------------------------------------------


def test_a_list_comes_without_the_objects_that_cannot_be_read() -> None:
    bad = Bad()
    raw = b'{"metadata":{"resourceVersion":"9","continue":"abc"},"items":[' + GOOD + b"," + BAD + b"," + GOOD + b"]}"
    page = decode_list(raw, Pod, bad)
    assert [pod.key for pod in page.items] == ["shop/web", "shop/web"]
    assert (page.resource_version, page.continue_token) == ("9", "abc")
    assert bad == [("shop/bad", 'spec.priority: expected int | null, got "high"')]


@pytest.mark.parametrize(
    "raw", [b'{"metadata":{"resourceVersion":"9"},"items":null}', b'{"metadata":{"resourceVersion":"9"}}']
)
def test_a_list_without_items_is_empty(raw: bytes) -> None:
    assert decode_list(raw, Pod, Bad()) == DecodedList([], "9", "")


def test_what_is_no_list_is_refused() -> None:
    with pytest.raises(DecodeError):
        decode_list(b'{"items":5}', Pod, Bad())


# --- watches ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event_type", ["ADDED", "MODIFIED", "DELETED"])
def test_a_watch_line_carries_an_object(event_type: str) -> None:
    line = decode_watch_line(b'{"type":"%s","object":%s}' % (event_type.encode(), GOOD), Pod, Bad())
    assert line.object is not None
    assert (line.type, line.object.key, line.resource_version, line.error) == (event_type, "shop/web", "7", None)


def test_a_bookmark_carries_only_the_version() -> None:
    raw = b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"12","creationTimestamp":null}}}'
    assert decode_watch_line(raw, Pod, Bad()) == DecodedEvent("BOOKMARK", None, "12", None)


def test_an_error_carries_the_status() -> None:
    raw = (
        b'{"type":"ERROR","object":{"kind":"Status","metadata":{},"status":"Failure","message":"too old",'
        b'"reason":"Expired","code":410,"details":{"retryAfterSeconds":3}}}'
    )
    error = decode_watch_line(raw, Pod, Bad()).error
    assert error is not None
    assert (error.code, error.reason, error.message) == (410, "Expired", "too old")
    assert error.details is not None
    assert error.details.retry_after_seconds == 3


def test_a_bad_object_in_a_watch_is_reported_and_the_version_is_kept() -> None:
    bad = Bad()
    line = decode_watch_line(b'{"type":"MODIFIED","object":' + BAD + b"}", Pod, bad)
    assert (line.type, line.object, line.resource_version) == ("MODIFIED", None, "8")
    assert [key for key, _ in bad] == ["shop/bad"]


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"type":"ADDED"', b'{"type":5,"object":{}}'])
def test_what_is_no_event_is_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_watch_line(raw, Pod, Bad())


# --- sense ------------------------------------------------------------------------------------------------------

FOO = LabelSelector(match_expressions=[SelectorRequirement("a", "Foo")])


@pytest.mark.parametrize(
    ("pod", "path"),
    [
        (make_pod("p").req(cpu="abc").obj(), "spec.containers[0].resources.requests[cpu]: "),
        (
            make_pod("p").node_affinity("a", "Foo").obj(),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
            ".matchExpressions[0].operator: ",
        ),
        (
            make_pod("p").node_affinity_in("a", ["b"]).node_affinity("a", "Foo", new_term=True).obj(),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]"
            ".matchExpressions[0].operator: ",
        ),
        (
            make_pod("p").preferred_node_affinity(1, "a").obj(),
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference"
            ".matchExpressions[0].values: ",
        ),
        (
            Pod(spec=PodSpec(topology_spread_constraints=[TopologySpreadConstraint(label_selector=FOO)])),
            "spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator: ",
        ),
        (
            Pod(spec=PodSpec(affinity=Affinity(pod_affinity=PodAffinity([PodAffinityTerm(label_selector=FOO)])))),
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector"
            ".matchExpressions[0].operator: ",
        ),
        (
            Pod(
                spec=PodSpec(
                    affinity=Affinity(
                        pod_anti_affinity=PodAffinity(
                            None, [WeightedPodAffinityTerm(1, PodAffinityTerm(namespace_selector=FOO))]
                        )
                    )
                )
            ),
            "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm"
            ".namespaceSelector.matchExpressions[0].operator: ",
        ),
    ],
)
def test_a_pod_that_makes_no_sense_is_refused_with_the_path(pod: Pod, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        check_pod(pod)
    assert str(caught.value).startswith(path)


def test_pods_and_nodes_that_make_sense_pass() -> None:
    check_pod(make_pod("p").req(cpu="1").node_affinity_in("a", ["b"]).preferred_node_affinity(1, "a", ["b"]).obj())
    node_allocatable(make_node("n").capacity(cpu=1).obj())


def test_a_node_that_makes_no_sense_is_refused_with_the_path() -> None:
    with pytest.raises(DecodeError, match=r"status\.allocatable\[cpu\]"):
        node_allocatable(make_node("n").capacity(cpu="many").obj())


def test_what_is_decoded_and_encoded_again_is_unchanged() -> None:
    node = make_node("n").capacity(cpu="4").label("a", "b").taint("t").image("i", 5).obj()
    assert decode_object(msgspec.json.encode(node), Node) == node
