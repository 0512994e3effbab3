"""Defines what can be measured: our scheduler on the cluster in memory, and ours and kube-scheduler on a control plane.

A bare client decides nothing and binds each pod as soon as it sees it, so a pod's latency there is the control
plane's own; one of the two writes each pod's Event, too, as a scheduler has to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from perf.ratios import BARE, BARE_EVENTS
from perf.workloads.control_plane_site import (
    ControlPlaneSite,
    start_bare_client,
    start_kscheduler,
    start_kube_scheduler,
)
from perf.workloads.embedded_site import EmbeddedSite
from perf.workloads.execution import Outcome, measure
from perf.workloads.site import MakeSite
from perf.workloads.suite import Plan

EMBEDDED, OURS, THEIRS = "embedded", "kscheduler", "kube-scheduler"
TARGETS = (EMBEDDED, OURS, THEIRS)
ALL_TARGETS = (*TARGETS, BARE, BARE_EVENTS)

Run = Callable[[str, Plan], Outcome]  # target, plan


def sites(qps: int) -> Mapping[str, MakeSite]:
    """How the site of each target is made; `qps` is the client's limit, and its burst."""
    ours, theirs = start_kscheduler(qps), start_kube_scheduler(qps)
    return {
        EMBEDDED: EmbeddedSite,
        OURS: lambda plan: ControlPlaneSite(ours, plan),
        THEIRS: lambda plan: ControlPlaneSite(theirs, plan),
        BARE: lambda plan: ControlPlaneSite(start_bare_client(events=False), plan),
        BARE_EVENTS: lambda plan: ControlPlaneSite(start_bare_client(events=True), plan),
    }


def runner(qps: int, timeout_s: float) -> Run:
    """Carries out one plan under one target."""
    make = sites(qps)

    def run(target: str, plan: Plan) -> Outcome:
        outcome = measure(make[target](plan), plan, timeout_s)
        # Bare clients know no capacity, and one of them writes no Events.
        return replace(outcome, problems=[]) if target in (BARE, BARE_EVENTS) else outcome

    return run
