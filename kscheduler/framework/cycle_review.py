"""Explains the search that has just run: the rejected nodes with their statuses, and the scores of the best nodes.

A review reads the buffers of the search. It is valid until the next search begins, its scores only until the pod is
assumed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from kscheduler._fast import FEASIBLE, NOT_EXAMINED, Scores, Verdicts
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import ScorePlugin, TableNormalizeScore, TableScorePlugin
from kscheduler.framework.node_values import NodeValue, ValuingPlugin
from kscheduler.framework.status import Status
from kscheduler.framework.verdict_statuses import OUTSIDE
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class PluginScores:
    """One Score plugin's scores for the rows (nodes) given to `CycleReview.score_again`, in their order."""

    plugin: str
    weight: int
    raw: tuple[int, ...]
    normalized: tuple[int, ...]  # 0..100


# (plugin, weight, its table form: itself or None, the same if that form normalises)
ScoreEntry = tuple[ScorePlugin, int, TableScorePlugin | None, TableNormalizeScore | None]


class CycleReview:
    def __init__(
        self,
        state: CycleState,
        pod: PodInfo,
        table: NodeTable,
        verdicts: Verdicts,
        scores: Scores,
        *,
        filters: Sequence[str],
        valuing: Mapping[str, ValuingPlugin],
        score_plugins: Sequence[ScoreEntry],
        score_by_node: Callable[[ScorePlugin, CycleState, PodInfo], None],
        alone: Mapping[int, Status],
        explain: Callable[[int, int], Status],
    ) -> None:
        """Build a review from the buffers of a search.

        `alone`: row -> the status of a node that has one of its own, which takes precedence over its verdict. `explain`
        returns the status for the code (filter) and detail (reason) of a verdict. `score_by_node` writes the normalised
        scores of all feasible rows by a plugin without a table form.
        """
        self._state = state
        self._pod = pod
        self.table = table
        self._verdicts = verdicts
        self._scores = scores
        self.filters = tuple(name for name in filters if name not in state.skip_filter)  # those that ran, in order
        self._valuing = valuing  # by name
        self._score_plugins = score_plugins
        self._score_by_node = score_by_node
        self._alone = alone
        self._explain = explain

    @property
    def rows(self) -> int:
        return self._verdicts.rows

    def feasible_rows(self) -> list[int]:
        return self._verdicts.feasible_rows()

    def rejected_rows(self) -> list[tuple[Status, list[int]]]:
        """Return each rejecting status with the rows of the nodes that got it; the most frequent status first."""
        found: dict[Status, list[int]] = {}
        for (code, detail), nodes in self._verdicts.histogram().items():
            if nodes and FEASIBLE < code < OUTSIDE:
                rows = self._verdicts.rows_with(code, detail)
                if self._alone:
                    rows = [row for row in rows if row not in self._alone]
                if rows:
                    found.setdefault(self._explain(code, detail), []).extend(rows)
        for row, status in self._alone.items():
            if FEASIBLE < self._verdicts.code(row) < OUTSIDE:
                found.setdefault(status, []).append(row)
        return sorted(found.items(), key=lambda entry: -len(entry[1]))

    @property
    def valuing_plugins(self) -> Collection[str]:
        """The names of the plugins that read numbers from outside the API objects, such as live metrics."""
        return self._valuing

    def values(self, row: int) -> list[tuple[str, NodeValue]]:
        """Return (plugin, value) for each number from outside the API objects that plugins read for the row's node."""
        node = self.table.at(row)
        return [
            (name, value)
            for name, plugin in self._valuing.items()
            for value in plugin.values_of(self._state, self._pod, node)
        ]

    def unexamined_rows(self) -> list[int]:
        """Return the rows that were not examined because the search had found enough feasible nodes."""
        return self._verdicts.rows_with(NOT_EXAMINED, 0)

    def outside_rows(self) -> list[int]:
        """Return the rows outside the domain of nodes to which the search was confined."""
        return self._verdicts.rows_with(OUTSIDE, 0)

    def best_rows(self, count: int) -> list[tuple[int, int]]:
        """Return up to `count` (row, total score), the best first, ties by row.

        Meaningless if only one node was feasible.
        """
        # Feasible rows are ascending, and nlargest keeps the order of equal scores.
        rows = heapq.nlargest(count, self._verdicts.feasible_rows(), key=self._scores.total)
        return [(row, self._scores.total(row)) for row in rows]

    def total(self, row: int) -> int:
        return self._scores.total(row)

    def score_again(self, rows: Sequence[int]) -> list[PluginScores]:
        """Run the cycle's Score plugins once more, and return their scores for these rows (nodes)."""
        skipped = self._state.skip_score
        return [self._scores_of(entry, rows) for entry in self._score_plugins if entry[0].name not in skipped]

    def _scores_of(self, entry: ScoreEntry, rows: Sequence[int]) -> PluginScores:
        plugin, weight, table_form, normalizing = entry
        state, pod, table, verdicts, scores = self._state, self._pod, self.table, self._verdicts, self._scores
        if table_form is not None:
            table_form.score_table(state, pod, table, verdicts, scores)
            raw = tuple(scores.raw(row) for row in rows)
            if normalizing is not None:
                normalizing.normalize_table(state, pod, table, verdicts, scores)
        else:
            raw = tuple(plugin.score(state, pod, table.at(row))[0] for row in rows)
            self._score_by_node(plugin, state, pod)
        return PluginScores(plugin.name, weight, raw, tuple(scores.raw(row) for row in rows))
