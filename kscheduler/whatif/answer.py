"""The answer to a what-if: how the scenario as it is and the changed one differ.

The comparison itself is that of `kscheduler compare`: A is the scenario as it is, B the changed one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import msgspec

from kscheduler.compare.comparing import Comparison, ShowsProgress, compare, silently
from kscheduler.compare.landings import PodCounts
from kscheduler.simulator.report import Reason
from kscheduler.whatif.capacity import Needed
from kscheduler.whatif.played_side import PlayedSide

WAITS = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


class Waiting(msgspec.Struct, frozen=True):
    """The time from creation to binding of a share of all pods, in seconds; None if some of them wait on."""

    share: str
    before_s: float | None
    after_s: float | None


class Answer(msgspec.Struct, frozen=True):
    """Everything that the text, the JSON and the page show."""

    command: str  # that gives this answer
    changes: list[str]
    needed: Needed | None  # None: no number of nodes was to be found
    scheduled: list[str]  # the first pods that have a node in the changed scenario only
    no_longer_scheduled: list[str]  # the first pods that have one in the scenario as it is only
    on_added_nodes: int  # pods of both scenarios that the changed one has on nodes that were not there before
    by_chance: PodCounts | None  # how many pods land elsewhere if only the seed changes; None: that was not tried
    waiting: list[Waiting]
    pending: list[Reason]  # pods without a node in the changed scenario, by reason
    comparison: Comparison


def difference(
    before: PlayedSide,
    after: PlayedSide,
    changes: Sequence[str],
    *,
    limit: int,
    command: str = "",
    needed: Needed | None = None,
    other_seed: Callable[[], PlayedSide] | None = None,
    shown: ShowsProgress = silently,
) -> Answer:
    """Return how the sides differ. At most `limit` pods that land elsewhere are listed and explained.

    `other_seed` returns the scenario as it is with another seed, to show what chance alone would change.
    """
    comparison = compare(before, after, limit, shown)
    by_chance = None if other_seed is None else compare(before, other_seed(), 0, shown).pods
    return Answer(
        command=command,
        changes=list(changes),
        needed=needed,
        scheduled=list(islice(_placed_only(after, before), limit)),
        no_longer_scheduled=list(islice(_placed_only(before, after), limit)),
        on_added_nodes=_on_added_nodes(before, after),
        by_chance=by_chance,
        waiting=[
            Waiting(name, _finite(before.waited_s(share)), _finite(after.waited_s(share)))
            for name, share in WAITS.items()
        ],
        pending=after.run().report.reasons,
        comparison=comparison,
    )


def _placed_only(here: PlayedSide, there: PlayedSide) -> Iterator[str]:
    """Yield the pods that have a node here and none there, in order of creation."""
    in_one, in_other = here.run().pods, there.run().pods
    if in_one is None or in_other is None:
        return
    for pod, row in in_one.rows.items():
        other = in_other.rows.get(pod)
        if other is not None and in_one.is_placed(row) and not in_other.is_placed(other):
            yield pod


def _on_added_nodes(before: PlayedSide, after: PlayedSide) -> int:
    was, now = before.run().pods, after.run().pods
    if was is None or now is None:
        return 0
    known = {*was.node_names, ""}
    return sum(now.node(row) not in known for pod, row in now.rows.items() if pod in was.rows)


def _finite(seconds: float) -> float | None:
    return None if math.isinf(seconds) else seconds
