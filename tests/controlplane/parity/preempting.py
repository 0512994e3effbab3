"""Scenarios of preemption: who has to go, in what words, and what a nominated pod keeps to itself.

Nobody runs the pods, so one that is asked to go with a period of grace stays until a scenario removes it.
"""

from __future__ import annotations

from typing import Any

from kscheduler.testing.controlplane.api import Object
from tests.controlplane.parity.manifests import HOST, priority_class, shuns_pods, term
from tests.controlplane.parity.outcome import Placements, exact
from tests.controlplane.parity.scenario import Scenario
from tests.controlplane.parity.steps import (
    Step,
    bound,
    change_pod,
    denied,
    evicting,
    node,
    nominated,
    pod,
    refused,
    remove_pod,
    settle,
    thing,
)

NEEDS = frozenset({"DefaultPreemption"})

DB = {"app": "db"}

# Their values are above all that users may give.
NODE_CRITICAL = {"priorityClassName": "system-node-critical"}
CRITICAL = {"priorityClassName": "system-cluster-critical"}
IMPORTANT = {"priorityClassName": "important"}
MIDDLING = {"priorityClassName": "middling"}
AT_ONCE = {"terminationGracePeriodSeconds": 0}

CLASSES: list[Step | list[Step]] = [
    thing(priority_class("important", 1000)),
    thing(priority_class("middling", 100)),
    thing(priority_class("polite", 1000, preempts=False)),
]


def on(name: str, spec: Object | None = None) -> dict[str, Any]:
    """A pod's spec that keeps it to a node."""
    return {"nodeSelector": {HOST: name}, **(spec or {})}


def scenario(name: str, *steps: Step | list[Step], placements: Placements = exact, **options: Any) -> Scenario:
    """A scenario with classes of priority, and with other fields of `Scenario`."""
    return Scenario(name, (*CLASSES, *steps), placements, NEEDS, **options)


def choosing(name: str, *steps: Step | list[Step], takes: str) -> Scenario:
    """Two nodes, what is on them, and a more important pod that takes room on one of them."""
    return scenario(
        name,
        node("a", cpu="1"),
        node("b", cpu="1"),
        *steps,
        pod("greater", IMPORTANT, cpu="900m", wait=False),
        bound("greater", takes),
    )


PREEMPTING = (
    scenario(
        "A more important pod takes the room of a lesser one",
        node("a", cpu="1"),
        pod("lesser", AT_ONCE, cpu="900m"),
        bound("lesser", "a"),
        pod("greater", IMPORTANT, cpu="900m", wait=False),
        bound("greater", "a"),
    ),
    choosing(
        "The least important are preempted",
        pod("middling", on("a", MIDDLING), cpu="900m"),
        pod("lesser", on("b", AT_ONCE), cpu="900m"),
        takes="b",
    ),
    choosing(
        "As few as possible are preempted",
        pod("one-of-two", on("a", AT_ONCE), cpu="450m"),
        pod("two-of-two", on("a", AT_ONCE), cpu="450m"),
        pod("only", on("b", AT_ONCE), cpu="500m"),
        pod("small", on("b", AT_ONCE), cpu="50m"),
        takes="b",
    ),
    scenario(
        "A pod that is shunned has to go",
        node("a"),
        pod("lesser", AT_ONCE, labels=DB),
        pod("greater", {**IMPORTANT, **shuns_pods(term(DB, HOST))}, wait=False),
        bound("greater", "a"),
    ),
    scenario(
        "A nominated pod waits for its victim, and nobody takes its room",
        node("a", cpu="1"),
        pod("lesser", cpu="900m"),
        pod("greater", IMPORTANT, cpu="900m", wait=False),
        nominated("greater", "a"),
        evicting("lesser"),
        pod("late", cpu="900m"),
        refused("late", "1 Insufficient cpu"),
        pod("small", cpu="100m"),
        refused("small", "1 Insufficient cpu"),
        settle,
        remove_pod("lesser"),
        bound("greater", "a"),
    ),
    scenario(
        "A pod that waits for its victim is in the way of none more important",
        node("a", cpu="1"),
        pod("lesser", cpu="900m"),
        pod("middling", MIDDLING, cpu="900m", wait=False),
        nominated("middling", "a"),
        evicting("lesser"),
        settle,
        pod("greater", IMPORTANT, cpu="900m"),
        settle,
        remove_pod("lesser"),
        bound("greater", "a"),
    ),
    scenario(
        "A pod that never preempts waits",
        node("a", cpu="1"),
        pod("lesser", cpu="900m"),
        pod("greater", {"priorityClassName": "polite"}, cpu="900m"),
        refused("greater", "1 Insufficient cpu"),
    ),
    scenario(
        "A critical pod takes the room of an important one",
        node("a", cpu="1"),
        pod("important", {**AT_ONCE, **IMPORTANT}, cpu="900m"),
        pod("critical", CRITICAL, cpu="900m", wait=False),
        bound("critical", "a"),
    ),
    scenario(
        "A critical pod gives way to one that its node needs, and to no other",
        node("a", cpu="1"),
        pod("critical", {**AT_ONCE, **CRITICAL}, cpu="900m"),
        pod("important", IMPORTANT, cpu="900m"),
        refused("important", "1 Insufficient cpu"),
        settle,
        pod("node-critical", NODE_CRITICAL, cpu="900m", wait=False),
        bound("node-critical", "a"),
    ),
    scenario(
        "A priority above those of users is not let in",
        denied(priority_class("beyond", 1_000_000_001), "maximum allowed value of a user defined priority"),
        thing(priority_class("highest", 1_000_000_000)),
        node("a", cpu="1"),
        pod("important", {**AT_ONCE, **IMPORTANT}, cpu="900m"),
        pod("highest", {"priorityClassName": "highest"}, cpu="900m", wait=False),
        bound("highest", "a"),
    ),
    scenario(
        "A gated pod preempts once its gate is removed",
        node("a", cpu="1"),
        pod("lesser", AT_ONCE, cpu="900m"),
        pod("gated", {**IMPORTANT, "schedulingGates": [{"name": "example.com/one"}]}, cpu="900m"),
        settle,
        bound("lesser", "a"),
        change_pod("gated", {"spec": {"schedulingGates": None}}),
        bound("gated", "a"),
    ),
    scenario(
        "Preemption would not help",
        node("a", cpu="1"),
        node("b", {"disk": "hdd"}),
        pod("lesser", on("a"), cpu="900m"),
        pod("greater", on("a", IMPORTANT), cpu="2"),
        refused("greater", "1 Insufficient cpu"),
    ),
)
