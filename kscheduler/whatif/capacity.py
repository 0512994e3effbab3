"""Finds the fewest added nodes with which all objectives are met.

The search begins at an estimate, goes up or down from there by growing steps until they are met by one number and not
by a smaller one, and bisects: they are met with the number found and not with one node fewer, and both have been
simulated. That more nodes do not make it worse is assumed, not known: a search over all numbers would find a smaller
one where that does not hold. If half of the added nodes never get a pod, more of them would not either, and the search
ends, unless an objective is about the nodes, such as how much of them is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from kscheduler.counted import counted
from kscheduler.errors import ConfigError, KSchedulerError
from kscheduler.simulator.units import seconds
from kscheduler.whatif.early_end import EarlyEnd, NeverMet
from kscheduler.whatif.node_changes import MAX_ADDED
from kscheduler.whatif.objective import Objective
from kscheduler.whatif.played_side import PlayedSide
from kscheduler.whatif.shapes import ADDED

DEFAULT_MOST = 1_000


class NotMet(KSchedulerError):
    """No number of nodes within the bound meets the objectives."""


class Goal(msgspec.Struct, frozen=True):
    """An objective, as the answer holds it."""

    text: str
    value: float  # the limit
    unit: str  # of the value and of the trials' figures: "seconds", "share" or "" for a number


class Trial(msgspec.Struct, frozen=True):
    """One simulation of the search."""

    nodes: int  # that were added
    figures: list[str]  # one for each objective, in words; only what ended it early, if that was so
    met: bool
    values: list[float | None] = []  # the figures; None: for ever, or not known; empty if it was ended early


class Needed(msgspec.Struct, frozen=True):
    """The result of the search. `trials` are in the order in which they were simulated."""

    shape: str
    nodes: int
    objectives: list[Goal]
    trials: list[Trial]


def fewest_nodes(
    shape: str,
    objectives: Sequence[Objective],
    side_with: Callable[[int], PlayedSide],
    most: int,
    on_trial: Callable[[Trial], object],
    start: int,
) -> tuple[Needed, PlayedSide]:
    """Return the fewest nodes, and the side with them. `start`: an estimate.

    Raises NotMet if more than `most` would be needed.
    """
    trials: list[Trial] = []
    are_about_pods = not any(objective.is_about_nodes for objective in objectives)

    def tried(nodes: int) -> tuple[bool, PlayedSide]:
        side = side_with(nodes)
        trials.append(_trial(nodes, side, objectives))
        on_trial(trials[-1])
        return trials[-1].met, side

    # 1. A number with which they are met, and a smaller one, or -1, with which they are not.
    low, high, step = -1, min(start, most), 1
    is_met, side = tried(high)
    while is_met and high > 0 and low < 0:
        lower = max(high - step, 0)
        is_met_there, found = tried(lower)
        if is_met_there:
            high, side, step = lower, found, 2 * step
        else:
            low = lower
    while not is_met:
        if high == most or (are_about_pods and _half_is_unused(side, high)):
            raise NotMet(_not_met(shape, trials[-1], objectives, side, most))
        low, high, step = high, min(high + step, most), 2 * step
        is_met, side = tried(high)
    # 2. Between the two.
    while high - low > 1:
        middle = (low + high) // 2
        is_met, found = tried(middle)
        if is_met:
            high, side = middle, found
        else:
            low = middle
    return Needed(shape, high, [Goal(each.text, each.value, each.unit) for each in objectives], trials), side


def _trial(nodes: int, side: PlayedSide, objectives: Sequence[Objective]) -> Trial:
    schedulers = {profile.scheduler_name for profile in side.config.profiles}
    try:
        side.run(EarlyEnd(objectives, side.scenario.arrivals, schedulers))
    except NeverMet as missed:
        return Trial(nodes, [f"{missed.objective.metric} above {seconds(missed.objective.value)}"], False)
    is_met = all(objective.is_met(side) for objective in objectives)
    values = [_finite(objective.figure(side)) for objective in objectives]
    return Trial(nodes, [objective.shown(side) for objective in objectives], is_met, values)


def _finite(figure: float | None) -> float | None:
    return None if figure is None or math.isinf(figure) else figure


def _half_is_unused(side: PlayedSide, added: int) -> bool:
    return side.is_played and added > 1 and 2 * side.unused(ADDED) >= added


def _not_met(shape: str, last: Trial, objectives: Sequence[Objective], side: PlayedSide, most: int) -> str:
    wanted = " and ".join(objective.text for objective in objectives)
    expected = f'expected "{wanted}" to hold with at most {counted(most, "more node")} ({shape}, --most)'
    got = f"got {', '.join(last.figures)} with {last.nodes:,}"
    if not side.is_played:
        return f"{expected}, {got}"
    if _half_is_unused(side, last.nodes):
        got += f", of which {counted(side.unused(ADDED), 'never gets', 'never get')} a pod"
    reasons = side.run().report.reasons
    if reasons:
        got += f"; {counted(reasons[0].pods, 'pod has', 'pods have')} no node: {reasons[0].kind}"
    return f"{expected}, {got}"


def check_search(objectives: Sequence[Objective], shapes: Sequence[str], most: int) -> None:
    """Raise ConfigError if what is to be found is not stated."""
    if not objectives:
        raise ConfigError("--find: expected an objective, such as --slo 'pending p99 < 30s'")
    if len(shapes) != 1:
        raise ConfigError(
            "--find min-nodes: expected one shape without a number, such as --add-nodes general-32, got "
            + (", ".join(shapes) or "none")
        )
    if not 1 <= most <= MAX_ADDED:
        raise ConfigError(f"--most: expected 1 to {MAX_ADDED:,} nodes, got {most}")
