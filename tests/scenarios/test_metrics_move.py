"""Every metric family that a scheduler feeds by itself changes its value in one of these scenarios."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace as changed

from kscheduler.api.elastic_quotas import ElasticQuota, ElasticQuotaSpec
from kscheduler.api.objects import MetricPolicyObject, ObjectMeta, Taint
from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.config.load import parse_config
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.telemetry.source import SourceError
from kscheduler.testing import make_pod
from tests.scenarios.fake_extenders import FakeExtender, all_pass, configured, endpoints
from tests.scenarios.gangs import BY_LABEL, HEAD, gang, members, reserving
from tests.scenarios.plugins import Guard, Moody
from tests.scenarios.policies import BELOW_HALF, config, pod, source_of, world_of
from tests.scenarios.share_queues import CONFIG as SHARING
from tests.scenarios.share_queues import LABEL, queue
from tests.support.moving_families import (
    CONSTANT,
    OF_1_37,
    OF_A_PROCESS,
    OF_CLAIMS,
    OF_POD_GROUPS,
    declared,
    moved,
    pointed_to,
)
from tests.support.world import World

TAINT = Taint(key="dedicated", value="others", effect="PreferNoSchedule")
POLICY_OBJECTS = """
- schedulerName: follows-objects
  plugins: {multiPoint: {enabled: [{name: MetricPolicy}]}}
  pluginConfig:
  - name: MetricPolicy
    args:
      sources: [{name: fake, prometheus: {url: "http://127.0.0.1:9"}, interval: 10s, timeout: 2s}]
      metrics: [{name: load, source: fake, query: load}]
      policyObjects: true
"""


class Watched:
    """Collects the families that moved between the start and the end of each scenario."""

    def __init__(self) -> None:
        self.families: set[str] = set()

    def note(self, world: World, before: str) -> None:
        self.families |= moved(before, world.metrics.exposition().decode())


async def placing_and_rejecting(watched: Watched) -> None:
    """Pods that fit, one that never does, one that is woken by a node, and one whose name is bound elsewhere."""
    async with World() as world:
        before = world.metrics.exposition().decode()
        world.exempt = {"default/unreadable"}
        world.add_node("n1", cpu="8")
        world.add_pod(make_pod("unreadable").req(cpu="a lot"))
        for index in range(40):
            # A host port sends each to the general lane, which measures single plugins in a tenth of the cycles.
            world.add_pod(make_pod(f"p{index}").req(cpu="100m").host_port(8000 + index))
        world.add_pod(make_pod("large").req(cpu="12"))
        world.client.faults.add(FaultKind.CONFLICT, Verb.BIND, count=1)
        await world.until(lambda: len(world.pending()) <= 2)
        await world.until(lambda: world.condition("large") is not None)
        watched.note(world, before)
        world.add_node("n2", cpu="16")
        await world.until(lambda: bool(world.node_of("large")), within_s=400)
        # While a pod's binding is under way, an event is kept for it.
        world.client.faults.add(FaultKind.SLOW, Verb.BIND, delay_s=2.0)
        world.add_pod(make_pod("slow").req(cpu="100m"))
        await world.sleep(1.0)
        watched.note(world, before)
        await world.until(lambda: len(world.pending()) == 1)


async def placing_pods_that_are_equal(watched: Watched) -> None:
    """What was kept of them is dropped when a taint changes the plugins' answers."""
    async with World() as world:
        before = world.metrics.exposition().decode()
        world.add_nodes(3)
        for round_ in range(2):
            for index in range(10):
                world.add_pod(make_pod(f"p{round_}-{index}").req(cpu="100m"))
            await world.until(world.all_bound)
            world.change_node("n0", lambda node: changed(node, spec=changed(node.spec, taints=(TAINT,))))
        watched.note(world, before)


async def preempting(watched: Watched) -> None:
    async with World() as world:
        before = world.metrics.exposition().decode()
        world.run_kubelets()
        world.add_node("n1", cpu="1")
        world.add_pod(make_pod("victim").req(cpu="1").priority(1))
        await world.until(world.all_bound)
        world.add_pod(make_pod("preemptor").req(cpu="1").priority(100))
        await world.until(lambda: "default/victim" not in world.cluster.pods and world.all_bound())
        watched.note(world, before)


async def waiting_for_permission(watched: Watched) -> None:
    async with World(plugins={"permit": [Guard()]}) as world:
        before = world.metrics.exposition().decode()
        world.add_node("n1")
        made = world.add_pod(make_pod("p"))
        await world.until(lambda: world.scheduler.waiting_pods.get(made.metadata.uid) is not None)
        waiting = world.scheduler.waiting_pods.get(made.metadata.uid)
        assert waiting is not None
        waiting.allow("Guard")
        await world.until(world.all_bound)
        watched.note(world, before)


async def woken_by_the_sweep_alone(watched: Watched) -> None:
    moody = Moody()
    async with World(plugins={"filter": [moody]}) as world:
        before = world.metrics.exposition().decode()
        world.add_node("n1")
        world.add_pod(make_pod("p"))
        await world.until(lambda: world.condition("p") is not None)
        moody.in_a_mood = False
        await world.until(world.all_bound, within_s=400)
        watched.note(world, before)


async def asking_an_extender(watched: Watched) -> None:
    one = FakeExtender(filter=all_pass)
    async with World(config=configured(one), extender_endpoint=endpoints((one,))) as world:
        before = world.metrics.exposition().decode()
        world.add_node("n1")
        world.add_pod(make_pod("p"))
        await world.until(world.all_bound)
        watched.note(world, before)


async def losing_events(watched: Watched) -> None:
    async with World() as world:
        before = world.metrics.exposition().decode()
        world.client.faults.add(FaultKind.NOT_FOUND, Verb.CREATE_EVENT)
        world.add_node("n1")
        world.add_pod(make_pod("p"))
        await world.until(world.all_bound)
        await world.sleep(5.0)
        watched.note(world, before)


async def following_live_metrics(watched: Watched) -> None:
    """Values that are too high, one that is no number, a source that fails, steps, a deadline and plan B."""
    policy = (
        BELOW_HALF.replace("0.5}", "0.5, fallback: Exclude}")
        + ", relaxation: [{after: 20s, loosen: [{metric: load, value: 0.95}]}]"
        + ", decisionDeadline: 300s, planB: {afterFailures: 3}"
    )
    source = source_of(0.9, float("nan"))
    async with world_of(policy, source) as world:
        before = world.metrics.exposition().decode()
        world.add_node("n0", cpu="10")
        world.add_node("n1", cpu="10")
        world.add_pod(pod("p"))
        await world.until(world.all_bound, within_s=120)
        source.failure = SourceError("out of order")
        await world.sleep(120.0)
        watched.note(world, before)


async def following_policies_as_objects(watched: Watched) -> None:
    with_objects = config("score: [{metric: load}]", further=POLICY_OBJECTS)
    async with World(config=with_objects, metric_source=lambda _: source_of(0.5)) as world:
        before = world.metrics.exposition().decode()
        spec: dict[str, Any] = {"score": [{"metric": "load"}]}
        world.cluster.create_object(MetricPolicyObject(metadata=ObjectMeta(name="mine", namespace="shop"), spec=spec))
        await world.sleep(10.0)
        watched.note(world, before)


async def waiting_for_metrics_up_to_the_deadline(watched: Watched) -> None:
    source = source_of(0.2)
    source.fail()
    async with world_of(BELOW_HALF.replace("0.5}", "0.5, fallback: Requeue}") + ", decisionDeadline: 47s", source) as w:
        before = w.metrics.exposition().decode()
        w.add_node("n0", cpu="10")
        w.add_pod(pod("p"))
        await w.until(w.all_bound, within_s=120)
        watched.note(w, before)


async def keeping_a_quota(watched: Watched) -> None:
    profiles = "profiles: [{plugins: {preFilter: {enabled: [{name: CapacityScheduling}]}}}]\n"
    async with World(config=parse_config(HEAD + profiles)) as world:
        before = world.metrics.exposition().decode()
        world.add_node("n1")
        spec = ElasticQuotaSpec({"cpu": "4"}, {"cpu": "4"})
        world.cluster.create_object(ElasticQuota(ObjectMeta(name="quota", namespace="default"), spec))
        world.add_pod(make_pod("p").req(cpu="1"))
        await world.until(world.all_bound)
        watched.note(world, before)


async def sharing_by_queues(watched: Watched) -> None:
    async with World(config=parse_config(SHARING)) as world:
        before = world.metrics.exposition().decode()
        world.cluster.create_object(queue("a"))
        world.add_node("n1")
        world.add_pod(make_pod("p").label(LABEL, "a").req(cpu="1"))
        await world.until(world.all_bound)
        watched.note(world, before)


async def reserving_room_for_a_gang(watched: Watched) -> None:
    """It has failed for longer than the configured time."""
    async with World(config=reserving(10)) as world:
        world.add_nodes(1)
        world.add_pod(make_pod("old").req(cpu=4))
        await world.until(world.all_bound)
        before = world.metrics.exposition().decode()
        world.cluster.create_object(gang("train", 2))
        for each in members("train", 2):
            world.add_pod(each)
        await world.sleep(20)
        watched.note(world, before)
        world.cluster.delete_pod("default/old")
        await world.until(world.all_bound)
        watched.note(world, before)


async def losing_a_member_of_a_gang(watched: Watched) -> None:
    """It is replaced by a pod for which there is no room, so that the gang stays broken."""
    async with World(config=BY_LABEL, expect_conditions=False) as world:
        before = world.metrics.exposition().decode()
        world.add_node("n1", cpu="4")
        world.cluster.create_object(gang("train", 2))
        for member in members("train", 2):
            world.add_pod(member)
        await world.until(world.all_bound)
        world.cluster.delete_pod("default/train-0")
        world.add_pod(make_pod("large").label(POD_GROUP_LABEL, "train").req(cpu="8"))
        await world.sleep(120.0)
        watched.note(world, before)
        world.add_node("n2", cpu="16")
        await world.until(world.all_bound, within_s=400)


SCENARIOS: tuple[Callable[[Watched], Coroutine[Any, Any, None]], ...] = (
    placing_and_rejecting,
    placing_pods_that_are_equal,
    preempting,
    waiting_for_permission,
    woken_by_the_sweep_alone,
    asking_an_extender,
    losing_events,
    following_live_metrics,
    following_policies_as_objects,
    waiting_for_metrics_up_to_the_deadline,
    keeping_a_quota,
    sharing_by_queues,
    losing_a_member_of_a_gang,
    reserving_room_for_a_gang,
)


def test_every_family_that_a_scheduler_feeds_moves_in_a_scenario() -> None:
    watched = Watched()
    for scenario in SCENARIOS:
        run_virtual(scenario(watched))
    expected = declared() - OF_A_PROCESS - CONSTANT - OF_1_37 - OF_CLAIMS - OF_POD_GROUPS
    assert expected - watched.families == set()


def test_dashboard_rules_and_guides_name_families_that_exist_only() -> None:
    unknown = {name: where for name, where in pointed_to().items() if name not in declared()}
    assert not unknown


def test_families_of_a_process_are_declared() -> None:
    assert declared() >= OF_A_PROCESS | CONSTANT
