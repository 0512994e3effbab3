"""Scenarios of nominated pods: they wait for victims that take their time, while what they count on changes."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.controlplane.parity.manifests import has, prefers_node, taint
from tests.controlplane.parity.preempting import AT_ONCE, IMPORTANT, MIDDLING, scenario
from tests.controlplane.parity.stage import FOREIGN, Stage
from tests.controlplane.parity.steps import (
    Step,
    ask_to_go,
    bound,
    change_pod,
    change_status,
    evicting,
    node,
    nominate,
    nominated,
    pod,
    refused,
    remove_node,
    remove_pod,
    settle,
)

GATED = {"schedulingGates": [{"name": "example.com/one"}]}
FREE = {"spec": {"schedulingGates": None}}

# A pod that another one waits for.
WAITING = [
    node("a", cpu="1"),
    pod("lesser", cpu="900m"),
    pod("greater", IMPORTANT, cpu="900m", wait=False),
    nominated("greater", "a"),
    evicting("lesser"),
    settle,
]


def resident(name: str, node: str) -> Step:
    """A pod that somebody else bound."""
    return pod(name, {"nodeName": node}, profile=FOREIGN, cpu="900m")


def preempted_before(name: str) -> list[Step]:
    """A bound pod was asked to go by a scheduler that is no more. Without a time its condition would be taken back."""

    def mark(stage: Stage) -> None:
        reported = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        change_status(name, {"conditions": [{**reported, "lastTransitionTime": now}]})(stage)

    return [mark, ask_to_go(name)]


NOMINATING = (
    scenario("A victim that takes its time says why it goes", WAITING),
    scenario(
        "A pod waits until the last of its victims is gone",
        node("a", cpu="1"),
        pod("one", cpu="450m"),
        pod("other", cpu="450m"),
        pod("greater", IMPORTANT, cpu="900m", wait=False),
        nominated("greater", "a"),
        evicting("one"),
        evicting("other"),
        settle,
        remove_pod("one"),
        settle,
        nominated("greater", "a"),
        remove_pod("other"),
        bound("greater", "a"),
    ),
    scenario(
        "A pod that waits for its victim finds room elsewhere",
        WAITING,
        node("b", cpu="1"),
        bound("greater", "b"),
    ),
    scenario(
        "The node goes on which a pod waits for its victim",
        WAITING,
        remove_node("a"),
        settle,
        remove_pod("lesser"),
        refused("greater", "no nodes available"),
    ),
    scenario(
        "The node goes on which a pod waits, and others are too small",
        WAITING,
        node("b", cpu="100m"),
        settle,
        remove_node("a"),
        settle,
        remove_pod("lesser"),
        refused("greater", "0/1 nodes are available: 1 Insufficient cpu"),
    ),
    scenario(
        "The node goes on which a pod waits, and another comes",
        WAITING,
        remove_node("a"),
        settle,
        node("b", cpu="1"),
        bound("greater", "b"),
        remove_pod("lesser"),
    ),
    scenario(
        "A pod that waits for its victim is deleted, and the room is for the next",
        WAITING,
        pod("late", cpu="900m"),
        refused("late", "1 Insufficient cpu"),
        remove_pod("greater"),
        settle,
        remove_pod("lesser"),
        bound("late", "a"),
    ),
    scenario(
        "A pod that waits for its victim is deleted, and another waits in its stead",
        WAITING,
        pod("middling", MIDDLING, cpu="900m"),
        refused("middling", "1 Insufficient cpu"),
        remove_pod("greater"),
        settle,
        remove_pod("lesser"),
        bound("middling", "a"),
    ),
    scenario(
        "A pod that waits for its victim comes again under its name",
        WAITING,
        remove_pod("greater"),
        pod("greater", IMPORTANT, cpu="900m"),
        settle,
        remove_pod("lesser"),
        bound("greater", "a"),
    ),
    scenario(
        "A victim goes together with the pod that it made room for",
        WAITING,
        remove_pod("lesser"),
        bound("greater", "a"),
        remove_pod("greater"),
        pod("late", cpu="900m"),
        bound("late", "a"),
    ),
    scenario(
        "A pod was nominated for a node that is no more",
        node("a"),
        pod("waiting", GATED),
        pod("large", GATED, cpu="100"),
        nominate("waiting", "gone"),
        nominate("large", "gone"),
        change_pod("waiting", FREE),
        bound("waiting", "a"),
        change_pod("large", FREE),
        refused("large", "1 Insufficient cpu"),
        # The end of its own nomination wakes it, so it is refused again: before the end of the play on a slow machine.
        retries_vary=True,
    ),
    scenario(
        "A pod goes where somebody else nominated it",
        node("a", {"disk": "ssd"}),
        node("b"),
        pod("waiting", {**GATED, **prefers_node((100, has("disk", "ssd")))}),
        nominate("waiting", "b"),
        change_pod("waiting", FREE),
        bound("waiting", "b"),
    ),
    scenario(
        "A pod does not go where somebody else nominated it in vain",
        node("a", taints=[taint("closed")]),
        node("b"),
        pod("waiting", GATED),
        nominate("waiting", "a"),
        change_pod("waiting", FREE),
        bound("waiting", "b"),
    ),
    scenario(
        "Room that somebody else promised to an important pod is not for a lesser one",
        node("a", cpu="1"),
        pod("greater", {**GATED, **IMPORTANT}, cpu="900m"),
        nominate("greater", "a"),
        settle,
        pod("lesser", AT_ONCE, cpu="900m"),
        settle,
        change_pod("greater", FREE),
        bound("greater", "a"),
    ),
    scenario(
        "Room that somebody else promised to a pod is not for its equal",
        node("a", cpu="1"),
        pod("first", GATED, cpu="900m"),
        nominate("first", "a"),
        settle,
        pod("equal", cpu="900m"),
        settle,
        change_pod("first", FREE),
        settle,
    ),
    scenario(
        "A scheduler that starts late preempts",
        node("a", cpu="1"),
        resident("lesser", "a"),
        pod("greater", IMPORTANT, cpu="900m", wait=False),
        pod("late", cpu="900m", wait=False),
        starts_cold=True,
        then=(evicting("lesser"), refused("late", "1 Insufficient cpu")),
    ),
    scenario(
        "A scheduler that starts late finds a pod that waits for its victim",
        node("a", cpu="1"),
        node("b", cpu="1"),
        resident("lesser", "a"),
        resident("other", "b"),
        preempted_before("other"),
        pod("greater", IMPORTANT, cpu="900m", wait=False),
        nominate("greater", "b"),
        pod("late", cpu="900m", wait=False),
        starts_cold=True,
        then=(refused("greater", "not eligible due to a terminating pod on the nominated node"), evicting("other")),
    ),
)
