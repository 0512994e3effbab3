"""What is measured: our scheduler on the cluster in memory, and it and kube-scheduler on a real control plane."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perf.workloads.control_plane_site import ControlPlaneSite, start_kscheduler, start_kube_scheduler
from perf.workloads.embedded_site import EmbeddedSite
from perf.workloads.execution import Outcome, measure
from perf.workloads.site import MakeSite
from perf.workloads.suite import Plan

EMBEDDED, OURS, THEIRS = "embedded", "kscheduler", "kube-scheduler"
TARGETS = (EMBEDDED, OURS, THEIRS)

Run = Callable[[str, Plan], Outcome]  # target, plan


def sites(qps: int) -> Mapping[str, MakeSite]:
    """How the site of each target is made; `qps` is the client's limit, and its burst."""
    ours, theirs = start_kscheduler(qps), start_kube_scheduler(qps)
    return {
        EMBEDDED: EmbeddedSite,
        OURS: lambda plan: ControlPlaneSite(ours, plan),
        THEIRS: lambda plan: ControlPlaneSite(theirs, plan),
    }


def runner(qps: int, timeout_s: float) -> Run:
    """Carries out one plan under one target."""
    make = sites(qps)
    return lambda target, plan: measure(make[target](plan), plan, timeout_s)
