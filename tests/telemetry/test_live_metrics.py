"""Live metrics within a scheduler, in virtual time: when they start, who waits for them, and who is woken."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Mapping
from typing import Any

import pytest

from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.client.kinds import METRIC_POLICIES
from kscheduler.client.times import rfc3339
from kscheduler.command.replica import Replica
from kscheduler.config.load import default_config, parse_config
from kscheduler.config.metric_policy import Freshness, Source
from kscheduler.explain.explainer import Leadership
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.framework.events import METRICS_CHANGED, ClusterEvent
from kscheduler.framework.telemetry import Telemetry
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import Options, Scheduler
from kscheduler.serving.health import Health
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import LoopClock, VirtualTimeLoop
from kscheduler.telemetry.live_metrics import LiveMetrics
from kscheduler.telemetry.source import MakeSource
from kscheduler.testing import make_node, make_pod
from tests.support.world import in_virtual_time
from tests.telemetry.fakes import FakeSource

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: MetricPolicy
    args:
      sources: [{name: cluster, resourceMetrics: {}}]
      metrics: [{name: load, source: cluster, resource: cpu}]
"""
PATH = "/apis/metrics.k8s.io/v1beta1"


class Bench:
    """A scheduler over two nodes, and the tasks of one replica that does not lead yet; `beside` another one's."""

    def __init__(
        self, config: str = CONFIG, make_source: MakeSource | None = None, *, beside: Bench | None = None
    ) -> None:
        self.clock = LoopClock(asyncio.get_running_loop())
        self.cluster: Cluster = Cluster(self.clock) if beside is None else beside.cluster
        self.client = self.cluster.client()
        self.metrics = Metrics(process=False)
        if beside is None:
            for name in ("a", "b"):
                self.cluster.create_node(make_node(name).capacity(cpu=4, memory="8Gi", pods=10).obj())
        self.scheduler = Scheduler(
            self.client,
            parse_config(config),
            clock=self.clock,
            rng=random.Random(1),
            metrics=self.metrics,
            stopwatch=self.clock.now,
            options=Options(explain=DecisionLogOptions()),
            metric_source=make_source,
        )
        self.tasks = [asyncio.ensure_future(self.scheduler.observe())]

    @property
    def live(self) -> LiveMetrics:
        assert self.scheduler.live_metrics is not None
        return self.scheduler.live_metrics

    def serve(self, timestamp: str = "", **cpu: str) -> None:
        """The metrics server says that nodes use, or at that time used, so much."""
        document: Mapping[str, Any] = {
            "items": [
                {"metadata": {"name": name}, "timestamp": timestamp, "window": "1s", "usage": {"cpu": used}}
                for name, used in cpu.items()
            ]
        }
        self.cluster.aggregated[PATH] = lambda path: json.dumps(document).encode()

    def lead(self) -> None:
        self.tasks.append(asyncio.ensure_future(self.scheduler.schedule()))

    @property
    def values(self) -> list[float]:
        return list(self.live.telemetry.column("load", Freshness()).values)

    def node_of(self, name: str) -> str:
        return self.cluster.pods[f"default/{name}"].spec.node_name

    async def place(self, *names: str) -> list[str]:
        for name in names:
            self.cluster.create_pod(make_pod(name).req(cpu="100m").obj())
        await asyncio.sleep(1)
        return [self.node_of(name) for name in names]

    async def points(self, name: str) -> dict[str, int]:
        """What the policy gives each node for a pod of this name, which is taken away again."""
        await self.place(name)
        uid = self.cluster.pods[f"default/{name}"].metadata.uid
        self.cluster.delete_pod(f"default/{name}")
        await asyncio.sleep(1)
        assert self.scheduler.decisions is not None
        details = self.scheduler.decisions.ring.of(uid)[0].details
        assert details is not None
        return {
            node.node: score.raw for node in details.best for score in node.plugins if score.plugin == "MetricPolicy"
        }

    async def end(self) -> None:
        await cancel_and_wait(*self.tasks)


def hanging(config: Source) -> FakeSource:
    source = FakeSource()
    source.hangs = True
    return source


def failing(config: Source) -> FakeSource:
    source = FakeSource()
    source.fail()
    return source


@in_virtual_time
async def test_a_standby_knows_the_values_before_it_leads() -> None:
    bench = Bench()
    bench.serve(a="1", b="3")
    await asyncio.sleep(1)
    assert bench.values == [0.25, 0.75]
    await bench.end()


@in_virtual_time
async def test_decisions_wait_for_the_first_answer_but_not_for_long() -> None:
    bench = Bench(make_source=hanging)
    bench.cluster.create_pod(make_pod("p").req(cpu="1").obj())
    bench.lead()
    await asyncio.sleep(1.9)
    assert bench.node_of("p") == ""
    await asyncio.sleep(0.2)
    assert bench.node_of("p") != ""
    await bench.end()


@in_virtual_time
async def test_a_replica_that_starts_beside_a_source_that_hangs_decides_after_two_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(VirtualTimeLoop, "add_signal_handler", lambda *_: None, raising=False)
    bench = Bench(make_source=hanging)
    await bench.end()
    bench.cluster.create_pod(make_pod("p").req(cpu="1").obj())
    bench.tasks = [asyncio.ensure_future(Replica(bench.scheduler, clock=bench.clock, make_server=None).run())]
    await asyncio.sleep(1.9)
    assert bench.node_of("p") == ""
    await asyncio.sleep(0.3)
    assert bench.node_of("p") != ""
    await bench.end()


@in_virtual_time
async def test_the_dump_says_of_a_metric_why_its_source_which_answers_says_nothing_of_use() -> None:
    bench = Bench()
    bench.serve(elsewhere="1")
    await asyncio.sleep(20)
    (dumped,) = bench.live.telemetry.describe()
    assert dumped["err"] == "expected a value for each node, got none that can be used: unknown_node"
    assert dumped["refused"] == ["unknown_node"]
    await bench.end()


@in_virtual_time
async def test_pods_are_placed_at_the_same_pace_while_a_source_hangs() -> None:
    bench = Bench(make_source=hanging)
    bench.lead()
    await asyncio.sleep(60)
    for number in range(10):
        bench.cluster.create_pod(make_pod(f"p{number}").req(cpu="100m").obj())
    await asyncio.sleep(0.01)
    assert all(pod.spec.node_name for pod in bench.cluster.pods.values())
    assert bench.live.telemetry.failures("load") > 0
    await bench.end()


@in_virtual_time
async def test_new_values_are_an_event_for_waiting_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.serve(a="1", b="3")
    await asyncio.sleep(1)
    assert bench.values == [0.25, 0.75]
    events: list[ClusterEvent] = []
    queue = bench.scheduler.queue
    original = queue.move_all_to_active_or_backoff

    def move(event: ClusterEvent, old: object, new: object, now: float) -> None:
        events.append(event)
        original(event, old, new, now)

    monkeypatch.setattr(queue, "move_all_to_active_or_backoff", move)
    bench.serve(a="2", b="3")
    await asyncio.sleep(17)
    assert events == [METRICS_CHANGED]
    await bench.end()


@in_virtual_time
async def test_what_is_seen_of_sources_is_in_the_metrics_and_the_dump() -> None:
    bench = Bench()
    await asyncio.sleep(60)
    requests = bench.metrics.metric_source_requests_total
    assert requests.labels("cluster", "error").value >= 3
    bench.serve(a="1", gone="1")
    await asyncio.sleep(45)
    text = bench.metrics.exposition().decode()
    assert requests.labels("cluster", "success").value >= 1
    assert 'kscheduler_metric_nodes{metric="load",state="fresh"} 1.0' in text
    assert 'kscheduler_metric_nodes{metric="load",state="absent"} 1.0' in text
    assert 'kscheduler_metric_samples_refused_total{metric="load",reason="unknown_node"}' in text
    assert 'kscheduler_metric_source_breaker_state{source="cluster"} 0.0' in text
    assert bench.live.describe()["sources"] == {"cluster": "answers"}
    await bench.end()


@in_virtual_time
@pytest.mark.parametrize(("make_source", "fault"), [(hanging, "no answer within 5 s"), (failing, "asked to")])
async def test_a_source_that_fails_for_ever_never_makes_the_pod_unhealthy_and_is_in_the_dump(
    make_source: MakeSource, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(make_source=make_source)
    replica = Replica(bench.scheduler, clock=bench.clock, make_server=None)
    health = Health()
    replica.add_checks(health, "kube-scheduler", 15.0)
    assert bench.live.describe()["sources"] == {"cluster": "not asked yet"}
    bench.lead()
    for _ in range(10):
        await asyncio.sleep(60)
        assert all(health.ask(endpoint).ok for endpoint in health.endpoints)
    with caplog.at_level("INFO"):
        replica.dump()
    (dumped,) = (record.__dict__ for record in caplog.records if record.message == "dump of live metrics")
    assert re.fullmatch(rf"\d+ failures in a row, breaker (half-)?open: {fault}", dumped["sources"]["cluster"])
    nodes = {"fresh": 0, "stale": 0, "absent": 2}
    assert dumped["metrics"] == [
        {"metric": "load", "age_s": None, **nodes, "fresh_for_s": 45.0, "err": fault, "refused": []}
    ]
    await bench.end()


@in_virtual_time
async def test_without_the_right_to_policies_the_pod_is_ready_too() -> None:
    bench = Bench(CONFIG + "      policyObjects: true\n")
    bench.client.faults.add(FaultKind.SERVER_ERROR, Verb.LIST, resource=METRIC_POLICIES.plural, count=1000)
    health = Health()
    Replica(bench.scheduler, clock=bench.clock, make_server=None).add_checks(health, "kube-scheduler", 15.0)
    await asyncio.sleep(60)
    assert not bench.live.policies.informers[0].synced.is_set()
    assert health.ask("readyz", verbose=True).text == "[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n"
    await bench.end()


@in_virtual_time
async def test_the_plugins_handle_lends_what_runs() -> None:
    bench = Bench()
    assert bench.scheduler._handle.telemetry is bench.live.telemetry
    await bench.end()
    plain = Scheduler(
        bench.cluster.client(),
        default_config(),
        clock=bench.clock,
        rng=random.Random(1),
        metrics=Metrics(process=False),
        stopwatch=bench.clock.now,
    )
    assert plain.live_metrics is None
    assert type(plain._handle.telemetry) is Telemetry


POLICY = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled: [{name: MetricPolicy, weight: 100}]
  pluginConfig:
  - name: MetricPolicy
    args:
      sources: [{name: cluster, resourceMetrics: {}}]
      metrics: [{name: load, source: cluster, resource: cpu}]
      policies:
      - name: idle
        filter: [{metric: load, operator: LessThan, value: 900m, fallback: Neutral}]
        score: [{metric: load, goal: Minimize, range: {min: 0, max: 1}}]
        planB: {afterFailures: 3, action: Drop}
      defaultPolicy: idle
"""


@in_virtual_time
async def test_pods_go_where_the_load_is_least_and_anywhere_while_nobody_knows_it() -> None:
    bench = Bench(POLICY)
    bench.serve(a="3", b="0")
    bench.lead()
    await asyncio.sleep(1)

    # 1. By load.
    assert await bench.place("p0", "p1", "p2") == ["b", "b", "b"]
    # 2. By the newest load.
    bench.serve(a="0", b="4")
    await asyncio.sleep(20)
    assert await bench.place("p3", "p4") == ["a", "a"]
    # 3. The source is gone, then its values are too old: as if there were no policy. b has more pods.
    del bench.cluster.aggregated[PATH]
    await asyncio.sleep(300)
    assert bench.live.telemetry.plans_b() == {"idle": True}
    assert set(await bench.place(*(f"q{number}" for number in range(10)))) == {"a", "b"}
    # 4. It answers again.
    bench.serve(a="4", b="0")
    await asyncio.sleep(60)
    assert bench.live.telemetry.plans_b() == {"idle": False}
    assert await bench.place("p5") == ["b"]
    await bench.end()


@in_virtual_time
async def test_a_pod_that_no_node_is_idle_enough_for_is_placed_when_one_is() -> None:
    bench = Bench(POLICY)
    bench.serve(a="4", b="4")
    bench.lead()
    await asyncio.sleep(1)
    bench.cluster.create_pod(make_pod("p").req(cpu="100m").obj())
    await asyncio.sleep(60)
    assert bench.node_of("p") == ""
    bench.serve(a="4", b="1")
    await asyncio.sleep(30)
    assert bench.node_of("p") == "b"
    await bench.end()


BURST = POLICY.replace("range: {min: 0, max: 1}}", "range: {min: 0, max: 1}, selfLoad: {resource: cpu}}")


@in_virtual_time
async def test_a_new_leader_gives_nodes_the_points_that_the_old_one_gave_them() -> None:
    """Six pods come between two samples, and one that was there goes."""
    old = Bench(BURST)
    await asyncio.sleep(5)
    old.lead()
    assert await old.place("there") == ["b"]
    standby = Bench(BURST, beside=old)
    await asyncio.sleep(5)
    sampled = rfc3339(old.clock.wall())
    await asyncio.sleep(10)
    old.serve(sampled, a="1", b="1200m")
    await asyncio.sleep(20)
    placed = await old.place(*(f"p{number}" for number in range(6)))
    old.cluster.delete_pod("default/there")
    points = await old.points("probe")
    assert placed.count("a") == 4
    assert points == {"a": 65, "b": 68}
    # 1. The standby leads.
    await old.end()
    standby.lead()
    await asyncio.sleep(1)
    assert await standby.points("another") == points
    # 2. A replica that was not there yet does; but it cannot know of the pod that left, whose node looks fuller.
    await standby.end()
    late = Bench(BURST, beside=old)
    late.lead()
    await asyncio.sleep(1)
    assert await late.points("last") == {"a": 65, "b": 65}
    await late.end()


PLAN_B = "planB: {afterFailures: 3, action: Drop}"
WAITING = POLICY.replace("fallback: Neutral", "fallback: Requeue").replace(PLAN_B, "decisionDeadline: 60s")


@in_virtual_time
async def test_a_change_of_leader_makes_no_pod_wait_longer_for_metrics() -> None:
    """Its deadline is a minute; the leader changes after half of it."""
    old = Bench(WAITING, failing)
    await asyncio.sleep(5)
    old.lead()
    await asyncio.sleep(5)
    old.cluster.create_pod(make_pod("p").req(cpu="100m").obj())
    await asyncio.sleep(30)
    assert old.node_of("p") == ""
    await old.end()
    new = Bench(WAITING, failing, beside=old)
    new.lead()
    await asyncio.sleep(27)
    assert new.node_of("p") == ""
    await asyncio.sleep(4)
    assert new.node_of("p") != ""
    await new.end()


@in_virtual_time
async def test_an_explanation_has_the_values_of_the_best_nodes_and_of_those_that_a_rule_left_out() -> None:
    bench = Bench(BURST)
    sampled = rfc3339(bench.clock.wall())
    bench.serve(sampled, a="3800m", b="2")
    bench.lead()
    await asyncio.sleep(5)
    await bench.place("p", "q")
    assert bench.scheduler.decisions is not None
    explainer = bench.scheduler.explainer(lambda: Leadership("a", True, "a"))
    assert explainer is not None
    found = explainer.explain("default/q")
    assert found is not None
    b, b_with_pods, a, _ = found["decisions"][0]["values"]
    assert (b["node"], b["read"], b["used"], b["selfLoad"]) == ("b", 0.5, 0.5, 0.0)
    assert (b_with_pods["node"], b_with_pods["used"], b_with_pods["selfLoad"]) == ("b", 0.525, pytest.approx(0.025))
    assert 4.0 < b["ageSeconds"] < 7.0
    assert (a["node"], a["used"]) == ("a", 0.95)
    assert found["decisions"][0]["reasons"][0]["reasons"] == ["node(s) didn't satisfy metric rule load < 900m"]
    await bench.end()
