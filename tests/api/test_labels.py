"""Selectors match as the API says, and malformed ones are refused with their path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.labels import (
    compile_label_selector,
    compile_node_selector_term,
    compile_preferred_terms,
    compile_required_node_affinity,
)
from kscheduler.api.objects import LabelSelector, NodeSelectorTerm, SelectorRequirement
from kscheduler.errors import DecodeError
from kscheduler.testing import make_pod

LABELS = {"zone": "a", "cores": "8", "empty": "", "big": "9223372036854775808", "below": "-1", "above": "+9"}


def term(*expressions: SelectorRequirement, fields: list[SelectorRequirement] | None = None) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=list(expressions) or None, match_fields=fields)


def requirement(key: str, operator: str, *values: str) -> SelectorRequirement:
    return SelectorRequirement(key, operator, list(values) or None)


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("zone", "In", ["a", "b"], True),
        ("zone", "In", ["b"], False),
        ("absent", "In", ["a"], False),
        ("empty", "In", [""], True),
        ("absent", "In", [""], False),
        ("zone", "NotIn", ["a"], False),
        ("zone", "NotIn", ["b"], True),
        ("absent", "NotIn", ["a"], True),
        ("empty", "Exists", [], True),
        ("absent", "Exists", [], False),
        ("zone", "DoesNotExist", [], False),
        ("absent", "DoesNotExist", [], True),
        ("cores", "Gt", ["7"], True),
        ("cores", "Gt", ["8"], False),
        ("cores", "Lt", ["9"], True),
        ("cores", "Lt", ["8"], False),
        ("below", "Lt", ["0"], True),
        ("above", "Gt", ["8"], True),
        ("zone", "Gt", ["0"], False),
        ("zone", "Lt", ["0"], False),
        ("empty", "Lt", ["1"], False),
        ("absent", "Gt", ["0"], False),
        ("absent", "Lt", ["0"], False),
        ("big", "Gt", ["0"], False),
    ],
)
def test_a_requirement_matches_a_label(key: str, operator: str, values: list[str], expected: bool) -> None:
    compiled = compile_node_selector_term(term(requirement(key, operator, *values)), "t")
    assert compiled.matches(LABELS, "n") is expected


def test_the_expressions_of_a_term_are_anded() -> None:
    both = compile_node_selector_term(term(requirement("zone", "In", "a"), requirement("cores", "Gt", "7")), "t")
    assert both.matches(LABELS, "n")
    assert not both.matches({**LABELS, "cores": "1"}, "n")


def test_a_term_without_requirements_matches_nothing() -> None:
    assert not compile_node_selector_term(NodeSelectorTerm(), "t").matches(LABELS, "n")


def test_a_term_may_name_its_node() -> None:
    by_name = compile_node_selector_term(term(fields=[requirement("metadata.name", "In", "n1")]), "t")
    assert by_name.matches({}, "n1")
    assert not by_name.matches({}, "n2")
    assert (by_name.reads_node_name, by_name.node_names) == (True, frozenset({"n1"}))


def test_a_term_may_exclude_a_node_and_then_names_none() -> None:
    other = compile_node_selector_term(term(fields=[requirement("metadata.name", "NotIn", "n1")]), "t")
    assert other.matches({}, "n2")
    assert not other.matches({}, "n1")
    assert (other.reads_node_name, other.node_names) == (True, None)


def test_two_names_in_one_term_leave_no_node() -> None:
    fields = [requirement("metadata.name", "In", "n1"), requirement("metadata.name", "In", "n2")]
    assert compile_node_selector_term(term(fields=fields), "t").node_names == frozenset()


def test_a_term_lists_the_labels_that_it_reads() -> None:
    compiled = compile_node_selector_term(term(requirement("zone", "In", "a"), requirement("x", "Exists")), "t")
    assert (compiled.label_keys, compiled.reads_node_name, compiled.node_names) == (
        frozenset({"zone", "x"}),
        False,
        None,
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            term(requirement("a", "Exists"), requirement("b", "Foo")),
            't.matchExpressions[1].operator: expected one of In, NotIn, Exists, DoesNotExist, Gt, Lt, got "Foo"',
        ),
        (term(requirement("a", "In")), "t.matchExpressions[0].values: expected at least one value for In, got none"),
        (
            term(requirement("a", "Exists", "x", "y")),
            't.matchExpressions[0].values: expected none for Exists, got "x", "y"',
        ),
        (term(requirement("a", "Gt", "x")), 't.matchExpressions[0].values: expected one integer for Gt, got "x"'),
        (
            term(requirement("a", "Lt", "1", "2")),
            't.matchExpressions[0].values: expected one integer for Lt, got "1", "2"',
        ),
        (term(requirement("a", "Lt", "1_0")), 't.matchExpressions[0].values: expected one integer for Lt, got "1_0"'),
        (term(requirement("", "Exists")), 't.matchExpressions[0].key: expected the key of a label, got ""'),
        (term(requirement("a b", "Exists")), 't.matchExpressions[0].key: expected the key of a label, got "a b"'),
        (term(requirement("a", "In", "b", "?")), 't.matchExpressions[0].values: expected values of a label, got "?"'),
        (term(requirement("a", "Gt", "-1")), 't.matchExpressions[0].values: expected values of a label, got "-1"'),
        (
            term(fields=[requirement("metadata.uid", "In", "x")]),
            't.matchFields[0].key: expected metadata.name, got "metadata.uid"',
        ),
        (
            term(fields=[requirement("metadata.name", "Exists")]),
            't.matchFields[0].operator: expected one of In, NotIn, got "Exists"',
        ),
        (
            term(fields=[requirement("metadata.name", "In", "a", "b")]),
            't.matchFields[0].values: expected exactly one node name, got "a", "b"',
        ),
    ],
)
def test_a_malformed_term_is_refused_with_its_path(source: NodeSelectorTerm, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        compile_node_selector_term(source, "t")
    assert str(caught.value) == message


def test_a_pod_without_constraints_may_go_anywhere() -> None:
    assert compile_required_node_affinity(make_pod("p").obj()) is None
    assert compile_required_node_affinity(make_pod("p").preferred_node_affinity(1, "a", ["b"]).obj()) is None


def test_node_selector_and_terms_both_have_to_match_and_terms_are_ored() -> None:
    pod = make_pod("p").node_selector("disk", "ssd").node_affinity_in("zone", ["a"])
    required = compile_required_node_affinity(pod.node_affinity("zone", "In", ["b"], new_term=True).obj())
    assert required is not None
    assert required.matches({"disk": "ssd", "zone": "a"}, "n")
    assert required.matches({"disk": "ssd", "zone": "b"}, "n")
    assert not required.matches({"disk": "ssd", "zone": "c"}, "n")
    assert not required.matches({"zone": "a"}, "n")
    assert required.label_keys == {"disk", "zone"}


def test_a_pod_names_its_nodes_only_if_every_term_does() -> None:
    def names(**kwargs: str) -> frozenset[str] | None:
        pod = make_pod("p").node_names("n1", "n2")
        required = compile_required_node_affinity(
            (pod.node_affinity("zone", "In", ["a"], new_term=True) if kwargs else pod).obj()
        )
        assert required is not None
        assert required.reads_node_name
        return required.node_names

    assert names() == frozenset({"n1", "n2"})
    assert names(and_="a term without names") is None


def test_an_affinity_without_terms_matches_nothing() -> None:
    pod = make_pod("p").node_affinity_in("zone", ["a"]).obj()
    affinity = pod.spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None
    required.node_selector_terms.clear()
    compiled = compile_required_node_affinity(pod)
    assert compiled is not None
    assert not compiled.matches({"zone": "a"}, "n")
    assert compiled.node_names is None


def test_a_malformed_affinity_is_refused_with_its_path_in_the_pod() -> None:
    pod = make_pod("p").node_affinity_in("a", ["b"]).node_affinity("c", "Foo").obj()
    with pytest.raises(DecodeError) as caught:
        compile_required_node_affinity(pod)
    assert str(caught.value) == (
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
        '.matchExpressions[1].operator: expected one of In, NotIn, Exists, DoesNotExist, Gt, Lt, got "Foo"'
    )


def test_a_malformed_term_leaves_the_others_their_say() -> None:
    pod = make_pod("p").node_affinity("cores", "Gt", ["many"]).node_affinity("zone", "In", ["a"], new_term=True)
    required = compile_required_node_affinity(pod.obj())
    assert required is not None
    assert required.matches({"zone": "a"}, "n")
    assert not required.matches({"cores": "8"}, "n")
    named = compile_required_node_affinity(make_pod("p").node_affinity("a", "Foo").node_names("n").obj())
    assert named is not None
    assert named.node_names is None, "every node is asked, so that the malformed term shows in the reasons"


def test_preferred_terms_come_with_their_weight_and_those_that_add_nothing_are_left_out() -> None:
    pod = make_pod("p").preferred_node_affinity(5, "zone", ["a"]).preferred_node_affinity(0, "zone", operator="Foo")
    ((weight, compiled),) = compile_preferred_terms(pod.obj())
    assert weight == 5
    assert compiled.matches({"zone": "a"}, "n")
    with pytest.raises(DecodeError, match=r"preferredDuring\w+\[2\]\.preference\.matchExpressions\[0\]\.operator"):
        compile_preferred_terms(pod.preferred_node_affinity(1, "zone", operator="Foo").obj())


def test_compiled_values_are_equal_if_their_requirements_are() -> None:
    def required(*zones: str) -> object:
        return compile_required_node_affinity(make_pod("p").node_affinity_in("zone", zones).obj())

    assert required("a", "b") == required("b", "a")
    assert hash(required("a", "b")) == hash(required("b", "a"))
    assert required("a") != required("b")


@pytest.mark.parametrize(
    ("sentence", "selector", "expected"),
    [
        ("no selector matches nothing", None, False),
        ("an empty selector matches everything", LabelSelector(), True),
        ("labels are compared", LabelSelector(match_labels={"zone": "a"}), True),
        ("another value does not match", LabelSelector(match_labels={"zone": "b"}), False),
        (
            "labels and expressions are ANDed",
            LabelSelector({"zone": "a"}, [requirement("cores", "DoesNotExist")]),
            False,
        ),
        ("NotIn matches without the label", LabelSelector(None, [requirement("absent", "NotIn", "x")]), True),
    ],
)
def test_a_label_selector_matches(sentence: str, selector: LabelSelector | None, expected: bool) -> None:
    assert compile_label_selector(selector, "s").matches(LABELS) is expected, sentence


def test_label_selectors_do_not_compare_integers() -> None:
    with pytest.raises(DecodeError, match=r's\.matchExpressions\[0\]\.operator: expected one of In, .*, got "Gt"'):
        compile_label_selector(LabelSelector(None, [requirement("cores", "Gt", "1")]), "s")


def test_labels_of_a_selector_have_to_be_labels() -> None:
    with pytest.raises(DecodeError, match=r's\.matchLabels\[a\]\.values: expected values of a label, got "\?"'):
        compile_label_selector(LabelSelector({"a": "?"}), "s")


def test_a_label_selector_lists_the_labels_that_it_reads() -> None:
    selector = LabelSelector({"a": "b"}, [requirement("c", "Exists")])
    assert compile_label_selector(selector, "s").label_keys == {"a", "c"}


@given(
    st.dictionaries(st.sampled_from("ab"), st.sampled_from("123"), max_size=2),
    st.sampled_from("ab"),
    st.lists(st.sampled_from("123"), min_size=1, max_size=3),
)
def test_not_in_is_the_opposite_of_in_and_does_not_exist_of_exists(
    labels: dict[str, str], key: str, values: list[str]
) -> None:
    def matches(operator: str, *values: str) -> bool:
        return compile_node_selector_term(term(requirement(key, operator, *values)), "t").matches(labels, "n")

    assert matches("In", *values) is not matches("NotIn", *values)
    assert matches("Exists") is not matches("DoesNotExist")
