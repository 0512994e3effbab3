"""The places on nodes that are kept for the pods that controllers create in place of those that are moved.

Such a pod has no name before it is there, so that it cannot be nominated. It is known by its controller instead: for
others a place is taken, until a pod of this controller gets a node, wherever that is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kscheduler.api.objects import OwnerReference, Pod
from kscheduler.quotas.pod_demand import Demand


class KeptPlace(NamedTuple):
    uid: str  # of the pod that is moved
    controller: str  # its uid
    demand: Demand
    node_name: str


class KeptPlaces:
    """Falsy if no places are kept."""

    def __init__(self) -> None:
        self._places: list[KeptPlace] = []
        self._came: list[tuple[str, str]] = []  # pods that have got nodes since: uid, and that of the controller

    def __len__(self) -> int:
        return len(self._places)

    def keep(self, places: Iterable[KeptPlace]) -> None:
        """Keep these places, in place of all that were kept before."""
        self._places = list(places)
        self._came.clear()

    def end(self) -> None:
        """Keep no places any more."""
        self.keep(())

    def got_node(self, pod: Pod) -> None:
        """Take note that a pod is counted on a node from now on, where its controller needs one place less.

        One whose object names a node already was there before: another version of it is counted.
        """
        if pod.spec.node_name:
            return
        controller = controller_of(pod)
        if any(place.controller == controller for place in self._places):
            self._came.append((pod.metadata.uid, controller))

    def settle(self, is_on: Callable[[str, str], bool], has_node: Callable[[str], bool]) -> None:
        """Give up a place for each pod that has got a node: the one on that node, if there is one.

        `is_on(uid, node_name)`, `has_node(uid)`: whether a pod is on a node; its binding may have failed meanwhile.
        """
        came, self._came = self._came, []
        for uid, controller in came:
            own = [place for place in self._places if place.controller == controller]
            if own and has_node(uid):
                self._places.remove(next((place for place in own if is_on(uid, place.node_name)), own[0]))

    def before(self, pod: Pod, demand: Demand) -> Iterator[KeptPlace]:
        """Iterate over the places that a pod with this demand leaves to others.

        As with nominations, priorities compare pods of one queue; those of its own controller are as good as itself.
        """
        controller = controller_of(pod)
        for place in self._places:
            theirs = place.demand
            if place.controller != controller and (theirs.priority >= demand.priority or theirs.queue != demand.queue):
                yield place

    def besides(self, pods: Iterable[Pod]) -> Iterator[KeptPlace]:
        """Iterate over the places that are left when each of these pods has got one that is kept for its controller."""
        taken = Counter(map(controller_of, pods))
        for place in self._places:
            if taken[place.controller]:
                taken[place.controller] -= 1
            else:
                yield place


def controller_of(pod: Pod) -> str:
    """Return the uid of the pod's controller; "" if it has none."""
    owner = owner_of(pod)
    return "" if owner is None else owner.uid


def owner_of(pod: Pod) -> OwnerReference | None:
    """Return the reference to the pod's controller."""
    return next((each for each in pod.metadata.owner_references or () if each.controller), None)
