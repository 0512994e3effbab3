"""Evicts the victims of a preemption in the background, and knows which preemptors have evictions under way.

A preemptor does not enter a scheduling cycle while its victims are being evicted: it would choose further ones. The
deletion of the last victim is the event that requeues it, so all others are evicted before that one. Once the watch
shows that the last victim is terminating, the preemptor may be tried, even if the answer to the delete request is still
to come. The answer alone is not enough: the victim would still be counted on its node, and be chosen again.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Sequence

from kscheduler.api.objects import Pod, PodCondition
from kscheduler.errors import APIError
from kscheduler.framework.dry_runs import Candidate
from kscheduler.framework.interface import Handle
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

CONDITION = "DisruptionTarget"
REASON = "PreemptionByScheduler"

# A pod whose deletion was accepted counts as terminating for this long, even if the watch does not show it.
ACCEPTED_S = 10.0


class _End(enum.Enum):
    ACCEPTED = enum.auto()  # the apiserver accepted the victim's deletion
    SENT_BACK = enum.auto()  # the victim was still being bound, and went back to the queue
    GONE_BEFORE = enum.auto()


class Executor:
    def __init__(self, handle: Handle, plugin: str) -> None:
        self._handle = handle
        self._evictions = handle.evictions
        self._plugin = plugin
        # uid of a preemptor -> its last victim once that is being evicted, None before; changed here only
        self.running: dict[str, Pod | None] = {}
        self._held: set[str] = set()  # uids of preemptors that were requeued meanwhile, and gated
        self._endings = handle.endings  # of all profiles
        self._measures_kinds = handle.release.measures_preemptors

    def is_running(self, uid: str) -> bool:
        """Return True while a victim of this preemptor is yet to be evicted, or the last is not seen terminating."""
        if uid not in self.running:
            return False
        last = self.running[uid]
        return last is None or not self._is_going(last)

    def holds(self, uid: str) -> bool:
        """Return True if it is too early to try the pod. It is then tried later, even without a further event."""
        is_held = self.is_running(uid)
        (self._held.add if is_held else self._held.discard)(uid)
        return is_held

    def has_ended(self, victim: Pod) -> bool:
        """Return True if the apiserver accepted the victim's deletion a moment ago, whatever the watch shows."""
        accepted = self._endings.accepted.get(victim.metadata.uid)
        return accepted is not None and self._is_recent(accepted)

    def _is_recent(self, accepted: float) -> bool:
        """Return True within ACCEPTED_S seconds of that time, before or after, in case the clock was set back."""
        return abs(self._evictions.wall() - accepted) < ACCEPTED_S

    def _is_going(self, victim: Pod) -> bool:
        current = self._evictions.current(victim.key)
        return self._is_gone(victim) or (current is not None and current.metadata.deletion_timestamp is not None)

    def _is_gone(self, victim: Pod) -> bool:
        current = self._evictions.current(victim.key)
        return current is None or current.metadata.uid != victim.metadata.uid

    def start(self, candidate: Candidate, preemptor: PodInfo) -> None:
        """Begin to evict the candidate's victims. Those that are already terminating are only waited for."""
        self._forget_accepted()
        staying = [victim.pod for victim in candidate.victims if victim.pod.metadata.deletion_timestamp is None]
        victims = [pod for pod in staying if not self.has_ended(pod)]
        if not victims:
            return
        self._count(candidate)
        self._evictions.planned(preemptor.pod, victims)
        self.running[preemptor.uid] = None
        self._endings.choose(preemptor.uid, (pod.metadata.uid for pod in victims))
        self._evictions.begin(self._run(candidate.node_name, victims, preemptor))

    def _count(self, candidate: Candidate) -> None:
        self._evictions.chosen(len(candidate.victims))
        if self._measures_kinds and candidate.violations:
            self._evictions.violated("pod", candidate.violations)

    def _forget_accepted(self) -> None:
        accepted = self._endings.accepted
        self._endings.accepted = {uid: when for uid, when in accepted.items() if self._is_recent(when)}

    async def _run(self, node_name: str, victims: Sequence[Pod], preemptor: PodInfo) -> None:
        try:
            started = self._handle.stopwatch()
            # 1. Pods that count on this room do so in vain.
            failed = not await self._clear_nominations(node_name, preemptor)
            # 2. The victims: all but one together, that one last. One that another preemptor ends is left to it.
            end: _End | None = None
            is_shared = False
            try:
                *others, last = victims
                if others:
                    await self._evictions.together(*(self._end(victim, preemptor, node_name) for victim in others))
                self.running[preemptor.uid] = last
                end, is_shared = await self._end(last, preemptor, node_name)
            except Exception as error:
                _log_failure(preemptor, node_name, error)
                failed = True
            result, took_s = "error" if failed else "success", self._handle.stopwatch() - started
            self._evictions.ended(result, took_s)
            if self._measures_kinds:
                self._evictions.executed(self.kind_of(preemptor), result, took_s)
            # 3. The preemptor waits for the watch, which is what it goes by when it is tried again.
            is_seen = True
            if end in (_End.ACCEPTED, _End.GONE_BEFORE):
                is_seen = await self._evictions.until(lambda: self._is_going(last), ACCEPTED_S)
        finally:
            self._endings.release(preemptor.uid)
            self.running.pop(preemptor.uid, None)
            was_held = preemptor.uid in self._held
            self._held.discard(preemptor.uid)
        # 4. Where no deletion may come that would wake it, wake it. A victim that was sent back from its binding was
        #    reported then, and not again when its deletion is seen.
        activates = is_shared or self._handle.release.activates_after_waiting_victim
        sent_back_unseen = activates and end is _End.SENT_BACK
        if failed or end is _End.GONE_BEFORE or not is_seen or sent_back_unseen or (was_held and self._is_gone(last)):
            self._evictions.try_again(preemptor.uid)

    async def _clear_nominations(self, node_name: str, preemptor: PodInfo) -> bool:
        """Clear nominations of pods of lower priority to the node. Returns False if one failed, which is tolerable."""
        succeeded = True
        for pod in self._handle.nominations.on(node_name):
            if self._may_stay_nominated(pod, preemptor):
                continue
            try:
                await self._evictions.clear_nomination(pod.pod)
            except APIError as error:
                log.error(
                    "nomination of a pod of lower priority not cleared",
                    extra={"pod": pod.key, "node": node_name, "err": str(error)},
                )
                succeeded = False
        return succeeded

    def _may_stay_nominated(self, pod: PodInfo, preemptor: PodInfo) -> bool:
        """Return True if a pod that is nominated to the preemptor's node may stay so."""
        return pod.priority >= preemptor.priority

    async def _end(self, victim: Pod, preemptor: PodInfo, node_name: str) -> tuple[_End, bool]:
        """Evict one victim, unless another preemptor does.

        Returns the outcome, and whether another preemptor evicted it.
        """
        uid, endings = victim.metadata.uid, self._endings
        while endings.is_under_way(uid):
            await self._evictions.until(lambda: not endings.is_under_way(uid), ACCEPTED_S)
        end = endings.since_chosen(uid, preemptor.uid)
        if isinstance(end, _End):
            return end, True
        ending = endings.begin(uid)
        end = None
        try:
            end = await self._evict(victim, preemptor, node_name)
        finally:
            endings.finish(ending, end)
        return end, False

    async def _evict(self, victim: Pod, preemptor: PodInfo, node_name: str) -> _End:
        """Send a victim that is still being bound back to the queue, or delete it. Returns the outcome."""
        end = _End.SENT_BACK
        note = f"Preempted by {self.kind_of(preemptor)} {self._uid_of(preemptor)} on node {node_name}"
        if self._evictions.stop_binding(victim.metadata.uid, self._plugin):
            note += " (in kube-scheduler memory)."
        else:
            condition = self._condition(victim, preemptor)
            if not _has_condition(victim, condition) and not await self._evictions.mark(victim, condition):
                return _End.GONE_BEFORE
            if not await self._evictions.delete(victim):
                return _End.GONE_BEFORE
            self._endings.accepted[victim.metadata.uid] = self._evictions.wall()
            end = _End.ACCEPTED
        self._record_preempted(victim, preemptor, note)
        log.info("pod preempted", extra={"pod": victim.key, "preemptor": preemptor.key, "node": node_name})
        return end

    def kind_of(self, preemptor: PodInfo) -> str:
        """Return what kind of object the preemptor is, as texts and metrics name it."""
        return "pod"

    def _uid_of(self, preemptor: PodInfo) -> str:
        """Return the uid of the preemptor's object, as texts name it."""
        return preemptor.uid

    def _record_preempted(self, victim: Pod, preemptor: PodInfo, note: str) -> None:
        """Record an Event that the victim was preempted."""
        self._evictions.record_event(victim, preemptor.pod, note)

    def _condition(self, victim: Pod, preemptor: PodInfo) -> PodCondition:
        kind = self.kind_of(preemptor)
        whom = (
            f"a {kind}, by the shares of queues"
            if self._goes_by_shares(victim, preemptor)
            else f"a higher priority {kind}"
        )
        return PodCondition(
            type=CONDITION,
            status="True",
            reason=REASON,
            message=f"{preemptor.pod.spec.scheduler_name}: preempting to accommodate {whom}",
            observed_generation=victim.metadata.generation,
        )

    def _goes_by_shares(self, victim: Pod, preemptor: PodInfo) -> bool:
        """Return True if the victim leaves to a pod of another queue with shares, or moves for one of its own.

        Priorities decide between other pods only.
        """
        queues = self._handle.share_queues
        if queues is None:
            return False
        theirs, mine = queues.demands.queue_of(victim), queues.demands.queue_of(preemptor.pod)
        return bool(mine) and (theirs != mine or (victim.spec.priority or 0) >= preemptor.priority)


def is_ending_for_preemption(pod: Pod) -> bool:
    """Return True if the pod is terminating because a scheduler preempted it."""
    if pod.metadata.deletion_timestamp is None:
        return False
    condition = _target_condition(pod)
    return condition is not None and (condition.status, condition.reason) == ("True", REASON)


def _has_condition(pod: Pod, wanted: PodCondition) -> bool:
    found = _target_condition(pod)
    return found is not None and (found.status, found.reason, found.message) == (
        wanted.status,
        wanted.reason,
        wanted.message,
    )


def _target_condition(pod: Pod) -> PodCondition | None:
    return next((condition for condition in pod.status.conditions or () if condition.type == CONDITION), None)


def _log_failure(preemptor: PodInfo, node_name: str, error: Exception) -> None:
    fields = {"pod": preemptor.key, "node": node_name, "err": str(error)}
    if isinstance(error, APIError):
        log.error("preemption failed, the pod is tried again", extra=fields)
    else:  # a bug of ours, which must not leave the pod waiting
        log.exception("preemption failed, the pod is tried again", extra=fields)
