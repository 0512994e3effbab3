"""The scheduling cycle's search: PreFilter, Filter, PreScore, Score, select. Changes nothing but its own buffers.

kube-scheduler's order, skip rules and messages, over the node table. "Does not fit" comes back as a Rejection; so
does a fault of a plugin, which costs its own pod the cycle and nobody else anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from kscheduler._fast import FEASIBLE, MAX_CODE, Scores, Verdicts, accumulate, clear_raw, select_host
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.diagnosis import Diagnosis
from kscheduler.framework.faults import CycleFault, invalid_score, not_scored, raised, running
from kscheduler.framework.interface import (
    FilterPlugin,
    Handle,
    NormalizeScore,
    Plugin,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    TableFilterPlugin,
    TableNormalizeScore,
    TableScorePlugin,
)
from kscheduler.framework.observer import Observer
from kscheduler.framework.status import STATUS_LABELS, Code, Status, code_of, unresolvable
from kscheduler.snapshot.pod_info import PodInfo

OUTSIDE_PRE_FILTER = MAX_CODE  # verdict code of rows that a PreFilter's node names leave out

SAMPLED_CYCLES = 10  # plugins are timed in one cycle of so many, as in kube-scheduler

# kube-scheduler's floors: with fewer nodes all are examined, with more at least so many feasible ones are looked for.
MIN_FEASIBLE_NODES_TO_FIND = 100


@dataclass(frozen=True, slots=True)
class Decision:
    """Where the pod goes."""

    node_name: str
    evaluated: int  # nodes filtered
    feasible: int  # nodes that fit


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why the pod goes nowhere in this cycle. Code.ERROR: a fault, not a matter of room."""

    status: Status
    diagnosis: Diagnosis

    @property
    def message(self) -> str:
        return self.status.message


def feasible_nodes_to_find(percentage: int, nodes: int) -> int:
    """How many feasible nodes end the search. 0 per cent means all: see RATIONALE.md."""
    if nodes < MIN_FEASIBLE_NODES_TO_FIND or not 0 < percentage < 100:
        return nodes
    return max(nodes * percentage // 100, MIN_FEASIBLE_NODES_TO_FIND)


class Algorithm:
    """The search of one profile, with the buffers its kernels write to."""

    def __init__(
        self,
        profile: str,
        handle: Handle,
        observer: Observer,
        stopwatch: Callable[[], float],
        *,
        pre_filter: Sequence[PreFilterPlugin],
        filters: Sequence[FilterPlugin],
        post_filter: Sequence[PostFilterPlugin],
        pre_score: Sequence[PreScorePlugin],
        scores: Sequence[tuple[ScorePlugin, int]],
        percentage_of_nodes_to_score: int,
        first_on_tie: bool,
    ) -> None:
        self._profile = profile
        self._handle = handle
        self._observer = observer
        self._stopwatch = stopwatch
        self._pre_filter = pre_filter
        # Asking whether a plugin has a table form costs microseconds: it is asked here, once.
        self._filter = [(plugin, isinstance(plugin, TableFilterPlugin)) for plugin in filters]
        self._post_filter = post_filter
        self._pre_score = pre_score
        self._score = [
            (plugin, weight, isinstance(plugin, TableScorePlugin), isinstance(plugin, TableNormalizeScore))
            for plugin, weight in scores
        ]
        self._percentage = percentage_of_nodes_to_score
        self._first_on_tie = first_on_tie
        self._evaluated = {
            (plugin.name, point): observer.evaluations(plugin.name, point, profile)
            for point, plugins in (
                ("PreFilter", pre_filter),
                ("Filter", filters),
                ("PreScore", pre_score),
                ("Score", [plugin for plugin, _ in scores]),
            )
            for plugin in plugins
        }  # (plugin name, extension point) -> its tally
        self._cycles = 0
        self._is_sampled = False  # are plugins timed one by one in this cycle?
        self._next_start_row = 0
        self._verdicts = Verdicts()
        self._scores = Scores()
        self._node_names_from: Sequence[str] = ()  # plugins whose PreFilter named nodes, in this cycle

    def schedule_pod(self, state: CycleState, pod: PodInfo) -> Decision | Rejection:
        """Filter, score, select. Changes nothing but this framework's own buffers."""
        table = self._handle.table
        diagnosis = Diagnosis(len(table))
        if not len(table):
            return _rejected(diagnosis)
        self._cycles += 1
        self._is_sampled = self._cycles % SAMPLED_CYCLES == 0
        try:
            # 1. PreFilter: state for the filters, and perhaps the only nodes worth a look.
            started = self._stopwatch()
            node_names = self._run_pre_filter(state, pod, diagnosis)
            started = self._lap("PreFilter", started, rejected=isinstance(node_names, Status))
            if isinstance(node_names, Status):
                return self._post_filtered(state, pod, diagnosis, node_names)
            # 2. Filter all rows.
            evaluated = self._run_filter(state, pod, node_names)
            feasible = self._verdicts.feasible_count()
            started = self._lap("Filter", started, rejected=not feasible)
            if not feasible:
                self._explain(state, pod, diagnosis)
                return self._post_filtered(state, pod, diagnosis, None)
            # 3. Score, unless only one node is left.
            if feasible == 1:
                row = self._verdicts.feasible_rows()[0]
            else:
                self._run_pre_score(state, pod)
                started = self._lap("PreScore", started)
                self._run_scores(state, pod)
                self._lap("Score", started)
                row = self._select()
        except CycleFault as fault:
            return Rejection(fault.status, diagnosis)
        return Decision(table.at(row).name, evaluated, feasible)

    def _run_pre_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> frozenset[str] | Status | None:
        """The node names left by all PreFilters (None: all nodes), or the rejection that ends the cycle."""
        names: frozenset[str] | None = None
        contributors: list[str] = []
        rejected: Status | None = None
        for plugin in self._pre_filter:
            started = self._begin(plugin, "PreFilter")
            try:
                result, status = plugin.pre_filter(state, pod)
                code = code_of(status)
            except Exception as error:
                raise CycleFault(raised(plugin, "PreFilter", error)) from error
            self._end(plugin, "PreFilter", started, status)
            if code is Code.SKIP:
                state.skip_filter.add(plugin.name)
            elif status is not None and code is not Code.SUCCESS:
                status = status.of(plugin.name)
                if code not in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
                    raise CycleFault(running("PreFilter", plugin, status))
                diagnosis.blame(status)
                rejected = status
                if code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    break
            elif result is not None and result.node_names is not None:
                names = result.node_names if names is None else names & result.node_names
                contributors.append(plugin.name)
                if not names:
                    return self._no_common_node(contributors, diagnosis)
        if rejected is not None:
            diagnosis.pre_filter_message = rejected.message
            return rejected
        self._node_names_from = contributors
        return names

    def _no_common_node(self, contributors: list[str], diagnosis: Diagnosis) -> Status:
        if len(contributors) == 1:
            reason = f"node(s) didn't satisfy plugin {contributors[0]}"
        else:
            reason = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(contributors))}] simultaneously"
        diagnosis.unschedulable_plugins.update(contributors)
        diagnosis.pre_filter_message = reason
        return unresolvable(reason)

    def _run_filter(self, state: CycleState, pod: PodInfo, node_names: frozenset[str] | None) -> int:
        """Fill the verdicts; returns how many nodes were looked at."""
        table, verdicts = self._handle.table, self._verdicts
        verdicts.reset(table.columns)
        if node_names is not None:
            rows = [row for name in node_names if (row := table.row_of(name)) is not None]
            verdicts.keep_only(sorted(rows), OUTSIDE_PRE_FILTER, 0)
        for position, (plugin, by_table) in enumerate(self._filter, 1):
            if plugin.name in state.skip_filter:
                continue
            started = self._begin(plugin, "Filter")
            try:
                if by_table:
                    cast(TableFilterPlugin, plugin).filter_table(state, pod, table, verdicts, position)
                else:
                    self._filter_by_node(plugin, state, pod, position)
            except CycleFault:
                raise
            except Exception as error:
                raise CycleFault(raised(plugin, "Filter", error)) from error
            self._end(plugin, "Filter", started, None)
        return self._sample(len(table))

    def _filter_by_node(self, plugin: FilterPlugin, state: CycleState, pod: PodInfo, position: int) -> None:
        """The per-node form over all rows still feasible; a row's detail is its status's place in a list."""
        statuses: list[Status] = []
        detail_of: dict[Status, int] = {}  # status -> its place in `statuses`
        for row in self._verdicts.feasible_rows():
            status = plugin.filter(state, pod, self._handle.table.at(row))
            if status is None or status.code is Code.SUCCESS:
                continue
            if not status.is_rejected:
                raise CycleFault(status.of(plugin.name))
            detail = detail_of.get(status)
            if detail is None:
                detail = detail_of[status] = len(statuses)
                statuses.append(status)
            self._verdicts.reject(row, position, detail)
        state.write(_filter_key(plugin), statuses)

    def _sample(self, nodes: int) -> int:
        """Keep only as many feasible nodes as the profile asks to find; returns the nodes looked at."""
        wanted = feasible_nodes_to_find(self._percentage, nodes)
        if wanted >= nodes:
            return nodes
        columns = self._handle.table.columns
        evaluated = self._verdicts.limit_feasible(self._next_start_row % max(columns.rows, 1), wanted)
        self._next_start_row = (self._next_start_row + evaluated) % max(columns.rows, 1)
        return evaluated

    def _run_pre_score(self, state: CycleState, pod: PodInfo) -> None:
        for plugin in self._pre_score:
            started = self._begin(plugin, "PreScore")
            try:
                status = plugin.pre_score(state, pod)
                code = code_of(status)
            except Exception as error:
                raise CycleFault(raised(plugin, "PreScore", error)) from error
            self._end(plugin, "PreScore", started, status)
            if code is Code.SKIP:
                state.skip_score.add(plugin.name)
            elif status is not None and code is not Code.SUCCESS:
                raise CycleFault(running("PreScore", plugin, status))

    def _run_scores(self, state: CycleState, pod: PodInfo) -> None:
        table, verdicts, scores = self._handle.table, self._verdicts, self._scores
        scores.reset(table.columns)
        for plugin, weight, by_table, normalizes in self._score:
            if plugin.name in state.skip_score:
                continue
            started = self._begin(plugin, "Score")
            try:
                if by_table:
                    cast(TableScorePlugin, plugin).score_table(state, pod, table, verdicts, scores)
                    if normalizes:
                        cast(TableNormalizeScore, plugin).normalize_table(state, pod, table, verdicts, scores)
                else:
                    self._score_by_node(plugin, state, pod)
            except CycleFault:
                raise
            except Exception as error:
                raise CycleFault(raised(plugin, "Score", error)) from error
            self._end(plugin, "Score", started, None)
            bad_row = accumulate(verdicts, scores, weight)
            if bad_row >= 0:
                raise CycleFault(invalid_score(plugin, scores.raw(bad_row)))

    def _score_by_node(self, plugin: ScorePlugin, state: CycleState, pod: PodInfo) -> None:
        nodes = {row: self._handle.table.at(row) for row in self._verdicts.feasible_rows()}
        raw: dict[str, int] = {}  # node name -> score
        for node in nodes.values():
            value, status = plugin.score(state, pod, node)
            if status is not None and status.code is not Code.SUCCESS:
                raise CycleFault(not_scored(plugin, status))
            raw[node.name] = value
        if isinstance(plugin, NormalizeScore):
            status = plugin.normalize_score(state, pod, raw)
            if status is not None and status.code is not Code.SUCCESS:
                raise CycleFault(not_scored(plugin, status))
        clear_raw(self._verdicts, self._scores)
        for row, node in nodes.items():
            self._scores.set_raw(row, raw[node.name])

    def _select(self) -> int:
        bits = None if self._first_on_tie else self._handle.rng.getrandbits(32)
        return select_host(self._verdicts, self._scores, bits)

    # --- when nothing fits ---

    def _explain(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> None:
        for (code, detail), nodes in self._verdicts.histogram().items():
            diagnosis.count(self._status_of(state, pod, code, detail), nodes)
        # Whoever named nodes left the others out, also those that are still to come: a new node may help.
        diagnosis.unschedulable_plugins.update(self._node_names_from)
        diagnosis.node_statuses = lambda: self._node_statuses(state, pod)

    def _node_statuses(self, state: CycleState, pod: PodInfo) -> dict[str, Status]:
        """Node name -> status, from the verdicts of the cycle that has just run."""
        verdicts = self._verdicts
        return {
            node.name: self._status_of(state, pod, verdicts.code(node.row), verdicts.detail(node.row))
            for node in self._handle.table
            if verdicts.code(node.row) != FEASIBLE
        }

    def _status_of(self, state: CycleState, pod: PodInfo, code: int, detail: int) -> Status:
        if code == OUTSIDE_PRE_FILTER:
            reason = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self._node_names_from))}]"
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,), self._node_names_from[0])
        plugin, by_table = self._filter[code - 1]
        if by_table:
            return cast(TableFilterPlugin, plugin).explain(state, pod, detail).of(plugin.name)
        statuses: list[Status] = state.read(_filter_key(plugin), list)
        return statuses[detail].of(plugin.name)

    def _post_filtered(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis, pre_filter: Status | None
    ) -> Rejection:
        """Give PostFilter plugins a say, then put the rejection into words."""
        if self._post_filter:
            if pre_filter is not None:
                statuses: Mapping[str, Status] = {node.name: pre_filter for node in self._handle.table}
            else:
                statuses = diagnosis.node_statuses()
            started = self._stopwatch()
            self._run_post_filter(state, pod, statuses, diagnosis)
            self._lap("PostFilter", started)
        return _rejected(diagnosis)

    def _run_post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status], diagnosis: Diagnosis
    ) -> PostFilterResult | None:
        messages: list[str] = []
        for plugin in self._post_filter:
            try:
                result, status = plugin.post_filter(state, pod, statuses)
                code = code_of(status)
            except Exception as error:
                raise CycleFault(raised(plugin, "PostFilter", error)) from error
            if status is not None and status.reasons:
                messages.extend(status.reasons)
            if code is Code.ERROR and status is not None:
                raise CycleFault(status.of(plugin.name))
            if code in (Code.SUCCESS, Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
                diagnosis.post_filter_message = ", ".join(messages)
                return result
        diagnosis.post_filter_message = ", ".join(messages)
        return None

    # --- measuring ---

    def _begin(self, plugin: Plugin, point: str) -> float:
        """Count the evaluation; when it began, if this cycle is sampled."""
        self._evaluated[plugin.name, point].inc()
        return self._stopwatch() if self._is_sampled else 0.0

    def _end(self, plugin: Plugin, point: str, started: float, status: Status | None) -> None:
        if self._is_sampled:
            label = "Success" if status is None else STATUS_LABELS[status.code]
            self._observer.plugin(plugin.name, point, label, self._stopwatch() - started)

    def _lap(self, point: str, started: float, *, rejected: bool = False) -> float:
        """Report how long an extension point took since `started`; returns the time now."""
        now = self._stopwatch()
        status = "Unschedulable" if rejected else "Success"
        self._observer.extension_point(point, status, self._profile, now - started)
        return now


def _rejected(diagnosis: Diagnosis) -> Rejection:
    return Rejection(Status(Code.UNSCHEDULABLE, (diagnosis.message(),)), diagnosis)


def _filter_key(plugin: FilterPlugin) -> str:
    """Where the statuses that a per-node filter gave are kept in the cycle state."""
    return f"{plugin.name}/statuses"
