"""The entry of a gang in the queue: it stands there for all members that wait for a node.

So order, backoff, events and queueing hints of the queue work for gangs as for pods, and an event costs one hint for a
gang whose members are equal. Plugins that read the entry's pod see its *face*: a made-up pod with the gang's name and
priority, and all else of one member, that which failed first in the last attempt. If an event may help the gang by
members of other kinds, such as its workers, it has a *further face* for each kind; plugins' hints are asked for these
as well.
"""

from __future__ import annotations

import math

from msgspec import field
from msgspec.structs import replace

from kscheduler.api.objects import Pod
from kscheduler.gangs.gang import Gang, GangKey
from kscheduler.queue.backoff_queue import Backoff
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.snapshot.pod_info import PodInfo

UID_PREFIX = "gang:"


class FurtherFace(QueuedPodInfo, kw_only=True, eq=False):
    """What a waiting gang looks like to hints besides its face: a member of another kind, and who may have rejected it.

    It is in no pool; while its gang is unschedulable, events find it there.
    """

    stand_in: StandIn


class StandIn(QueuedPodInfo, kw_only=True, eq=False):
    """A gang in the queue. Only the queue changes it."""

    gang_key: GangKey
    members: dict[str, QueuedPodInfo] = field(default_factory=dict)  # pod uid -> member that waits; empty in flight
    flying: dict[str, QueuedPodInfo] = field(default_factory=dict)  # those that were popped, in order to be tried
    arrivals: dict[str, QueuedPodInfo] = field(default_factory=dict)  # those that came, or came back, in flight
    since: float | None = None  # when the gang could first be tried
    is_first: bool = False  # it comes before others of its priority, being broken
    further_faces: tuple[FurtherFace, ...] = ()  # since the last attempt
    tried_as: Gang | None = None  # its object at the last attempt
    missing: int = 0  # members that it lacked then for its minimum

    def held(self, uid: str) -> QueuedPodInfo:
        """Return a member that waits. Raises KeyError for another pod."""
        return self.members[uid] if uid in self.members else self.arrivals[uid]


def uid_of(key: GangKey) -> str:
    """Return the uid of a gang's face, which no pod has."""
    return f"{UID_PREFIX}{key.api}/{key.namespace}/{key.name}"


def key_of_face(face: PodInfo) -> GangKey:
    """Return the gang that a face belongs to."""
    api, namespace, name = face.uid.removeprefix(UID_PREFIX).split("/")
    return GangKey(api, namespace, name)


def is_face(pod: PodInfo) -> bool:
    return pod.uid.startswith(UID_PREFIX)


def face_of(key: GangKey, priority: int, member: PodInfo, *, sums_resizes_apart: bool, number: int = 0) -> PodInfo:
    """Return the made-up pod that plugins see of a waiting gang: a member under the gang's name, with its priority.

    `number`: of a further face, from 1; 0: the gang's own.
    """
    pod, uid = member.pod, uid_of(key)
    if number:
        uid = f"{uid}/{number}"
    metadata = replace(pod.metadata, name=key.name, namespace=key.namespace, uid=uid, deletion_timestamp=None)
    return PodInfo(Pod(metadata, replace(pod.spec, priority=priority), pod.status), sums_resizes_apart)


class GangBackoff(Backoff):
    """The backoff of kube-scheduler's gangs: its maximum grows with the square root of the number of members."""

    __slots__ = ()

    def expiration(self, qpi: QueuedPodInfo) -> float:
        if type(qpi) is not StandIn or len(qpi.members) < 2:
            return super().expiration(qpi)
        return Backoff(self.initial_s, self.max_s * math.sqrt(len(qpi.members))).expiration(qpi)
