"""Random pods with claims of volumes, random hands on them and random faults: none is reserved twice, or for ever.

A plan is drawn first, as in `test_random`. While it runs, each volume that the scheduler chooses goes to one claim, and
each pod is bound to a node that can access its volumes. Then faults end, and what must hold is checked: nothing is
assumed any more, and no pod waits although a node has a volume for it, or one can be made there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.objects import ObjectMeta
from kscheduler.client.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from kscheduler.errors import Conflict, NotFound
from kscheduler.scheduler import Options
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.testing import make_node
from tests.framework.plugins.volumebinding.objects import HOSTNAME, make_claim, make_volume, refer_to
from tests.scenarios.judged_volumes import NODES, VolumesWorld
from tests.scenarios.storage_world import pod, timing_out_after
from tests.support.changes import cordon
from tests.support.seeds import sampled

EXAMPLES = sampled(800)
SETTLING_S = 150.0  # as in test_random; a pod may have waited for its volume, and the next try waits for the controller
SILENCE_S = 15.0  # of a dead watch, before somebody notices


@dataclass(frozen=True)
class Step:
    """Wait, then do what `act` names; `one` and `other` choose among what is there."""

    wait_s: float
    act: str
    one: int
    other: int
    claims: tuple[str, ...]  # classes of the claims of a new pod; "shared": a claim that several pods use
    size: str


@dataclass(frozen=True)
class Struck:
    kind: FaultKind
    verb: Verb
    resource: str
    probability: float
    delay_s: float


@dataclass(frozen=True)
class Plan:
    seed: int
    latency: Latency
    bind_concurrency: int
    timeout_s: int  # of volumes
    controller_late_s: float
    faults: list[Struck]
    steps: list[Step]


ACTS = [
    "create", "create", "create", "create", "create", "delete", "delete", "delete gracefully", "recreate",
    "delete claim", "renew claim", "refuse", "touch volume", "touch claim",
    "add volume", "add volume", "add zonal volume", "delete volume", "free volume", "take volume",
    "cordon", "uncordon", "delete node", "add node", "outage", "compact",
]  # fmt: skip
steps = st.builds(
    Step,
    wait_s=st.sampled_from([0.0, 0.0, 0.01, 0.3, 1.0, 1.5, 4.0]),
    act=st.sampled_from(ACTS),
    one=st.integers(0, 7),
    other=st.integers(0, NODES - 1),
    claims=st.sampled_from(
        [("wait",), ("wait",), ("wait",), ("made",), ("made", "wait"), ("shared",), ("shared", "made")]
    ),
    size=st.sampled_from(["1Gi", "1Gi", "2Gi", "5Gi"]),
)
PATCHES = (Verb.PATCH_VOLUME, Verb.PATCH_CLAIM)
REFUSED = (FaultKind.CONFLICT, FaultKind.TOO_MANY_REQUESTS, FaultKind.SERVER_ERROR, FaultKind.TIMEOUT)
faults = st.builds(
    lambda triple, *rest: Struck(*triple, *rest),
    st.one_of(
        st.tuples(
            st.sampled_from([*REFUSED, FaultKind.NOT_FOUND, FaultKind.LOST_ANSWER, FaultKind.SLOW]),
            st.sampled_from([*PATCHES, *PATCHES, Verb.BIND]),
            st.just(""),
        ),
        st.tuples(
            st.sampled_from([FaultKind.CUT, FaultKind.SILENT, FaultKind.DUPLICATE, FaultKind.DELAYED]),
            st.just(Verb.DELIVER),
            st.sampled_from(["", "persistentvolumes", "persistentvolumeclaims", "pods"]),
        ),
        st.tuples(st.just(FaultKind.GONE), st.sampled_from([Verb.LIST, Verb.WATCH]), st.just("")),
    ),
    st.sampled_from([0.1, 0.3, 0.6]),
    st.sampled_from([0.0, 0.2, 5.0]),
)
plans = st.builds(
    Plan,
    seed=st.integers(0, 2**16),
    latency=st.builds(
        Latency,
        watch_s=st.sampled_from([0.0, 0.02, 1.0]),
        bind_s=st.sampled_from([0.0, 0.01, 0.5]),
        write_s=st.sampled_from([0.0, 0.01, 0.5]),
        jitter=st.sampled_from([0.0, 0.8]),
    ),
    bind_concurrency=st.sampled_from([1, 4, 64]),
    timeout_s=st.sampled_from([2, 10, 30]),  # for a claim that is made again under its name is waited for so long
    controller_late_s=st.sampled_from([0.0, 0.0, 0.5, 4.0]),
    faults=st.lists(faults, max_size=4),
    steps=st.lists(steps, min_size=10, max_size=50),
)


class Execution:
    """Does the steps of a plan to a world; a step that finds nothing to act on does nothing."""

    def __init__(self, world: VolumesWorld) -> None:
        self._world = world

    async def do(self, step: Step) -> None:
        world = self._world
        await world.sleep(step.wait_s)
        if step.act == "outage":
            world.cluster.stop()
            await world.sleep(5.0)
            world.cluster.start()
        with contextlib.suppress(Conflict, NotFound):  # the errors that kubectl would print
            self._act_on_pods(step)
            self._act_on_claims(step)
            self._act_on_volumes(step)
            self._act_on_nodes(step)
        world.check_assumed_once()

    def _act_on_pods(self, step: Step) -> None:
        cluster, key = self._world.cluster, f"default/p{step.one}"
        if step.act in ("delete", "recreate"):
            cluster.delete_pod(key)
        if step.act in ("create", "recreate"):
            self._create(step)
        elif step.act == "delete gracefully":
            cluster.delete_pod(key, gracefully=True)

    def _create(self, step: Step) -> None:
        """A pod, and those of its claims that do not exist: they stay when it goes, as those of a StatefulSet do."""
        world, names = self._world, []
        for class_name in step.claims:
            name = "shared" if class_name == "shared" else f"{class_name}-{step.one}"
            if f"default/{name}" not in world.claims:
                world.add(make_claim(name, "wait" if class_name == "shared" else class_name, step.size))
            names.append(name)
        world.add_pod(pod(f"p{step.one}", *names).grace_period(1))

    def _act_on_claims(self, step: Step) -> None:
        world = self._world
        key = self._nth(world.claims, step.one)
        if key is None:
            return
        claim = world.claims[key]
        if step.act in ("delete claim", "renew claim"):
            with world.by_hand(key, claim.spec.volume_name):
                world.cluster.delete_object(PERSISTENT_VOLUME_CLAIMS, key)
                if step.act == "renew claim":
                    world.add(make_claim(claim.metadata.name, claim.spec.storage_class_name, step.size))
        elif step.act == "refuse":  # a provisioner that cannot serve the node
            if not claim.spec.volume_name:
                world.change_claim(claim.metadata.name, {})
        elif step.act == "touch claim":
            world.cluster.update_object(replace(claim, metadata=touched(claim.metadata, world.clock.now())))

    def _act_on_volumes(self, step: Step) -> None:
        world = self._world
        if step.act == "add volume":
            world.add(make_volume(f"v{step.one}", size=step.size, on={HOSTNAME: [f"n{step.other}"]}))
        elif step.act == "add zonal volume":
            world.add(make_volume(f"w{step.one}", size=step.size, on={"zone": [f"z{step.other}", "z9"]}))
        name = self._nth(world.volumes, step.one)
        if name is None:
            return
        volume = world.volumes[name]
        if step.act == "touch volume":
            world.cluster.update_object(replace(volume, metadata=touched(volume.metadata, world.clock.now())))
        elif step.act == "delete volume":
            with world.by_hand(name):
                world.cluster.delete_object(PERSISTENT_VOLUMES, name)
        elif step.act == "free volume":  # what an administrator does to one whose claim is gone
            reference = volume.spec.claim_ref
            if reference is not None and f"default/{reference.name}" not in world.claims:
                with world.by_hand(name):
                    world.cluster.update_object(replace(volume, spec=replace(volume.spec, claim_ref=None)))
        elif step.act == "take volume" and volume.spec.claim_ref is None:
            reference = refer_to(f"wait-{step.other}", uid="")  # a user reserves it for a claim, which need not exist
            with world.by_hand(name):
                world.cluster.update_object(replace(volume, spec=replace(volume.spec, claim_ref=reference)))

    def _act_on_nodes(self, step: Step) -> None:
        world, name = self._world, f"n{step.other}"
        if step.act == "add node":
            world.add_node(make_node(name).label(zone=f"z{step.other}").capacity(cpu="4", memory="16Gi"))
        elif step.act == "delete node":
            with world.by_hand(name):
                world.cluster.delete_node(name)
        elif step.act in ("cordon", "uncordon") and name in world.cluster.nodes:
            world.change_node(name, cordon(step.act == "cordon"))

    @staticmethod
    def _nth(keys: Iterable[str], number: int) -> str | None:
        """One of these, however many there are."""
        ordered = sorted(keys)
        return ordered[number % len(ordered)] if ordered else None


def touched(metadata: ObjectMeta, now: float) -> ObjectMeta:
    """Metadata with a label that means nothing."""
    return replace(metadata, labels={**(metadata.labels or {}), "touched": f"{now:g}"})


async def execute(plan: Plan) -> None:
    async with VolumesWorld(
        late_s=plan.controller_late_s,
        seed=plan.seed,
        latency=plan.latency,
        options=Options(bind_concurrency=plan.bind_concurrency),
        config=timing_out_after(plan.timeout_s),
    ) as world:
        world.add_local_volumes(NODES)
        for fault in plan.faults:
            delay_s = fault.delay_s or (SILENCE_S if fault.kind is FaultKind.SILENT else 0.0)
            world.faults.add(
                fault.kind, fault.verb, resource=fault.resource, probability=fault.probability, delay_s=delay_s
            )
        execution = Execution(world)
        for step in plan.steps:
            await execution.do(step)
        world.faults.clear()
        await world.sleep(SETTLING_S)
        world.check_reserved()
        left = world.left_waiting()
        assert not left, f"{left[:5]}. {world.describe()}"


RANDOM = settings(
    max_examples=-(-EXAMPLES // 8),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@RANDOM
@given(plans)
def test_whatever_happens_to_pods_with_volumes_none_is_reserved_twice_or_for_ever(plan: Plan) -> None:
    run_virtual(execute(plan))


@pytest.mark.slow
@settings(RANDOM, max_examples=EXAMPLES, phases=[Phase.generate, Phase.shrink])
@given(plans)
def test_the_same_with_many_more_examples(plan: Plan) -> None:
    run_virtual(execute(plan))
