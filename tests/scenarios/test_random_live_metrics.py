"""Random metric policies over sources that fail, hang, lie and go backwards: scores stay in bounds, pods are placed.

A plan is drawn first, as in `test_random`. Its policy lets pods wait for metrics for a limited time, and drops all its
filter rules for one that has waited for long: so every pod is placed in time, whatever the source answers. Then the
source tells the truth again, and the next pod goes where the policy wants it.
"""

from __future__ import annotations

import json
import logging
import math
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kscheduler.config.load import parse_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.framework.plugins.registry import known_plugins
from kscheduler.scheduler import Options
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.testing import make_pod
from tests.scenarios.policies import source_of
from tests.support.seeds import sampled
from tests.support.world import World
from tests.telemetry.fakes import FakeSource

EXAMPLES = sampled(800)
INTERVAL_S = 10
URL = "http://127.0.0.1:9"  # a fake stands in for it
DEADLINE_S, DROP_AFTER_S = 40, 60  # of the policy
# A pod is tried again at the moment at which it waits no longer, whatever its backoff. Each question to a source that
# fails has it tried again as well, so a longer time would not show whether that moment is kept.
SOON_S = 2.0
PLACED_S = DROP_AFTER_S + SOON_S
TRUE_AGAIN_S = 120.0  # a breaker's pause and a time ahead that was believed are over
NODES, ALWAYS = 4, 2  # the first ones never go
TRUTH = (0.9, 0.1, 0.5, 0.7)  # the load of each node
SCORE = 100  # the most that a plugin gives
SOURCES_FAULT = "a fault of the source"
NAN, INF = math.nan, math.inf


@dataclass(frozen=True)
class Step:
    """Wait, then do what `act` names to a node, to the source, or to the pods."""

    wait_s: float
    act: str
    node: int
    value: float
    ahead_s: float | None  # of the stamp of the node's next samples; None: they have none


@dataclass(frozen=True)
class Plan:
    seed: int
    is_explained: bool  # then each decision is made by the general lane, with its scores
    answers_at_first: bool
    metric: dict[str, Any]
    policy: dict[str, Any]
    steps: list[Step]


FALLBACKS = st.sampled_from(["Neutral", "LastGood", "Exclude", "Requeue"])
FRESHNESS = st.sampled_from([{}, {"maxAge": "15s"}, {"cadences": 2}])


def rule(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    """A rule over the load, with these fields and a random fallback, freshness and own load."""
    own = st.sampled_from([None, {"resource": "cpu"}, {"resource": "example.com/none"}, {"perPod": "0.01"}])
    drawn = {"fallback": FALLBACKS, "freshness": FRESHNESS, "selfLoad": own}
    return st.fixed_dictionaries({"metric": st.just("load"), **fields, **drawn})


def goal(name: str, **fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    ranges = st.sampled_from([None, {"min": 0, "max": 1}, {"min": "0.4", "max": "0.6"}])
    return rule(goal=st.just(name), range=ranges, weight=st.sampled_from([1, 3]), **fields)


DEVIATION = {"metric": "deviation", "margin": 1, "sensitivity": 2}
goals = st.one_of(
    goal("Minimize"),
    goal("Maximize"),
    goal("Target", target=st.sampled_from(["0.45", "0.5"])),
    goal("LowRisk", deviation=st.just(DEVIATION)),
)
filters = rule(
    operator=st.sampled_from(["LessThan", "GreaterThanOrEqual", "NotEquals"]),
    value=st.sampled_from(["0.5", "0", "1Ei"]),
)
policies = st.fixed_dictionaries(
    {
        "score": st.lists(goals, max_size=2),
        "filter": st.lists(filters, max_size=1),
        "planB": st.sampled_from([None, {"afterFailures": 2, "action": "Drop"}]),
    }
).filter(lambda policy: policy["score"] or policy["filter"])
metrics = st.fixed_dictionaries(
    {
        "clamp": st.sampled_from([{}, {"min": 0, "max": 1}, {"outliers": 3}]),
        "smoothing": st.sampled_from([0, 0.5, 0.9]),
        "window": st.sampled_from(["0s", "60s"]),
    }
)
ACTS = [
    "create pods", "create pods", "create pods", "delete pods", "add node", "delete node",
    "value", "value", "value", "value", "forget metric", "unknown node", "fail", "hang", "raise", "answer", "answer",
]  # fmt: skip
steps = st.builds(
    Step,
    wait_s=st.sampled_from([0.0, 1.0, 5.0, 12.0, 45.0]),
    act=st.sampled_from(ACTS),
    node=st.integers(0, NODES - 1),
    value=st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0, -1.0, 7.0, 5e-324, 1e308, -1e308, NAN, INF, -INF]),
    ahead_s=st.sampled_from([None, None, 0.0, -5.0, -3600.0, 30.0, 3600.0, 1e300, -1e300, NAN, INF, -INF]),
)
plans = st.builds(
    Plan,
    seed=st.integers(0, 2**16),
    is_explained=st.booleans(),
    answers_at_first=st.booleans(),
    metric=metrics,
    policy=policies,
    steps=st.lists(steps, min_size=8, max_size=40),
)


def config_of(plan: Plan) -> SchedulerConfig:
    policy = {
        **plan.policy,
        "name": "default",
        "decisionDeadline": f"{DEADLINE_S}s",
        "relaxation": [{"after": f"{DROP_AFTER_S}s", "dropAll": True}] if plan.policy["filter"] else None,
    }
    arguments = {
        "sources": [{"name": "fake", "prometheus": {"url": URL}, "interval": f"{INTERVAL_S}s", "timeout": "2s"}],
        "metrics": [
            {"name": "load", "source": "fake", "query": "load", **plan.metric},
            {"name": "deviation", "source": "fake", "query": "deviation"},
        ],
        "defaultPolicy": "default",
        "policies": [policy],
    }
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"multiPoint": {"enabled": [{"name": "MetricPolicy", "weight": 10}]}},
        "pluginConfig": [{"name": "MetricPolicy", "args": arguments}],
    }
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return parse_config(json.dumps(_without_nothing({**head, "profiles": [profile]})), find_plugins=known_plugins)


def _without_nothing(item: Any) -> Any:
    """The item without fields that are None."""
    if isinstance(item, dict):
        return {key: _without_nothing(value) for key, value in item.items() if value is not None}
    return [_without_nothing(each) for each in item] if isinstance(item, list) else item


class Execution:
    """Does the steps of a plan to a world and its source, and judges what the scheduler decides."""

    def __init__(self, world: World, source: FakeSource, placed_s: float) -> None:
        self._world = world
        self._source = source
        self._placed_s = placed_s
        self._pods = 0
        self._waits_since: dict[str, float] = {}  # name of a pod without a node -> when it was created
        for number in range(NODES):
            self.add_node(number)
        self.tell_the_truth()

    def add_node(self, number: int) -> None:
        if f"n{number}" not in self._world.cluster.nodes:
            self._world.add_node(f"n{number}", cpu="100", memory="1Ti", pods=1000)

    def tell_the_truth(self) -> None:
        source = self._source
        source.values = {
            "load": {f"n{number}": load for number, load in enumerate(TRUTH)},
            "deviation": {f"n{number}": 0.1 for number in range(NODES)},
        }
        source.stamps.clear()
        self._answer()

    def _answer(self) -> None:
        self._source.failure, self._source.hangs = None, False

    async def do(self, step: Step) -> None:
        await self._world.sleep(step.wait_s)
        self.check()
        self._act_on_cluster(step)
        self._act_on_source(step)

    def _act_on_cluster(self, step: Step) -> None:
        cluster = self._world.cluster
        if step.act == "create pods":
            self.create_pod()
            self.create_pod()
        elif step.act == "delete pods":
            self.delete_pods()
        elif step.act == "add node":
            self.add_node(step.node)
        elif step.act == "delete node" and step.node >= ALWAYS and f"n{step.node}" in cluster.nodes:
            cluster.delete_node(f"n{step.node}")

    def create_pod(self) -> str:
        self._pods += 1
        name = f"p{self._pods}"
        self._world.add_pod(make_pod(name).req(cpu="1"))
        self._waits_since[name] = self._world.clock.now()
        return name

    def delete_pods(self) -> None:
        for key in list(self._world.cluster.pods):
            self._world.cluster.delete_pod(key)
        self._waits_since.clear()

    def _act_on_source(self, step: Step) -> None:
        source, name = self._source, f"n{step.node}"
        if step.act == "value":
            source.values.setdefault("load", {})[name] = step.value
            source.values.setdefault("deviation", {})[name] = -step.value
            source.stamps.pop(name, None)
            if step.ahead_s is not None:
                source.stamps[name] = self._world.clock.wall() + step.ahead_s
        elif step.act == "forget metric":
            source.values.pop("load", None)
        elif step.act == "unknown node":
            source.values.setdefault("load", {})["nobody"] = step.value
        elif step.act == "fail":
            source.fail()
        elif step.act == "hang":
            source.hangs = True
        elif step.act == "raise":
            source.failure = ValueError(SOURCES_FAULT)
        elif step.act == "answer":
            self._answer()

    # --- what must hold -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """All pods are placed in time, with scores that are in bounds."""
        world, now = self._world, self._world.clock.now()
        for name in [name for name in self._waits_since if world.node_of(name)]:
            del self._waits_since[name]
        late = [name for name, since in self._waits_since.items() if now - since > self._placed_s]
        assert not late, f"{late} wait: {[world.condition(name) for name in late[:3]]}. {world.describe()}"
        self._check_scores()

    def _check_scores(self) -> None:
        decisions = self._world.scheduler.decisions
        for record in decisions.ring if decisions is not None else ():
            for node in record.details.best if record.details is not None else ():
                for score in node.plugins:
                    within = 0 <= score.normalized <= SCORE and (
                        score.plugin != "MetricPolicy" or 0 <= score.raw <= SCORE
                    )
                    assert within, f"{record.key}: {score} for {node.node}"
                assert node.total == sum(score.normalized * score.weight for score in node.plugins), node

    def check_truth(self) -> None:
        """What is known of each node's load is what the source says now."""
        live = self._world.scheduler.live_metrics
        assert live is not None
        for node in self._world.scheduler.cache.table:
            known = live.telemetry.sample_of("load", node.row)
            assert known is not None, f"nothing is known of {node.name}"
            assert known.read == TRUTH[int(node.name[1:])], f"{node.name}: {known}"
            assert known.age_s < INTERVAL_S * 1.5, f"{node.name}: {known}"


def wanted_node(policy: dict[str, Any], metric: dict[str, Any]) -> str | None:
    """Where the policy wants a pod while the source tells the truth; None where that hangs on more.

    A smoothed value remembers lies, the longer the larger they were.
    """
    if policy["filter"] or len(policy["score"]) != 1 or metric["smoothing"]:
        return None
    (only,) = policy["score"]
    if (only["range"] or {}).get("min", 0) != 0 or only["goal"] not in ("Minimize", "Maximize", "LowRisk"):
        return None
    chosen = max if only["goal"] == "Maximize" else min
    return f"n{TRUTH.index(chosen(TRUTH))}"


class Faults(logging.Handler):
    """Exceptions that were caught and logged: the scheduler's own, as the source's are no fault of its own."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if (
            record.exc_info
            and record.exc_info[0] is not None
            and "a fault of the source" not in str(record.exc_info[1])
        ):
            self.found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


async def execute(plan: Plan) -> None:
    source = source_of()
    options = Options(explain=DecisionLogOptions()) if plan.is_explained else Options()
    world = World(
        config=config_of(plan),
        seed=plan.seed,
        options=options,
        metric_source=lambda config: source,
        expect_conditions=False,
    )
    async with world:
        placed_s = PLACED_S if plan.policy["filter"] else DEADLINE_S + SOON_S
        execution = Execution(world, source, placed_s)
        if not plan.answers_at_first:
            source.fail()
        for step in plan.steps:
            await execution.do(step)
        # The source stays as it is, and still all pods are placed.
        execution.create_pod()
        await world.sleep(placed_s)
        execution.check()
        assert world.all_bound(), world.describe()
        # The truth, and a cluster as it was.
        execution.tell_the_truth()
        execution.delete_pods()
        for number in range(NODES):
            execution.add_node(number)
        await world.sleep(TRUE_AGAIN_S)
        execution.check_truth()
        name = execution.create_pod()
        await world.until(world.all_bound, within_s=placed_s)
        execution.check()
        wanted = wanted_node(plan.policy, plan.metric)
        assert wanted in (None, world.node_of(name)), f"{name} is on {world.node_of(name)}, not on {wanted}"


def play(plan: Plan) -> None:
    faults, logger = Faults(), logging.getLogger("kscheduler")
    logger.addHandler(faults)
    try:
        run_virtual(execute(plan))
    finally:
        logger.removeHandler(faults)
    assert not faults.found, faults.found[:5]


RANDOM = settings(
    max_examples=-(-EXAMPLES // 8),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@RANDOM
@given(plans)
def test_whatever_metric_sources_answer_scores_stay_in_bounds_and_pods_are_placed(plan: Plan) -> None:
    play(plan)


@pytest.mark.slow
@settings(RANDOM, max_examples=EXAMPLES, phases=[Phase.generate, Phase.shrink])
@given(plans)
def test_the_same_with_many_more_examples(plan: Plan) -> None:
    play(plan)
