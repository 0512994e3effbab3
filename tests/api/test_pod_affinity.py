"""Terms of pod affinity: which pods they mean, what is malformed, and what two terms have to share to be one."""

from __future__ import annotations

import pytest

from kscheduler.api.objects import (
    Affinity,
    LabelSelector,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    SelectorRequirement,
    WeightedPodAffinityTerm,
)
from kscheduler.api.pod_affinity import (
    AffinityTerm,
    HeldTerm,
    TermKind,
    compile_affinity_term,
    compile_pod_affinity,
    has_preferred_terms,
)
from kscheduler.errors import DecodeError

WEB = LabelSelector(match_labels={"app": "web"})
EVERY = LabelSelector()
BROKEN = LabelSelector(match_expressions=[SelectorRequirement("app", "Like", ["web"])])


def term(
    selector: LabelSelector | None = WEB,
    namespaces: list[str] | None = None,
    namespace_selector: LabelSelector | None = None,
    key: str = "zone",
) -> PodAffinityTerm:
    return PodAffinityTerm(key, selector, namespaces, namespace_selector)


def compiled(source: PodAffinityTerm) -> AffinityTerm:
    return compile_affinity_term(source, "shop", "term")


def pod_with(affinity: PodAffinity | None = None, anti: PodAffinity | None = None) -> Pod:
    return Pod(ObjectMeta("p", "shop"), PodSpec(affinity=Affinity(pod_affinity=affinity, pod_anti_affinity=anti)))


def test_a_term_without_namespaces_means_its_pods_own() -> None:
    found = compiled(term())
    assert found.matches("shop", {"app": "web"}, {})
    assert not found.matches("other", {"app": "web"}, {})
    assert not found.matches("shop", {"app": "db"}, {})


def test_listed_and_selected_namespaces_add_up_and_leave_the_own_one_out() -> None:
    found = compiled(term(namespaces=["a"], namespace_selector=LabelSelector(match_labels={"team": "x"})))
    assert found.matches("a", {"app": "web"}, None)
    assert found.matches("b", {"app": "web"}, {"team": "x"})
    assert not found.matches("b", {"app": "web"}, {"team": "y"})
    assert not found.matches("shop", {"app": "web"}, {})
    assert found.selects_namespaces


def test_an_empty_namespace_selector_means_all_namespaces_even_unknown_ones() -> None:
    found = compiled(term(namespace_selector=EVERY))
    assert found.matches("anywhere", {"app": "web"}, None)
    assert found.means_all_namespaces
    assert not found.selects_namespaces


def test_a_selector_of_absent_labels_does_not_find_an_unknown_namespace() -> None:
    absent = LabelSelector(match_expressions=[SelectorRequirement("team", "DoesNotExist")])
    found = compiled(term(namespace_selector=absent))
    assert found.matches("known", {"app": "web"}, {})
    assert not found.matches("unknown", {"app": "web"}, None)


@pytest.mark.parametrize(("selector", "expected"), [(None, False), (EVERY, True)])
def test_an_absent_label_selector_matches_no_pod_and_an_empty_one_every_pod(
    selector: LabelSelector | None, expected: bool
) -> None:
    assert compiled(term(selector)).matches("shop", {}, {}) is expected


def test_names_can_take_the_place_of_a_namespace_selector() -> None:
    selecting = compiled(term(namespaces=["a"], namespace_selector=LabelSelector(match_labels={"team": "x"})))
    named = selecting.with_namespaces(frozenset({"b"}))
    assert named.namespaces == {"a", "b"}
    assert named.matches("b", {"app": "web"}, None)
    assert not named.matches("c", {"app": "web"}, {"team": "x"})
    assert selecting.of_all_namespaces().matches("c", {"app": "web"}, None)


def test_equal_terms_are_one_object() -> None:
    assert compiled(term()) is compiled(term(namespaces=["shop"]))
    assert compiled(term()) != compiled(term(key="host"))
    assert hash(compiled(term())) == hash(compiled(term()))


def test_anti_affinity_weighs_negative() -> None:
    preferred = PodAffinity(None, [WeightedPodAffinityTerm(7, term())])
    terms = compile_pod_affinity(pod_with(preferred, preferred))
    assert [weight for weight, _ in terms.preferred] == [7, -7]
    assert has_preferred_terms(pod_with(anti=preferred))
    assert not has_preferred_terms(pod_with(PodAffinity([term()])))


def test_what_a_pod_holds_names_kind_and_weight() -> None:
    affinity = PodAffinity([term(key="a")], [WeightedPodAffinityTerm(3, term(key="b"))])
    terms = compile_pod_affinity(pod_with(affinity, PodAffinity([term(key="c")])))
    assert terms.held() == (
        HeldTerm(TermKind.REQUIRED_AFFINITY, compiled(term(key="a"))),
        HeldTerm(TermKind.REQUIRED_ANTI_AFFINITY, compiled(term(key="c"))),
        HeldTerm(TermKind.PREFERRED, compiled(term(key="b")), 3),
    )


def test_a_pod_without_pod_affinity_has_no_terms() -> None:
    assert compile_pod_affinity(Pod()).held() == ()
    assert compile_pod_affinity(pod_with()).held() == ()


def test_a_malformed_term_takes_its_list_along_and_is_reported_with_its_path() -> None:
    affinity = PodAffinity([term(), term(BROKEN)], [WeightedPodAffinityTerm(3, term())])
    terms = compile_pod_affinity(pod_with(affinity))
    assert terms.required_affinity == ()
    assert len(terms.preferred) == 1
    assert isinstance(terms.fault, DecodeError)
    assert str(terms.fault) == (
        "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[1].labelSelector.matchExpressions[0]"
        '.operator: expected one of In, NotIn, Exists, DoesNotExist, got "Like"'
    )


def test_a_malformed_namespace_selector_of_a_preferred_term_is_reported_with_its_path() -> None:
    bad = PodAffinity(None, [WeightedPodAffinityTerm(3, term(namespace_selector=BROKEN))])
    terms = compile_pod_affinity(pod_with(anti=bad))
    assert terms.preferred == ()
    assert str(terms.fault).startswith(
        "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm"
        ".namespaceSelector.matchExpressions[0].operator: "
    )


def test_a_weight_that_fits_no_counter_is_malformed() -> None:
    terms = compile_pod_affinity(pod_with(PodAffinity(None, [WeightedPodAffinityTerm(1 << 40, term())])))
    assert terms.preferred == ()
    assert str(terms.fault).endswith(f"[0].weight: expected 1..100, got {1 << 40}")


def test_what_a_term_means_can_be_looked_for_by_labels_and_namespaces() -> None:
    wanted = LabelSelector(
        match_labels={"app": "web"},
        match_expressions=[
            SelectorRequirement("tier", "In", ["front"]),
            SelectorRequirement("old", "DoesNotExist"),
            SelectorRequirement("new", "Exists"),
        ],
    )
    assert compiled(term(wanted)).narrowings() == [[("app", "web")], [("tier", "front")], [("", "shop")]]
    assert compiled(term(EVERY, namespace_selector=EVERY)).narrowings() == []
    assert compiled(term(EVERY, ["a"], LabelSelector(match_labels={"team": "x"}))).narrowings() == []
    assert [] in compiled(term(None)).narrowings()
