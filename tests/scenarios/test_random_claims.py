"""Random pods with claims, random hands on them and random faults: no device is given away twice, lost or kept.

A plan is drawn first, as in `test_random`. Then faults end, and what must hold is checked: the world's own findings
(claims are reserved for the pods that are bound, the index of devices equals the cluster, nothing is in flight), and
that no pod waits while a device is free.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.objects import Pod
from kscheduler.client.kinds import RESOURCE_SLICES
from kscheduler.config.releases import RELEASES, Release
from kscheduler.errors import Conflict, NotFound
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import run_virtual
from tests.devices.building import devices, request
from tests.support.devices import DeviceWorld, gpu_pod, named_claim
from tests.support.seeds import sampled

EXAMPLES = sampled(400)
SETTLING_S = 120.0  # as in test_random; an allocation in doubt is written for 60 s at most
SILENCE_S = 15.0  # of a dead watch, before somebody notices
SHARED = ("shared-0", "shared-1")


@dataclass(frozen=True)
class Step:
    """Wait, then do what `act` names to a pod, or to the slice or node of that number."""

    wait_s: float
    act: str
    pod: int
    node: int
    claims: tuple[str, ...]  # those of a new pod; none: one from the template
    priority: int


@dataclass(frozen=True)
class Struck:
    kind: FaultKind
    verb: Verb
    probability: float
    delay_s: float


@dataclass(frozen=True)
class Plan:
    seed: int
    release: Release
    faults: list[Struck]
    steps: list[Step]


ACTS = [
    "create", "create", "create", "create", "delete", "delete", "delete gracefully", "recreate",
    "publish", "remove slice", "delete node", "add node", "outage", "compact",
]  # fmt: skip
steps = st.builds(
    Step,
    wait_s=st.sampled_from([0.0, 0.0, 0.01, 0.3, 1.0, 4.0]),
    act=st.sampled_from(ACTS),
    pod=st.integers(0, 7),
    node=st.integers(0, 1),
    claims=st.sampled_from([(), (), (), (SHARED[0],), (SHARED[1],), SHARED]),
    priority=st.sampled_from([0, 0, 10]),
)
WRITES = (
    Verb.BIND,
    Verb.PATCH_STATUS,
    Verb.PATCH_RESOURCE_CLAIM,
    Verb.PATCH_RESOURCE_CLAIM_STATUS,
    Verb.RELEASE_RESOURCE_CLAIM,
    Verb.GET_RESOURCE_CLAIM,
)
REFUSED = (FaultKind.CONFLICT, FaultKind.TOO_MANY_REQUESTS, FaultKind.SERVER_ERROR, FaultKind.TIMEOUT)
faults = st.builds(
    lambda pair, *rest: Struck(*pair, *rest),
    st.one_of(
        st.tuples(st.sampled_from([*REFUSED, FaultKind.LOST_ANSWER, FaultKind.SLOW]), st.sampled_from(WRITES)),
        st.tuples(
            st.sampled_from([FaultKind.CUT, FaultKind.SILENT, FaultKind.DUPLICATE, FaultKind.DELAYED]),
            st.just(Verb.DELIVER),
        ),
    ),
    st.sampled_from([0.1, 0.3, 0.6]),
    st.sampled_from([0.0, 0.2, 5.0]),
)
plans = st.builds(
    Plan,
    seed=st.integers(0, 2**16),
    release=st.sampled_from(list(RELEASES.values())),
    faults=st.lists(faults, max_size=3),
    steps=st.lists(steps, min_size=8, max_size=40),
)


def act(world: DeviceWorld, step: Step) -> None:
    """Do a step; one that finds nothing to act on does nothing."""
    cluster, pod_name, node_name = world.cluster, f"p{step.pod}", f"n{step.node}"
    key = f"default/{pod_name}"
    if step.act in ("delete", "recreate"):
        cluster.delete_pod(key)
    if step.act in ("create", "recreate"):
        world.add_pod(gpu_pod(pod_name, *step.claims).priority(step.priority).grace_period(1))
    elif step.act == "delete gracefully":
        cluster.delete_pod(key, gracefully=True)
    elif step.act == "delete node":
        cluster.delete_node(node_name)
    elif step.act == "add node":
        world.add_node(node_name, cpu="4", memory="16Gi")
    elif step.act == "compact":
        cluster.compact()
    elif step.act in ("publish", "remove slice"):
        published = cluster.store(RESOURCE_SLICES).objects[node_name]
        names = devices("g0", "g1", "g2") if step.act == "publish" else []
        cluster.update_object(replace(published, spec=replace(published.spec, devices=names or None)))


def free_devices(world: DeviceWorld) -> set[str]:
    """Devices of nodes that are there, as pool/device, that no claim has."""
    published = {
        f"{name}/{each.name}"
        for name, listed in world.cluster.store(RESOURCE_SLICES).objects.items()
        if name in world.cluster.nodes
        for each in listed.spec.devices or ()
    }
    return published - set(world.all_taken())


def needs_one_device(world: DeviceWorld, pod: Pod) -> bool:
    """One whose claim is allocated already may wait for a node that is gone, with other pods that use the claim."""
    entries = pod.spec.resource_claims or []
    if len(entries) != 1:
        return False
    return not world.devices_of(entries[0].resource_claim_name or pod.metadata.name)


async def execute(plan: Plan) -> None:
    async with DeviceWorld(release=plan.release, nodes=2, seed=plan.seed) as world:
        world.run_kubelets()
        for name in SHARED:
            world.add(named_claim(name, request()))
        for fault in plan.faults:
            delay_s = fault.delay_s or (SILENCE_S if fault.kind is FaultKind.SILENT else 0.0)
            world.faults.add(fault.kind, fault.verb, probability=fault.probability, delay_s=delay_s)
        for step in plan.steps:
            await world.sleep(step.wait_s)
            if step.act == "outage":
                world.cluster.stop()
                await world.sleep(5.0)
                world.cluster.start()
            with contextlib.suppress(Conflict, NotFound):  # the errors that kubectl would print
                act(world, step)
            taken = world.all_taken()
            assert len(taken) == len(set(taken)), taken
        world.faults.clear()
        await world.sleep(SETTLING_S)
        waiting = [pod.key for pod in world.pending() if needs_one_device(world, pod)]
        assert not (waiting and free_devices(world)), f"{waiting} wait, {free_devices(world)} are free"


RANDOM = settings(
    max_examples=-(-EXAMPLES // 8),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@RANDOM
@given(plans)
def test_whatever_happens_to_pods_with_claims_no_device_is_given_away_twice_or_kept(plan: Plan) -> None:
    run_virtual(execute(plan))


@pytest.mark.slow
@settings(RANDOM, max_examples=EXAMPLES, phases=[Phase.generate, Phase.shrink])
@given(plans)
def test_the_same_with_many_more_examples(plan: Plan) -> None:
    run_virtual(execute(plan))
