"""Calls all extenders interested in a pod, and combines their answers.

Filters are called one after the other, each with the nodes that passed the previous ones, prioritizers all at once. A
failure of an ignorable extender is logged. Other failures raise, except in prioritizing, where each is only logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from kscheduler.api.documents import NodeDocument, PodDocument
from kscheduler.api.objects import Pod
from kscheduler.errors import PluginError
from kscheduler.extenders.extender import Extender
from kscheduler.extenders.wire import Victims
from kscheduler.framework.extender_verdict import EXTENDER, ExtenderVerdict, NodeVictims, Proposal
from kscheduler.framework.status import Status, unresolvable, unschedulable
from kscheduler.queue.pod_info import Lane
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

# Gets the complete objects of pods from the apiserver: uid -> pod, without deleted ones. Raises PluginError.
Fetch = Callable[[Sequence[PodInfo]], Awaitable[Mapping[str, PodDocument]]]


class ExtenderChain:
    """Calls the extenders in the order of the configuration, except that ignorable ones are called last."""

    def __init__(
        self,
        extenders: Sequence[Extender],
        nodes: Mapping[str, NodeDocument],
        pods_on: Callable[[str], Mapping[str, PodInfo] | None],
    ) -> None:
        """Create a chain of `extenders`.

        `nodes`: name -> node object, sent to extenders without nodeCacheCapable. `pods_on`: node name -> uid -> pod.
        """
        self._extenders = sorted(extenders, key=lambda extender: extender.is_ignorable)
        self._nodes = nodes
        self._pods_on = pods_on
        self.deciders = [extender for extender in self._extenders if extender.decides]
        self.binders = [extender for extender in self._extenders if extender.binds]

    @property
    def needs_nodes(self) -> bool:
        """True if some extender lacks nodeCacheCapable, so that complete node objects must be kept to send to it."""
        return any(
            not extender.knows_nodes and (extender.filters or extender.prioritizes) for extender in self.deciders
        )

    def lane_of(self, pod: Pod) -> Lane:
        """Return the positions in `deciders` of the extenders interested in the pod; () if there are none."""
        return tuple(place for place, extender in enumerate(self.deciders) if extender.is_interested(pod))

    def has_preemptors(self, pod: Pod) -> bool:
        return any(extender.preempts and extender.is_interested(pod) for extender in self.deciders)

    async def filter(self, pod: Pod, document: PodDocument, names: Sequence[str]) -> ExtenderVerdict:
        """Return which nodes pass all interested extenders. Raises PluginError if a non-ignorable extender fails."""
        statuses: dict[str, Status] = {}
        for extender in self.deciders:
            if not names:
                break
            if not extender.filters or not extender.is_interested(pod):
                continue
            names, nodes = self._askable(extender, names)
            try:
                answer = await extender.filter(document, names, nodes)
            except PluginError as error:
                if not extender.is_ignorable:
                    raise
                _log_ignored(extender, pod, error)
                continue
            left = frozenset(answer.nodes)
            for name, why in answer.unresolvable.items():
                statuses[name] = unresolvable(why).of(EXTENDER)
            for name, why in answer.failed.items():
                if name not in answer.unresolvable:
                    statuses[name] = unschedulable(why).of(EXTENDER)
            names = [name for name in names if name in left]
        return ExtenderVerdict(frozenset(names), statuses)

    async def prioritize(self, pod: Pod, document: PodDocument, names: Sequence[str]) -> dict[str, int]:
        """Return node name -> sum of the extenders' weighted scores; an extender that fails adds nothing."""
        asked = [extender for extender in self.deciders if extender.prioritizes and extender.is_interested(pod)]
        answers = await asyncio.gather(*(self._shares(extender, pod, document, names) for extender in asked))
        totals: dict[str, int] = {}
        for shares in answers:
            for name, share in shares.items():
                totals[name] = totals.get(name, 0) + share
        return totals

    async def _shares(
        self, extender: Extender, pod: Pod, document: PodDocument, names: Sequence[str]
    ) -> dict[str, int]:
        names, nodes = self._askable(extender, names)
        try:
            return await extender.prioritize(document, names, nodes)
        except PluginError as error:
            _log_ignored(extender, pod, error)
            return {}

    async def preempt(
        self,
        pod: Pod,
        document: PodDocument,
        proposal: Proposal,
        fetch: Fetch,
    ) -> Proposal:
        """Return the candidate nodes and victims that the extenders accept.

        `fetch` gets complete pods, for extenders without nodeCacheCapable.
        """
        for extender in self.deciders:
            if not proposal:
                break
            if not extender.preempts or not extender.is_interested(pod):
                continue
            try:
                proposal = await self._preempt(extender, document, proposal, fetch)
            except PluginError as error:
                if not extender.is_ignorable:
                    raise
                _log_ignored(extender, pod, error)
        return proposal

    async def _preempt(
        self,
        extender: Extender,
        document: PodDocument,
        proposal: Proposal,
        fetch: Fetch,
    ) -> Proposal:
        documents = None
        if not extender.knows_nodes:
            documents = await fetch([victim for each in proposal for victim in each.pods])
        question = {each.node_name: Victims([victim.uid for victim in each.pods], each.violations) for each in proposal}
        answer = await extender.preempt(document, question, documents, self._pods_on)
        kept: list[NodeVictims] = []
        for node_name, victims in answer.items():
            if victims.uids:
                pods = self._pods_on(node_name) or {}
                kept.append(NodeVictims(node_name, tuple(pods[uid] for uid in victims.uids), victims.pdb_violations))
            elif not extender.is_ignorable:
                raise PluginError(f'expected at least one victim pod on node "{node_name}"')
        return tuple(kept)

    def _askable(
        self, extender: Extender, names: Sequence[str]
    ) -> tuple[Sequence[str], Mapping[str, NodeDocument] | None]:
        """Return the node names to send to an extender, and the node objects if it is sent these.

        Nodes whose object is not known yet are left out.
        """
        if extender.knows_nodes:
            return names, None
        return [name for name in names if name in self._nodes], self._nodes

    async def close(self) -> None:
        for extender in self._extenders:
            await extender.close()


def _log_ignored(extender: Extender, pod: Pod, error: PluginError) -> None:
    log.warning("extender failed and is skipped", extra={"extender": extender.name, "pod": pod.key, "err": str(error)})
