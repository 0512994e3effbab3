"""Decides whether an event makes a waiting pod worth another attempt, and whether at once or after its backoff.

Only plugins that rejected the pod decide, and only about events that they registered in the pod's profile. Their
queueing hints may read the changed object; without a hint the answer is yes, and likewise if the hint raises. This
module does not know in which pool a pod is.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Mapping, Sequence

from kscheduler.api.objects import Pod
from kscheduler.config.releases import Release
from kscheduler.framework.events import (
    EACH_BY_ITSELF,
    ONE_GROUP,
    ClusterEvent,
    Grouping,
    Registration,
    complete_registrations,
    matches,
)
from kscheduler.observability.measurements import Measurements
from kscheduler.queue.in_flight import QueuedEvent
from kscheduler.queue.pod_info import QueuedPodInfo

log = logging.getLogger(__name__)

Registered = Mapping[str, Sequence[ClusterEvent | Registration]]  # plugin -> its registered events
ANY_PROFILE = ""  # stands for all profiles without registrations of their own
MOST_EVENTS = 512  # events that are known by their ids
HINTS_A_SAMPLE = 16  # one in so many hint calls is reported with its duration; failures are always reported


class Strategy(enum.IntEnum):
    SKIP = 0  # the pod stays where it is
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2  # active at once, without backoff: a plugin that answered PENDING wants the pod queued


Registrations = tuple[Registration, ...]  # a plugin's registrations for one event


class RequeueRules:
    def __init__(
        self,
        registered: Mapping[str, Registered],
        observer: Measurements,
        stopwatch: Callable[[], float],
        release: Release,
    ) -> None:
        """Take the registrations: profile -> plugin -> its registered events with hints."""
        self.release = release
        self.registrations: dict[str, dict[str, Registrations]] = {
            profile: {plugin: complete_registrations(events, release) for plugin, events in plugins.items()}
            for profile, plugins in registered.items()
        }
        self._observer = observer
        self._stopwatch = stopwatch
        # (profile, plugin) that registered the wildcard event: pods that such a plugin gates take part in timeouts, in
        # a release where not all gated pods do.
        self.wildcard_gates: tuple[tuple[str, str], ...] = tuple(
            (profile, plugin)
            for profile, plugins in self.registrations.items()
            for plugin, registrations in plugins.items()
            if any(registration.event.is_wildcard for registration in registrations)
        )
        # Filled as events come: event -> profile -> plugin -> its registrations, if any.
        self._interested: dict[ClusterEvent, dict[str, dict[str, Registrations]]] = {}
        # id of an event -> the event, which keeps the id from meaning another one, and the same.
        self._by_id: dict[int, tuple[ClusterEvent, dict[str, dict[str, Registrations]]]] = {}
        self._groupings: dict[tuple[str, str], tuple[Grouping, ...]] = {}
        self._indexed: dict[tuple[str, str], bool] = {}
        self._asked = 0  # number of hint calls
        self._failed: set[tuple[str, str]] = set()  # (plugin, event) whose hint has raised: logged once

    def interested(self, event: ClusterEvent) -> Mapping[str, Mapping[str, Registrations]]:
        """Return profile -> plugin -> its registrations that match the event; computed once for each cluster event."""
        latest = self._by_id.get(id(event))
        if latest is not None and latest[0] is event:  # without the call that its hash takes
            return latest[1]
        found = self._interested.get(event)
        if found is None:
            matched = {profile: _match(plugins, event) for profile, plugins in self.registrations.items()}
            found = self._interested[event] = {profile: plugins for profile, plugins in matched.items() if plugins}
        if len(self._by_id) < MOST_EVENTS:
            self._by_id[id(event)] = event, found
        return found

    def profile_of(self, qpi: QueuedPodInfo) -> str:
        """Return the profile whose registrations apply to the pod: its own, or ANY_PROFILE if that has none."""
        profile = qpi.pod_info.pod.spec.scheduler_name
        return profile if profile in self.registrations else ANY_PROFILE

    def groupings(self, profile: str, plugin: str) -> Sequence[Grouping]:
        """Return the distinct groupings of waiting pods by which the plugin's hints in the profile are called."""
        found = self._groupings.get((profile, plugin))
        if found is None:
            registrations = self.registrations.get(profile, {}).get(plugin, ())
            found = self._groupings[profile, plugin] = tuple(dict.fromkeys(map(grouping_of, registrations)))
        return found

    def is_indexed(self, profile: str, plugin: str) -> bool:
        """Return True if one of the plugin's hints in the profile need not be called for most groups."""
        found = self._indexed.get((profile, plugin))
        if found is None:
            groupings = self.groupings(profile, plugin)
            found = self._indexed[profile, plugin] = any(grouping.index is not None for grouping in groupings)
        return found

    def decide(self, qpi: QueuedPodInfo, queued_event: QueuedEvent) -> Strategy:
        rejecting, pending = qpi.unschedulable_plugins, qpi.pending_plugins
        if not rejecting and not pending:
            return Strategy.AFTER_BACKOFF  # its attempt met a fault: any event may retry it
        if queued_event.event.is_wildcard:
            return Strategy.AFTER_BACKOFF if _is_meant(qpi, queued_event.new) else Strategy.SKIP
        strategy = Strategy.SKIP
        profile = qpi.pod_info.pod.spec.scheduler_name
        if profile not in self.registrations:
            profile = ANY_PROFILE
        for plugin, registrations in self.interested(queued_event.event).get(profile, {}).items():
            if plugin not in rejecting and plugin not in pending:
                continue
            for registration in registrations:
                if self.asks(plugin, registration, qpi, queued_event):
                    break
            else:
                continue
            if plugin in pending:
                return Strategy.IMMEDIATELY
            if not pending:
                return Strategy.AFTER_BACKOFF
            strategy = Strategy.AFTER_BACKOFF  # a pending plugin may still want it immediately
        return strategy

    def asks(self, plugin: str, registration: Registration, qpi: QueuedPodInfo, queued_event: QueuedEvent) -> bool:
        """Return True if the registration, which matches the event, has no hint, or its hint wants the pod queued."""
        if registration.hint is None:
            return True
        self._asked += 1
        is_sampled = self._asked % HINTS_A_SAMPLE == 1
        started = self._stopwatch() if is_sampled else 0.0
        try:
            answer = registration.hint(qpi.pod_info.pod, queued_event.old, queued_event.new)
        except Exception:
            return self._fail(plugin, qpi, queued_event, self._stopwatch() - started if is_sampled else 0.0)
        if is_sampled:
            label = "Queue" if answer else "QueueSkip"
            self._observer.hint(plugin, queued_event.event.label, label, self._stopwatch() - started)
        return answer

    def _fail(self, plugin: str, qpi: QueuedPodInfo, queued_event: QueuedEvent, seconds: float) -> bool:
        """Report a queueing hint that raised, and return True: the pod is queued, so that it does not get stuck.

        Only the first fault of a hint is logged.
        """
        label = queued_event.event.label
        self._observer.hint(plugin, label, "Error", seconds)
        if (plugin, label) not in self._failed:
            self._failed.add((plugin, label))
            log.exception(
                "queueing hint failed, the pod is queued", extra={"plugin": plugin, "pod": qpi.key, "event": label}
            )
        return True


def grouping_of(registration: Registration) -> Grouping:
    return ONE_GROUP if registration.hint is None else registration.grouping or EACH_BY_ITSELF


def _match(plugins: Mapping[str, Registrations], event: ClusterEvent) -> dict[str, Registrations]:
    found = {
        plugin: tuple(registration for registration in registrations if matches(registration.event, event))
        for plugin, registrations in plugins.items()
    }
    return {plugin: registrations for plugin, registrations in found.items() if registrations}


def _is_meant(qpi: QueuedPodInfo, subject: object) -> bool:
    """Return True if a wildcard event concerns the pod: an event about a pod is for that pod only."""
    return subject is None or (isinstance(subject, Pod) and subject.metadata.uid == qpi.uid)
