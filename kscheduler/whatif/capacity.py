"""Finds the fewest added nodes with which all objectives are met.

The number is doubled until they are met, then bisected: they are met with the number found and not with one node
fewer, and both have been simulated. That more nodes do not make it worse is assumed, not known: a search over all
numbers would find a smaller one where that does not hold. If half of the added nodes never get a pod, more of them
would not either, and the search ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from kscheduler.errors import ConfigError, KSchedulerError
from kscheduler.whatif.objective import Objective
from kscheduler.whatif.played_side import PlayedSide
from kscheduler.whatif.shapes import ADDED

DEFAULT_MOST = 1_000


class NotMet(KSchedulerError):
    """No number of nodes within the bound meets the objectives."""


class Trial(msgspec.Struct, frozen=True):
    """One simulation of the search."""

    nodes: int  # that were added
    figures: list[str]  # one for each objective, in words
    met: bool


class Needed(msgspec.Struct, frozen=True):
    """The result of the search. `trials` are in the order in which they were simulated."""

    shape: str
    nodes: int
    objectives: list[str]
    trials: list[Trial]


def fewest_nodes(
    shape: str,
    objectives: Sequence[Objective],
    side_with: Callable[[int], PlayedSide],
    most: int,
    on_trial: Callable[[Trial], object],
) -> tuple[Needed, PlayedSide]:
    """Return the fewest nodes, and the side with them. Raises NotMet if more than `most` would be needed."""
    trials: list[Trial] = []

    def tried(nodes: int) -> tuple[bool, PlayedSide]:
        side = side_with(nodes)
        is_met = all(objective.is_met(side) for objective in objectives)
        trials.append(Trial(nodes, [objective.shown(side) for objective in objectives], is_met))
        on_trial(trials[-1])
        return is_met, side

    # 1. The first power of two with which they are met.
    low, high = -1, 0  # not met with `low`
    is_met, side = tried(high)
    while not is_met:
        if high == most or _half_is_unused(side, high):
            raise NotMet(_not_met(shape, trials[-1], objectives, side, most))
        low, high = high, min(max(2 * high, 1), most)
        is_met, side = tried(high)
    # 2. Between it and the one before.
    while high - low > 1:
        middle = (low + high) // 2
        is_met, found = tried(middle)
        if is_met:
            high, side = middle, found
        else:
            low = middle
    return Needed(shape, high, [objective.text for objective in objectives], trials), side


def _half_is_unused(side: PlayedSide, added: int) -> bool:
    return added > 1 and 2 * side.unused(ADDED) >= added


def _not_met(shape: str, last: Trial, objectives: Sequence[Objective], side: PlayedSide, most: int) -> str:
    missed = next(each for each in objectives if not each.is_met(side))
    expected = f'expected "{missed.text}" to hold with at most {most:,} more nodes {shape} (--most)'
    got = f"got {missed.shown(side)} with {last.nodes:,}"
    if _half_is_unused(side, last.nodes):
        got += f", of which {side.unused(ADDED):,} never get a pod"
    reasons = side.run().report.reasons
    if reasons:
        got += f"; {reasons[0].pods:,} pods have no node: {reasons[0].kind}"
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
    if not 1 <= most <= 1_000_000:
        raise ConfigError(f"--most: expected 1 to 1,000,000 nodes, got {most}")
