"""What users learn of gangs: Events about their objects, conditions, metrics, and the latest attempt for who asks."""

from __future__ import annotations

from typing import NamedTuple

from kscheduler.api.objects import Pod
from kscheduler.api.pod_groups import KUBERNETES_GROUP
from kscheduler.client.protocol import Regarding
from kscheduler.client.recorder import EventRecorder
from kscheduler.client.write_permission import WritePermission
from kscheduler.clock import Clock
from kscheduler.gangs.gang import COMPOSITE_API, Gang, GangKey
from kscheduler.gangs.gang_queue import Outcome
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.stand_in import key_of_face
from kscheduler.gangs.status_writer import SCHEDULED, SCHEDULER_ERROR, UNSCHEDULABLE, GroupStatuses
from kscheduler.gangs.texts import placed_text, stale_text
from kscheduler.gangs.tracked_gang import Stage, TrackedGang
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.pod_info import PodInfo

STALE = "Stale"
KEPT = 100  # attempts of gangs that are gone, at least, before they are dropped
_RESULTS = {Outcome.PLACED: "scheduled", Outcome.REJECTED: "unschedulable", Outcome.FAULT: "error"}
_REASONS = {Outcome.PLACED: SCHEDULED, Outcome.REJECTED: UNSCHEDULABLE, Outcome.FAULT: SCHEDULER_ERROR}


class Attempt(NamedTuple):
    """The latest attempt to place a gang."""

    at: float  # when, on the scheduler's clock
    outcome: Outcome
    text: str
    stopped_by: str = ""  # uid of the first pod that fits nowhere, or met a fault


class GangReports:
    """`statuses`: None where no API with conditions is in use. `versions`: group and version by group."""

    def __init__(
        self,
        registry: Registry,
        recorder: EventRecorder,
        statuses: GroupStatuses | None,
        measurements: Measurements,
        permission: WritePermission,
        clock: Clock,
        versions: dict[str, str],
    ) -> None:
        self._registry = registry
        self._recorder = recorder
        self._statuses = statuses
        self._measure = measurements
        self._permission = permission
        self._clock = clock
        self._versions = versions
        self.latest: dict[GangKey, Attempt] = {}  # of gangs that are tracked

    def tried(self, key: GangKey, outcome: Outcome, text: str, seconds: float, stopped_by: str = "") -> None:
        """Record an attempt. `text`: why it failed; `seconds`: what it took; `stopped_by`: as in `Attempt`."""
        self._measure.gang_tried(key.api, outcome.value, seconds)
        tracked = self._registry.get(key)
        if tracked is None or tracked.gang is None:
            return
        if outcome is Outcome.PLACED:
            text = placed_text(tracked)
        before = self.latest.get(key)
        self.latest[key] = Attempt(self._clock.now(), outcome, text, stopped_by)
        if len(self.latest) > 2 * len(self._registry) + KEPT:
            self.latest = {each: latest for each, latest in self.latest.items() if self._registry.get(each) is not None}
        reason = _REASONS[outcome]
        if self._statuses is not None and key.api == self._statuses.api:
            has_no_text = outcome is Outcome.PLACED and self._registry.rules.follows_kubernetes
            self._statuses.want(tracked.gang, reason, "" if has_no_text else text)
        if before is not None and (before.outcome, before.text) == (outcome, text):
            return
        self._record(tracked.gang, reason, text, is_normal=outcome is Outcome.PLACED)

    def show(self, tracked: TrackedGang, outcome: Outcome, text: str) -> None:
        """Have the condition of a PodGroup written that is decided with others. `text`: why it failed."""
        if self._statuses is not None and tracked.gang is not None:
            self._statuses.want(tracked.gang, _REASONS[outcome], text)

    def measured(self, key: GangKey, outcome: Outcome, profile: str, seconds: float, *, waits: bool) -> None:
        """Count an attempt in kube-scheduler's metrics, if the gang is a PodGroup of Kubernetes.

        `waits`: it is rejected until pods that are evicted for it are gone.
        """
        if key.api in (KUBERNETES_GROUP, COMPOSITE_API):
            result = "waiting_on_preemption" if waits else _RESULTS[outcome]
            self._measure.pod_group_tried(result, profile, seconds)

    def stale(self, tracked: TrackedGang, seconds: float) -> bool:
        """Report that a gang has been broken for so long. Returns False if this replica may not write now."""
        gang = tracked.gang
        if gang is None or not self._permission.may_write():
            return False
        self._measure.gang_stale(gang.key.api)
        self._record(gang, STALE, stale_text(tracked, seconds), is_normal=False)
        return True

    def evicted(self, victim: Pod, face: PodInfo, note: str) -> None:
        """Record an Event that a pod was evicted for a gang. `face`: the gang's pod in the queue."""
        tracked = self._of_face(face)
        gang = None if tracked is None else tracked.gang
        self._recorder.record(
            victim,
            type="Normal",
            reason="Preempted",
            action="Preempting",
            note=note,
            controller=face.pod.spec.scheduler_name,
            related=None if gang is None else self._regarding(gang),
        )

    def uid_of_face(self, face: PodInfo) -> str:
        """Return the uid of a gang's object; "" if it is gone. `face`: the gang's pod in the queue."""
        tracked = self._of_face(face)
        return "" if tracked is None or tracked.gang is None else tracked.gang.uid

    def _of_face(self, face: PodInfo) -> TrackedGang | None:
        return self._registry.get(key_of_face(face))

    def forget(self, key: GangKey) -> None:
        """Drop what is known of a gang that is not tracked any more."""
        if key in self.latest and self._registry.get(key) is None:
            del self.latest[key]

    def states(self) -> dict[str, int]:
        """Return the number of gangs by state, for a scrape. O(gangs)."""
        states = {"incomplete": 0, "waiting": 0, "placed": 0, "broken": 0}
        for tracked in self._registry:
            if tracked.is_broken:
                states["broken"] += 1
            elif tracked.lack is not None:
                states["incomplete"] += 1
            elif tracked.missing:
                states["waiting"] += 1
            elif tracked.count(Stage.BOUND) or tracked.count(Stage.ASSUMED):
                states["placed"] += 1
        return states

    def _record(self, gang: Gang, reason: str, note: str, *, is_normal: bool) -> None:
        kind = "Normal" if is_normal else "Warning"
        regarding = self._regarding(gang)
        self._recorder.record(regarding, type=kind, reason=reason, action="Scheduling", note=note)

    def _regarding(self, gang: Gang) -> Regarding:
        key = gang.key
        return Regarding(
            "CompositePodGroup" if gang.is_composite else "PodGroup",
            self._versions[key.api],
            key.namespace,
            key.name,
            gang.uid,
        )
