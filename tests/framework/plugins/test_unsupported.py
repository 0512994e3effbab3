from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import (
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodResourceClaim,
    PodSchedulingGroup,
    TopologySpreadConstraint,
    Volume,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugins.unsupported import Unsupported
from kscheduler.framework.status import SKIP, Code
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod


def pod(**spec: Any) -> Pod:
    made = make_pod("p").obj()
    return replace(made, spec=replace(made.spec, **spec))


def test_a_hard_constraint_that_nobody_here_understands_is_refused_by_name() -> None:
    grouped = pod(scheduling_group=PodSchedulingGroup("workers"))
    _, status = Unsupported().pre_filter(CycleState(), PodInfo(grouped))
    assert status is not None
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == "this scheduler cannot judge yet what the pod requires: scheduling with its group"


@pytest.mark.parametrize(
    "made",
    [
        pod(),
        pod(topology_spread_constraints=[TopologySpreadConstraint(1, "zone", "DoNotSchedule")]),
        pod(resource_claims=[PodResourceClaim("gpu")]),
        pod(volumes=[Volume("config"), Volume("data", PersistentVolumeClaimVolumeSource("claim"))]),
    ],
)
def test_what_other_plugins_judge_is_let_through(made: Pod) -> None:
    assert Unsupported().pre_filter(CycleState(), PodInfo(made)) == (None, SKIP)
