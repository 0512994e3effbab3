"""Tells whether the members of a plan, which are assumed, still fit on their nodes when evicted pods come back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack

from kscheduler.framework.cycle_state import CycleState
from kscheduler.gangs.planner import Plan, Planner
from kscheduler.gangs.preemption.away import Away
from kscheduler.gangs.preemption.units import Unit, pods_of
from kscheduler.gangs.undo_log import Placed


class Fitting:
    """Checks one of equal members on each node, with all others there.

    Or each member with only those there that were planned before it, as kube-scheduler does (`in_order`). Where all
    members are plain, the pods on a node alone decide, so that only nodes are looked at to which pods came back. Beside
    these a node of each kind of members is looked at if there are queues with shares, whose limits count pods anywhere.
    """

    def __init__(self, planner: Planner, away: Away, plan: Plan, most_checks: int, *, in_order: bool = False) -> None:
        """`most_checks`: how often a member may be checked on its node while units come back."""
        self._away = away
        self._left = most_checks
        self._plan = plan
        self._in_order = in_order
        self._by_node: dict[str, dict[object, Placed]] = {}  # node -> kind of member -> one of them
        for placed in plan.placed:
            pod = placed.queued.pod_info
            kinds = self._by_node.setdefault(placed.node_name, {})
            kinds[pod.uid if pod.signature is None else (pod.signature, pod.priority)] = placed
        # A node of each kind of members, on which it is checked that queues with shares take them.
        self._nodes_of_kinds: dict[str, None] = {}
        if away.counts_queues:
            first = {kind: name for name, kinds in reversed(self._by_node.items()) for kind in kinds}
            self._nodes_of_kinds = dict.fromkeys(first.values())
        # Do the pods on a node alone decide whether a member fits there, beside these?
        self.is_local = all(planner.is_plain(placed.queued.pod_info) for placed in plan.placed)

    def is_touched(self, unit: Unit) -> bool:
        """Return True if the unit is on a node to which a member goes."""
        return any(self._away.node_of(pod) in self._by_node for pod in unit.pods)

    def holds(self, returned: Sequence[Unit] | None = None) -> bool:
        """Return True if all members fit, each beside the others; `returned`: the pods that have come back since.

        False when so many checks have been made that no more are to be.
        """
        names: Iterable[str] = self._by_node
        if returned is not None:
            # Those first that have less room now: if a member does not fit, then mostly there.
            on_nodes = dict.fromkeys(self._away.node_of(pod) for pod in pods_of(returned))
            touched = [name for name in on_nodes if name in self._by_node]
            names = dict.fromkeys([*touched, *self._nodes_of_kinds])
            if not self.is_local or any(pod.states_affinity for pod in pods_of(returned)):
                if self._in_order:
                    return self._hold_in_order()
                names = dict.fromkeys([*touched, *self._by_node])
        for name in names:
            for placed in self._by_node[name].values():
                if returned is not None:
                    self._left -= 1
                    if self._left < 0:
                        return False
                if not self._fits(placed):
                    return False
        return True

    def _hold_in_order(self) -> bool:
        """Return True if each member fits beside those before it. Starts with the last: those behind it are away."""
        with ExitStack() as behind:
            for placed in reversed(list(self._plan.placed)):
                self._left -= 1
                behind.enter_context(self._away.without(placed.queued.pod_info, placed.node_name))
                if self._left < 0 or not self._is_feasible(placed):
                    return False
        return True

    def _fits(self, placed: Placed) -> bool:
        with self._away.without(placed.queued.pod_info, placed.node_name):
            return self._is_feasible(placed)

    def _is_feasible(self, placed: Placed) -> bool:
        state = CycleState()
        state.group = self._plan.shared  # the claims that it has in flight are its own
        return placed.framework.algorithm.fits_on(state, placed.queued.pod_info, placed.node_name)
