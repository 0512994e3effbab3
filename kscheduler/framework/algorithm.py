"""The scheduling cycle's search for a node: PreFilter, Filter, PreScore, Score, selection.

Order, skip rules and messages are kube-scheduler's; nodes are read from the node table, and only the search's own
buffers are written. A pod that fits on no node gets a `Rejection`. So does a pod for which a plugin fails: a fault ends
the cycle of that pod only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from kscheduler._fast import (
    PodRequest,
    Scores,
    Verdicts,
    accumulate,
    clear_raw,
    filter_with_nominated,
    select_host,
)
from kscheduler.errors import InternalError
from kscheduler.framework.cycle_review import CycleReview, ScoreEntry
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.diagnosis import Diagnosis
from kscheduler.framework.extender_verdict import EXTENDER, ExtenderVerdict
from kscheduler.framework.faults import AnswersToCome, CycleFault, invalid_score, raised, running
from kscheduler.framework.interface import (
    FilterPlugin,
    Handle,
    NormalizeScore,
    Plugin,
    PostFilterPlugin,
    ScorePlugin,
    SearchingFilterPlugin,
    TableFilterPlugin,
    TableNormalizeScore,
    TableScorePlugin,
)
from kscheduler.framework.node_filters import NodeFilters
from kscheduler.framework.node_values import ValuingPlugin
from kscheduler.framework.nominated_pods import NominatedPods, filter_of_requests
from kscheduler.framework.post_filter import PostFilterChain
from kscheduler.framework.search_outcomes import Decision, OpenRejection, Rejection, Shortlist, rejected
from kscheduler.framework.search_plugins import SearchPlugins
from kscheduler.framework.status import SKIP, STATUS_LABELS, Code, Status, code_of, unresolvable
from kscheduler.framework.verdict_statuses import OUTSIDE, VerdictStatuses
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

# Verdict codes besides those that are positions of Filter plugins, counted from 1.
OUTSIDE_PRE_FILTER = OUTSIDE - 1  # rows that are not among the nodes named by PreFilter plugins
WITH_NOMINATED = OUTSIDE - 2  # rows that fit only without the pods nominated to them
TURNED_DOWN = OUTSIDE - 3  # rows that fit, but that extenders rejected

SAMPLED_CYCLES = 10  # plugins are timed in one of so many cycles, as in kube-scheduler

# As in kube-scheduler: with fewer nodes all are examined; with more the search wants at least so many feasible ones.
MIN_FEASIBLE_NODES_TO_FIND = 100
# kube-scheduler's percentage if none is configured: 50, less 1 for each 125 nodes, but at least 5.
ADAPTIVE_PERCENTAGE, MIN_ADAPTIVE_PERCENTAGE = 50, 5


@dataclass(frozen=True, slots=True)
class _NoFit:
    """A search's result without a feasible node. `pre_filter`: the status of all nodes, if PreFilter rejected them."""

    pre_filter: Status | None


def feasible_nodes_to_find(percentage: int, nodes: int) -> int:
    """Return the number of feasible nodes at which a search ends, given percentageOfNodesToScore; 0 means all nodes."""
    if nodes < MIN_FEASIBLE_NODES_TO_FIND or not 0 < percentage < 100:
        return nodes
    return max(nodes * percentage // 100, MIN_FEASIBLE_NODES_TO_FIND)


class Algorithm:
    """The search for a node (PreFilter to selection) for pods of one profile, with the buffers that kernels fill."""

    def __init__(
        self,
        profile: str,
        handle: Handle,
        observer: Measurements,
        stopwatch: Callable[[], float],
        *,
        plugins: SearchPlugins,
        node_filters: NodeFilters,
        post_filter: Sequence[PostFilterPlugin],
        percentage_of_nodes_to_score: int,
        first_on_tie: bool,
    ) -> None:
        self._profile = profile
        self._handle = handle
        self._observer = observer
        self._stopwatch = stopwatch
        self._pre_filter = plugins.pre_filter
        # Testing whether a plugin has a table form costs microseconds: it is done here, once.
        # The table form is the plugin itself, or None.
        self._filter = [
            (plugin, plugin if isinstance(plugin, TableFilterPlugin) else None) for plugin in plugins.filters
        ]
        self._searching = {plugin.name for plugin in plugins.filters if isinstance(plugin, SearchingFilterPlugin)}
        self._node_filters = node_filters
        self._nominations = handle.nominations
        self._nominated = NominatedPods(handle.table, handle.nominations)
        # Sets of skipped filters with which another filter depended on more than room; see `_room_asked_for`.
        self._counting: set[frozenset[str]] = set()
        self._post_filter = PostFilterChain(post_filter, handle.table, stopwatch, self._lap, self._end_if_sampled)
        self._pre_score = plugins.pre_score
        self._score: list[ScoreEntry] = [
            (
                plugin,
                weight,
                plugin if isinstance(plugin, TableScorePlugin) else None,
                plugin if isinstance(plugin, TableNormalizeScore) else None,
            )
            for plugin, weight in plugins.scores
        ]
        self._valuing = {
            plugin.name: plugin
            for point in ("Filter", "Score")
            for plugin in plugins.by_point[point]
            if isinstance(plugin, ValuingPlugin)
        }
        self._percentage = percentage_of_nodes_to_score
        self._first_on_tie = first_on_tie
        self._evaluated = plugins.evaluations(observer, profile)
        self._cycles = 0
        self._is_sampled = False  # are plugins timed one by one in this cycle?
        self._under_way = "PreFilter", 0.0  # the extension point of this cycle that began last, and when
        self._next_start_row = 0
        self._verdicts = Verdicts()
        self._scores = Scores()
        self._node_names_from: Sequence[str] = ()  # plugins whose PreFilter named nodes, in this cycle
        self._judged_alone: dict[int, Status] = {}  # row -> status that precedes its verdict, in this cycle
        self._turned_down: list[Status] = []  # by detail: why extenders rejected, in this cycle

    def schedule_pod(self, state: CycleState, pod: PodInfo) -> Decision | Rejection:
        """Run the search for a pod: Filter, PostFilter if no node fits, Score, select.

        Only this object's buffers change.
        """
        found = self.schedule_with_verdict(state, pod, None, proposes=False)
        if isinstance(found, OpenRejection):
            raise InternalError("a PostFilter plugin proposed victims where no extender was to be asked")
        return found

    def looks_at_all(self) -> bool:
        """Return True if, at the current number of nodes, a search examines all nodes instead of a sample."""
        nodes = len(self._handle.table)
        return self._feasible_to_find(nodes) >= nodes

    def pass_over(self, searches: int) -> None:
        """Move the row (node) at which the next search starts, as this many searches of all nodes would have moved it.

        As in kube-scheduler, a search starts at the node at which the previous one stopped. The compiled lane calls
        this for the pods that its kernels decided.
        """
        table = self._handle.table
        nodes = len(table.node_names)
        self._next_start_row = (self._next_start_row + searches * nodes) % (table.columns.rows or 1)

    def _begin_search(self, state: CycleState) -> Diagnosis:
        self._cycles += 1
        self._is_sampled = self._cycles % SAMPLED_CYCLES == 0
        confinement = state.confinement
        return Diagnosis(len(self._handle.table) if confinement is None else len(confinement.rows))

    def _find(
        self,
        state: CycleState,
        pod: PodInfo,
        diagnosis: Diagnosis,
        *,
        nominated_first: bool,
        verdict: ExtenderVerdict | None = None,
    ) -> int | Decision | _NoFit:
        """Run PreFilter and Filter, or only the filters of the nominated node if the pod fits there.

        Returns the number of nodes examined, the nominated node as the decision, or _NoFit.
        """
        # 1. PreFilter: it prepares the filters, and may name the only nodes to filter.
        started = self._stopwatch()
        self._under_way = "PreFilter", started
        node_names = self._run_pre_filter(state, pod, diagnosis)
        if isinstance(node_names, Status):
            self._lap("PreFilter", started, node_names.code)
            return _NoFit(node_names)
        started = self._lap("PreFilter", started)
        self._under_way = "Filter", started
        # 2. The nominated node, if it fits, is taken without filtering the others.
        self._judged_alone.clear()
        nominated = pod.pod.status.nominated_node_name
        if nominated and nominated_first and self._fits_on(nominated, state, pod, node_names):
            self._lap("Filter", started)
            return Decision(nominated, evaluated=1, feasible=1)
        # 3. Filter all rows.
        evaluated = self._run_filter(state, pod, node_names, verdict)
        if verdict is not None:
            self._follow(verdict, diagnosis)
        feasible = self._verdicts.feasible_count()
        self._lap("Filter", started)  # a success, as in kube-scheduler, whether a node is feasible or not
        if feasible:
            return evaluated
        self._explain(state, pod, diagnosis)
        return _NoFit(None)

    def _choose(self, state: CycleState, pod: PodInfo, evaluated: int, verdict: ExtenderVerdict | None) -> Decision:
        """Select one of the feasible nodes, by Score if there are several."""
        feasible = self._verdicts.feasible_count()
        if feasible == 1:
            row = self._verdicts.feasible_rows()[0]
        else:
            started = self._stopwatch()
            self._under_way = "PreScore", started
            self._run_pre_score(state, pod)
            started = self._lap("PreScore", started)
            self._under_way = "Score", started
            self._run_scores(state, pod)
            if verdict is not None:
                self._add_shares(verdict)
            self._lap("Score", started)
            row = self._select()
        return Decision(self._handle.table.at(row).node.metadata.name, evaluated, feasible)

    # --- a search in two parts, between which extenders are called ---

    def nominated_fits(self, state: CycleState, pod: PodInfo) -> bool:
        """Return True if the pod fits on its nominated node; False also if a plugin fails: a search will report it."""
        nominated = pod.pod.status.nominated_node_name
        return bool(nominated) and self.fits_on(state, pod, nominated)

    def fits_on(self, state: CycleState, pod: PodInfo, node_name: str) -> bool:
        """Return True if the pod fits on a node, even if PreFilters left it out; False also if a plugin fails."""
        diagnosis = self._begin_search(state)
        if not diagnosis.total_nodes:
            return False
        try:
            node_names = self._run_pre_filter(state, pod, diagnosis)
            self._judged_alone.clear()
            return not isinstance(node_names, Status) and self._fits_on(node_name, state, pod, node_names)
        except CycleFault:
            return False

    def shortlist(self, state: CycleState, pod: PodInfo, *, proposes: bool) -> Shortlist | Rejection | OpenRejection:
        """Run the first part of a search with extenders: find the feasible nodes, which the extenders are then sent.

        `proposes`: victims that preemption chooses are first proposed to the extenders.
        """
        diagnosis = self._begin_search(state)
        if not diagnosis.total_nodes:
            return rejected(diagnosis)
        try:
            found = self._find(state, pod, diagnosis, nominated_first=False)
            if isinstance(found, _NoFit):
                return self._post_filter.ask(state, pod, diagnosis, found.pre_filter, proposes=proposes)
            rows = self._verdicts.feasible_rows()
        except CycleFault as fault:
            return self._failed(fault, diagnosis)
        return Shortlist([self._handle.table.at(row).name for row in rows])

    def schedule_with_verdict(
        self, state: CycleState, pod: PodInfo, verdict: ExtenderVerdict | None, *, proposes: bool
    ) -> Decision | Rejection | OpenRejection:
        """Run the second part of a search with extenders: choose a node that is feasible and that the extenders passed.

        `verdict` None: run the whole search, without extenders. `proposes`: victims that preemption chooses are first
        proposed to the extenders.
        """
        diagnosis = self._begin_search(state)
        if not diagnosis.total_nodes:
            return rejected(diagnosis)
        try:
            found = self._find(state, pod, diagnosis, nominated_first=verdict is None, verdict=verdict)
            if isinstance(found, int):
                return self._choose(state, pod, found, verdict)
            if isinstance(found, Decision):
                return found
            return self._post_filter.ask(state, pod, diagnosis, found.pre_filter, proposes=proposes)
        except CycleFault as fault:
            return self._failed(fault, diagnosis)

    def _failed(self, fault: CycleFault, diagnosis: Diagnosis) -> Rejection:
        self._lap(*self._under_way, Code.ERROR)
        return Rejection(fault.status, diagnosis)

    def _follow(self, verdict: ExtenderVerdict, diagnosis: Diagnosis) -> None:
        """Apply an extender verdict: reject the feasible rows of nodes that the extenders did not pass."""
        table, verdicts = self._handle.table, self._verdicts
        detail_of: dict[Status, int] = {}  # status -> its place in `_turned_down`
        for row in verdicts.feasible_rows():
            name = table.at(row).name
            if name not in verdict.passed:
                verdicts.reject(row, TURNED_DOWN, detail_of.setdefault(verdict.status_of(name), len(detail_of)))
        self._turned_down = list(detail_of)
        if detail_of:  # any event may change an extender's answer
            diagnosis.unschedulable_plugins.add(EXTENDER)

    def _add_shares(self, verdict: ExtenderVerdict) -> None:
        for name, share in verdict.shares.items():
            row = self._handle.table.row_of(name)
            if row is not None:
                self._scores.add_total(row, share)

    def _run_pre_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> frozenset[str] | Status | None:
        """Return the node names left by all PreFilters (None: all nodes), or the rejection that ends the cycle."""
        state.decider = self._profile
        names: frozenset[str] | None = None
        contributors: list[str] = []
        rejected: Status | None = None
        evaluated = self._evaluated
        for plugin in self._pre_filter:
            started = self._stopwatch() if self._is_sampled else 0.0
            try:
                result, status = plugin.pre_filter(state, pod)
                code = Code.SUCCESS if status is None else Code.SKIP if status is SKIP else code_of(status)
            except Exception as error:
                raise CycleFault(raised(plugin, "PreFilter", error)) from error
            if self._is_sampled:
                self._end(plugin, "PreFilter", started, status)
            if code is Code.SKIP:
                state.skip_filter.add(plugin.name)
                continue
            evaluated[plugin.name, "PreFilter"].value += 1
            if status is not None and code is not Code.SUCCESS:
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

    def _run_filter(
        self, state: CycleState, pod: PodInfo, node_names: frozenset[str] | None, verdict: ExtenderVerdict | None
    ) -> int:
        """Run the Filter plugins; return the number of nodes examined.

        With a `verdict` the feasible nodes are not sampled.
        """
        # 1. The rows that may be looked at, by the gang's domain and by PreFilter.
        table, verdicts = self._handle.table, self._verdicts
        verdicts.reset(table.columns)
        nodes = len(table)
        confinement = state.confinement
        if confinement is not None:
            verdicts.keep_only(confinement.rows, OUTSIDE, 0)
            nodes = len(confinement.rows)
        if node_names is not None:
            rows = [row for name in node_names if (row := table.row_of(name)) is not None]
            if confinement is not None:
                rows = [row for row in rows if confinement.has(row)]
            verdicts.keep_only(sorted(rows), OUTSIDE_PRE_FILTER, 0)
            nodes = len(rows) + len(self._judged_alone)  # with the nominated node, if PreFilter did not name it
        # 2. Each plugin rejects rows; the last one may end early where not all feasible nodes are wanted.
        last = next((each for each, _ in reversed(self._filter) if each.name not in state.skip_filter), None)
        # One more than wanted: a search ends just before the first feasible node that is not wanted.
        enough = self._feasible_to_find(nodes) + 1
        may_stop = verdict is None and not self._nominations and enough <= nodes
        for position, (plugin, table_form) in enumerate(self._filter, 1):
            if plugin.name in state.skip_filter:
                continue
            self._evaluated[plugin.name, "Filter"].value += 1
            started = self._stopwatch() if self._is_sampled else 0.0
            try:
                if may_stop and plugin is last and plugin.name in self._searching:
                    start = self._next_start_row % max(table.columns.rows, 1)
                    searching = cast(SearchingFilterPlugin, plugin)
                    searching.filter_until(state, pod, table, verdicts, position, start, enough)
                elif table_form is not None:
                    table_form.filter_table(state, pod, table, verdicts, position)
                else:
                    self._filter_by_node(plugin, state, pod, position)
            except (CycleFault, AnswersToCome):
                raise
            except Exception as error:
                raise CycleFault(raised(plugin, "Filter", error)) from error
            if self._is_sampled:
                self._end(plugin, "Filter", started, None)
        # 3. Nominated pods take their room first; then the sample.
        if self._nominations:
            self._yield_to_nominated(state, pod)
        return nodes if verdict is not None else self._sample(nodes)

    def _filter_by_node(self, plugin: FilterPlugin, state: CycleState, pod: PodInfo, position: int) -> None:
        """Run a filter in its per-node form on all feasible rows (nodes).

        In the verdict of a rejected row, the detail is the index of its status in a list.
        """
        statuses: list[Status] = []
        detail_of: dict[Status, int] = {}  # status -> its place in `statuses`
        for row in self._verdicts.feasible_rows():
            status = plugin.filter(state, pod, self._handle.table.at(row))
            if status is None or status.code is Code.SUCCESS:
                continue
            if not status.is_rejected:
                raise CycleFault(running("Filter", plugin, status))
            detail = detail_of.get(status)
            if detail is None:
                detail = detail_of[status] = len(statuses)
                statuses.append(status)
            self._verdicts.reject(row, position, detail)
        state.write(_filter_key(plugin), statuses)

    # --- nominated pods ---

    def _fits_on(self, node_name: str, state: CycleState, pod: PodInfo, named: frozenset[str] | None) -> bool:
        """Return True if the pod fits on its nominated node, even if PreFilters left that node out.

        `named`: the names of the nodes that PreFilters left; None means all nodes.
        """
        node = self._handle.table.get(node_name)
        if node is None:
            log.info("the pod's nominated node is gone", extra={"pod": pod.key, "node": node_name})
            return False
        if state.confinement is not None and not state.confinement.has(node.row):
            return False
        status = self._node_filters.judge(state, pod, node)
        if status is None:
            self._verdicts.reset(self._handle.table.columns)
            self._verdicts.limit_feasible(node.row, 1)
            return True
        if not status.is_rejected:
            log.error("filtering the pod's nominated node failed", extra={"pod": pod.key, "err": status.message})
        elif named is not None:
            # As in kube-scheduler, the plugin that rejects this node then also counts as one that left out others.
            self._node_names_from = sorted({*self._node_names_from, status.plugin})
            if node_name not in named:
                self._judged_alone[node.row] = status  # the search below does not filter it
        return False

    def _yield_to_nominated(self, state: CycleState, pod: PodInfo) -> None:
        """Filter nodes with nominated pods of at least this pod's priority again, as if those pods were on them.

        The rows were filtered without nominated pods before. If both runs reject a row, the status of this one counts.
        """
        room = self._room_asked_for(state, pod)
        if room is None:
            self._yield_node_by_node(state, pod)
            return
        positions = {id(plugin): position for position, (plugin, _) in enumerate(self._filter, 1)}
        for plugin, request in room:
            code, last = positions[id(plugin)], len(self._filter)
            table, verdicts = self._handle.table, self._verdicts
            filter_with_nominated(
                table.columns, verdicts, request, self._nominated.now(), pod.priority, pod.uid, code, last
            )

    def _room_asked_for(self, state: CycleState, pod: PodInfo) -> Sequence[tuple[FilterPlugin, PodRequest]] | None:
        """Return the filter that nominated pods affect by taking room, with the pod's request: [] or one entry.

        None if they may affect filters in other ways, so that their nodes must be filtered one by one.
        """
        skipped = frozenset(state.skip_filter)
        if skipped in self._counting:  # computing the demands costs more than filtering a few nodes
            return None
        try:
            demands_of = self._node_filters.demands(state, pod)
        except Exception:
            return None  # the filters themselves report the fault
        room = None if demands_of is None else filter_of_requests(demands_of)
        if room is None:
            self._counting.add(skipped)
        return room

    def pre_filter_on_trial(self, state: CycleState, pod: PodInfo) -> frozenset[str] | Status | None:
        """Run PreFilter for another pod within a cycle, of which everything stays as it is.

        Returns the names of the nodes that are left (None: all nodes), or why there are none.
        """
        state.skips_post_filter = True
        named = self._node_names_from
        try:
            return self._run_pre_filter(state, pod, Diagnosis(0))
        except CycleFault as fault:
            return fault.status
        finally:
            self._node_names_from = named

    def room_asked_for(self, pod: PodInfo) -> PodRequest | None:
        """Return what a pod needs room for beside nominated pods, if that alone decides how it yields to them.

        None if they may affect filters in other ways, or if PreFilter plugins say where the pod may go.
        """
        state = CycleState()
        state.skips_post_filter = True
        try:
            if self._run_pre_filter(state, pod, Diagnosis(0)) is not None:
                return None
        except (CycleFault, AnswersToCome):
            return None  # the search itself meets that again
        room = self._room_asked_for(state, pod)
        return room[0][1] if room else None

    def _yield_node_by_node(self, state: CycleState, pod: PodInfo) -> None:
        for node_name in self._nominations.nodes():
            node = self._handle.table.get(node_name)
            if node is None or self._verdicts.code(node.row) in (OUTSIDE_PRE_FILTER, OUTSIDE):
                continue
            nominated = self._node_filters.yielding_to(pod, node_name)
            status = self._node_filters.judge_with(nominated, state, pod, node) if nominated else None
            if status is None:
                continue
            if not status.is_rejected:
                raise CycleFault(status)
            self._judged_alone[node.row] = status
            self._verdicts.reject(node.row, WITH_NOMINATED, 0)

    def _feasible_to_find(self, nodes: int) -> int:
        """Return the number of feasible nodes at which a search may end.

        Profiles with slow filters need fewer: DIFFERENCES.md.
        """
        percentage = self._percentage
        if percentage == 0 and self._searching:
            percentage = max(ADAPTIVE_PERCENTAGE - nodes // 125, MIN_ADAPTIVE_PERCENTAGE)
        return feasible_nodes_to_find(percentage, nodes)

    def _sample(self, nodes: int) -> int:
        """Keep only as many feasible nodes as the profile wants to find; return the number of nodes examined.

        `nodes`: the number of nodes that PreFilters left. As in kube-scheduler, the start row of the next search
        advances by the number of nodes examined.
        """
        rows = max(self._handle.table.columns.rows, 1)
        wanted = self._feasible_to_find(nodes)
        evaluated = nodes
        if wanted < nodes:
            evaluated = min(self._verdicts.limit_feasible(self._next_start_row % rows, wanted), nodes)
        self._next_start_row = (self._next_start_row + evaluated) % rows
        return evaluated

    def _run_pre_score(self, state: CycleState, pod: PodInfo) -> None:
        evaluated = self._evaluated
        for plugin in self._pre_score:
            started = self._stopwatch() if self._is_sampled else 0.0
            try:
                status = plugin.pre_score(state, pod)
                code = Code.SUCCESS if status is None else Code.SKIP if status is SKIP else code_of(status)
            except Exception as error:
                raise CycleFault(raised(plugin, "PreScore", error)) from error
            if self._is_sampled:
                self._end(plugin, "PreScore", started, status)
            if code is Code.SKIP:
                state.skip_score.add(plugin.name)
                continue
            evaluated[plugin.name, "PreScore"].value += 1
            if status is not None and code is not Code.SUCCESS:
                raise CycleFault(running("PreScore", plugin, status))

    def _run_scores(self, state: CycleState, pod: PodInfo) -> None:
        table, verdicts, scores = self._handle.table, self._verdicts, self._scores
        scores.reset(table.columns)
        evaluated = self._evaluated
        for plugin, weight, table_form, normalizing in self._score:
            if plugin.name in state.skip_score:
                continue
            evaluated[plugin.name, "Score"].value += 1
            started = self._stopwatch() if self._is_sampled else 0.0
            point = "Score"
            try:
                if table_form is not None:
                    table_form.score_table(state, pod, table, verdicts, scores)
                    if normalizing is not None:
                        point = "NormalizeScore"
                        normalizing.normalize_table(state, pod, table, verdicts, scores)
                else:
                    self._score_by_node(plugin, state, pod)
            except CycleFault:
                raise
            except Exception as error:
                raise CycleFault(raised(plugin, point, error)) from error
            if self._is_sampled:
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
                raise CycleFault(running("Score", plugin, status))
            raw[node.name] = value
        if isinstance(plugin, NormalizeScore):
            try:
                status = plugin.normalize_score(state, pod, raw)
                code = code_of(status)
            except Exception as error:
                raise CycleFault(raised(plugin, "NormalizeScore", error)) from error
            if status is not None and code is not Code.SUCCESS:
                raise CycleFault(running("NormalizeScore", plugin, status))
        clear_raw(self._verdicts, self._scores)
        for row, node in nodes.items():
            self._scores.set_raw(row, raw[node.name])

    def _select(self) -> int:
        bits = None if self._first_on_tie else self._handle.ties.draw()
        return select_host(self._verdicts, self._scores, bits)

    def review(self, state: CycleState, pod: PodInfo) -> CycleReview:
        """Return a review of the search that has just run, to explain it. The search must have reached Filter."""
        return CycleReview(
            state,
            pod,
            self._handle.table,
            self._verdicts,
            self._scores,
            filters=[plugin.name for plugin, _ in self._filter],
            valuing=self._valuing,
            score_plugins=self._score,
            score_by_node=self._score_by_node,
            alone=self._judged_alone,
            explain=lambda code, detail: self._status_of(state, pod, code, detail),
        )

    # --- when nothing fits ---

    def _explain(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> None:
        statuses = self._node_statuses(state, pod)
        for status, nodes in statuses.counts():
            diagnosis.count(status, nodes)
        # PreFilters that named nodes left out all others, future ones included: a new node may help.
        diagnosis.unschedulable_plugins.update(self._node_names_from)
        diagnosis.node_statuses = lambda: statuses

    def _node_statuses(self, state: CycleState, pod: PodInfo) -> VerdictStatuses:
        """Return node name -> status, from the verdicts of the search that has just run."""

        def explain(code: int, detail: int) -> Status:
            return self._status_of(state, pod, code, detail)

        return VerdictStatuses(self._handle.table, self._verdicts, self._judged_alone, explain)

    def _status_of(self, state: CycleState, pod: PodInfo, code: int, detail: int) -> Status:
        if code == OUTSIDE_PRE_FILTER:
            reason = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self._node_names_from))}]"
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,), self._node_names_from[0])
        if code == TURNED_DOWN:
            return self._turned_down[detail]
        plugin, table_form = self._filter[code - 1]
        if table_form is not None:
            return table_form.explain(state, pod, detail).of(plugin.name)
        statuses: list[Status] = state.read(_filter_key(plugin), list)
        return statuses[detail].of(plugin.name)

    # --- measuring ---

    def _end_if_sampled(self, plugin: Plugin, point: str, started: float, status: Status | None) -> None:
        if self._is_sampled:
            self._end(plugin, point, started, status)

    def _end(self, plugin: Plugin, point: str, started: float, status: Status | None) -> None:
        """Report how long the plugin took, in a cycle whose times are sampled."""
        label = "Success" if status is None else STATUS_LABELS[status.code]
        self._observer.plugin(plugin.name, point, label, self._stopwatch() - started)

    def _lap(self, point: str, started: float, code: Code = Code.SUCCESS) -> float:
        """Report the duration of an extension point that began at `started` and ended with `code`.

        Returns the stopwatch's current seconds.
        """
        now = self._stopwatch()
        self._observer.points[point, STATUS_LABELS[code], self._profile].observe(now - started)
        return now


def _filter_key(plugin: FilterPlugin) -> str:
    """Return the key under which the cycle state holds the statuses of a filter that ran in its per-node form."""
    return f"{plugin.name}/statuses"
