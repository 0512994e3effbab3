from __future__ import annotations

from kscheduler.framework.plugins.schedulinggates import SchedulingGates
from kscheduler.framework.status import Code, Status
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod


def test_a_pod_with_gates_is_held_back_with_their_names() -> None:
    pod = PodInfo(make_pod("p").scheduling_gate("a.io/x").scheduling_gate("b").obj())
    assert SchedulingGates().pre_enqueue(pod) == Status(
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("waiting for scheduling gates: [a.io/x b]",), "SchedulingGates"
    )


def test_a_pod_without_gates_goes_on() -> None:
    assert SchedulingGates().pre_enqueue(PodInfo(make_pod("p").obj())) is None
