"""What differs between the ways of scheduling gangs: kube-scheduler's in each release, and ours.

Other code asks a field, never which way it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from kscheduler.config.releases import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class GangRules:
    name: str
    # --- when a gang is complete ---
    counts_gated: bool  # members that a PreEnqueue plugin gates count towards the minimum
    waits_for_gated: bool  # one gated member holds back all others
    counts_succeeded: bool  # members that have succeeded count as placed
    # --- in the queue ---
    has_stand_in: bool  # a gang is one entry of the queue; else each member is queued by itself
    keeps_age: bool  # gangs of a priority are tried in the order in which they came; else by their last attempts
    mends: bool  # a gang of which fewer than the minimum are placed comes before others of its priority
    waits_for_events: bool  # a rejected gang waits for an event that may help it; else for its backoff only
    grows_backoff: bool  # the longest backoff is multiplied with the square root of the number of members
    retries_rest_at_once: bool  # after some members were placed, the others are tried again at once


UPSTREAM_1_36 = GangRules(
    name="1.36",
    counts_gated=True,
    waits_for_gated=False,
    counts_succeeded=False,
    has_stand_in=False,
    keeps_age=False,
    mends=False,
    waits_for_events=True,
    grows_backoff=False,
    retries_rest_at_once=False,
)
UPSTREAM_1_37 = GangRules(
    name="1.37",
    counts_gated=True,
    waits_for_gated=True,
    counts_succeeded=False,
    has_stand_in=True,
    keeps_age=False,
    mends=False,
    waits_for_events=False,
    grows_backoff=True,
    retries_rest_at_once=True,
)
WHOLE = GangRules(  # ours
    name="whole",
    counts_gated=False,
    waits_for_gated=False,
    counts_succeeded=True,
    has_stand_in=True,
    keeps_age=True,
    mends=True,
    waits_for_events=True,
    grows_backoff=False,
    retries_rest_at_once=False,
)


def upstream_rules(release: Release) -> GangRules:
    """Return the rules of a release's kube-scheduler."""
    return UPSTREAM_1_37 if release.queue_counts_entities else UPSTREAM_1_36
