"""Plans a gang in one domain of nodes, such as a rack: the tightest one that holds it.

How many members each domain has room for is counted by kernels, in one pass over the nodes for each kind of member. So
only domains are planned in that may hold the gang, and mostly the first of them does.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kscheduler.gangs.domains import Domain, DomainIndex, Domains
from kscheduler.gangs.gang import Topology
from kscheduler.gangs.planner import Plan, Planner
from kscheduler.gangs.texts import (
    in_several_domains,
    no_domain,
    no_domain_holds,
    pinned_domain_holds_fewer,
    without_label,
)
from kscheduler.gangs.undo_log import UndoLog
from kscheduler.queue.pod_info import QueuedPodInfo

MOST_PLANS = 32  # of one level: where none of so many domains holds a gang for which they have room, others do not
MOST_PREFERRED_PLANS = 8  # likewise, of a level that is only preferred


class Candidate(NamedTuple):
    """A domain in which a gang may be placed."""

    domain: Domain
    most: int  # members that it has room for, at most
    slack: float  # for how many times the gang it has room, by the kind of member of which there is least
    is_nominated: bool  # a member is nominated to a node of it


class TopologyPlanner:
    def __init__(self, planner: Planner, index: DomainIndex, node_of: Callable[[QueuedPodInfo], str]) -> None:
        """`node_of`: the node to which a waiting member is nominated, "" for none."""
        self._planner = planner
        self._index = index
        self._node_of = node_of

    def plan(
        self, topology: Topology, members: Sequence[QueuedPodInfo], missing: int, placed: Sequence[str] = ()
    ) -> Plan:
        """Place the members near to each other, as `Planner.plan` does otherwise.

        `placed`: the nodes of members that have one; the others go to the same domain. If the domain that is required
        cannot be had, fewer than `missing` are placed, and the plan says why (`refusal`).
        """
        # 1. As near as is preferred, if that takes all members.
        for key in topology.narrower():
            plan = self._plan_preferred(self._index.domains(topology.domain_keys(key)), members, placed)
            if plan is not None:
                return plan
        # 2. As near as is required.
        if not topology.required:
            return self._planner.plan(members, missing)
        domains = self._index.domains(topology.domain_keys(topology.required))
        pins = self._pins(domains, placed)
        if isinstance(pins, str):
            return self._refused(pins, members)
        return self._plan_required(domains, pins, members, missing, len(placed))

    # --- preferred ---

    def _plan_preferred(self, domains: Domains, members: Sequence[QueuedPodInfo], placed: Sequence[str]) -> Plan | None:
        """Place all members in the tightest domain that holds them; None if none does."""
        pins = self._pins(domains, placed)
        if isinstance(pins, str):
            return None
        found = self._candidates(domains, pins, members)
        for candidate in self._holding_all(found, len(members))[:MOST_PREFERRED_PLANS]:
            plan = self._planner.plan(members, len(members), within=candidate.domain.confinement)
            if plan.fault is not None or len(plan.placed) == len(members):
                return plan
            plan.placed.undo()
        return None

    # --- required ---

    def _plan_required(
        self, domains: Domains, pins: Sequence[Domain], members: Sequence[QueuedPodInfo], missing: int, placed: int
    ) -> Plan:
        """Place members in the tightest domain that holds all, else in the one that holds most, if that is enough."""
        found = self._candidates(domains, pins, members)
        # 1. The tightest domain that holds all members.
        plan, tried = self._try_each(self._holding_all(found, len(members)), members, len(members))
        # 2. The domain that holds most, if fewer are enough; also where it is sure that no domain holds all.
        if missing != len(members):
            if plan is not None and plan.fault is None and not plan.reaches(len(members)):
                plan.placed.undo()
                plan = None
            if plan is None:
                plan, more = self._try_each(self._holding_enough(found, missing), members, missing)
                tried += more
        if plan is not None:
            return plan
        # 3. None does: say how many the best one holds, and what keeps the next member from it.
        by_room = sorted(found, key=lambda each: (not each.is_nominated, -each.most, each.domain.number))
        nearest = max(tried, key=lambda each: each[0])[1].domain if tried else by_room[0].domain
        plan = self._planner.plan(members, missing, within=nearest.confinement)
        if plan.fault is not None or plan.reaches(missing) or fails_anywhere(plan):
            return plan
        plan.domains = [each.domain for each in by_room]
        if placed:
            plan.refusal = pinned_domain_holds_fewer(domains.label, nearest.name, placed, len(plan.placed), missing)
        else:
            plan.refusal = no_domain_holds(domains.label, len(found), nearest.name, len(plan.placed), missing)
        return plan

    def _try_each(
        self, candidates: Sequence[Candidate], members: Sequence[QueuedPodInfo], least: int
    ) -> tuple[Plan | None, list[tuple[int, Candidate]]]:
        """Plan the members in one domain after the other, until one holds at least so many.

        Returns that plan, or one that makes further domains pointless, because of a fault or of a member that fits
        nowhere; None if there is none. And how many members the domains hold that were tried in vain.
        """
        tried: list[tuple[int, Candidate]] = []
        for candidate in candidates[:MOST_PLANS]:
            plan = self._planner.plan(members, least, within=candidate.domain.confinement)
            if plan.fault is not None or plan.reaches(least) or fails_anywhere(plan):
                return plan, tried
            tried.append((len(plan.placed), candidate))
            plan.placed.undo()
        return None, tried

    def _refused(self, why: str, members: Sequence[QueuedPodInfo]) -> Plan:
        """Return the plan of a gang for which there is no domain to look at."""
        return Plan(UndoLog(self._planner.cache), not_tried=members, refusal=why)

    # --- which domains ---

    def _pins(self, domains: Domains, placed: Sequence[str]) -> Sequence[Domain] | str:
        """Return the domains that may be taken: that of the placed members, or all. Or why there is none."""
        if not domains.each:
            return no_domain(domains.keys)
        table = self._index.table
        pinned: dict[int, Domain] = {}
        for name in placed:
            row = table.row_of(name)
            domain = None if row is None else domains.of(row)
            if domain is None:
                return without_label(name, domains.keys)
            pinned[domain.number] = domain
        if len(pinned) > 1:
            return in_several_domains(domains.label, sorted(domain.name for domain in pinned.values()))
        return list(pinned.values()) or domains.each

    def _candidates(
        self, domains: Domains, pins: Sequence[Domain], members: Sequence[QueuedPodInfo]
    ) -> list[Candidate]:
        count = len(domains.each)
        most, slack = [0] * count, [math.inf] * count
        for queued, equal in self._planner.kinds(members):
            room = array("q", bytes(8 * count))
            if queued is None or not self._planner.add_room(queued.pod_info, domains.by_row, room):
                most = [before + equal for before in most]  # it is not known
                continue
            for domain in pins:
                number = domain.number
                most[number] += min(room[number], equal)
                slack[number] = min(slack[number], room[number] / equal)
        nominated = self._nominated(domains, members)
        return [
            Candidate(domain, most[domain.number], slack[domain.number], domain.number in nominated) for domain in pins
        ]

    def _nominated(self, domains: Domains, members: Sequence[QueuedPodInfo]) -> set[int]:
        """Return the numbers of the domains with nodes to which members are nominated."""
        found: set[int] = set()
        for queued in members:
            name = self._node_of(queued)
            row = self._index.table.row_of(name) if name else None
            domain = None if row is None else domains.of(row)
            if domain is not None:
                found.add(domain.number)
        return found

    @staticmethod
    def _holding_all(found: Sequence[Candidate], members: int) -> list[Candidate]:
        """Return the candidates with room for all members, the tightest first."""
        return sorted(
            (each for each in found if each.most == members),
            key=lambda each: (not each.is_nominated, each.slack, each.domain.number),
        )

    @staticmethod
    def _holding_enough(found: Sequence[Candidate], members: int) -> list[Candidate]:
        """Return the candidates with room for at least so many members, those with the most room first."""
        return sorted(
            (each for each in found if each.most >= members),
            key=lambda each: (not each.is_nominated, -each.most, each.slack, each.domain.number),
        )


def fails_anywhere(plan: Plan) -> bool:
    """Return whether all members that failed were rejected before any node was looked at, such as by their quota."""
    return bool(plan.failed) and all(each.rejection.diagnosis.pre_filter_message for each in plan.failed)
