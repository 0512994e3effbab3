"""PostFilter: the plugins that are asked in order about a pod that fits on no node, such as preemption.

Where extenders take part, they must first agree to the victims that a plugin proposes. Then the chain of plugins stops
at each proposal, and goes on with the extenders' answer, in a later step of the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import cast

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.diagnosis import Diagnosis
from kscheduler.framework.extender_verdict import Proposal
from kscheduler.framework.faults import raised
from kscheduler.framework.interface import Plugin, PostFilterPlugin, PostFilterResult, ProposingPlugin
from kscheduler.framework.search_outcomes import OpenRejection, Rejection, rejected
from kscheduler.framework.status import Code, Status, code_of
from kscheduler.framework.verdict_statuses import SameStatus
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

# The PostFilter chain as a generator: yields proposed victims, and is sent what extenders left of them.
_Steps = Generator[Proposal, Proposal | Status, tuple[PostFilterResult | None, Status]]


class PostFilterChain:
    """The PostFilter plugins of one profile, in order."""

    def __init__(
        self,
        plugins: Sequence[PostFilterPlugin],
        table: NodeTable,
        stopwatch: Callable[[], float],
        lap: Callable[[str, float, Code], float],
        plugin_ended: Callable[[Plugin, str, float, Status | None], None],
    ) -> None:
        """Both calls report how long something took, by the stopwatch's seconds at its beginning, and how it ended.

        `lap`: an extension point, by its name. `plugin_ended`: a plugin there.
        """
        self._plugins = plugins
        self._table = table
        self._stopwatch = stopwatch
        self._lap = lap
        self._plugin_ended = plugin_ended

    def ask(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis, pre_filter: Status | None, *, proposes: bool
    ) -> Rejection | OpenRejection:
        """Run the PostFilter plugins for a pod that fits on no node, and return the rejection with their outcome.

        With `proposes`, victims that a plugin proposes are not evicted before the extenders agree.
        """
        if not self._plugins or state.skips_post_filter:
            return rejected(diagnosis)
        if pre_filter is not None:
            statuses: Mapping[str, Status] = SameStatus(self._table, pre_filter)
        else:
            statuses = diagnosis.node_statuses()
            if proposes and any(isinstance(plugin, ProposingPlugin) for plugin in self._plugins[:-1]):
                statuses = dict(statuses)  # other searches may run before the plugins after that one are called
        return self._go_on(self._steps(state, pod, statuses, proposes=proposes), pod, diagnosis, None)

    def _go_on(
        self, steps: _Steps, pod: PodInfo, diagnosis: Diagnosis, kept: Proposal | Status | None
    ) -> Rejection | OpenRejection:
        started = self._stopwatch()
        try:
            # A generator is started by sending it None.
            proposal = steps.send(cast(Proposal, kept))
        except StopIteration as end:
            result, status = end.value
            self._lap("PostFilter", started, status.code)
            return _concluded(pod, diagnosis, result, status)
        return OpenRejection(proposal, lambda answer: self._go_on(steps, pod, diagnosis, answer))

    def _steps(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status], *, proposes: bool) -> _Steps:
        """Run the PostFilter plugins as a generator that yields proposed victims and is sent those that extenders left.

        Returns the answer that ended the chain, or else the last plugin's result with the reasons of all.
        """
        last: PostFilterResult | None = None
        reasons: list[str] = []
        for plugin in self._plugins:
            started = self._stopwatch()
            try:
                if proposes and isinstance(plugin, ProposingPlugin):
                    result, status = yield from plugin.propose(state, pod, statuses)
                else:
                    result, status = plugin.post_filter(state, pod, statuses)
                code = code_of(status)
            except Exception as error:
                return None, raised(plugin, "PostFilter", error)
            self._plugin_ended(plugin, "PostFilter", started, status)
            if status is None or code is Code.SUCCESS or code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return result, status or Status(Code.SUCCESS)
            if not status.is_rejected:
                return None, Status(Code.ERROR, status.reasons, plugin.name, status.error)
            if result is not None and result.nominated_node_name is not None:
                last = result
            reasons.extend(status.reasons)
        return last, Status(Code.UNSCHEDULABLE, tuple(reasons))


def _concluded(pod: PodInfo, diagnosis: Diagnosis, result: PostFilterResult | None, status: Status) -> Rejection:
    """Return the pod's rejection with PostFilter's message and nomination; log an ERROR status of PostFilter."""
    if status.code is Code.ERROR:  # the pod stays rejected, and its message says why preemption failed
        log.error("post-filter plugin failed", extra={"pod": pod.key, "plugin": status.plugin, "err": status.message})
    diagnosis.post_filter_message = status.message
    return rejected(diagnosis, None if result is None else result.nominated_node_name)
