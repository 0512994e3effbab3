"""Which policy a pod is under, as objects come, change and go."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from kscheduler.api.objects import MetricPolicyObject, ObjectMeta, PolicyObject, TASPolicyObject
from kscheduler.config.metric_policy import Metric
from kscheduler.framework.telemetry import PolicyRef
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.telemetry.policy_book import PolicyBook
from tests.telemetry.policies import ARGS, HOT, book_of, pod


def policy(spec: str, name: str = "mine", namespace: str = "shop") -> MetricPolicyObject:
    return MetricPolicyObject(metadata=ObjectMeta(name=name, namespace=namespace), spec=yaml.safe_load(spec))


def tas_policy(spec: str, name: str = "mine", namespace: str = "shop") -> TASPolicyObject:
    return TASPolicyObject(metadata=ObjectMeta(name=name, namespace=namespace), spec=yaml.safe_load(spec))


def ref_of(book: PolicyBook, asking: PodInfo) -> PolicyRef | None:
    found = book.policy_of(asking)
    return None if found is None else found[0]


def reason(book: PolicyBook, asking: PodInfo) -> str:
    with pytest.raises(LookupError) as caught:
        book.policy_of(asking)
    return str(caught.value)


# --- policies of the configuration ----------------------------------------------------------------------------------


def test_a_pod_names_its_policy_by_label_or_annotation_or_has_the_default() -> None:
    book, _ = book_of()
    assert ref_of(book, pod()) == PolicyRef("", "cool")
    assert ref_of(book, pod(policy="idle")) == PolicyRef("", "idle")
    assert ref_of(book, pod(annotation="idle")) == PolicyRef("", "idle")
    assert ref_of(book, pod(policy="cool", annotation="idle")) == PolicyRef("", "cool")


def test_a_profile_without_the_plugin_has_no_policies() -> None:
    book, _ = book_of()
    assert ref_of(book, pod("plain", policy="idle")) is None
    assert ref_of(book, pod("another's", policy="idle")) is None


def test_a_policy_that_is_not_there_is_named() -> None:
    book, _ = book_of()
    assert reason(book, pod(policy="x")) == 'there is no metric policy "x" in the configuration'
    book, _ = book_of("policyObjects: true")
    assert reason(book, pod(policy="x")) == 'there is no metric policy "x" in namespace "shop" and in the configuration'


# --- objects --------------------------------------------------------------------------------------------------------


def test_an_object_comes_before_the_configurations_policy_in_its_namespace_only() -> None:
    book, _ = book_of("policyObjects: true")
    book.put(policy("score: [{metric: load, weight: 7}]", name="cool"))
    found = book.policy_of(pod())
    assert found is not None
    assert (found[0], found[1].score[0].weight) == (PolicyRef("shop", "cool"), 7)
    book.put(policy("{}", name="idle", namespace="elsewhere"))
    assert ref_of(book, pod(policy="idle")) == PolicyRef("", "idle")
    book.remove(policy("{}", name="cool"))
    assert ref_of(book, pod()) == PolicyRef("", "cool")


def test_objects_count_only_where_the_profile_says_so() -> None:
    book, _ = book_of()
    book.put(policy("{}", name="cool"))
    assert ref_of(book, pod()) == PolicyRef("", "cool")
    assert not book.follows_metric_policies


def test_a_change_for_the_worse_leaves_the_last_valid_version_in_force() -> None:
    book, verdicts = book_of("policyObjects: true")
    book.put(policy("score: [{metric: load}]"))
    version = book.version
    book.put(policy("score: [{metric: loda}]"))
    fault = 'spec.score[0].metric: Invalid value: "loda": no metric of that name is configured'
    assert verdicts[-1].faults == (fault,)
    assert verdicts[-1].is_in_force
    found = book.policy_of(pod(policy="mine"))
    assert found is not None
    assert found[1].score[0].metric == "load"
    assert book.version > version
    book.put(policy("score: [{metric: heat}]"))
    found = book.policy_of(pod(policy="mine"))
    assert found is not None
    assert found[1].score[0].metric == "heat"


def test_an_object_that_was_never_valid_holds_its_pods_back_and_says_why() -> None:
    book, verdicts = book_of("policyObjects: true")
    book.put(policy("score: [{metric: load, weight: 0}]"))
    assert not verdicts[-1].is_in_force
    assert reason(book, pod(policy="mine")) == (
        'MetricPolicy "mine" is invalid: spec.score[0].weight: Invalid value: 0: not in valid range [1, 100]'
    )
    book.put(policy("score: [{metric: load}]"))
    assert ref_of(book, pod(policy="mine")) == PolicyRef("shop", "mine")


def test_plan_b_of_an_object_names_a_profile_of_the_configuration() -> None:
    book, verdicts = book_of("policyObjects: true")
    book.put(policy("planB: {action: Profile, profile: plain}"))
    assert not verdicts[-1].faults
    book.put(policy("planB: {action: Profile, profile: fancy}"))
    assert verdicts[-1].faults == (
        'spec.planB.profile: Invalid value: "fancy": no profile of that scheduler name is configured',
    )


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ("", "spec: Required value"),
        ("[]", "spec: expected a mapping, got a list"),
        ("{scores: []}", 'unknown field "spec.scores"'),
        ("{filter: [{value: true}]}", 'spec.filter[0].value: expected a quantity such as "500m" or 80, got true'),
    ],
)
def test_a_spec_that_cannot_be_read_is_a_fault_by_field(spec: str, fault: str) -> None:
    book, verdicts = book_of("policyObjects: true")
    book.put(policy(spec))
    assert verdicts[-1].faults == (fault,)


def test_the_version_grows_with_what_pods_may_notice_and_watchers_hear() -> None:
    book, _ = book_of("policyObjects: true")
    heard: list[int] = []
    book.watch(lambda: heard.append(book.version))
    book.put(policy("{}"))
    book.put(policy("{}"))  # only its status was written
    book.remove(policy("{}"))
    book.remove(policy("{}"))
    assert heard == [1, 2]


def test_objects_are_counted_by_kind_and_state() -> None:
    book, _ = book_of("policyObjects: true\ntasPolicies: true")
    items: list[PolicyObject] = [policy("{}"), policy("{a: 1}", name="b"), tas_policy("{strategies: {}}")]
    for item in items:
        book.put(item)
    assert book.states() == {("MetricPolicy", "valid"): 1, ("MetricPolicy", "invalid"): 1, ("TASPolicy", "valid"): 1}


# --- TASPolicy ------------------------------------------------------------------------------------------------------


def test_a_pod_names_a_taspolicy_of_its_namespace() -> None:
    book, _ = book_of("tasPolicies: true")
    assert reason(book, pod(tas="mine")) == 'there is no TASPolicy "mine" in namespace "shop"'
    book.put(tas_policy(HOT.replace("NAME", "temperature")))
    assert ref_of(book, pod(tas="mine")) == PolicyRef("shop", "taspolicy/mine")
    assert ref_of(book, pod(tas="mine", policy="idle")) == PolicyRef("", "idle")
    assert ref_of(book_of()[0], pod(tas="mine")) == PolicyRef("", "cool"), "not unless the profile says so"


def test_metrics_of_taspolicies_come_from_the_source_of_custom_metrics() -> None:
    book, _ = book_of("tasPolicies: true")
    book.put(tas_policy(HOT.replace("NAME", "temperature")))
    book.put(tas_policy(HOT.replace("NAME", "temperature"), name="other"))
    book.put(tas_policy(HOT.replace("NAME", "load"), name="third"))  # the configuration's own
    assert book.metrics() == (Metric(name="temperature", source="custom", metric="temperature"),)
    book.remove(tas_policy("", name="mine"))
    book.remove(tas_policy("", name="other"))
    assert book.metrics() == ()


def test_without_such_a_source_only_configured_metrics_will_do() -> None:
    args = ARGS.replace(", {name: custom, customMetrics: {}}", "")
    book, verdicts = book_of("tasPolicies: true", args)
    book.put(tas_policy(HOT.replace("NAME", "load")))
    assert not verdicts[-1].faults
    book.put(tas_policy(HOT.replace("NAME", "temperature"), name="b"))
    assert verdicts[-1].faults == (
        'spec.strategies: Invalid value: "temperature": no metric of that name is configured, '
        "and no source of kind customMetrics",
    )
    assert reason(book, pod(tas="b")).startswith('TASPolicy "b" is invalid: spec.strategies')


def test_metrics_of_an_invalid_version_are_those_of_the_last_valid_one() -> None:
    book, verdicts = book_of("tasPolicies: true")
    book.put(tas_policy(HOT.replace("NAME", "temperature")))
    broken: Any = HOT.replace("NAME", "temperature").replace("GreaterThan", "Above")
    book.put(tas_policy(broken))
    assert verdicts[-1].is_in_force
    assert [metric.name for metric in book.metrics()] == ["temperature"]


def test_it_knows_which_policies_there_are_valid_or_not() -> None:
    book, _ = book_of("policyObjects: true\ntasPolicies: true")
    broken, strategies = policy("{score: 5}", name="broken"), tas_policy("{strategies: {}}", name="tas")
    refs = [PolicyRef("", "cool"), PolicyRef("shop", "broken"), PolicyRef("shop", "taspolicy/tas")]
    assert [book.knows(ref) for ref in refs] == [True, False, False]
    book.put(broken)
    book.put(strategies)
    assert [book.knows(ref) for ref in refs] == [True, True, True]
    book.remove(broken)
    book.remove(strategies)
    assert [book.knows(ref) for ref in refs] == [True, False, False]
