"""The kind MetricPolicy on a real apiserver: what it refuses, and how the scheduler follows what it takes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kscheduler.telemetry.policy_book import read_policy
from kscheduler.testing.controlplane import ControlPlane, RequestFailed
from kscheduler.testing.controlplane.api import KeptApi, Object
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workspace import Workspace
from tests.controlplane.custom_kinds import remove_kind, serves
from tests.controlplane.policy_kinds import GROUP_VERSION, SERVED, TAS_CRD
from tests.deploy.manifests import DEPLOY, documents

METRICS = ["a", "b", "c"]
ARGS: dict[str, Any] = {
    "sources": [{"name": "fields", "nodeFields": {}}, {"name": "custom", "customMetrics": {}}],
    "metrics": [{"name": name, "source": "fields", "annotation": f"example.com/{name}"} for name in METRICS],
    "policyObjects": True,
    "tasPolicies": True,
}
CONFIGURATION: dict[str, Any] = {
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {"multiPoint": {"enabled": [{"name": "MetricPolicy"}]}},
            "pluginConfig": [{"name": "MetricPolicy", "args": ARGS}],
        }
    ]
}


@pytest.fixture(scope="module")
def policies(control_plane: ControlPlane) -> Iterator[Policies]:
    control_plane.api.apply(*documents((DEPLOY / "metric-policies" / "crd.yaml").read_text()), TAS_CRD)
    made = Policies(control_plane)
    eventually(lambda: serves(made.api, *SERVED), "the kinds are served")
    try:
        yield made
    finally:
        made.api.close()
        remove_kind(control_plane.api, "metricpolicies.kscheduler.io")
        remove_kind(control_plane.api, "taspolicies.telemetry.intel.com")


class Policies:
    """Objects of the kind, in any namespace."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self.api = KeptApi(control_plane.credentials)

    def refusal(self, spec: object) -> str:
        """What the apiserver finds wrong with it; "" if nothing. Nothing is kept."""
        body = {"apiVersion": GROUP_VERSION, "kind": "MetricPolicy", "metadata": {"name": "x"}, "spec": spec}
        path = f"/apis/{GROUP_VERSION}/namespaces/default/metricpolicies?dryRun=All&fieldValidation=Strict"
        try:
            self.api.create(path, body)
        except RequestFailed as error:
            return str(error)
        return ""

    def put(self, namespace: str, name: str, spec: str) -> None:
        metadata = {"name": name, "namespace": namespace}
        body = {"apiVersion": GROUP_VERSION, "kind": "MetricPolicy", "metadata": metadata, "spec": yaml.safe_load(spec)}
        self.api.apply(body)

    def condition(self, namespace: str, name: str) -> dict[str, Any]:
        found = self.api.get(f"/apis/{GROUP_VERSION}/namespaces/{namespace}/metricpolicies/{name}")
        conditions = found.get("status", {}).get("conditions", [])
        return next((one for one in conditions if one["type"] == "Valid"), {})


# --- what is refused ------------------------------------------------------------------------------------------------

REFUSED = {  # spec -> the field that is named, and a part of why
    "{score: [{}]}": ("spec.score[0].metric", "Required value"),
    "{score: [{metric: a, goal: Lowest}]}": ("spec.score[0].goal", "supported values"),
    "{score: [{metric: a, goal: Target}]}": ("spec.score[0].target", "Required value: for the goal Target"),
    "{score: [{metric: a, target: 1}]}": ("spec.score[0].target", "Forbidden: only for the goal Target"),
    "{score: [{metric: a, goal: Target, target: 9, range: {max: 5}}]}": ("spec.score[0].target", "must be between"),
    "{score: [{metric: a, goal: LowRisk}]}": ("spec.score[0].deviation", "Required value: for the goal LowRisk"),
    "{score: [{metric: a, deviation: {metric: b}}]}": ("spec.score[0].deviation", "Forbidden: only for the goal"),
    "{score: [{metric: a, goal: LowRisk, deviation: {metric: b, margin: -1}}]}": ("spec.score[0].deviation.margin", ""),
    "{score: [{metric: a, range: {min: 2, max: 1}}]}": ("spec.score[0].range.max", "must be greater than min"),
    "{score: [{metric: a, range: {min: two}}]}": ("spec.score[0].range.min", ""),
    "{score: [{metric: a, weight: 0}]}": ("spec.score[0].weight", ""),
    "{score: [{metric: a, neutralScore: 101}]}": ("spec.score[0].neutralScore", ""),
    "{score: [{metric: a, fallback: neutral}]}": ("spec.score[0].fallback", "supported values"),
    "{score: [{metric: a, freshness: {maxAge: -1s}}]}": ("spec.score[0].freshness.maxAge", "must not be negative"),
    "{score: [{metric: a, freshness: {maxAge: soon}}]}": ("spec.score[0].freshness.maxAge", ""),
    "{score: [{metric: a, freshness: {atMost: 1s}}]}": ("spec.score[0].freshness.atMost", "must not be less"),
    "{score: [{metric: a, freshness: {cadences: 0.5}}]}": ("spec.score[0].freshness.cadences", ""),
    "{score: [{metric: a, selfLoad: {}}]}": ("spec.score[0].selfLoad", "exactly one of resource and perPod"),
    "{score: [{metric: a, selfLoad: {resource: cpu, perPod: 1}}]}": ("spec.score[0].selfLoad.perPod", "Forbidden"),
    "{score: [{metric: a, selfLoad: {resource: 'a b'}}]}": ("spec.score[0].selfLoad.resource", ""),
    "{filter: [{operator: LessThan, value: 1}]}": ("spec.filter[0].metric", "Required value"),
    "{filter: [{metric: a, value: 1}]}": ("spec.filter[0].operator", "Required value"),
    "{filter: [{metric: a, operator: LessThan}]}": ("spec.filter[0].value", "Required value"),
    "{filter: [{metric: a, operator: Less, value: 1}]}": ("spec.filter[0].operator", "supported values"),
    "{filter: [{metric: a, anyOf: [{metric: a, operator: Equals, value: 1}]}]}": ("spec.filter[0].anyOf", "alone"),
    "{filter: [{fallback: Exclude, anyOf: [{metric: a, operator: Equals, value: 1}]}]}": ("spec.filter[0].anyOf", ""),
    "{filter: [{anyOf: [{metric: a, operator: Equals}]}]}": ("spec.filter[0].anyOf[0].value", "Required value"),
    "{filter: [{anyOf: [{anyOf: []}]}]}": ("spec.filter[0].anyOf[0]", ""),
    "{relaxation: [{after: 1s, dropAll: true}]}": ("spec.relaxation", "there are no filter rules"),
    "{filter: [{metric: a, operator: Equals, value: 1}], relaxation: [{after: 1s}]}": ("spec.relaxation[0]", "one of"),
    "{filter: [{metric: a, operator: Equals, value: 1}], relaxation: [{dropAll: true, drop: [a]}]}": (
        "spec.relaxation[0].dropAll",
        "leaves nothing",
    ),
    "{filter: [{metric: a, operator: Equals, value: 1}], relaxation: [{drop: [b]}]}": (
        "spec.relaxation",
        "no filter rule is on",
    ),
    "{filter: [{metric: a, operator: Equals, value: 1}], relaxation: [{loosen: [{metric: b}]}]}": (
        "spec.relaxation",
        "no filter rule is on",
    ),
    "{filter: [{metric: a, operator: Equals, value: 1}], relaxation: [{drop: [a, a]}]}": (
        "spec.relaxation[0].drop[1]",
        "Duplicate value",
    ),
    "{filter: [{metric: a, operator: Equals, value: 1}], relaxation: [{after: 2s, dropAll: true}, {drop: [a]}]}": (
        "spec.relaxation",
        "later than the step before",
    ),
    "{decisionDeadline: -1s}": ("spec.decisionDeadline", "must not be negative"),
    "{planB: {afterFailures: 0}}": ("spec.planB.afterFailures", ""),
    "{planB: {action: Profile}}": ("spec.planB.profile", "Required value: for the action Profile"),
    "{planB: {profile: x}}": ("spec.planB.profile", "Forbidden: only for the action Profile"),
    "{planB: {action: Wait}}": ("spec.planB.action", "supported values"),
    "{scores: []}": ('unknown field "spec.scores"', ""),
}


@pytest.mark.parametrize("spec", REFUSED)
def test_the_apiserver_names_the_field_and_so_do_we(policies: Policies, spec: str) -> None:
    field, why = REFUSED[spec]
    document = yaml.safe_load(spec)
    refusal = policies.refusal(document)
    faults, policy = read_policy(document)
    assert policy is None
    for found in (refusal, " ".join(faults)):
        assert re.search(rf"{re.escape(field)}\b" if field[-1].isalnum() else re.escape(field), found), found
    assert why in refusal


def test_a_policy_without_a_spec_is_refused(policies: Policies) -> None:
    assert "spec" in policies.refusal(None)
    assert read_policy(None)[0] == ["spec: Required value"]


def test_what_the_schema_cannot_check_is_left_to_the_condition(policies: Policies) -> None:
    """It compares numbers only: to read other quantities costs more than rules of a schema may."""
    spec = yaml.safe_load("{score: [{metric: a, range: {min: 2k, max: 1k}}]}")
    assert policies.refusal(spec) == ""
    assert read_policy(spec)[0] == ['spec.score[0].range.max: Invalid value: "1k": must be greater than min']


# --- the schema and our own validation refuse the same --------------------------------------------------------------

quantities = st.one_of(st.integers(-3, 3), st.sampled_from(["500m", "1", "-2Ki", "1e3", ".5", "x", "", "1e100", " 1"]))
spans = st.sampled_from(["0s", "0", "10s", "1m", "1h30m", "-1s", "1.5s", "soon", "5", "", "20m", "10m"])
metrics = st.sampled_from([*METRICS, ""])
fallbacks = st.sampled_from(["Neutral", "Exclude", "LastGood", "Requeue", "neutral"])


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A mapping with any of these fields; whichever is there has its value."""
    return st.fixed_dictionaries({}, optional=fields)


freshness = some(maxAge=spans, cadences=st.sampled_from([0.5, 1, 3, 3.0, 2e6]), atLeast=spans, atMost=spans)
self_loads = some(
    resource=st.sampled_from(["cpu", "nvidia.com/gpu", "a b", "", "/x"]),
    factor=st.sampled_from([0, 1.5, -1]),
    per=st.sampled_from([100, -0.5]),
    perPod=quantities,
)
conditions: dict[str, st.SearchStrategy[Any]] = {
    "metric": metrics,
    "operator": st.sampled_from(["LessThan", "GreaterThanOrEqual", "Equals", "Less"]),
    "value": quantities,
    "freshness": freshness,
    "fallback": fallbacks,
    "selfLoad": self_loads,
}
filters = st.one_of(some(**conditions), some(**conditions, anyOf=st.lists(some(**conditions), max_size=2)))
# Quantities that the schema can compare are numbers; of the others it sees only their form.
numbers = st.integers(-3, 3)
ranges = some(min=numbers, max=numbers)
scores = some(
    metric=metrics,
    goal=st.sampled_from(["Minimize", "Maximize", "Target", "LowRisk", "Lowest"]),
    target=numbers,
    deviation=some(metric=metrics, margin=st.sampled_from([0, 2.5, -1]), sensitivity=st.sampled_from([0, 1, 0.5])),
    range=ranges,
    weight=st.sampled_from([0, 1, 100, 101, 2.0, 2.5]),
    freshness=freshness,
    fallback=fallbacks,
    neutralScore=st.sampled_from([-1, 0, 100, 101]),
    selfLoad=self_loads,
)
steps = some(
    after=spans,
    loosen=st.lists(some(metric=metrics, value=quantities), max_size=2),
    drop=st.lists(metrics, max_size=2),
    dropAll=st.booleans(),
)
plans = some(
    afterFailures=st.sampled_from([0, 1, 2**31 - 1, 2**31]),
    action=st.sampled_from(["Drop", "Profile", "Wait"]),
    profile=st.sampled_from(["", "other"]),
)
specs = some(
    score=st.lists(scores, max_size=2),
    filter=st.lists(filters, max_size=2),
    relaxation=st.lists(steps, max_size=3),
    decisionDeadline=spans,
    planB=plans,
)
valid_filter = st.fixed_dictionaries(
    {"metric": st.sampled_from(METRICS), "operator": st.just("LessThan"), "value": quantities}
)
# Half of the cases have little that can be wrong, so that many are accepted.
mostly_valid = st.one_of(
    st.fixed_dictionaries({"score": st.lists(scores.filter(lambda rule: "metric" in rule), min_size=1, max_size=1)}),
    st.fixed_dictionaries({"filter": st.lists(valid_filter, min_size=1, max_size=2)}, optional={"planB": plans}),
    st.fixed_dictionaries(
        {"filter": st.lists(valid_filter, min_size=1, max_size=2), "relaxation": st.lists(steps, max_size=2)}
    ),
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(spec=st.one_of(specs, mostly_valid))
def test_the_schema_accepts_what_we_accept_and_nothing_else(policies: Policies, spec: dict[str, Any]) -> None:
    refusal = policies.refusal(spec)
    faults, policy = read_policy(spec)
    assert (refusal == "") == (policy is not None), (refusal, faults)


# --- policies under way ---------------------------------------------------------------------------------------------

_numbers = itertools.count()


def placed(workspace: Workspace, **labels: str) -> str:
    """Where a new pod of that policy goes."""
    keys = {"policy": "kscheduler.io/metric-policy", "tas": "telemetry-policy"}
    name = f"web-{next(_numbers)}"
    workspace.create_pod(name, labels={keys[key]: value for key, value in labels.items()})
    eventually(lambda: name in workspace.bindings(), f"pod {name} is placed")
    return workspace.bindings()[name]


def test_a_policy_that_is_changed_is_followed_from_then_on(policies: Policies, workspace: Workspace) -> None:
    for index in range(3):
        annotations = {"example.com/a": str(index), "example.com/b": str(-index)}
        workspace.create_node(f"node-{index}", annotations=annotations)
    policies.put(workspace.namespace, "mine", "{filter: [{metric: a, operator: LessThan, value: 1}]}")
    scheduler = KScheduler(workspace.control_plane, configuration=CONFIGURATION)
    namespace = workspace.namespace
    eventually(lambda: policies.condition(namespace, "mine").get("status") == "True", "the condition says it is valid")
    assert placed(workspace, policy="mine") == "node-0"

    policies.put(namespace, "mine", "{filter: [{metric: a, operator: GreaterThan, value: 1}]}")
    observed = _generation(workspace, policies, "mine")
    eventually(lambda: policies.condition(namespace, "mine").get("observedGeneration") == observed, "it was seen")
    assert placed(workspace, policy="mine") == "node-2"

    # Valid for the apiserver, which does not know our metrics: the last valid version stays in force.
    policies.put(namespace, "mine", "{filter: [{metric: load, operator: LessThan, value: 1}]}")
    eventually(
        lambda: policies.condition(namespace, "mine").get("status") == "False", "the condition says what is wrong"
    )
    message = policies.condition(namespace, "mine")["message"]
    assert message == (
        'spec.filter[0].metric: Invalid value: "load": no metric of that name is configured '
        "(the last valid version stays in force)"
    )
    assert placed(workspace, policy="mine") == "node-2"

    def is_reported() -> bool:
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        events = workspace.api.list_all(path, fieldSelector="reason=InvalidPolicy")
        return any(event["regarding"]["kind"] == "MetricPolicy" and event["note"] == message for event in events)

    eventually(is_reported, "an Event says it too")
    states = [line for line in scheduler.get("/metrics").splitlines() if line.startswith("kscheduler_policy_objects")]
    assert 'kscheduler_policy_objects{kind="MetricPolicy",state="invalid"} 1' in " ".join(states)


def _generation(workspace: Workspace, policies: Policies, name: str) -> int:
    path = f"/apis/{GROUP_VERSION}/namespaces/{workspace.namespace}/metricpolicies/{name}"
    return int(policies.api.get(path)["metadata"]["generation"])


def test_a_pod_waits_for_the_policy_it_names(policies: Policies, workspace: Workspace) -> None:
    workspace.create_node("node-0", annotations={"example.com/a": "1"})
    KScheduler(workspace.control_plane, configuration=CONFIGURATION)
    workspace.create_pod("early", labels={"kscheduler.io/metric-policy": "later"})

    def reason() -> str:
        conditions = workspace.pod("early")["status"].get("conditions", [])
        return " ".join(one.get("message", "") for one in conditions)

    eventually(lambda: 'there is no metric policy "later"' in reason(), "the pod says what it waits for")
    policies.put(workspace.namespace, "later", "{score: [{metric: a}]}")
    eventually(lambda: "early" in workspace.bindings(), "it is placed when the policy is there")


def test_a_taspolicy_is_followed_as_it_is(policies: Policies, workspace: Workspace) -> None:
    for index in range(3):
        workspace.create_node(f"node-{index}", annotations={"example.com/a": str(index)})
    strategies = """
    scheduleonmetric: {rules: [{metricname: a, operator: GreaterThan}]}
    dontschedule: {logicalOperator: anyOf, rules: [{metricname: a, operator: GreaterThan, target: 1}]}
    labeling: {rules: [{metricname: a, operator: GreaterThan, target: 1, labels: ["x=y"]}]}
    """
    head: Object = {"apiVersion": "telemetry.intel.com/v1alpha1", "kind": "TASPolicy"}
    metadata = {"name": "heat", "namespace": workspace.namespace}
    workspace.api.apply({**head, "metadata": metadata, "spec": {"strategies": yaml.safe_load(strategies)}})
    KScheduler(workspace.control_plane, configuration=CONFIGURATION)
    assert placed(workspace, tas="heat") == "node-1"

    def is_reported() -> bool:
        path = f"/apis/events.k8s.io/v1/namespaces/{workspace.namespace}/events"
        events = workspace.api.list_all(path, fieldSelector="reason=PolicyPartlyIgnored")
        return any("labeling is not carried out" in event["note"] for event in events)

    eventually(is_reported, "an Event says what is not done")


def test_a_kind_that_is_installed_later_is_found(binaries: Any, tmp_path: Path) -> None:
    with ControlPlane(binaries=binaries) as control_plane:
        workspace = Workspace(control_plane)
        workspace.create_node("node-0", annotations={"example.com/a": "1"})
        KScheduler(control_plane, configuration=CONFIGURATION)
        assert placed(workspace) == "node-0", "pods without a policy do not wait"
        control_plane.api.apply(*documents((DEPLOY / "metric-policies" / "crd.yaml").read_text()))
        workspace.create_pod("named", labels={"kscheduler.io/metric-policy": "mine"})
        made = Policies(control_plane)

        def can_put() -> bool:
            try:
                made.put(workspace.namespace, "mine", "{score: [{metric: a}]}")
            except RequestFailed:
                return False
            return True

        eventually(can_put, "the kind is served")
        eventually(lambda: "named" in workspace.bindings(), "its policy is found")
        made.api.close()
