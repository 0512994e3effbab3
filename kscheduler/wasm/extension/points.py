"""The extension points of guests, a class each: the methods that the framework asks, and the exports behind them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from kscheduler._fast import Scores, Verdicts, clear_raw
from kscheduler.api.documents import PodDocument
from kscheduler.api.objects import Pod
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.faults import CycleFault, not_scored, running
from kscheduler.framework.interface import PostFilterResult, PreFilterResult
from kscheduler.framework.status import SKIP, Code, Status
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.engine import GuestFault, Instance
from kscheduler.wasm.extension.base import ExtensionPlugin, forget_output, invoke
from kscheduler.wasm.extension.cycles import Cycle
from kscheduler.wasm.extension.host.call import Call
from kscheduler.wasm.extension.results import (
    fault_text,
    halves,
    normalized_scores,
    permit_result,
    post_filter_result,
    status_of,
)
from kscheduler.wasm.pool import Unavailable

log = logging.getLogger(__name__)

_Answers = Iterator[tuple[int, int, str]]


class PreFilterPoint(ExtensionPlugin):
    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        cycle = self.cycle(state, pod)
        call = Call(cycle.shown)
        if "prefilter" not in self.exports:
            return None, None
        try:
            code = cycle.run_first("prefilter", lambda instance: invoke(instance, "prefilter", call))
        except (GuestFault, Unavailable) as fault:
            return None, self.failed("prefilter", pod, fault)
        names = PreFilterResult(frozenset(call.node_names)) if call.node_names else None
        return names, status_of(code, call.reason)

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
        """Node by node, on one instance. A verdict's detail is its status's place in a list."""
        cycle = self.cycle(state, pod)
        statuses: list[Status] = []
        cycle.statuses = statuses
        details: dict[Status, int] = {}  # status -> its place in `statuses`
        rejected: list[tuple[int, int]] = []  # row, detail
        rows = verdicts.feasible_rows()

        def judge(instance: Instance) -> Status | None:
            for row, found, reason in _each(instance, "filter", cycle.shown, table, rows):
                status = status_of(found, reason)
                if status is None:
                    continue
                if not status.is_rejected:
                    return status
                detail = details.setdefault(status, len(details))
                if detail == len(statuses):
                    statuses.append(status)
                rejected.append((row, detail))
            return None

        try:
            fault = cycle.run("filter", judge)
        except (GuestFault, Unavailable) as error:
            fault = self.failed("filter", pod, error)
            rejected.clear()  # left out: what it said of some nodes must not count either
        if fault is not None:
            raise CycleFault(fault.of(self.name))
        for row, detail in rejected:
            verdicts.reject(row, code, detail)

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return self.cycle(state, pod).statuses[detail]


class PostFilterPoint(ExtensionPlugin):
    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]
    ) -> tuple[PostFilterResult | None, Status | None]:
        cycle = self.cycle(state, pod)
        call = Call(cycle.shown, statuses=lambda: {name: int(status.code) for name, status in statuses.items()})

        def ask(instance: Instance) -> tuple[PostFilterResult | None, Status | None]:
            mode, code = halves(invoke(instance, "postfilter", call))
            return post_filter_result(mode, call.nominated), status_of(code, call.reason)

        try:
            return cycle.run("postfilter", ask)
        except (GuestFault, Unavailable) as fault:
            return None, self.failed("postfilter", pod, fault) or Status(Code.UNSCHEDULABLE)


class PreScorePoint(ExtensionPlugin):
    def pre_score(self, state: CycleState, pod: PodInfo) -> Status | None:
        """The guest is asked when the nodes that passed are known: at the beginning of Score."""
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
        return score, status_of(code, call.reason)

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: dict[str, int]) -> Status | None:
        cycle = self.cycle(state, pod)
        if "normalizescore" not in self.exports or cycle.is_unscored:
            return None
        call = Call(cycle.shown, scores=scores)

        def ask(instance: Instance) -> Status | None:
            code = invoke(instance, "normalizescore", call)
            if code == 0:
                scores.update(normalized_scores(call.normalized, dict(scores)))
            return status_of(code, call.reason)

        try:
            return cycle.run("normalizescore", ask)
        except (GuestFault, Unavailable) as fault:
            return self.failed("normalizescore", pod, fault)

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        """Node by node, on one instance."""
        cycle = self.cycle(state, pod)
        rows = verdicts.feasible_rows()
        clear_raw(verdicts, scores)
        self._pre_score(cycle, lambda: table.names_at(rows))
        if cycle.is_unscored:
            return

        def score(instance: Instance) -> Status | None:
            for row, value, reason in _each(instance, "score", cycle.shown, table, rows):
                found, code = halves(value)
                if code:
                    return status_of(code, reason)
                scores.set_raw(row, found)
            return None

        try:
            fault = cycle.run("score", score)
        except (GuestFault, Unavailable) as error:
            fault = self.failed("score", pod, error)
            if fault is None:  # left out: what it said of some nodes must not count either
                clear_raw(verdicts, scores)
                cycle.is_unscored = True
        if fault is not None:
            raise CycleFault(not_scored(self, fault))

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
            raise CycleFault(not_scored(self, status))
        for name, row in zip(names, rows, strict=True):
            scores.set_raw(row, by_name[name])

    def _pre_score(self, cycle: Cycle, filtered: Callable[[], Sequence[str]]) -> None:
        """Once an attempt, if the profile has the plugin at PreScore."""
        if not cycle.wants_pre_score:
            return
        cycle.wants_pre_score = False
        status = self.status("prescore", cycle, Call(cycle.shown, filtered=filtered()))
        if status is not None and status.code is Code.SKIP:
            cycle.is_unscored = True
        elif status is not None:
            raise CycleFault(running("PreScore", self, status))


class ReservePoint(ExtensionPlugin):
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        cycle = self.cycle(state, pod)
        cycle.bind()
        return self.status("reserve", cycle, Call(cycle.shown, node_name))

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """The last that the guest hears of the attempt."""
        cycle = self.cycle(state, pod)
        cycle.bind()
        _tell(self, "unreserve", cycle, Call(cycle.shown, node_name))


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
        return status_of(code, call.reason), seconds


class PreBindPoint(ExtensionPlugin):
    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Guests cannot say whether they have work to do."""
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
        return status_of(code, call.reason)


class BindPoint(ExtensionPlugin):
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """A guest cannot write to the API: one that answers success says that it is done all the same."""
        cycle = self.cycle(state, pod)
        call = Call(cycle.shown, node_name)
        cycle.bind()
        try:
            code = await self.ask_apart("bind", cycle, call)
        except (GuestFault, Unavailable) as fault:
            return self.failed("bind", pod, fault) or SKIP
        return status_of(code, call.reason)


class PostBindPoint(ExtensionPlugin):
    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        cycle = self.cycle(state, pod)
        _tell(self, "postbind", cycle, Call(cycle.shown, node_name))


def _tell(plugin: ExtensionPlugin, export: str, cycle: Cycle, call: Call) -> None:
    """An export without an answer, after which the attempt's instance is free. Nobody waits for it."""
    threads = plugin.surroundings.threads
    if export not in plugin.exports:
        cycle.release()
    elif threads is not None:
        threads.tell(_tell_apart(plugin, export, cycle, call))
    else:
        with _last_word(plugin, export, cycle):
            cycle.run(export, lambda instance: invoke(instance, export, call))


async def _tell_apart(plugin: ExtensionPlugin, export: str, cycle: Cycle, call: Call) -> None:
    with _last_word(plugin, export, cycle):
        await plugin.ask_apart(export, cycle, call)


@contextlib.contextmanager
def _last_word(plugin: ExtensionPlugin, export: str, cycle: Cycle) -> Iterator[None]:
    try:
        yield
    except (GuestFault, Unavailable) as fault:
        fields = {"plugin": plugin.name, "pod": cycle.pod.key, "err": fault_text(export, fault)}
        log.error("failed %s", export, extra=fields)
    finally:
        cycle.release()


def _each(instance: Instance, export: str, pod: Pod | PodDocument, table: NodeTable, rows: Sequence[int]) -> _Answers:
    """(row, what the export returns, the reason it gave) for each node."""
    call = Call(pod)
    instance.data = call
    function = instance.prepare(export)
    for row, name in zip(rows, table.names_at(rows), strict=True):
        call.node_name = name
        yield row, cast(int, function()), call.reason
        call.begin()
    forget_output(instance)
