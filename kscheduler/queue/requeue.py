"""Does an event make a waiting pod worth another attempt, and at once or after its backoff?

Only plugins that rejected the pod have a say, and only about events they registered. Their hints may narrow it down to
the object in question; without a hint the answer is yes. Knows nothing of where pods wait.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping, Sequence

from kscheduler.api.objects import Pod
from kscheduler.framework.events import ClusterEvent, QueueingHint, Registration, complete_registrations, matches
from kscheduler.queue.in_flight import Happening
from kscheduler.queue.pod_info import QueuedPodInfo

log = logging.getLogger(__name__)

Registered = Mapping[str, Sequence[ClusterEvent | Registration]]  # plugin -> events that may change its mind


class Strategy(enum.IntEnum):
    SKIP = 0  # stays where it is
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2  # wanted by a plugin that had answered PENDING


class RequeueRules:
    __slots__ = ("_hints", "_registrations", "wildcard_gates")

    def __init__(self, registered: Registered) -> None:
        self._registrations: dict[str, tuple[Registration, ...]] = {  # plugin -> its registrations
            plugin: complete_registrations(events) for plugin, events in registered.items()
        }
        # Plugins that asked for everything there is: the pods they gate take part in timeouts, too.
        self.wildcard_gates: tuple[str, ...] = tuple(
            plugin for plugin, wishes in self._registrations.items() if any(wish.event.is_wildcard for wish in wishes)
        )
        self._hints: dict[ClusterEvent, dict[str, tuple[QueueingHint | None, ...]]] = {}  # filled as events come

    def interested(self, event: ClusterEvent) -> Mapping[str, tuple[QueueingHint | None, ...]]:
        """Plugin -> the hints it registered for the event. Worked out once per kind of event."""
        found = self._hints.get(event)
        if found is None:
            found = self._hints[event] = self._match(event)
        return found

    def _match(self, event: ClusterEvent) -> dict[str, tuple[QueueingHint | None, ...]]:
        hints = {
            plugin: tuple(wish.hint for wish in wishes if matches(wish.event, event))
            for plugin, wishes in self._registrations.items()
        }
        return {plugin: found for plugin, found in hints.items() if found}

    def decide(self, qpi: QueuedPodInfo, happening: Happening) -> Strategy:
        if not qpi.has_rejectors:
            return Strategy.AFTER_BACKOFF  # it hit a fault: any reason to try again is good
        if happening.event.is_wildcard:
            return Strategy.AFTER_BACKOFF if _is_meant(qpi, happening.new) else Strategy.SKIP
        strategy = Strategy.SKIP
        for plugin, hints in self.interested(happening.event).items():
            if not qpi.is_rejected_by(plugin) or not any(_says_queue(hint, plugin, qpi, happening) for hint in hints):
                continue
            if plugin in qpi.pending_plugins:
                return Strategy.IMMEDIATELY
            if not qpi.pending_plugins:
                return Strategy.AFTER_BACKOFF
            strategy = Strategy.AFTER_BACKOFF  # a pending plugin may still ask for more
        return strategy


def _is_meant(qpi: QueuedPodInfo, subject: object) -> bool:
    """A wildcard event is for every pod; one that carries a pod is for that pod only."""
    return subject is None or (isinstance(subject, Pod) and subject.metadata.uid == qpi.uid)


def _says_queue(hint: QueueingHint | None, plugin: str, qpi: QueuedPodInfo, happening: Happening) -> bool:
    if hint is None:
        return True
    try:
        return hint(qpi.pod_info.pod, happening.old, happening.new)
    except Exception:  # a plugin's fault must not leave the pod stuck
        log.exception(
            "queueing hint failed, the pod is queued",
            extra={"plugin": plugin, "pod": qpi.key, "event": happening.event.label},
        )
        return True
