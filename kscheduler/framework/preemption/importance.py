"""The order of importance of pods: higher priority first, then the one that has run for longer."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from datetime import datetime

from kscheduler.snapshot.pod_info import PodInfo

_KEPT_TIMES = 16_384


def started_s(pod: PodInfo, now: float) -> float:
    """Return when the pod was started, in Unix seconds; `now` if it has not been started."""
    text = pod.pod.status.start_time
    return now if text is None else unix_s(text, now)


def created_s(pod: PodInfo) -> float:
    """Return when the pod was created, in Unix seconds; 0 if that is not known."""
    text = pod.pod.metadata.creation_timestamp
    return 0.0 if text is None else unix_s(text, 0.0)


def by_importance(pods: Iterable[PodInfo], now: float) -> list[PodInfo]:
    """Return the pods, the most important first; equally important pods keep their order."""
    return sorted(pods, key=lambda pod: (-pod.priority, started_s(pod, now)))


def earliest_start(victims: Sequence[PodInfo], now: float) -> float:
    """Return when the first of the victims with the highest priority was started, in Unix seconds."""
    highest = max(victim.priority for victim in victims)
    return min(started_s(victim, now) for victim in victims if victim.priority == highest)


def unix_s(text: str, now: float) -> float:
    """Return an RFC 3339 time in Unix seconds; `now` if the text is not a time."""
    seconds = _parse(text)
    return now if seconds is None else seconds


@functools.lru_cache(maxsize=_KEPT_TIMES)
def _parse(text: str) -> float | None:
    """Return an RFC 3339 time in Unix seconds; None if the text is not a time."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
