"""Scenarios of preemption where controllers have a say: budgets, whose status is real, and replicas that come again."""

from __future__ import annotations

from kscheduler.testing.controlplane.api import Object
from tests.controlplane.parity.manifests import HOST, Labels
from tests.controlplane.parity.outcome import in_each
from tests.controlplane.parity.preempting import AT_ONCE, IMPORTANT, MIDDLING, choosing, on, scenario
from tests.controlplane.parity.scenario import Scenario
from tests.controlplane.parity.steps import (
    Step,
    bound,
    budget,
    evicting,
    gone,
    namespace,
    node,
    nominated,
    pod,
    ready,
    refused,
    replicas,
)

WEB = {"app": "web"}
DB = {"app": "db"}


def of(labels: Labels) -> Object:
    """A selector of pods with these labels."""
    return {"matchLabels": dict(labels)}


BUDGETS = (
    choosing(
        "A budget protects its pods",
        pod("protected", on("a", AT_ONCE), labels=DB, cpu="900m"),
        pod("middling", on("b", {**AT_ONCE, **MIDDLING}), labels=WEB, cpu="900m"),
        ready("protected"),
        budget("db", of(DB), minAvailable=1, allows=0),
        takes="b",
    ),
    choosing(
        "A budget that can spare a pod protects none",
        pod("spare", on("a", AT_ONCE), labels=DB, cpu="900m"),
        pod("other", on("b", {**AT_ONCE, **MIDDLING}), labels=DB, cpu="900m"),
        ready("spare", "other"),
        budget("db", of(DB), minAvailable=1, allows=1),
        takes="a",
    ),
    choosing(
        "A budget that can spare one of two protects both",
        pod("one", on("a", AT_ONCE), labels=DB, cpu="450m"),
        pod("other", on("a", AT_ONCE), labels=DB, cpu="450m"),
        pod("middling-one", on("b", {**AT_ONCE, **MIDDLING}), labels=WEB, cpu="450m"),
        pod("middling-other", on("b", {**AT_ONCE, **MIDDLING}), labels=WEB, cpu="450m"),
        ready("one", "other"),
        budget("db", of(DB), maxUnavailable=1, allows=0),  # of pods without a controller it knows no total
        budget("half", of(DB), minAvailable=1, allows=1),
        takes="b",
    ),
    scenario(
        "A budget spares its pod where another of the node can go",
        node("a", cpu="1"),
        pod("protected", AT_ONCE, labels=DB, cpu="450m"),
        pod("middling", {**AT_ONCE, **MIDDLING}, labels=WEB, cpu="450m"),
        ready("protected", "middling"),
        budget("db", of(DB), minAvailable=1, allows=0),
        pod("greater", IMPORTANT, cpu="450m", wait=False),
        bound("greater", "a"),
        gone("middling"),
    ),
    scenario(
        "A budget gives way where there is no other room",
        node("a", cpu="1"),
        pod("protected", AT_ONCE, labels=DB, cpu="900m"),
        ready("protected"),
        budget("db", of(DB), minAvailable=1, allows=0),
        pod("greater", IMPORTANT, cpu="900m", wait=False),
        bound("greater", "a"),
        gone("protected"),
    ),
    # To evictions an empty selector means every pod of the namespace; to preemption it means none.
    choosing(
        "A budget with an empty selector protects nobody from preemption",
        namespace("other"),
        pod("covered", on("a", AT_ONCE), labels=DB, cpu="900m"),
        pod("stranger", on("b", {**AT_ONCE, **MIDDLING}), namespace="other", labels=DB, cpu="900m"),
        ready("covered"),
        budget("everybody", {}, minAvailable=1, allows=0),
        takes="a",
    ),
    choosing(
        "A budget without a selector protects nobody",
        pod("lesser", on("a", AT_ONCE), labels=DB, cpu="900m"),
        pod("middling", on("b", {**AT_ONCE, **MIDDLING}), labels=DB, cpu="900m"),
        ready("lesser"),
        budget("nobody", None, minAvailable=1, allows=0),
        takes="a",
    ),
    choosing(
        "A pod without labels has no budget, whatever it selects",
        pod("bare", on("a", AT_ONCE), cpu="900m"),
        pod("middling", on("b", {**AT_ONCE, **MIDDLING}), labels=DB, cpu="900m"),
        ready("bare"),
        budget("bare", {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, minAvailable=1, allows=0),
        takes="a",
    ),
    choosing(
        "A budget of another namespace does not count",
        namespace("other"),
        pod("protected", on("b", {**AT_ONCE, **MIDDLING}), labels=DB, cpu="900m"),
        pod("lesser", on("a", AT_ONCE), namespace="other", labels=DB, cpu="900m"),
        ready("protected"),
        budget("db", of(DB), minAvailable=1, allows=0),
        takes="a",
    ),
)


def preempted(name: str, *steps: Step | list[Step]) -> Scenario:
    """A scenario of replicas. Whether a new one is tried before the old one is seen to be gone is chance."""
    return scenario(name, *steps, placements=in_each(HOST), retries_vary=True)


REPLICAS = (
    preempted(
        "Replicas that are preempted come again and wait",
        node("a", cpu="1"),
        replicas("web", 2, AT_ONCE, labels=WEB, cpu="450m"),
        pod("greater", IMPORTANT, cpu="450m", wait=False),
        bound("greater", "a"),
        refused("web-*", "1 Insufficient cpu"),
    ),
    preempted(
        "Replicas that are preempted come again elsewhere",
        node("a", {"disk": "ssd"}, cpu="1"),
        node("b", cpu="100m"),
        replicas("web", 2, AT_ONCE, labels=WEB, cpu="450m"),
        node("c", cpu="500m"),
        pod("greater", {**IMPORTANT, "nodeSelector": {"disk": "ssd"}}, cpu="900m", wait=False),
        bound("greater", "a"),
        refused("web-*", "Insufficient cpu"),
    ),
    preempted(
        "A replica takes its time to go, and its successor waits",
        node("a", cpu="1"),
        replicas("web", 1, labels=WEB, cpu="900m"),
        pod("greater", IMPORTANT, cpu="900m", wait=False),
        nominated("greater", "a"),
        evicting("web-*"),
        refused("web-*", "1 Insufficient cpu"),
    ),
    preempted(
        "Replicas under a budget are spared",
        node("a", cpu="1"),
        node("b", cpu="1"),
        replicas("db", 2, on("a", AT_ONCE), labels=DB, cpu="450m"),
        replicas("web", 2, on("b", {**AT_ONCE, **MIDDLING}), labels=WEB, cpu="450m"),
        ready("db-*", "web-*"),
        budget("db", of(DB), maxUnavailable=0, allows=0),
        budget("web", of(WEB), maxUnavailable="50%", allows=1),
        pod("greater", IMPORTANT, cpu="450m", wait=False),
        bound("greater", "b"),
        refused("web-*", "1 Insufficient cpu"),
    ),
)
