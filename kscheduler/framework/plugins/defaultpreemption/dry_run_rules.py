"""A profile's filters as numeric conditions that kernels can check, for one pod in one cycle."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from kscheduler._fast import Conditions, PodRequest, Verdicts
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.demands import Demands, Tally, anywhere, everybody
from kscheduler.framework.interface import DemandingFilterPlugin, ProfileHandle
from kscheduler.framework.plugins.defaultpreemption.dry_run_residents import Kinds
from kscheduler.framework.status import Status
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

FEW_KINDS = 1_000  # up to this number, weighing all kinds of pods is faster than finding out which are needed

NOTHING = PodRequest((), 0, 0)

_DemandsOf = Sequence[tuple[DemandingFilterPlugin, Demands]]


@dataclass(slots=True)
class Rules:
    """The numeric conditions of all filters for one pod, by which kernels make preemption's dry runs.

    A filter's place is its position among the filters active in the cycle, from 1.
    """

    conditions: Conditions
    verdicts: Verdicts  # of the filters whose answer does not depend on the pods on nodes
    tallies: Sequence[Tally]  # counts of pods by topology domain, in the order of the conditions
    _demands_of: _DemandsOf
    _state: CycleState
    _pod: PodInfo
    _statuses: dict[tuple[int, int], Status]  # (place, detail) -> status

    def status(self, place: int, detail: int) -> Status:
        """Return the status with which the filter at a place rejects, for this reason number (detail)."""
        found = self._statuses.get((place, detail))
        if found is None:
            plugin, _ = self._demands_of[place - 1]
            found = self._statuses[place, detail] = plugin.explain(self._state, self._pod, detail).of(plugin.name)
        return found

    def know(self, pods: Sequence[PodInfo]) -> bool:
        """Return True if counts by topology domain cover all effects that these pods would have on the filters.

        The pods are nominated, and on no node yet.
        """
        questions = [demands.know for _, demands in self._demands_of if demands.know is not everybody]
        return all(know(pod) for know in questions for pod in pods)

    def counted(self, nodes: Sequence[NodeInfo]) -> bytes:
        """Return a byte for each node and, within a node, for each tally (count of pods by topology domain).

        It is 0 if pods that come to the node or leave it do not change the count.
        """
        if all(tally.moves_count is anywhere for tally in self.tallies):
            return b"\1" * (len(nodes) * len(self.tallies))
        return bytes([tally.moves_count(node) for node in nodes for tally in self.tallies])


class Weights:
    """By how much a pod of each kind changes each count of pods by topology domain.

    Computed when a kind (pods that filters count equally) is first needed.
    """

    def __init__(self, tallies: Sequence[Tally], kinds: Kinds) -> None:
        self._tallies = tallies
        self._kinds = kinds
        self._known: set[int] = set()
        self.values: array[int] = array("q")  # by kind, then by tally; 0 for kinds that have not been needed

    def learn(self, kinds: Iterable[Collection[int]]) -> None:
        """Compute the weights of these kinds of pods; call it before `values` is read for them.

        A kind has the pods that filters count equally.
        """
        wanted = len(self._tallies) * len(self._kinds)
        if len(self.values) < wanted:
            self.values.extend(array("q", bytes(8 * (wanted - len(self.values)))))
        for kind in self._unknown(kinds):
            self._known.add(kind)
            pod = self._kinds.examples[kind]
            for position, tally in enumerate(self._tallies, kind * len(self._tallies)):
                self.values[position] = tally.weigh(pod)

    def _unknown(self, kinds: Iterable[Collection[int]]) -> Collection[int]:
        if len(self._kinds) <= FEW_KINDS:
            return range(len(self._known), len(self._kinds))
        return set().union(*kinds) - self._known


def rules_of(
    profile: ProfileHandle, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts
) -> Rules | None:
    """Return the conditions of a profile's filters for a pod; None if dry runs must call the filters instead.

    That is so if a filter cannot state its requirements as numbers, or they are more than the kernels can hold.
    """
    try:
        demands_of = profile.demands(state, pod)
        if demands_of is None or not _can_be_held(demands_of):
            return None
        verdicts.reset(table.columns)
        for place, (plugin, demands) in enumerate(demands_of, 1):
            if demands.are_of_the_node_alone:
                plugin.filter_table(state, pod, table, verdicts, place)
        return _compile(demands_of, state, pod, table, verdicts)
    except Exception:
        # The filters themselves report what is wrong, node by node.
        log.debug("filters cannot express their requirements as data", extra={"pod": pod.key}, exc_info=True)
        return None


def _can_be_held(demands_of: _DemandsOf) -> bool:
    """Return True if the kernels can hold these requirements.

    That is so if at most one filter requires free resources, and at most one requires that pods are in the node's
    topology domain.
    """
    requests = sum(demands.request is not None for _, demands in demands_of)
    return requests <= 1 and sum(bool(demands.needs) for _, demands in demands_of) <= 1


def _compile(demands_of: _DemandsOf, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts) -> Rules:
    request, room_place, may_be_first = NOTHING, 0, False
    placed: list[tuple[int, Tally]] = []
    for place, (_, demands) in enumerate(demands_of, 1):
        if demands.request is not None:
            request, room_place = demands.request, place
        if demands.needs:
            may_be_first = demands.may_be_first
        placed += [(place, tally) for tally in (*demands.needs, *demands.limits)]
    conditions = Conditions(
        table.columns,
        pod.priority,
        request,
        room_place,
        [(place, tally.detail, tally.missing, tally.ids, tally.counts, tally.limits) for place, tally in placed],
        may_be_first,
    )
    return Rules(conditions, verdicts, [tally for _, tally in placed], demands_of, state, pod, {})
