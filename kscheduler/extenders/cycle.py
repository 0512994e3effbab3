"""Runs the scheduling cycle of a pod that extenders are interested in.

    1. Find the feasible nodes.  2. Send them to the extenders and await the answers.
    3. Find the feasible nodes again, keep those that passed the extenders, and assume the pod, all without awaiting.

So a decision is never made on outdated nodes, and an extender's answer counts for this attempt only. A node that became
feasible in between is not considered before the next attempt. If a pod fits no node and extenders take part in
preemption, the candidate nodes with their victims are sent to them before one node is chosen.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kscheduler.api.documents import PodDocument
from kscheduler.api.objects import Pod
from kscheduler.client.concurrency import run_together
from kscheduler.client.protocol import Client
from kscheduler.clock import Clock
from kscheduler.cycle.schedule_one import BindingCycle, ScheduleOne
from kscheduler.errors import KSchedulerError, NotFound, PluginError
from kscheduler.extenders.chain import ExtenderChain
from kscheduler.framework.algorithm import Algorithm
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.diagnosis import Diagnosis
from kscheduler.framework.extender_verdict import EXTENDER, ExtenderVerdict, Proposal
from kscheduler.framework.search_outcomes import Decision, OpenRejection, Rejection, Shortlist
from kscheduler.framework.status import Status, error_status
from kscheduler.observability.measurements import Measurements
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

FETCHES = 16  # how many victims are fetched concurrently

Found = Decision | Rejection | OpenRejection


class ExtenderCycle:
    def __init__(
        self,
        one: ScheduleOne,
        chain: ExtenderChain,
        client: Client,
        *,
        clock: Clock,
        stopwatch: Callable[[], float],
        measurements: Measurements,
    ) -> None:
        self._one = one
        self._chain = chain
        self._client = client
        self._clock = clock
        self._stopwatch = stopwatch
        self._measure = measurements

    async def schedule(self, queued: QueuedPodInfo) -> BindingCycle | None:
        """Run a scheduling cycle; return the binding cycle to run, or None if the pod was not placed.

        If this is cancelled, the caller has to return the pod to the queue.
        """
        started, stopwatch = self._clock.now(), self._stopwatch()
        pod = queued.pod_info
        if self._one.skips(pod):
            return None
        framework = self._one.decider_of(pod)
        attempt = _Attempt(self._chain, self._client, framework.algorithm, pod)
        # 1. and 2.
        try:
            found = await attempt.consult()
        except KSchedulerError as error:
            found = Rejection(error_status(str(error), error).of(EXTENDER), Diagnosis(0))
        if self._one.is_gone(pod):
            return None
        # 3. From here on nothing is awaited, unless the pod is to preempt.
        looks_back = isinstance(found, ExtenderVerdict)
        if isinstance(found, ExtenderVerdict):
            found = attempt.decide(found)
        while isinstance(found, OpenRejection):
            looks_back = False
            kept = await attempt.ask_about(found.proposal)
            if self._one.is_gone(pod):
                return None
            found = found.conclude(kept)
            if isinstance(found, Rejection) and not found.nomination:  # any event may change an extender's answer
                found.diagnosis.unschedulable_plugins.add(EXTENDER)
        self._measure.algorithm(self._stopwatch() - stopwatch)
        return self._one.settle(queued, framework, attempt.state, found, started, looks_back=looks_back)


class _Attempt:
    """One attempt to schedule one pod with extenders."""

    def __init__(self, chain: ExtenderChain, client: Client, algorithm: Algorithm, pod: PodInfo) -> None:
        self.state = CycleState()
        self._chain = chain
        self._client = client
        self._algorithm = algorithm
        self._pod = pod
        self._proposes = chain.has_preemptors(pod.pod)
        self._document: PodDocument | None = None  # the complete pod, once it was fetched

    async def consult(self) -> ExtenderVerdict | Found:
        """Return the extenders' verdict; or a decision or rejection if there is no need to call them.

        Raises PluginError and APIError.
        """
        pod = self._pod.pod
        if await self._passes_nominated():
            return ExtenderVerdict(frozenset([pod.status.nominated_node_name]))
        found = self._algorithm.shortlist(CycleState(), self._pod, proposes=self._proposes)
        if not isinstance(found, Shortlist):
            return found
        document = await self._whole()
        verdict = await self._chain.filter(pod, document, found.names)
        left = [name for name in found.names if name in verdict.passed]
        if len(left) > 1:
            return replace(verdict, shares=await self._chain.prioritize(pod, document, left))
        return verdict

    async def _passes_nominated(self) -> bool:
        """Return True if the pod fits its nominated node, and extenders accept it.

        They are asked about this node alone.
        """
        if not self._algorithm.nominated_fits(CycleState(), self._pod):
            return False
        nominated = self._pod.pod.status.nominated_node_name
        try:
            verdict = await self._chain.filter(self._pod.pod, await self._whole(), [nominated])
        except PluginError as error:
            fields = {"pod": self._pod.key, "node": nominated, "err": str(error)}
            log.error("filtering the pod's nominated node failed", extra=fields)
            return False
        return nominated in verdict.passed and self._algorithm.nominated_fits(CycleState(), self._pod)

    def decide(self, verdict: ExtenderVerdict) -> Found:
        """Choose a node on the current cluster, among those that passed the extenders."""
        return self._algorithm.schedule_with_verdict(self.state, self._pod, verdict, proposes=self._proposes)

    async def ask_about(self, proposal: Proposal) -> Proposal | Status:
        """Return which candidate nodes and victims of a preemption the extenders accept, or an Error status."""
        try:
            return await self._chain.preempt(self._pod.pod, await self._whole(), proposal, self._fetch)
        except KSchedulerError as error:
            return error_status(str(error), error).of(EXTENDER)

    async def _whole(self) -> PodDocument:
        if self._document is None:
            self._document = await self._get(self._pod.pod)
        return self._document

    async def _fetch(self, pods: Sequence[PodInfo]) -> Mapping[str, PodDocument]:
        """Get the complete objects of pods: uid -> pod, without deleted ones."""
        found: dict[str, PodDocument] = {}
        slots = asyncio.Semaphore(FETCHES)

        async def fetch(pod: PodInfo) -> None:
            async with slots:
                with contextlib.suppress(NotFound):
                    found[pod.uid] = await self._get(pod.pod)

        await run_together(*(fetch(pod) for pod in pods))
        return found

    async def _get(self, pod: Pod) -> PodDocument:
        metadata = pod.metadata
        document = await self._client.get_pod_document(metadata.namespace, metadata.name)
        if document.metadata.uid != metadata.uid:
            raise NotFound(f'pods "{metadata.name}" not found: there is another pod of that name', status=404)
        return document
