"""A whole scheduler on a cluster in memory, in virtual time, with a judge who watches both.

    @in_virtual_time
    async def test_a_pod_is_bound() -> None:
        async with World() as world:
            world.add_node("n1")
            world.add_pod(make_pod("p").req(cpu="1"))
            await world.until(world.all_bound)

Leaving the world checks what must hold in every scenario: no violations, cache and queue consistent, the cache as the
cluster is, every pod of ours that is not bound has a condition that says why.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, ParamSpec

from kscheduler.api.grace_period import grace_s
from kscheduler.api.objects import Node, Pod, PodCondition
from kscheduler.api.resources import node_allocatable
from kscheduler.cache.comparer import compare_nodes, compare_pods
from kscheduler.client.kinds import PODS
from kscheduler.client.protocol import Binding, Event
from kscheduler.config.load import default_config
from kscheduler.config.types import Profile, SchedulerConfig
from kscheduler.errors import DecodeError
from kscheduler.extenders.build import MakeEndpoint
from kscheduler.extenders.webhook import Webhook
from kscheduler.framework.interface import Handle, Plugin
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import Options, Scheduler
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.cluster_client import ClusterClient, Latency
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from kscheduler.telemetry.source import MakeSource
from kscheduler.testing import NodeBuilder, PodBuilder, make_node
from tests.scenarios.fitting import FINISHED, obstacles
from tests.scenarios.judge import Judge
from tests.support.checks import check_cache
from tests.support.waits import until

P = ParamSpec("P")

# A condition that could not be written is written at the pod's next attempt, which is at most five minutes and one
# look of the queue away; then the pod may back off.
EVERYTHING_SETTLED_S = 300.0 + 30.0 + 15.0


def in_virtual_time(scenario: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a test of a coroutine."""

    @functools.wraps(scenario)
    def test(*args: P.args, **kwargs: P.kwargs) -> None:
        run_virtual(scenario(*args, **kwargs))

    return test


class PlannedScheduler(Scheduler):
    """A scheduler with further plugins in each profile: extension point -> plugins."""

    def __init__(self, plugins: Mapping[str, Sequence[Plugin]], *args: Any, **kwargs: Any) -> None:
        self._further = plugins
        super().__init__(*args, **kwargs)

    def _plugins_of(self, profile: Profile, handle: Handle) -> dict[str, list[tuple[Plugin, int]]]:
        return self._with_further(super()._plugins_of(profile, handle))

    def _with_further(self, plugins: dict[str, list[tuple[Plugin, int]]]) -> dict[str, list[tuple[Plugin, int]]]:
        for point, further in self._further.items():
            # In front, so that a Bind plugin is asked before the one that always binds.
            plugins[point] = [(plugin, 1) for plugin in further] + plugins.get(point, [])
        return plugins


class World:
    default_options = Options()

    def __init__(
        self,
        *,
        seed: int = 1,
        latency: Latency | None = None,
        config: SchedulerConfig | None = None,
        options: Options | None = None,
        plugins: Mapping[str, Sequence[Plugin]] | None = None,
        expect_conditions: bool = True,
        extender_endpoint: MakeEndpoint = Webhook,
        metric_source: MakeSource | None = None,
    ) -> None:
        """`expect_conditions` False: the scenario ends while pods are still waiting for their condition."""
        self.clock = LoopClock(asyncio.get_running_loop())
        self.cluster = Cluster(self.clock, seed=seed)
        self.client: ClusterClient = self.cluster.client(latency=latency, seed=seed)
        self.faults = self.client.faults
        self.judge = Judge(self.cluster)
        self.metrics = Metrics()
        self.exempt: set[str] = set()  # keys of pods that nobody can judge, and that get no condition therefore
        self._expect_conditions = expect_conditions
        self._config = config or default_config()
        further = dict(plugins or {})
        further["reserve"] = [self.judge, *further.get("reserve", ())]
        self.scheduler = PlannedScheduler(
            further,
            self.client,
            self._config,
            clock=self.clock,
            rng=random.Random(seed),
            metrics=self.metrics,
            stopwatch=self.clock.now,
            options=options or self.default_options,
            extender_endpoint=extender_endpoint,
            metric_source=metric_source,
        )
        self.judge.look_through(self.scheduler.nodes.store, self.scheduler.pods.store)
        self._tasks: list[asyncio.Task[None]] = []

    # --- life -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> World:
        return self

    def start(self) -> None:
        """Run the scheduler; `until` and `sleep` do so if nobody has."""
        if not self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks = [loop.create_task(self.scheduler.observe()), loop.create_task(self.scheduler.schedule())]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                await self._check_at_the_end()
        finally:
            for task in reversed(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def sleep(self, seconds: float) -> None:
        self.start()
        await asyncio.sleep(seconds)
        self._check_tasks()

    async def until(self, condition: Callable[[], bool], within_s: float = 60.0) -> None:
        """Let time pass until the condition holds; fails when that takes longer than `within_s`."""
        self.start()

        def holds() -> bool:
            self._check_tasks()
            return condition()

        await until(holds, within_s, self.describe)

    def _check_tasks(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()
                raise AssertionError("the scheduler has ended by itself")

    # --- the cluster ----------------------------------------------------------------------------------------------

    def add_node(self, node: str | NodeBuilder, **capacity: Any) -> Node:
        """A node by name, by default with room for 4 cpu, 16Gi and 110 pods; or as built."""
        if isinstance(node, str):
            node = make_node(node).capacity(**{"cpu": "4", "memory": "16Gi", **capacity})
        return self.cluster.create_node(node.uid("").obj())

    def add_nodes(self, count: int, **capacity: Any) -> None:
        for index in range(count):
            self.add_node(f"n{index}", **capacity)

    def add_pod(self, pod: PodBuilder) -> Pod:
        """The pod under a uid of its own: one created again under an old name is another pod."""
        return self.cluster.create_pod(pod.uid("").obj())

    def change_node(self, name: str, change: Callable[[Node], Node]) -> None:
        self.cluster.update_node(change(self.cluster.nodes[name]))

    def change_pod(self, name: str, change: Callable[[Pod], Pod]) -> None:
        self.cluster.update_pod(change(self.pod(name)))

    def bind_elsewhere(self, name: str, node_name: str) -> None:
        """What another scheduler does."""
        pod = self.pod(name)
        with self.judge.others_turn():
            self.cluster.bind(Binding(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid, node_name))

    def run_kubelets(self) -> None:
        """From here on, terminating pods are removed when their grace period is over."""
        self.cluster.store(PODS).subscribe(self._end_in_time)

    def _end_in_time(self, before: Pod | None, after: Pod | None) -> None:
        if before is None or after is None or before.metadata.deletion_timestamp is not None:
            return
        if after.metadata.deletion_timestamp is not None:
            asyncio.get_running_loop().call_later(grace_s(after), self._end, after.key, after.metadata.uid)

    def _end(self, key: str, uid: str) -> None:
        pod = self.cluster.pods.get(key)
        if pod is not None and pod.metadata.uid == uid:
            self.cluster.delete_pod(key)

    # --- looking --------------------------------------------------------------------------------------------------

    def pod(self, name: str) -> Pod:
        return self.cluster.pods[_key(name)]

    def node_of(self, name: str) -> str:
        """The node a pod is bound to, "" while it has none."""
        return self.pod(name).spec.node_name

    def condition(self, name: str) -> PodCondition | None:
        """The pod's PodScheduled condition."""
        return _scheduled_condition(self.pod(name))

    def events(self, name: str, reason: str = "") -> list[Event]:
        key = _key(name)
        return [
            event
            for event in self.cluster.events
            if f"{event.regarding.namespace}/{event.regarding.name}" == key and reason in ("", event.reason)
        ]

    def all_bound(self) -> bool:
        return not self.pending()

    def pending(self) -> list[Pod]:
        """Unfinished pods of ours without a node."""
        return [pod for pod in self.cluster.pods.values() if not pod.spec.node_name and self._is_ours(pod)]

    def _is_ours(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self.scheduler.profiles and pod.status.phase not in FINISHED

    def describe(self) -> str:
        """Where the scheduler is, for a test that failed."""
        scheduler = self.scheduler
        pending = [pod.key for pod in self.pending()]
        shown = ", ".join(pending[:10])
        return (
            f"At {self.clock.now():g} s {len(pending)} pods pending ({shown}), {len(scheduler.bindings)} binds, "
            f"{scheduler.queue.counts()}, in flight {[q.key for q in scheduler.queue._in_flight]}, "
            f"cache {scheduler.cache.sizes()}, informers {scheduler.pods.last_error} {scheduler.nodes.last_error}, "
            f"violations {self.judge.violations[:5]}"
        )

    # --- what must hold at the end --------------------------------------------------------------------------------

    async def _check_at_the_end(self) -> None:
        await self.until(self._is_calm, within_s=120.0)
        self.check_state()
        if self._expect_conditions:
            await self.until(lambda: not self.unexplained(), within_s=EVERYTHING_SETTLED_S)
        assert not self.judge.violations, "\n".join(self.judge.violations[:20])

    def _is_calm(self) -> bool:
        """Nothing is under way: no bind, nothing active, and the informers have seen what there is."""
        scheduler = self.scheduler
        counts = scheduler.queue.counts()
        return (
            not len(scheduler.bindings)
            and not scheduler.lanes
            and not counts.active
            and not scheduler.cache.sizes()["assumed_pods"]
            and _versions(scheduler.nodes.store) == _versions(self.cluster.nodes)
            and _versions(scheduler.pods.store) == _versions(self.unfinished())
        )

    def unfinished(self) -> dict[str, Pod]:
        return {key: pod for key, pod in self.cluster.pods.items() if pod.status.phase not in FINISHED}

    def check_state(self) -> None:
        """Cache and queue agree with themselves, the cache with the cluster."""
        scheduler = self.scheduler
        check_cache(scheduler.cache)
        scheduler.queue.check()
        assert not list(scheduler.queue._in_flight), self.describe()
        readable = [node for node in self.cluster.nodes.values() if _is_readable(node)]
        assert not compare_nodes(scheduler.cache, readable)
        pods = [pod for pod in self.unfinished().values() if pod.key not in self.exempt]
        assert not compare_pods(scheduler.cache, pods)
        for state in scheduler.cache.pods():
            assert state.node_name == self.cluster.pods[state.pod.key].spec.node_name
        self._check_queue(pods)

    def _check_queue(self, pods: list[Pod]) -> None:
        """Every pod that waits for us is queued, and none else."""
        waiting = {pod.metadata.uid for pod in pods if not pod.spec.node_name and self._is_ours(pod)}
        deleting = {pod.metadata.uid for pod in pods if pod.metadata.deletion_timestamp is not None}
        queued = {queued.uid for queued in self.scheduler.queue.pending_pods()}
        assert queued - deleting == waiting - deleting, self.describe()

    def unexplained(self) -> list[str]:
        """Pending pods without a condition that says why. For pods with scheduling gates the apiserver sets it."""
        return [
            pod.key
            for pod in self.pending()
            if not pod.spec.scheduling_gates
            and pod.metadata.deletion_timestamp is None
            and pod.key not in self.exempt
            and not _says_why(_scheduled_condition(pod))
        ]

    def overlooked(self) -> list[str]:
        """Pods that wait although a node has room for them."""
        nodes = list(self.cluster.nodes.values())
        return [
            f"{pod.key} fits on {node.metadata.name}"
            for pod in self.pending()
            if not pod.spec.scheduling_gates and pod.metadata.deletion_timestamp is None and pod.key not in self.exempt
            for node in nodes
            if not obstacles(pod, node, self.judge.pods_on(node.metadata.name))
        ]


def _key(name: str) -> str:
    return name if "/" in name else f"default/{name}"


def _scheduled_condition(pod: Pod) -> PodCondition | None:
    return next((found for found in pod.status.conditions or () if found.type == "PodScheduled"), None)


def _says_why(condition: PodCondition | None) -> bool:
    return condition is not None and condition.status == "False" and bool(condition.reason and condition.message)


def _versions(objects: Mapping[str, Any]) -> dict[str, str]:
    return {key: item.metadata.resource_version for key, item in objects.items()}


def _is_readable(node: Node) -> bool:
    try:
        node_allocatable(node)
    except DecodeError:
        return False
    return True
