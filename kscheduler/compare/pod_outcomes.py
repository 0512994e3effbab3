"""Holds where each pod of a run was placed, compactly: a run may have a million pods."""

from __future__ import annotations

import math
import sys
from array import array

from kscheduler.api.objects import Pod
from kscheduler.simulator.run import Outcome, unscheduled_condition

NOT_PLACED = -1
NEVER = math.nan


class PodOutcomes:
    """The node of every pod, or the message that says why it has none, in order of creation.

    `has_nodes`: False if it is only known which pods have no node, as from a report without placements. Times are
    seconds since the first arrival.
    """

    def __init__(self, *, has_nodes: bool = True) -> None:
        self.has_nodes = has_nodes
        self.rows: dict[str, int] = {}  # namespace/name -> index into the arrays; with "#2" for a second pod of a name
        self.node_names: list[str] = []
        self._nodes = array("i")  # index into node_names, or NOT_PLACED
        self._bound_s = array("d")  # NEVER if not placed
        self._waited_s = array("d")  # from creation to binding; NEVER if not placed by a scheduler, or not known
        self._priorities = array("q")
        self._messages: dict[int, str] = {}  # row -> why the pod has no node

    def __len__(self) -> int:
        return len(self.rows)

    def add(
        self,
        key: str,
        node: int,
        bound_s: float = NEVER,
        priority: int = 0,
        message: str = "",
        waited_s: float = NEVER,
    ) -> None:
        """Add a pod. `node`: an index into `node_names`, or NOT_PLACED."""
        name, number = key, 1
        while name in self.rows:
            number += 1
            name = f"{key}#{number}"
        if message:
            self._messages[len(self.rows)] = sys.intern(message)
        self.rows[sys.intern(name)] = len(self.rows)  # both runs of a comparison have the same names
        self._nodes.append(node)
        self._bound_s.append(bound_s)
        self._waited_s.append(waited_s)
        self._priorities.append(priority)

    def node(self, row: int) -> str:
        """Return the name of the pod's node; "" if it has none."""
        index = self._nodes[row]
        return "" if index == NOT_PLACED else self.node_names[index]

    def is_placed(self, row: int) -> bool:
        return self._nodes[row] != NOT_PLACED

    def bound_s(self, row: int) -> float:
        """Return when the pod was bound; NaN if it was not."""
        return self._bound_s[row]

    def waited_s(self, row: int) -> float:
        """Return the seconds from the pod's creation to its binding; NaN if no scheduler placed it, or not known."""
        return self._waited_s[row]

    def priority(self, row: int) -> int:
        return self._priorities[row]

    def message(self, row: int) -> str:
        return self._messages.get(row, "")


def outcomes_of(outcome: Outcome) -> PodOutcomes:
    """Return the pods of a simulation."""
    books = outcome.accounting
    start_s = books.start_s or 0.0
    waiting = {pod.metadata.uid: pod for pod in outcome.cluster.pods.values() if not pod.spec.node_name}
    found = PodOutcomes()
    found.node_names = [row.name for row in books.rows]
    for record in books.records.values():
        if record.bound_s is not None:
            waited_s = NEVER if record.existing else record.bound_s - record.created_s
            found.add(record.key, record.row, record.bound_s - start_s, record.priority, waited_s=waited_s)
        else:
            message = _message(waiting.get(record.uid, record.last_seen))
            found.add(record.key, NOT_PLACED, NEVER, record.priority, message)
    return found


def _message(pod: Pod) -> str:
    condition = unscheduled_condition(pod)
    return "" if condition is None else condition.message
