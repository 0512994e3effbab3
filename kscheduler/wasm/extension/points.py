"""The extension points of guests, one class each: the methods that the framework calls, and the exports behind them."""

from __future__ import annotations

import contextlib
import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from kscheduler._fast import Scores, Verdicts, clear_raw
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.faults import AnswersToCome, CycleFault, running
from kscheduler.framework.interface import PostFilterResult, PreFilterResult
from kscheduler.framework.status import REJECTED, SKIP, Code, Status
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.binding_threads import BindingThreads
from kscheduler.wasm.engine import GuestFault, Instance
from kscheduler.wasm.extension.base import ExtensionPlugin
from kscheduler.wasm.extension.cycles import Cycle
from kscheduler.wasm.extension.host.call import Call, invoke
from kscheduler.wasm.extension.results import (
    fault_text,
    halves,
    normalized_scores,
    permit_result,
    post_filter_result,
    status_of,
)
from kscheduler.wasm.extension.rows import Answer
from kscheduler.wasm.extension.search import MAX_INTERRUPTIONS, Search
from kscheduler.wasm.pool import Unavailable

log = logging.getLogger(__name__)


LONG_S = 0.001  # calls that are likely to take longer run on other threads, and the pod's cycle is interrupted


class Judged(NamedTuple):
    """The result of a guest's export `filter` for some nodes."""

    rejected: list[tuple[int, int]]  # row of a node, and the index of its status in `statuses`
    statuses: list[Status]
    is_left_out: bool = False  # the guest failed and its failure policy is to ignore that


class PreFilterPoint(ExtensionPlugin):
    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        return self.ask_pre_filter(self.cycle(state, pod))

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        return self._follow("addpod", self.cycle(state, pod), other, node)

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        return self._follow("removepod", self.cycle(state, pod), other, node)

    def _follow(self, export: str, cycle: Cycle, other: PodInfo, node: NodeInfo) -> Status | None:
        return self.status(export, cycle, Call(cycle.shown, node.name, target=self._world.whole(other.pod)))


class FilterPoint(ExtensionPlugin):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        cycle = self.cycle(state, pod)
        return self.status("filter", cycle, Call(cycle.shown, node.name))

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        """Call `filter` for each feasible node.

        The detail number of a rejected node is an index in `Cycle.statuses`.
        """
        cycle = self.cycle(state, pod)
        judged = self.judge(cycle, verdicts.feasible_rows())
        cycle.statuses = judged.statuses
        for row, detail in judged.rejected:
            verdicts.reject(row, code, detail)

    def judge(self, cycle: Cycle, rows: Sequence[int]) -> Judged:
        """Call `filter` for these rows of nodes.

        If the guest fails and its failure policy is `ignore`, no node is rejected.
        """
        try:
            answers = self.answers("filter", cycle, rows, _is_no_verdict)
        except (GuestFault, Unavailable) as error:
            self._stop(self.failed("filter", cycle.pod, error))
            return Judged([], [], is_left_out=True)
        return self._judged(answers)

    def _judged(self, answers: Sequence[Answer]) -> Judged:
        details: dict[tuple[int, str], int] = {}  # (code, reason) -> index of its status
        statuses: list[Status] = []
        rejected: list[tuple[int, int]] = []
        for row, value, reason in answers:
            detail = details.setdefault((value, reason), len(details))
            if detail == len(statuses):
                status = status_of("filter", value, reason)
                assert status is not None
                if not status.is_rejected:
                    self._stop(status)
                statuses.append(status)
            rejected.append((row, detail))
        return Judged(rejected, statuses)

    def _stop(self, fault: Status | None) -> None:
        if fault is not None:
            raise CycleFault(running("Filter", self, fault))

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return self.cycle(state, pod).statuses[detail]


class SearchingFilterPoint(FilterPoint):
    """Filter of guests whose answers are not cached.

    It calls `filter` for as few nodes as needed and, if the guest is slow, on other threads.
    """

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        rows = verdicts.feasible_rows()
        self._search(state, pod, verdicts, code, rows, len(rows))

    def filter_until(
        self,
        state: CycleState,
        pod: PodInfo,
        table: NodeTable,
        verdicts: Verdicts,
        code: int,
        start: int,
        enough: int,
    ) -> None:
        rows = verdicts.feasible_rows()
        first = bisect_left(rows, start)
        self._search(state, pod, verdicts, code, [*rows[first:], *rows[:first]], enough)

    def _search(
        self, state: CycleState, pod: PodInfo, verdicts: Verdicts, code: int, rows: Sequence[int], enough: int
    ) -> None:
        cycle = self.cycle(state, pod)
        search, self._resumed = self._resumed, None
        if search is None or search.cycle is not cycle:
            search = Search(pod, cycle, self._world, self.pool.module, sees_all_nodes=self._sees_all_nodes)
        search.begin(rows, enough)
        try:
            while search.fault is None and (asked := search.next_rows()):
                self._may_interrupt(state, search, len(asked))
                answers = self.answers("filter", cycle, asked, _is_no_verdict)
                search.take(asked, answers, _is_no_verdict)
            if search.fault is not None:
                raise search.fault
        except (GuestFault, Unavailable) as error:
            self._stop(self.failed("filter", pod, error))
            return  # the guest is ignored, also its answers about the first nodes
        judged = self._judged(search.answers)
        cycle.statuses = judged.statuses
        for row, detail in judged.rejected:
            verdicts.reject(row, code, detail)

    def _may_interrupt(self, state: CycleState, search: Search, rows: int) -> None:
        """Raise AnswersToCome, to use other threads, if calls for `rows` nodes would block the event loop for long."""
        threads = self.surroundings.filter_threads
        if not state.may_wait or threads is None or search.interruptions >= MAX_INTERRUPTIONS:
            return
        likely_s = self._sharing.likely_s("filter", rows)
        if likely_s > 0 and likely_s <= LONG_S:
            return
        search.interruptions += 1
        self._searches.keep(search)
        raise AnswersToCome(partial(self._ask_apart, threads, search))

    async def _ask_apart(self, threads: BindingThreads, search: Search) -> None:
        try:
            while asked := search.next_rows():
                answers = await self.answers_apart(threads, "filter", search.cycle, asked, _is_no_verdict)
                search.take(asked, answers, _is_no_verdict)
        except Unavailable:
            search.interruptions = MAX_INTERRUPTIONS  # the cycle makes the other calls itself, on its instance
        except GuestFault as fault:
            search.fault = fault


class PostFilterPoint(ExtensionPlugin):
    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]
    ) -> tuple[PostFilterResult | None, Status | None]:
        cycle = self.cycle(state, pod)
        call = Call(cycle.shown, statuses=lambda: {name: int(status.code) for name, status in statuses.items()})

        def ask(instance: Instance) -> tuple[PostFilterResult | None, Status | None]:
            mode, code = halves(invoke(instance, "postfilter", call))
            return post_filter_result(mode, call.nominated), status_of("postfilter", code, call.reason)

        try:
            return cycle.run("postfilter", ask)
        except (GuestFault, Unavailable) as fault:
            return None, self.failed("postfilter", pod, fault) or Status(Code.UNSCHEDULABLE)


class PreScorePoint(ExtensionPlugin):
    def pre_score(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Do nothing yet: `prescore` is called at the beginning of Score, when the feasible nodes are known."""
        self.cycle(state, pod).wants_pre_score = True
        return None


class ScorePoint(ExtensionPlugin):
    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        cycle = self.cycle(state, pod)
        self._pre_score(cycle, lambda: [each.name for each in self.table])
        if cycle.is_unscored:
            return 0, None
        call = Call(cycle.shown, node.name)
        try:
            score, code = halves(cycle.run("score", lambda instance: invoke(instance, "score", call)))
        except (GuestFault, Unavailable) as fault:
            return 0, self.failed("score", pod, fault)
        return score, status_of("score", code, call.reason)

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: dict[str, int]) -> Status | None:
        cycle = self.cycle(state, pod)
        if "normalizescore" not in self.exports or cycle.is_unscored:
            return None
        call = Call(cycle.shown, scores=scores)

        def ask(instance: Instance) -> Status | None:
            code = invoke(instance, "normalizescore", call)
            if code == 0:
                scores.update(normalized_scores(call.normalized, dict(scores)))
            return status_of("normalizescore", code, call.reason)

        try:
            return cycle.run("normalizescore", ask)
        except (GuestFault, Unavailable) as fault:
            return self.failed("normalizescore", pod, fault)

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        """Set the raw score of each feasible node, after `prescore`."""
        cycle = self.cycle(state, pod)
        rows = verdicts.feasible_rows()
        clear_raw(verdicts, scores)
        self._pre_score(cycle, lambda: table.names_at(rows))
        if not cycle.is_unscored:
            for row, score in self.rate(cycle, rows):
                scores.set_raw(row, score)

    def rate(self, cycle: Cycle, rows: Sequence[int]) -> list[tuple[int, int]]:
        """Return (row of a node, score) for scores other than 0; none if the guest failed and that is ignored.

        Raises CycleFault.
        """
        try:
            answers = self.answers("score", cycle, rows, _is_no_score)
        except (GuestFault, Unavailable) as error:
            fault = self.failed("score", cycle.pod, error)
            if fault is not None:
                raise CycleFault(running("Score", self, fault)) from error
            cycle.is_unscored = True
            return []
        if answers and _is_no_score(answers[-1][1]):
            _, value, reason = answers[-1]
            status = status_of("score", halves(value)[1], reason)
            assert status is not None
            raise CycleFault(running("Score", self, status))
        return [(row, value >> 32) for row, value, _ in answers]

    def normalize_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        if "normalizescore" not in self.exports:
            return
        rows = verdicts.feasible_rows()
        names = table.names_at(rows)
        by_name = {name: scores.raw(row) for name, row in zip(names, rows, strict=True)}
        status = self.normalize_score(state, pod, by_name)
        if status is not None and status.code is not Code.SUCCESS:
            raise CycleFault(running("NormalizeScore", self, status))
        for name, row in zip(names, rows, strict=True):
            scores.set_raw(row, by_name[name])

    def _pre_score(self, cycle: Cycle, filtered: Callable[[], Sequence[str]]) -> None:
        """Call `prescore` once per attempt, if the profile has the plugin at PreScore."""
        if not cycle.wants_pre_score:
            return
        cycle.wants_pre_score = False
        self.ask_pre_score(cycle, filtered())


class ReservePoint(ExtensionPlugin):
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        cycle = self.cycle(state, pod)
        cycle.bind()
        return self.status("reserve", cycle, Call(cycle.shown, node_name))

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Call `unreserve`, which ends the attempt and releases its instance."""
        cycle = self.cycle(state, pod)
        cycle.bind()
        _end(self, "unreserve", cycle, Call(cycle.shown, node_name))


class PermitPoint(ExtensionPlugin):
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        cycle = self.cycle(state, pod)
        call = Call(cycle.shown, node_name)
        cycle.bind()
        try:
            value = cycle.run("permit", lambda instance: invoke(instance, "permit", call))
        except (GuestFault, Unavailable) as fault:
            return self.failed("permit", pod, fault), 0.0
        code, seconds = permit_result(value)
        return status_of("permit", code, call.reason), seconds


class PreBindPoint(ExtensionPlugin):
    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Return success, since guests cannot report whether PreBind has work to do."""
        return None

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        cycle = self.cycle(state, pod)
        call = Call(cycle.shown, node_name)
        cycle.bind()
        if "prebind" not in self.exports:
            return None
        try:
            code = await self.ask_apart("prebind", cycle, call)
        except (GuestFault, Unavailable) as fault:
            return self.failed("prebind", pod, fault)
        return status_of("prebind", code, call.reason)


class BindPoint(ExtensionPlugin):
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Call `bind`. Success means that the pod is bound, although guests cannot write to the API themselves."""
        cycle = self.cycle(state, pod)
        call = Call(cycle.shown, node_name)
        cycle.bind()
        try:
            code = await self.ask_apart("bind", cycle, call)
        except (GuestFault, Unavailable) as fault:
            return self.failed("bind", pod, fault) or SKIP
        return status_of("bind", code, call.reason)


class PostBindPoint(ExtensionPlugin):
    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        cycle = self.cycle(state, pod)
        _end(self, "postbind", cycle, Call(cycle.shown, node_name))


def _end(plugin: ExtensionPlugin, export: str, cycle: Cycle, call: Call) -> None:
    """Call an export without a result, and release the guest's instance that the pod's attempt holds.

    If there are threads for calls of guests, one of them does it, and this function does not wait.
    """
    threads = plugin.surroundings.threads
    if export not in plugin.exports:
        cycle.release()
    elif threads is not None:
        threads.start(_end_apart(plugin, export, cycle, call))
    else:
        with _ending(plugin, export, cycle):
            cycle.run(export, lambda instance: invoke(instance, export, call))


async def _end_apart(plugin: ExtensionPlugin, export: str, cycle: Cycle, call: Call) -> None:
    with _ending(plugin, export, cycle):
        await plugin.ask_apart(export, cycle, call)


@contextlib.contextmanager
def _ending(plugin: ExtensionPlugin, export: str, cycle: Cycle) -> Iterator[None]:
    try:
        yield
    except (GuestFault, Unavailable) as fault:
        fields = {"plugin": plugin.name, "pod": cycle.pod.key, "err": fault_text(export, fault)}
        log.error("failed %s", export, extra=fields)
    finally:
        cycle.release()


_REJECTING = frozenset(int(code) for code in REJECTED)


def _is_no_verdict(value: int) -> bool:
    return value not in _REJECTING


def _is_no_score(value: int) -> bool:
    return value & 0xFFFF_FFFF != 0
