"""Pods with spread constraints, at random: few labels and topologies, so that constraints meet pods and nodes."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.objects import LabelSelector, Pod, SelectorRequirement, TopologySpreadConstraint

HOSTNAME = "kubernetes.io/hostname"
KEYS = ("zone", HOSTNAME, "rack")
SELECTORS = (
    LabelSelector(match_labels={"app": "web"}),
    LabelSelector(match_labels={"app": "web"}),
    LabelSelector(match_expressions=[SelectorRequirement("app", "NotIn", ["web"])]),
    LabelSelector(match_expressions=[SelectorRequirement("tier", "Exists")]),
    LabelSelector(),
    None,
)
policies = st.sampled_from([None, "Honor", "Ignore"])

constraints = st.builds(
    TopologySpreadConstraint,
    max_skew=st.integers(1, 3),
    topology_key=st.sampled_from(KEYS),
    when_unsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    label_selector=st.sampled_from(SELECTORS),
    min_domains=st.sampled_from([None, None, 1, 2, 4]),
    node_affinity_policy=policies,
    node_taints_policy=policies,
    match_label_keys=st.sampled_from([None, None, ["tier"], ["app", "absent"]]),
)


def spread(pod: Pod, *stated: TopologySpreadConstraint) -> Pod:
    return replace(pod, spec=replace(pod.spec, topology_spread_constraints=list(stated)))


@st.composite
def with_spread(draw: st.DrawFn, pod: Pod) -> Pod:
    """The pod with up to three constraints, or none at all."""
    stated = draw(st.lists(constraints, max_size=3))
    return spread(pod, *stated) if stated else pod
