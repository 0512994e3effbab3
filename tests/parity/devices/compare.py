"""Two programs' decisions about devices, side by side: every difference in words, or none.

Compared are the verdict, the text of a failure, each claim's results in order with what they consume, configuration and
node selector, and how many steps the search took. Of share ids, which are drawn, only that there is one and that it is
drawn once; of several capacities that cannot be represented kube-scheduler names any; of a syntax error in a selector,
which the apiserver would refuse, only where the first one is. Where kube-scheduler's code panics (1.36 does for counts
near 2^63), ours must fail for the pod. Searches that take very long are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.parity.devices.case import DeviceCase
from tests.parity.devices.oracle import ABORTED, Decision, DeviceAnswer
from tests.parity.devices.ours import World

MOST_STEPS = 2000  # of a search that ours, which is slower, does as well

_EMPTY: tuple[Any, ...] = (None, "", [], {})


def all_differences(case: DeviceCase, answer: DeviceAnswer) -> list[tuple[int, str]]:
    """(position of the pod, what differs); an exception of ours is a difference as well."""
    try:
        return list(_differences(case, answer))
    except Exception as error:
        return [(-1, f"crash: {type(error).__name__}: {error}")]


def is_compared(decision: Decision) -> bool:
    return decision.steps <= MOST_STEPS and not decision.failure.startswith(ABORTED)


def _differences(case: DeviceCase, answer: DeviceAnswer) -> Iterator[tuple[int, str]]:
    world = World(case)
    nodes = [node["metadata"]["name"] for node in case.cluster["nodes"]]
    for position, (pod, of_nodes) in enumerate(zip(case.pending, answer.pods, strict=True)):
        if all(map(is_compared, of_nodes)):
            for node, theirs, ours in zip(nodes, of_nodes, world.decide(pod), strict=True):
                yield from ((position, f"{difference} (on {node})") for difference in _of_decisions(theirs, ours))
        if case.is_sequence:
            world.allocate(_first_results(of_nodes))


def _first_results(of_nodes: list[Decision]) -> list[Any]:
    """The devices of the first node where the pod's claims can be allocated."""
    for decision in of_nodes:
        if decision.results is not None:
            return [result for each in decision.results for result in each["devices"].get("results", ())]
    return []


def _of_decisions(theirs: Decision, ours: Decision) -> Iterator[str]:
    if theirs.panic:
        if ours.verdict != "failed":
            yield f"verdict: kube-scheduler panics, got {ours.verdict}: {_shown(ours)}"
        return
    if theirs.verdict != ours.verdict:
        yield f"verdict: {theirs.verdict}, got {ours.verdict}: expected {_shown(theirs)}, got {_shown(ours)}"
        return
    if comparable_text(theirs.failure) != comparable_text(ours.failure):
        yield f"failure: {_kind(theirs.failure)}: expected {theirs.failure!r}, got {ours.failure!r}"
    for claim, (expected, got) in enumerate(zip(theirs.results or (), ours.results or (), strict=True)):
        yield from of_allocations(claim, expected, got)
    if theirs.steps != ours.steps:
        yield f"steps: expected {theirs.steps}, got {ours.steps}"
    yield from _repeated_share_ids(ours)


def comparable_text(failure: str) -> str:
    """As much of a failure's text as has to agree."""
    return re.sub(r'capacity "[^"]*": ', "capacity …: ", failure).partition("Syntax error: ")[0]


def _kind(failure: str) -> str:
    """A failure without names and what comes after them."""
    found = re.search(r"CEL (compile|runtime) error", failure)
    return found[0] if found else "allocation"


def _shown(decision: Decision) -> str:
    return decision.panic or decision.failure or str(decision.results)


def of_allocations(claim: int, expected: Any, got: Any) -> Iterator[str]:
    left, right = without_empty(expected), without_empty(got)
    for part, pick in _PARTS:
        if pick(left) != pick(right):
            yield f"{part}: of claim {claim}: expected {pick(left)}, got {pick(right)}"
    if left != right and all(pick(left) == pick(right) for _, pick in _PARTS):
        yield f"allocation: of claim {claim}: expected {left}, got {right}"


_PARTS = (
    (
        "devices",
        lambda found: [
            (each["request"], each["driver"], each["pool"], each["device"])
            for each in found.get("devices", {}).get("results", ())
        ],
    ),
    ("consumed", lambda found: [each.get("consumedCapacity") for each in found.get("devices", {}).get("results", ())]),
    ("results", lambda found: found.get("devices", {}).get("results")),
    ("config", lambda found: found.get("devices", {}).get("config")),
    ("node selector", lambda found: found.get("nodeSelector")),
)


def without_empty(value: Any, key: str = "") -> Any:
    """Without what is empty, and with the same share id everywhere."""
    if isinstance(value, dict):
        if key == "parameters":  # of a driver, which may mean something by empty fields
            return value
        bare = {name: without_empty(inner, name) for name, inner in value.items()}
        return {name: inner for name, inner in bare.items() if inner not in _EMPTY}
    if isinstance(value, list):
        return [without_empty(inner) for inner in value]
    return "drawn" if key == "shareID" and value else value


def _repeated_share_ids(ours: Decision) -> Iterator[str]:
    drawn = [
        result["shareID"]
        for allocation in ours.results or ()
        for result in allocation["devices"].get("results", ())
        if result.get("shareID")
    ]
    if len(drawn) != len(set(drawn)):
        yield f"share ids: drawn more than once: {drawn}"
