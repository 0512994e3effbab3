"""One cluster twice: on one side pods are decided one by one, on the other by the compiled lane as far as it can."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kscheduler.api.objects import Node, Pod
from kscheduler.cache.cache import Cache
from kscheduler.config.load import default_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.framework.compiled_lane import CompiledLane
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle, PostFilterPlugin
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.out_of_tree import GuestClasses
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision
from kscheduler.framework.telemetry import Telemetry
from kscheduler.observability.measurements import Measurements
from kscheduler.quotas.elastic import ElasticQuotas
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.snapshot.devices import Devices
from kscheduler.snapshot.namespaces import Namespaces
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.owners import Owners
from kscheduler.snapshot.pod_info import PodInfo
from tests.support.checks import check_cache


@dataclass(frozen=True)
class Outcome:
    """`node` is "" for a pod that goes nowhere, and `text` says why."""

    node: str
    feasible: int
    evaluated: int
    text: str = ""


class Side:
    """A cluster with the frameworks of all profiles. Nobody is preempted.

    `post_filters`: in place of the profiles' PostFilter plugins. What they found may be repeated.
    """

    def __init__(
        self,
        config: SchedulerConfig | None = None,
        *,
        seed: int = 1,
        first_on_tie: bool = False,
        observer: Measurements | None = None,
        stopwatch: Callable[[], float] = lambda: 0.0,
        max_bytes: int = 1 << 20,
        guests: GuestClasses | None = None,
        post_filters: Sequence[PostFilterPlugin] = (),
        telemetry: Callable[[NodeTable], Telemetry] = lambda table: Telemetry(),
    ) -> None:
        config = config or default_config()
        self.cache = Cache()
        self.namespaces, self.owners, self.nominations = Namespaces(), Owners(), Nominations()
        self.quotas, self.queues = ElasticQuotas(), ShareQueues()
        self.handle = Handle(
            table=self.cache.table,
            rng=random.Random(seed),
            namespaces=self.namespaces,
            owners=self.owners,
            nominations=self.nominations,
            elastic_quotas=self.quotas,
            share_queues=self.queues,
            telemetry=telemetry(self.cache.table),
            devices=Devices(config.release),
            release=config.release,
        )
        observer = observer or Measurements()
        self.profiles: dict[str, Framework] = {}
        for profile in config.profiles:
            own = profile.percentage_of_nodes_to_score
            self.profiles[profile.scheduler_name] = Framework(
                profile.scheduler_name,
                {**build(profile, self.handle, guests), "postFilter": [(each, 0) for each in post_filters]},
                self.handle,
                observer=observer,
                stopwatch=stopwatch,
                percentage_of_nodes_to_score=config.percentage_of_nodes_to_score if own is None else own,
                first_on_tie=first_on_tie,
            )
        self.rejected_again = 0  # pods of which it was known that they fit nowhere
        self.lane = CompiledLane(self.profiles, self.handle, observer, stopwatch, threads=2, max_bytes=max_bytes)

    def one_by_one(self, pods: Sequence[Pod]) -> list[Outcome]:
        return [self._decide(PodInfo(pod)) for pod in pods]

    def by_lane(self, pods: Sequence[Pod]) -> tuple[list[Outcome], int]:
        """And how many of them the lane has decided."""
        infos, outcomes, placed = [PodInfo(pod) for pod in pods], list[Outcome](), 0
        while len(outcomes) < len(infos):
            known = self.lane.rejections.find(infos[len(outcomes)])
            if known is not None:
                self.rejected_again += 1
                outcomes.append(Outcome("", 0, 0, known.message))
                continue
            placements = self.lane.place(infos[len(outcomes) :])
            placed += len(placements)
            start, rows, names = len(outcomes), placements.rows, placements.node_names
            assert [self.cache.table.at(row).name for row in rows] == list(names)
            self.cache.assume_counted(infos[start : start + len(names)], rows, names)
            for pod, name in zip(infos[start:], names, strict=False):
                self._reserve(CycleState(), pod, name)
            nodes = len(self.cache.table)
            outcomes += [Outcome(name, fit, nodes) for name, fit in zip(names, placements.feasible, strict=True)]
            self.lane.report(placements)
            if not placements and len(outcomes) < len(infos):
                outcomes.append(self._decide(infos[len(outcomes)], keeps=True))
        return outcomes, placed

    def _decide(self, pod: PodInfo, *, keeps: bool = False) -> Outcome:
        state = CycleState()
        found = self.profiles[pod.pod.spec.scheduler_name].schedule_pod(state, pod)
        if not isinstance(found, Decision):
            if keeps:
                self.lane.rejections.keep(pod, found)
            return Outcome("", 0, 0, found.message)
        self.cache.assume(pod, found.node_name)
        self._reserve(state, pod, found.node_name)
        return Outcome(found.node_name, found.feasible, found.evaluated)

    def _reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Reserve the devices of a pod with claims."""
        framework = self.profiles[pod.pod.spec.scheduler_name]
        if not framework.only_binds(pod):
            status = framework.run_reserve(state, pod, node_name)
            assert status is None, status


class TwoLanes:
    """Whatever happens, happens on both sides."""

    def __init__(self, config: SchedulerConfig | None = None, **options: object) -> None:
        self.general = Side(config, **options)  # type: ignore[arg-type]
        self.compiled = Side(config, **options)  # type: ignore[arg-type]
        self.decided_by_lane = 0
        self.placed: dict[str, str] = {}  # pod uid -> node, of pods that were decided and are still there

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.general, self.compiled

    def schedule(self, *pods: Pod) -> list[Outcome]:
        """Decide on both sides; they must agree about each pod."""
        expected = self.general.one_by_one(pods)
        found, placed = self.compiled.by_lane(pods)
        assert found == expected
        self.decided_by_lane += placed
        for pod, outcome in zip(pods, found, strict=True):
            if outcome.node:
                self.placed[pod.metadata.uid] = outcome.node
        for side in self.sides:
            check_cache(side.cache)
        return found

    def set_node(self, node: Node) -> None:
        for side in self.sides:
            side.cache.set_node(node)

    def remove_node(self, name: str) -> None:
        for side in self.sides:
            side.cache.remove_node(name)

    def set_pod(self, pod: Pod) -> None:
        for side in self.sides:
            side.cache.set_pod(PodInfo(pod))

    def remove_pod(self, uid: str) -> None:
        self.placed.pop(uid, None)
        for side in self.sides:
            side.cache.remove_pod(uid)

    def nominate(self, pod: Pod, node_name: str) -> None:
        for side in self.sides:
            side.nominations.nominate(PodInfo(pod), node_name)

    def set_service(self, name: str, selector: Mapping[str, str] | None) -> None:
        for side in self.sides:
            side.owners.set_service("default", name, selector)

    def set_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        for side in self.sides:
            side.namespaces.set(name, labels)
