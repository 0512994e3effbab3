"""Does an event make a waiting pod worth another attempt, and at once or after its backoff?

Only plugins that rejected the pod have a say, and only about events they registered with the pod's profile. Their
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
from kscheduler.queue.in_flight import Happening
from kscheduler.queue.pod_info import QueuedPodInfo

log = logging.getLogger(__name__)

Registered = Mapping[str, Sequence[ClusterEvent | Registration]]  # plugin -> events that may change its mind
ANY_PROFILE = ""  # stands for the profiles that have no registrations of their own
HINTS_A_SAMPLE = 16  # one hint in so many is reported with its duration; those that fail all are


class HintObserver(Protocol):
    def hint(self, plugin: str, event: str, answer: str, seconds: float) -> None:
        """A hint answered `Queue`, `QueueSkip` or, by failing, `Error`."""
        ...


class Strategy(enum.IntEnum):
    SKIP = 0  # stays where it is
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2  # wanted by a plugin that had answered PENDING


Wishes = tuple[Registration, ...]  # a plugin's registrations for one event


class RequeueRules:
    def __init__(
        self, registered: Mapping[str, Registered], observer: HintObserver, stopwatch: Callable[[], float]
    ) -> None:
        """`registered`: profile -> plugin -> its registrations."""
        self._registrations: dict[str, dict[str, Wishes]] = {
            profile: {plugin: complete_registrations(events) for plugin, events in plugins.items()}
            for profile, plugins in registered.items()
        }
        self._observer = observer
        self._stopwatch = stopwatch
        # Gates that asked for everything there is, (profile, plugin): the pods they hold take part in timeouts, too.
        self.wildcard_gates: tuple[tuple[str, str], ...] = tuple(
            (profile, plugin)
            for profile, plugins in self._registrations.items()
            for plugin, wishes in plugins.items()
            if any(wish.event.is_wildcard for wish in wishes)
        )
        # Filled as events come: event -> profile -> plugin -> its wishes; without profiles and plugins that have none.
        self._interested: dict[ClusterEvent, dict[str, dict[str, Wishes]]] = {}
        self._groupings: dict[tuple[str, str], tuple[Grouping, ...]] = {}
        self._asked = 0  # hints
        self._failed: set[tuple[str, str]] = set()  # (plugin, event) whose hint has failed: said once

    def interested(self, event: ClusterEvent) -> Mapping[str, Mapping[str, Wishes]]:
        """Profile -> plugin -> its registrations for the event. Worked out once per kind of event."""
        found = self._interested.get(event)
        if found is None:
            matched = {profile: _match(plugins, event) for profile, plugins in self._registrations.items()}
            found = self._interested[event] = {profile: plugins for profile, plugins in matched.items() if plugins}
        return found

    def profile_of(self, qpi: QueuedPodInfo) -> str:
        """Whose registrations count for the pod."""
        profile = qpi.pod_info.pod.spec.scheduler_name
        return profile if profile in self._registrations else ANY_PROFILE

    def groupings(self, profile: str, plugin: str) -> Sequence[Grouping]:
        """The ways in which pods that the plugin rejected are grouped."""
        found = self._groupings.get((profile, plugin))
        if found is None:
            wishes = self._registrations.get(profile, {}).get(plugin, ())
            found = self._groupings[profile, plugin] = tuple(dict.fromkeys(map(grouping_of, wishes)))
        return found

    def decide(self, qpi: QueuedPodInfo, happening: Happening) -> Strategy:
        if not qpi.has_rejectors:
            return Strategy.AFTER_BACKOFF  # it hit a fault: any reason to try again is good
        if happening.event.is_wildcard:
            return Strategy.AFTER_BACKOFF if _is_meant(qpi, happening.new) else Strategy.SKIP
        strategy = Strategy.SKIP
        for plugin, wishes in self.interested(happening.event).get(self.profile_of(qpi), {}).items():
            if not qpi.is_rejected_by(plugin) or not any(self.asks(plugin, wish, qpi, happening) for wish in wishes):
                continue
            if plugin in qpi.pending_plugins:
                return Strategy.IMMEDIATELY
            if not qpi.pending_plugins:
                return Strategy.AFTER_BACKOFF
            strategy = Strategy.AFTER_BACKOFF  # a pending plugin may still ask for more
        return strategy

    def asks(self, plugin: str, wish: Registration, qpi: QueuedPodInfo, happening: Happening) -> bool:
        """Does this wish, which matches the event, want the pod queued?"""
        if wish.hint is None:
            return True
        self._asked += 1
        if self._asked % HINTS_A_SAMPLE != 1:
            try:
                return wish.hint(qpi.pod_info.pod, happening.old, happening.new)
            except Exception:
                return self._fail(plugin, qpi, happening, 0.0)
        started = self._stopwatch()
        try:
            answer = wish.hint(qpi.pod_info.pod, happening.old, happening.new)
        except Exception:
            return self._fail(plugin, qpi, happening, self._stopwatch() - started)
        label = "Queue" if answer else "QueueSkip"
        self._observer.hint(plugin, happening.event.label, label, self._stopwatch() - started)
        return answer

    def _fail(self, plugin: str, qpi: QueuedPodInfo, happening: Happening, seconds: float) -> bool:
        """A plugin's fault must not leave the pod stuck. It is counted each time and logged the first time."""
        label = happening.event.label
        self._observer.hint(plugin, label, "Error", seconds)
        if (plugin, label) not in self._failed:
            self._failed.add((plugin, label))
            log.exception(
                "queueing hint failed, the pod is queued", extra={"plugin": plugin, "pod": qpi.key, "event": label}
            )
        return True


def grouping_of(wish: Registration) -> Grouping:
    return ALL_ALIKE if wish.hint is None else wish.grouping or EACH_BY_ITSELF


def _match(plugins: Mapping[str, Wishes], event: ClusterEvent) -> dict[str, Wishes]:
    found = {plugin: tuple(wish for wish in wishes if matches(wish.event, event)) for plugin, wishes in plugins.items()}
    return {plugin: wishes for plugin, wishes in found.items() if wishes}


def _is_meant(qpi: QueuedPodInfo, subject: object) -> bool:
    """A wildcard event is for every pod; one that carries a pod is for that pod only."""
    return subject is None or (isinstance(subject, Pod) and subject.metadata.uid == qpi.uid)
