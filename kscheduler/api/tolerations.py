"""Matches tolerations and taints by the API's rules; the operators Lt and Gt, off by default in 1.36, never match."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kscheduler.api.objects import Taint, Toleration

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return True if the toleration matches the taint.

    An empty effect or key matches any; an empty operator means Equal.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def find_untolerated(
    taints: Iterable[Taint] | None, tolerations: Collection[Toleration] | None, effects: Collection[str]
) -> Taint | None:
    """Return the first taint with one of these effects that no toleration matches."""
    for taint in taints or ():
        if taint.effect in effects and not _is_tolerated(taint, tolerations or ()):
            return taint
    return None


def count_intolerable_prefer_no_schedule(
    taints: Iterable[Taint] | None, tolerations: Iterable[Toleration] | None
) -> int:
    """Count the PreferNoSchedule taints that no toleration, with that effect or with none, matches."""
    preferring = [taint for taint in taints or () if taint.effect == PREFER_NO_SCHEDULE]
    if not preferring:
        return 0
    fitting = [toleration for toleration in tolerations or () if toleration.effect in ("", PREFER_NO_SCHEDULE)]
    return sum(not _is_tolerated(taint, fitting) for taint in preferring)


def _is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)
