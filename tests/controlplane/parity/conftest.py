"""One control plane with both schedulers, for all comparisons of a module with each release of Kubernetes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kscheduler.testing.controlplane import ApiserverOptions, ControlPlane, ensure
from kscheduler.testing.controlplane.controllermanager import (
    CLAIM_CONTROLLERS,
    POD_CONTROLLERS,
    VOLUME_CONTROLLERS,
    ControllerManager,
)
from kscheduler.testing.controlplane.faults import HarnessError
from kscheduler.testing.controlplane.provisioner import Provisioner
from kscheduler.testing.controlplane.scheduler_process import SchedulerProcess
from tests.controlplane.parity.outcome import Outcome
from tests.controlplane.parity.scenario import Scenario, play
from tests.controlplane.parity.sides import OURS, THEIRS, Side
from tests.controlplane.parity.stage import Cluster, Switch
from tests.support.releases import releases_to_test

Play = Callable[[Scenario, Side], Outcome]


@pytest.fixture(scope="module", params=releases_to_test())
def release(request: pytest.FixtureRequest) -> str:
    """The release of the control plane and of kube-scheduler; a test that compares runs with each."""
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def cluster(release: str) -> Iterator[Cluster]:
    """A control plane that keeps volumes, replicas, budgets and claims, looked at by mirrors. No scheduler yet."""
    # In 1.36 nothing serves rules that taint devices by default. A scheduler asks for them only if its gate is on, and
    # counts what devices take of their node only with the gate of that.
    gates = "--feature-gates=DRADeviceTaintRules=true,DRANodeAllocatableResources=true"
    served = (gates, "--runtime-config=resource.k8s.io/v1beta2=true")
    with ControlPlane(ApiserverOptions(extra_flags=served), ensure(release=release)) as control_plane:
        ControllerManager(control_plane, [*VOLUME_CONTROLLERS, *POD_CONTROLLERS, *CLAIM_CONTROLLERS])
        with Provisioner(control_plane.credentials), Cluster(control_plane) as looked_at:
            yield looked_at


@pytest.fixture(scope="module")
def play_to(cluster: Cluster) -> Iterator[Play]:
    """Plays a scenario to a side; a scheduler is started when it is first played to, and runs until the end.

    It is started again for a scenario that wants it to start cold, or with other feature gates.
    """
    running: dict[Side, SchedulerProcess] = {}
    gates: dict[Side, tuple[str, ...]] = {}  # with which each was started

    def play_one(scenario: Scenario, side: Side) -> Outcome:
        if side in running and (scenario.starts_cold or gates[side] != scenario.gates):
            running.pop(side).stop()

        def start() -> None:
            if side not in running:
                running[side] = side.run(cluster.control_plane, scenario.gates)
                gates[side] = scenario.gates

        def kill() -> None:
            running.pop(side).process.kill()

        try:
            return play(scenario, cluster, side, Switch(start, kill))
        except HarnessError as error:
            if side not in running:
                raise
            raise HarnessError(f"{error}; {running[side].process.log_tail()}") from error

    yield play_one
    for process in running.values():
        process.stop()


@pytest.fixture
def compared(play_to: Play) -> Callable[[Scenario], tuple[Outcome, Outcome]]:
    """Plays a scenario to both: what it came to with kube-scheduler, and with ours."""
    return lambda scenario: (play_to(scenario, THEIRS), play_to(scenario, OURS))
