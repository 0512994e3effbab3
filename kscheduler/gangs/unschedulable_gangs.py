"""Rejected pods and gangs; an event finds a gang by each of its faces.

A gang of which members of several kinds failed, or might go elsewhere, has a further face for each kind. These are in
the indexes of hints as if they were rejected pods, and nowhere else: a gang still is one entry.
"""

from __future__ import annotations

from collections.abc import Collection

from kscheduler.gangs.stand_in import FurtherFace, StandIn
from kscheduler.queue.pod_info import Pool, QueuedPodInfo
from kscheduler.queue.requeue import RequeueRules
from kscheduler.queue.unschedulable_pods import UnschedulablePods, rejectors


class UnschedulableGangs(UnschedulablePods):
    __slots__ = ("_faces",)

    def __init__(self, rules: RequeueRules) -> None:
        super().__init__(rules)
        self._faces: dict[str, FurtherFace] = {}  # by uid; of the gangs that were rejected

    def listeners(self) -> Collection[QueuedPodInfo]:
        return [*self.rejected.values(), *self._faces.values()]

    def add(self, qpi: QueuedPodInfo) -> None:
        super().add(qpi)
        if type(qpi) is StandIn and qpi.pool is Pool.UNSCHEDULABLE:
            for face in qpi.further_faces:
                self._show(face)

    def _show(self, face: FurtherFace) -> None:
        face.waits_since = face.stand_in.waits_since
        face.pool = Pool.UNSCHEDULABLE
        self._faces[face.uid] = face
        self._enter(self._groups, face)

    def remove(self, qpi: QueuedPodInfo) -> None:
        super().remove(qpi)
        if type(qpi) is StandIn:
            for face in qpi.further_faces:
                if self._faces.pop(face.uid, None) is not None:
                    face.pool = Pool.GONE
                    self._leave(self._groups, face)

    def rejected_by(self) -> dict[str, int]:
        found = super().rejected_by()
        for face in self._faces.values():
            profile = self._rules.profile_of(face)
            for plugin in rejectors(face):
                if self._rules.groupings(profile, plugin):
                    found[plugin] -= 1
        return {plugin: pods for plugin, pods in found.items() if pods}

    def check(self) -> None:
        super().check()
        shown = {face.uid for each in self.rejected.values() if type(each) is StandIn for face in each.further_faces}
        assert shown == self._faces.keys(), "further faces and waiting gangs differ"
        for face in self._faces.values():
            assert face.pool is face.stand_in.pool, f"{face.uid} waits, and its gang does not"
