"""What queues will use when the pods that are ending have gone and those that are expected have nodes: for reclaim.

Expected are nominated pods, and those that controllers create in place of pods that are moved. The latter count on the
path of the queue that wants room, so that it takes no more than its share beside them. In a queue from which it takes
room they do not count: until they are there again the queue asks for less, and would look as if it used too much.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from kscheduler.api.objects import Pod
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.queues.new_places import UID_PREFIX
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.quotas.share_view import ShareView


def use_to_come(
    handle: Handle, queues: ShareQueues, queue: str, waiting: Sequence[Pod], placed: Iterable[str] = ()
) -> tuple[ShareView, Set[str]]:
    """Return what queues will use beside pods that wait in a queue, and the uids of pods that are ending.

    `queue`: the name of one that takes pods. `placed`: uids of pods that are assumed for a moment, and do not count.
    """
    ending = queues.ending | handle.endings.accepted.keys() | handle.endings.chosen()
    use = ShareView(queues)
    for uid in (*ending, *placed):
        use.remove(uid)
    own = {pod.metadata.uid for pod in waiting}
    for uid, nomination in handle.nominations.by_pod.items():
        if uid not in own:
            use.add(nomination.pod.pod)
    path = set(queues.tree.queues[queue].path())
    for place in queues.moves.places.besides(waiting):
        theirs = queues.get(place.demand.queue)
        if theirs is None or (place.uid not in ending and queues.charged(place.uid) is not None):
            continue
        shared = next((each for each in theirs.path() if each in path), None)
        if shared is not None:
            use.add_demand(UID_PREFIX + place.uid, replace(place.demand, queue=shared.name))
    return use, ending
