"""Random clusters with pods of few templates, most of which fit nowhere: one search serves many, unnoticed.

Each plan is played three times: with the rejections that are known, without them, and plugin by plugin, where each pod
is searched for. Where pods are, what is reported of them and where they are in the queue must be the same at each step;
and with and without known rejections, so must all metrics be.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from kscheduler.api.objects import (
    LabelSelector,
    Namespace,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    Service,
    ServiceSpec,
    TopologySpreadConstraint,
    Volume,
)
from kscheduler.client.protocol import PodStatusPatch
from kscheduler.config.load import parse_config
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37
from kscheduler.errors import Conflict, NotFound
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Plugin
from kscheduler.framework.search_outcomes import Decision
from kscheduler.framework.status import Code, Status, unschedulable
from kscheduler.scheduler import Options
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import NodeBuilder, PodBuilder, make_node, make_pod
from tests.scenarios.fake_extenders import HEAD, FakeExtender, endpoints, only
from tests.scenarios.plugins import Moody
from tests.support.changes import (
    cordon,
    heartbeat,
    label_pod,
    open_gates,
    relabel,
    resize,
    set_pod_phase,
    taint,
    tolerate,
)
from tests.support.seeds import sampled
from tests.support.spreads import HOSTNAME, spread
from tests.support.storage import claim, csi_volume, with_claims, with_volumes
from tests.support.world import World

EXAMPLES = int(os.environ.get("KSCHEDULER_EXAMPLES") or sampled(100))
# Metrics that depend on which searches are sampled, and on how many pods are taken from the queue at once: plugins are
# asked about all of them, and then the first of a class that is placed counts as one without kept results.
BY_CHANCE = ("scheduler_plugin_execution_duration", "scheduler_batch_attempts_total")
GPU = "example.com/gpu"
GUARDED = "guarded"
PROFILES = ("default-scheduler", "packing")
APPS = ("web", "db")
PIECE_STEPS = 2
SETTLED_S = 40.0  # after which no backoff runs any more
TIMEOUT_S = 300.0
EVENTLESS = {"Guard", "Moody", "Tally", "Extender"}  # by whose plugins no event helps
TWICE_THE_TIMEOUT_S = 700.0  # and some time more


@dataclass(frozen=True)
class Template:
    """What the replicas of one workload have in common."""

    app: str
    cpu: str
    priority: int = 0
    policy: str = ""
    zone: str = ""
    apart: str = ""  # the topology over which replicas are spread, or in which they shun each other
    shuns: bool = False
    tolerant: bool = False
    port: int = 0
    volume: str = ""  # "claim", "empty"
    gpus: int = 0
    gated: bool = False
    guarded: bool = False
    profile: str = PROFILES[0]
    grace_s: int = 1  # so long do its pods take to end, while the pod that evicted them is nominated

    def build(self, name: str) -> PodBuilder:
        pod = make_pod(name).label(app=self.app).req(cpu=self.cpu).priority(self.priority).scheduler_name(self.profile)
        pod = pod.grace_period(self.grace_s)
        if self.policy:
            pod = pod.preemption_policy(self.policy)
        if self.zone:
            pod = pod.node_selector(zone=self.zone)
        if self.tolerant:
            pod = pod.toleration("maintenance", "Exists")
        if self.port:
            pod = pod.host_port(self.port)
        if self.gpus:
            pod = pod.req(**{GPU: str(self.gpus)})
        if self.gated:
            pod = pod.scheduling_gate("example.com/later")
        if self.guarded:
            pod = pod.label(guarded="yes")
        if self.apart and self.shuns:
            pod = pod.pod_anti_affinity(self.apart, {"app": self.app})
        elif self.apart:
            stated = TopologySpreadConstraint(1, self.apart, "DoNotSchedule", LabelSelector({"app": self.app}))
            pod = PodBuilder(spread(pod.obj(), stated))
        if self.volume == "claim":
            return with_claims(pod, f"of-{self.app}")
        return with_volumes(pod, Volume()) if self.volume else pod


@dataclass(frozen=True)
class NodeShape:
    cpu: str
    zone: str
    tainted: bool = False

    def build(self, name: str) -> NodeBuilder:
        node = make_node(name).label(zone=self.zone).label(HOSTNAME, name)
        node = node.capacity(cpu=self.cpu, memory="16Gi", pods=6, **{GPU: "1"})
        return node.taint("maintenance", "", "NoSchedule") if self.tainted else node


@dataclass(frozen=True)
class Step:
    wait_s: float
    act: str
    one: int = 0
    other: int = 0
    amount: str = "1"


@dataclass(frozen=True)
class Plan:
    templates: Sequence[Template]
    replicas: int
    nodes: Sequence[NodeShape]
    steps: Sequence[Step]
    further: str = ""  # "guard", "moody", "extender"
    newer: bool = False
    latency: Latency = field(default_factory=Latency)
    seed: int = 1


class Guard:
    """Permit: lets guarded pods wait until their time is up, so that their room is free again."""

    name = "Guard"

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        is_guarded = GUARDED in (pod.pod.metadata.labels or {})
        return (Status(Code.WAIT), 3.0) if is_guarded else (None, 0.0)

    def events_to_register(self) -> tuple[()]:
        return ()


class Tally:
    """PreFilter: turns every third call away, for any pod."""

    name = "Tally"

    def __init__(self) -> None:
        self._calls = 0

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[None, Status | None]:
        self._calls += 1
        return None, unschedulable("not this time") if self._calls % 3 == 0 else None

    def events_to_register(self) -> tuple[()]:
        return ()


PRIORITIES = st.sampled_from([0, 0, 0, 5, 10])
POLICIES = st.sampled_from(["", "", "", "Never"])
templates = st.builds(
    Template,
    app=st.sampled_from(APPS),
    cpu=st.sampled_from(["0", "1", "3", "3", "100", "100"]),
    priority=PRIORITIES,
    policy=POLICIES,
    zone=st.sampled_from(["", "", "a", "c"]),
    apart=st.sampled_from(["", "", "zone", HOSTNAME]),
    shuns=st.booleans(),
    tolerant=st.sampled_from([False, False, True]),
    port=st.sampled_from([0, 0, 0, 0, 80]),
    volume=st.sampled_from(["", "", "", "empty", "claim"]),
    gpus=st.sampled_from([0, 0, 0, 1, 2]),
    gated=st.sampled_from([False, False, False, True]),
    guarded=st.booleans(),
    profile=st.sampled_from(PROFILES),
    grace_s=st.sampled_from([1, 1, 30]),
)


@st.composite
def kin(draw: st.DrawFn) -> list[Template]:
    """A template, and perhaps some that differ from it in little, as plugins may or may not see."""
    base = draw(templates)
    others = st.builds(
        replace,
        st.just(base),
        priority=PRIORITIES,
        policy=POLICIES,
        guarded=st.booleans(),
        cpu=st.sampled_from([base.cpu, base.cpu, "1"]),
        profile=st.sampled_from([base.profile, *PROFILES]),
    )
    return [base, *draw(st.lists(others, max_size=2))]


nodes = st.builds(
    NodeShape, cpu=st.sampled_from(["2", "4", "4", "110"]), zone=st.sampled_from("ab"), tainted=st.booleans()
)
ACTS = (
    "create", "create", "delete", "delete gracefully", "finish", "resize pod", "label pod", "tolerate", "open gates",
    "bind elsewhere", "add node", "delete node", "cordon", "uncordon", "taint", "untaint", "relabel", "resize node",
    "heartbeat", "service", "namespace", "budget", "claim", "mood", "nominate", "nominate",
)  # fmt: skip
steps = st.builds(
    Step,
    wait_s=st.sampled_from([0.0, 0.0, 0.01, 0.5, 3.0, 12.0]),
    act=st.sampled_from(ACTS),
    one=st.integers(0, 5),
    other=st.integers(0, 5),
    amount=st.sampled_from(["1", "2", "3", "100", "120"]),
)
plans = st.builds(
    Plan,
    templates=st.lists(kin(), min_size=1, max_size=2).map(lambda families: list(chain.from_iterable(families))),
    replicas=st.integers(2, 6),
    nodes=st.lists(nodes, min_size=1, max_size=5),
    steps=st.lists(steps, min_size=4, max_size=30),
    further=st.sampled_from(["", "", "", "", "guard", "guard", "moody", "tally", "extender"]),
    newer=st.booleans(),
    latency=st.builds(
        Latency, watch_s=st.sampled_from([0.0, 0.02]), bind_s=st.sampled_from([0.0, 0.3]), write_s=st.just(0.01)
    ),
    seed=st.integers(0, 99),
)


class Execution:
    """Does the steps of a plan; a step that finds nothing to act on does nothing."""

    def __init__(self, world: World, plan: Plan, moody: Moody) -> None:
        self._world = world
        self._plan = plan
        self._moody = moody
        self._created = 0

    def create(self, at: int) -> None:
        at %= len(self._plan.templates)
        self._world.add_pod(self._plan.templates[at].build(f"p{self._created}"))
        self._created += 1

    def act(self, step: Step) -> None:
        with contextlib.suppress(Conflict, NotFound, KeyError):  # what is not there cannot be changed
            self._act(step)

    def _act(self, step: Step) -> None:
        world, cluster = self._world, self._world.cluster
        app, node_name = APPS[step.one % len(APPS)], f"n{step.other}"
        pod_name = f"p{(7 * step.one + step.other) % max(self._created, 1)}"
        match step.act:
            case "create":
                self.create(step.one)
            case "delete" | "delete gracefully":
                cluster.delete_pod(f"default/{pod_name}", gracefully=step.act != "delete")
            case "finish":
                if world.node_of(pod_name):
                    set_pod_phase(cluster, f"default/{pod_name}", "Succeeded")
            case "bind elsewhere":
                world.bind_elsewhere(pod_name, node_name)
            case "resize pod":
                world.change_pod(pod_name, lambda pod: PodBuilder(pod).req(cpu=step.amount).obj())
            case "label pod":
                world.change_pod(pod_name, label_pod(app=app))
            case "nominate":
                self._nominate(pod_name, node_name if step.one else "")
            case "tolerate":
                world.change_pod(pod_name, tolerate("maintenance"))
            case "open gates":
                world.change_pod(pod_name, open_gates())
            case "service":
                selector = ServiceSpec(selector={"app": app})
                cluster.create_object(Service(ObjectMeta(name=app, namespace="default"), selector))
            case "namespace":
                cluster.create_object(Namespace(ObjectMeta(name="default", labels={"team": step.amount})))
            case "budget":
                cluster.create_object(_budget(app))
            case "claim":
                cluster.create_object(csi_volume(f"volume-{app}"))
                cluster.create_object(claim(f"of-{app}", f"volume-{app}"))
            case "mood":
                self._moody.in_a_mood = not self._moody.in_a_mood
            case "add node":
                world.add_node(NodeShape(step.amount, "abc"[step.one % 3]).build(node_name))
            case "delete node":
                cluster.delete_node(node_name)
            case _:
                world.change_node(node_name, self._node_changes(step)[step.act])

    def _nominate(self, pod_name: str, node_name: str) -> None:
        """Somebody else, such as an autoscaler, says where a pod is expected."""
        pod = self._world.cluster.get_pod("default", pod_name)
        self._world.cluster.patch_pod_status(pod, PodStatusPatch(nominated_node_name=node_name))

    def _node_changes(self, step: Step) -> Mapping[str, Any]:
        return {
            "cordon": cordon(),
            "uncordon": cordon(False),
            "taint": taint(),
            "untaint": taint(None),
            "relabel": relabel(zone="abc"[step.one % 3]),
            "resize node": resize(cpu=step.amount),
            "heartbeat": heartbeat(str(self._world.clock.now())),
        }


def _budget(app: str) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        ObjectMeta(name=app, namespace="default"),
        PodDisruptionBudgetSpec(LabelSelector({"app": app})),
        PodDisruptionBudgetStatus(disruptions_allowed=0),
    )


@dataclass
class Seen:
    """What users see of a scheduler's work, and where pods are in its queue after each step."""

    places: list[dict[str, object]] = field(default_factory=list)
    pods: dict[str, object] = field(default_factory=dict)
    events: list[tuple[object, ...]] = field(default_factory=list)
    metrics: set[str] = field(default_factory=set)
    repeated: int = 0
    repeated_beside_nominated: int = 0

    def look(self, world: World) -> None:
        queue = world.scheduler.queue
        flying = {queued.key: queued.attempts for queued in queue._in_flight}
        waiting = {
            queued.key: (
                queued.pool, queued.attempts, queued.unschedulable_count, queued.consecutive_errors_count,
                queued.timestamp, queued.backoff_expiration, queued.unschedulable_plugins, queued.pending_plugins,
                queued.gated_by,
            )
            for queued in queue.pending_pods()
        }  # fmt: skip
        order = [queued.key for part in queue.first_pods(1_000) for queued in part]
        nominated = {found.pod.key: found.node_name for found in world.scheduler.nominations.by_pod.values()}
        self.places.append({"flying": flying, "waiting": waiting, "order": order, "nominated": nominated})

    def end(self, world: World) -> None:
        self.pods = {key: _reported(pod) for key, pod in world.cluster.pods.items()}
        self.events = sorted(
            (each.regarding.name, each.reason, each.note, str(each.series)) for each in world.cluster.events
        )
        shown = world.metrics.exposition().decode().splitlines()
        self.metrics = {line for line in shown if line.startswith("scheduler_") and not line.startswith(BY_CHANCE)}


def _reported(pod: Pod) -> tuple[object, ...]:
    return pod.spec.node_name, pod.status.conditions, pod.status.nominated_node_name, pod.metadata.deletion_timestamp


def _world(plan: Plan, moody: Moody, *, compiled: bool) -> World:
    further: dict[str, Sequence[Plugin]] = {
        "guard": {"permit": [Guard()]},
        "moody": {"filter": [moody]},
        "tally": {"pre_filter": [Tally()]},
    }.get(plan.further, {})  # type: ignore[assignment]
    extenders = [FakeExtender(filter=only("n1"), settings={"managedResources": [{"name": GPU}]})]
    config = parse_config(
        json.dumps(
            {
                **HEAD,
                "extenders": [each.config() for each in extenders if plan.further == "extender"],
                "profiles": [{"schedulerName": name} for name in PROFILES],
            }
        ),
        release=RELEASE_1_37 if plan.newer else RELEASE_1_36,
    )
    return World(
        seed=plan.seed,
        config=config,
        latency=plan.latency,
        options=Options(compiled_lane=compiled),
        plugins=further,
        extender_endpoint=endpoints(extenders),
        expect_conditions=False,
    )


async def _begin(world: World, plan: Plan, moody: Moody, look: Callable[[], None]) -> None:
    """Do what the plan says; `look` is called before each step."""
    world.run_kubelets()
    execution = Execution(world, plan, moody)
    for at, node in enumerate(plan.nodes):
        world.add_node(node.build(f"n{at}"))
    for replica in range(plan.replicas * len(plan.templates)):
        execution.create(replica)
    for step in plan.steps:
        await world.sleep(step.wait_s)
        look()
        execution.act(step)


async def _play(plan: Plan, *, compiled: bool = True, knows: bool = True) -> Seen:
    seen, moody = Seen(), Moody()
    async with _world(plan, moody, compiled=compiled) as world:
        one = world.scheduler._schedule_one
        reject_again = one.reject_again

        def count(queued: Any) -> bool:
            is_rejected = knows and reject_again(queued)
            seen.repeated += is_rejected
            seen.repeated_beside_nominated += is_rejected and bool(world.scheduler.nominations)
            return is_rejected

        one.reject_again = count  # type: ignore[method-assign]
        await _begin(world, plan, moody, lambda: seen.look(world))
        for wait_s in (0.0, 1.0, 20.0, TWICE_THE_TIMEOUT_S):
            await world.sleep(wait_s)
            seen.look(world)
        seen.end(world)
    return seen


RANDOM = settings(
    max_examples=EXAMPLES,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


# A pod is resized in the moment in which its binding is under way, and does not fit its node any more.
RESIZED_WHILE_BOUND = Plan(
    templates=[Template("web", "0")],
    replicas=2,
    nodes=[NodeShape("2", "a")],
    steps=[*[Step(0.0, "create", 0, 0, "1")] * 3, Step(0.0, "resize pod", 0, 0, "3")],
    further="",
    newer=False,
    latency=Latency(list_s=0.0, watch_s=0.0, bind_s=0.0, write_s=0.01, jitter=0.0),
    seed=0,
)


@pytest.mark.slow
@RANDOM
@given(plans)
@example(RESIZED_WHILE_BOUND)
def test_whatever_happens_nobody_can_see_that_one_search_served_many_pods(plan: Plan) -> None:
    known = run_virtual(_play(plan))
    searched = run_virtual(_play(plan, knows=False))
    one_by_one = run_virtual(_play(plan, compiled=False))
    event(f"{'some' if known.repeated else 'no'} pods were rejected again")
    event(f"{'some' if known.repeated_beside_nominated else 'no'} pods were rejected again beside nominated ones")
    for other in (searched, one_by_one):
        assert other.repeated == 0
        for at, (expected, found) in enumerate(zip(other.places, known.places, strict=True)):
            assert found == expected, f"after {at} steps"
        assert known.pods == other.pods
        assert known.events == other.events
    assert known.metrics ^ searched.metrics == set()


async def _forgotten(plan: Plan) -> list[str]:
    """Return the pods that wait for an event although a search would find a node for them now.

    Waking is done in pieces of two steps, so that other events, decisions and bindings come in between.
    """
    moody = Moody()
    async with _world(plan, moody, compiled=True) as world:
        world.scheduler.queue._waker._piece_steps = PIECE_STEPS
        await _begin(world, plan, moody, lambda: None)
        await world.sleep(SETTLED_S)
        queue = world.scheduler.queue
        assert not queue.is_waking
        found = []
        for queued in list(queue._unschedulable.rejected.values()):
            if world.clock.now() - queued.timestamp >= TIMEOUT_S or queued.unschedulable_plugins & EVENTLESS:
                continue
            framework = world.scheduler.profiles[queued.pod_info.pod.spec.scheduler_name]
            decided = framework.schedule_pod(CycleState(), queued.pod_info)
            if isinstance(decided, Decision):
                found.append(f"{queued.key}, rejected by {sorted(queued.unschedulable_plugins)}: {decided.node_name}")
        return found


@pytest.mark.slow
@RANDOM
@given(plans)
def test_no_pod_waits_for_the_timeout_that_would_fit_at_once(plan: Plan) -> None:
    assert run_virtual(_forgotten(plan)) == []
