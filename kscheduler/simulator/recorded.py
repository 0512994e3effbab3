"""Makes a scenario from a record of a real cluster: pods arrive and leave, and objects change, when they did there.

The simulated scheduler places the pods that name it as their schedulerName; pods of other schedulers are bound to the
recorded node at the recorded time. Each pod leaves at its recorded time: a pod that was preempted leaves then, even if
nothing preempts it in the simulation.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import structs

from kscheduler.api.objects import Pod, PodStatus
from kscheduler.client.kinds import PODS
from kscheduler.client.protocol import EventType
from kscheduler.counted import counted
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.record.entries import Change, Header, Synced
from kscheduler.record.imports import open_record
from kscheduler.record.recorded_kinds import DECODERS, KINDS
from kscheduler.simulator.object_changes import ObjectChange
from kscheduler.simulator.pod_limit import DEFAULT_MAX_PODS, check_pods
from kscheduler.simulator.run import Outcome
from kscheduler.simulator.scenario import Arrival, Scenario

NOTE = "Pods leave when they left in the record, even those that were preempted there."
MOMENT_S = 1e-6  # times in records are as exact as this
JOBS_NOTE = (
    "Pods of Jobs run as long as they ran in the record; others, and those whose name another pod had later, leave "
    "when they left there."
)


@dataclass(slots=True)
class _Life:
    """One pod in the record: its first and last recorded version, and when it came, was bound and left in seconds."""

    at_s: float
    first: Pod
    last: Pod
    bound_s: float | None = None  # None: it was not bound while it was recorded
    leaves_at_s: float | None = None

    def arrival(self, *, jobs_run_on: bool) -> Arrival:
        """Return the pod's arrival. `jobs_run_on`: a pod of a Job runs as long as it ran in the record."""
        pod = _as_created(self.first)
        if jobs_run_on and self.bound_s is not None and self.leaves_at_s is not None and _is_of_job(pod):
            return Arrival(self.at_s, pod, runs_s=self.leaves_at_s - self.bound_s)
        return Arrival(self.at_s, pod, leaves_at_s=self.leaves_at_s)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A scenario made from a record, and the nodes on which the record has the pods."""

    scenario: Scenario
    placements: dict[str, str]  # uid -> node, of pods that the simulation places and that were bound during recording

    def compared(self, outcome: Outcome) -> str:
        """Return a sentence that says how many pods the simulation placed on the same node as in the record."""
        books = outcome.accounting
        now = {one.uid: books.rows[one.row].name for one in books.records.values() if one.row >= 0}
        same = sum(now.get(uid) == node for uid, node in self.placements.items())
        return f"{same:,} of {counted(len(self.placements), 'pod is', 'pods are')} on the node that the record has."


@dataclass(slots=True)
class _Story:
    """Collects pods, placements and other changes while a record is read."""

    schedulers: Container[str]
    has_begun: bool = False  # all that was there when recording began is known
    lives: dict[str, _Life] = field(default_factory=dict)  # pod uid -> its life, in order of first appearance
    changes: list[ObjectChange] = field(default_factory=list)
    placements: dict[str, str] = field(default_factory=dict)

    def add(self, change: ObjectChange) -> None:
        if change.resource is PODS:
            self._add_pod(change)
        else:
            self.changes.append(change)

    def _add_pod(self, change: ObjectChange) -> None:
        pod: Pod = change.object
        uid = pod.metadata.uid
        if not self.has_begun:
            self.lives.pop(uid, None)
        life = self.lives.get(uid)
        if life is None:
            if change.type is not EventType.DELETED:  # else it had finished before recording began
                self.lives[uid] = _Life(change.at_s, pod, pod)
        elif change.type is EventType.DELETED:
            life.leaves_at_s = change.at_s
        else:
            is_ours = pod.spec.scheduler_name in self.schedulers
            if pod.spec.node_name and not life.last.spec.node_name and is_ours:
                self.placements[uid] = pod.spec.node_name
                life.bound_s = change.at_s
            if _asked(pod, is_ours) != _asked(life.last, is_ours):
                kept = structs.replace(pod, spec=structs.replace(pod.spec, node_name="")) if is_ours else pod
                self.changes.append(ObjectChange(change.at_s, PODS, change.type, kept))
            life.last = pod

    def arrivals(self, *, jobs_run_on: bool) -> list[Arrival]:
        # A pod that runs on must be no obstacle to the next one of its name, such as the same worker of a PyTorchJob.
        last = {life.first.key: uid for uid, life in self.lives.items()}
        return [
            life.arrival(jobs_run_on=jobs_run_on and last[life.first.key] == uid) for uid, life in self.lives.items()
        ]


def read_recorded(
    path: str, schedulers: Container[str], max_pods: int = DEFAULT_MAX_PODS, *, jobs_run_on: bool = False
) -> Recorded:
    """Read a record as a scenario. `schedulers`: the schedulerNames of the pods that the simulation is to place.

    `jobs_run_on`: a pod of a Job leaves when it has run as long as in the record, and not at the recorded time: so one
    that is bound sooner makes room sooner. Raises ConfigError, naming file and line, if the record cannot be read, or
    has more than `max_pods` pods.
    """
    reader = open_record(Path(path))
    story = _Story(schedulers)
    began_s = 0.0
    for entry in reader:
        if isinstance(entry, Synced):
            story.has_begun, began_s = True, entry.at
        elif isinstance(entry, Change):
            # A running scheduler has listed for a while when recording begins, and does not begin each file at zero.
            story.add(_decoded(path, entry, max(entry.at - began_s, 0.0) if story.has_begun else 0.0))
            check_pods(path, len(story.lives), max_pods)
    if not story.has_begun:
        raise ConfigError(f"{path}: expected all that was there when recording began, the record ends before")
    arrivals = sorted(story.arrivals(jobs_run_on=jobs_run_on), key=lambda arrival: arrival.at_s)
    notes = [JOBS_NOTE if jobs_run_on else NOTE]
    if reader.is_cut:
        notes.append("The record has no end: its recorder was killed, and its last second may be missing.")
    what = f"{counted(len(arrivals), 'pod')} and {counted(len(story.changes), 'other change')}"
    parameters = {"record": f"{what} from {Path(path).name}"}
    changes = _after_arrival(story.changes, arrivals)
    return Recorded(Scenario(arrivals=arrivals, parameters=parameters, notes=notes, changes=changes), story.placements)


def _after_arrival(changes: Sequence[ObjectChange], arrivals: Iterable[Arrival]) -> list[ObjectChange]:
    """Return the changes, with each of a pod after its arrival: at one time, a simulation plays changes first."""
    came_s = {each.pod.metadata.uid: each.at_s for each in arrivals}
    later = (
        replace(each, at_s=came_s[uid] + MOMENT_S)
        if each.resource is PODS and (uid := each.object.metadata.uid) in came_s and each.at_s <= came_s[uid]
        else each
        for each in changes
    )
    return sorted(later, key=lambda each: each.at_s)


def recorded_header(path: str) -> Header:
    """Return the header of the record, which has the scheduler's configuration and release. Raises ConfigError."""
    return open_record(Path(path)).header


def _decoded(path: str, entry: Change, at_s: float) -> ObjectChange:
    kind = KINDS.get(entry.resource)
    if kind is None:
        raise ConfigError(f"{path}: expected one of {', '.join(KINDS)}, got a change of {entry.resource[:60]!r}")
    try:
        obj = DECODERS[entry.resource](entry.object)
    except DecodeError as error:
        raise ConfigError(f"{path}: expected an object of {entry.resource}: {error}") from None
    return ObjectChange(at_s, kind, EventType(entry.type), obj)


def _as_created(pod: Pod) -> Pod:
    """Return the pod as it was created: without the status and metadata that were added to a pending pod later."""
    metadata = structs.replace(pod.metadata, resource_version="", creation_timestamp=None, deletion_timestamp=None)
    if pod.spec.node_name:
        return structs.replace(pod, metadata=metadata)
    return structs.replace(pod, metadata=metadata, status=PodStatus())


def _is_of_job(pod: Pod) -> bool:
    """Return True if a Job, or another kind of job such as PyTorchJob, owns the pod: then the pod ends by itself."""
    return any(owner.kind.endswith("Job") for owner in pod.metadata.owner_references or ())


def _asked(pod: Pod, is_ours: bool) -> tuple[object, ...]:
    """Return the parts of a pod that users, controllers and other schedulers write.

    A change of them has to be replayed. Not among them are what kubelets write, nor the node if the simulated scheduler
    chooses it (`is_ours`).
    """
    spec = structs.replace(pod.spec, node_name="") if is_ours else pod.spec
    meta = pod.metadata
    return spec, meta.labels, meta.annotations, bool(meta.deletion_timestamp)
