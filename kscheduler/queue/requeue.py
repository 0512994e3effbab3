"""Decides whether an event makes a waiting pod worth another attempt, and whether at once or after its backoff.

Only plugins that rejected the pod decide, and only about events they registered with the pod's profile. Their
hints may narrow it down to the object in question; without a hint the answer is yes, and so it is if the hint fails.
Knows nothing of where pods wait.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kscheduler.api.objects import Pod
from kscheduler.framework.events import (
    ALL_ALIKE,
    EACH_BY_ITSELF,
    ClusterEvent,
    Grouping,
    Registration,
    complete_registrations,
    matches,
)
from kscheduler.queue.in_flight import QueuedEvent
from kscheduler.queue.pod_info import QueuedPodInfo

log = logging.getLogger(__name__)

Registered = Mapping[str, Sequence[ClusterEvent | Registration]]  # plugin -> events that may change its mind
ANY_PROFILE = ""  # stands for the profiles that have no registrations of their own
HINTS_A_SAMPLE = 16  # one hint in so many is reported with its duration; those that fail all are


class HintObserver(Protocol):
    def hint(self, plugin: str, event: str, answer: str, seconds: float) -> None:
        """Count a hint that answered `Queue`, `QueueSkip` or, by failing, `Error`."""
        ...


class Strategy(enum.IntEnum):
    SKIP = 0  # stays where it is
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2  # wanted by a plugin that had answered PENDING


Registrations = tuple[Registration, ...]  # a plugin's registrations for one event


class RequeueRules:
    def __init__(
        self, registered: Mapping[str, Registered], observer: HintObserver, stopwatch: Callable[[], float]
    ) -> None:
        """`registered`: profile -> plugin -> its registrations."""
        self._registrations: dict[str, dict[str, Registrations]] = {
            profile: {plugin: complete_registrations(events) for plugin, events in plugins.items()}
            for profile, plugins in registered.items()
        }
        self._observer = observer
        self._stopwatch = stopwatch
        # Gates that asked for everything there is, (profile, plugin): the pods they hold take part in timeouts, too.
        self.wildcard_gates: tuple[tuple[str, str], ...] = tuple(
            (profile, plugin)
            for profile, plugins in self._registrations.items()
            for plugin, registrations in plugins.items()
            if any(registration.event.is_wildcard for registration in registrations)
        )
        # Filled as events come: event -> profile -> plugin -> its registrations, if any.
        self._interested: dict[ClusterEvent, dict[str, dict[str, Registrations]]] = {}
        self._groupings: dict[tuple[str, str], tuple[Grouping, ...]] = {}
        self._asked = 0  # hints
        self._failed: set[tuple[str, str]] = set()  # (plugin, event) whose hint has failed: said once

    def interested(self, event: ClusterEvent) -> Mapping[str, Mapping[str, Registrations]]:
        """Return profile -> plugin -> its registrations for the event. Computed once per kind of event."""
        found = self._interested.get(event)
        if found is None:
            matched = {profile: _match(plugins, event) for profile, plugins in self._registrations.items()}
            found = self._interested[event] = {profile: plugins for profile, plugins in matched.items() if plugins}
        return found

    def profile_of(self, qpi: QueuedPodInfo) -> str:
        """Return the profile whose registrations count for the pod."""
        profile = qpi.pod_info.pod.spec.scheduler_name
        return profile if profile in self._registrations else ANY_PROFILE

    def groupings(self, profile: str, plugin: str) -> Sequence[Grouping]:
        """Return the ways in which pods that the plugin rejected are grouped."""
        found = self._groupings.get((profile, plugin))
        if found is None:
            registrations = self._registrations.get(profile, {}).get(plugin, ())
            found = self._groupings[profile, plugin] = tuple(dict.fromkeys(map(grouping_of, registrations)))
        return found

    def decide(self, qpi: QueuedPodInfo, queued_event: QueuedEvent) -> Strategy:
        if not qpi.has_rejectors:
            return Strategy.AFTER_BACKOFF  # it hit a fault: any reason to try again is good
        if queued_event.event.is_wildcard:
            return Strategy.AFTER_BACKOFF if _is_meant(qpi, queued_event.new) else Strategy.SKIP
        strategy = Strategy.SKIP
        for plugin, registrations in self.interested(queued_event.event).get(self.profile_of(qpi), {}).items():
            if not qpi.is_rejected_by(plugin) or not any(
                self.asks(plugin, registration, qpi, queued_event) for registration in registrations
            ):
                continue
            if plugin in qpi.pending_plugins:
                return Strategy.IMMEDIATELY
            if not qpi.pending_plugins:
                return Strategy.AFTER_BACKOFF
            strategy = Strategy.AFTER_BACKOFF  # a pending plugin may still ask for more
        return strategy

    def asks(self, plugin: str, registration: Registration, qpi: QueuedPodInfo, queued_event: QueuedEvent) -> bool:
        """Return True if this registration, which matches the event, wants the pod queued."""
        if registration.hint is None:
            return True
        self._asked += 1
        if self._asked % HINTS_A_SAMPLE != 1:
            try:
                return registration.hint(qpi.pod_info.pod, queued_event.old, queued_event.new)
            except Exception:
                return self._fail(plugin, qpi, queued_event, 0.0)
        started = self._stopwatch()
        try:
            answer = registration.hint(qpi.pod_info.pod, queued_event.old, queued_event.new)
        except Exception:
            return self._fail(plugin, qpi, queued_event, self._stopwatch() - started)
        label = "Queue" if answer else "QueueSkip"
        self._observer.hint(plugin, queued_event.event.label, label, self._stopwatch() - started)
        return answer

    def _fail(self, plugin: str, qpi: QueuedPodInfo, queued_event: QueuedEvent, seconds: float) -> bool:
        """Return True, so that a plugin's fault does not leave the pod stuck; count it, and log the first one."""
        label = queued_event.event.label
        self._observer.hint(plugin, label, "Error", seconds)
        if (plugin, label) not in self._failed:
            self._failed.add((plugin, label))
            log.exception(
                "queueing hint failed, the pod is queued", extra={"plugin": plugin, "pod": qpi.key, "event": label}
            )
        return True


def grouping_of(registration: Registration) -> Grouping:
    return ALL_ALIKE if registration.hint is None else registration.grouping or EACH_BY_ITSELF


def _match(plugins: Mapping[str, Registrations], event: ClusterEvent) -> dict[str, Registrations]:
    found = {
        plugin: tuple(registration for registration in registrations if matches(registration.event, event))
        for plugin, registrations in plugins.items()
    }
    return {plugin: registrations for plugin, registrations in found.items() if registrations}


def _is_meant(qpi: QueuedPodInfo, subject: object) -> bool:
    """Return True if the event concerns the pod: a wildcard event with a pod is for that pod only."""
    return subject is None or (isinstance(subject, Pod) and subject.metadata.uid == qpi.uid)
