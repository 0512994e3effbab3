"""Builds what a scheduler needs for gangs; imported only where the configuration opens a door for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kscheduler.api.pod_groups import PodGroup
from kscheduler.cache.cache import Cache
from kscheduler.client.concurrency import run_together
from kscheduler.client.informer import Handler
from kscheduler.client.kinds import PODS, Resource
from kscheduler.client.outages import Outages
from kscheduler.client.pod_group_kinds import pod_groups, resource_of
from kscheduler.client.protocol import Client
from kscheduler.client.recorder import EventRecorder
from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.client.write_permission import WritePermission
from kscheduler.clock import Clock
from kscheduler.config.coscheduling import longest_wait_s, reserves_after_s, schedules_by_label
from kscheduler.config.releases import Release
from kscheduler.config.types import SchedulerConfig
from kscheduler.cycle.schedule_batch import ScheduleBatch
from kscheduler.cycle.schedule_one import ScheduleOne
from kscheduler.explain.record import DecisionRecord
from kscheduler.framework.compiled_lane import CompiledLane
from kscheduler.framework.events import Action, ClusterEvent, EventResource, Registration
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.defaultpreemption.plugin import NAME as DEFAULT_PREEMPTION
from kscheduler.framework.runtime import Framework
from kscheduler.framework.status import Status, unresolvable
from kscheduler.gangs.composites import Composites
from kscheduler.gangs.domains import DomainIndex
from kscheduler.gangs.doors import COSCHEDULING_DOOR, KUBERNETES_DOOR, Doors, open_doors
from kscheduler.gangs.explain import GangExplainer
from kscheduler.gangs.finished_members import FinishedMembers
from kscheduler.gangs.gang import PLUGIN, GangKey
from kscheduler.gangs.gang_cycle import GangBatch, GangCycle
from kscheduler.gangs.gang_queue import GangQueue
from kscheduler.gangs.group_events import COSCHEDULING_RESOURCE, GroupEvents
from kscheduler.gangs.kubernetes_cycle import KubernetesGangCycle
from kscheduler.gangs.member_reviews import MemberReviews
from kscheduler.gangs.member_stages import MemberStages
from kscheduler.gangs.memberwise_cycle import MemberwiseCycle
from kscheduler.gangs.memberwise_placements import MemberwisePlacements
from kscheduler.gangs.memberwise_planner import MemberwisePlanner
from kscheduler.gangs.mending import Mending
from kscheduler.gangs.parked_reports import ParkedReports
from kscheduler.gangs.phase_writer import GroupPhases
from kscheduler.gangs.placements import Placements, placement_plugins
from kscheduler.gangs.planner import Planner
from kscheduler.gangs.preemption.executor import GangExecutor
from kscheduler.gangs.preemption.kubernetes import KubernetesPreemption
from kscheduler.gangs.preemption.kubernetes_victims import KubernetesVictims
from kscheduler.gangs.preemption.memberwise import MemberwisePreemption
from kscheduler.gangs.preemption.whole import WholePreemption
from kscheduler.gangs.preemption.whole_victims import WholeVictims
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.reports import GangReports
from kscheduler.gangs.reservations import Reservations
from kscheduler.gangs.room_to_come import RoomSearch
from kscheduler.gangs.rules import rules_of
from kscheduler.gangs.stand_in import StandIn
from kscheduler.gangs.status_writer import GroupStatuses
from kscheduler.gangs.texts import two_gangs
from kscheduler.observability.measurements import Measurements
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.quotas.pod_demand import Demand, together
from kscheduler.snapshot.pod_info import PodInfo

Around = Callable[[Resource[Any], Handler[Any]], Handler[Any]]


class GangParts:
    """The parts of a scheduler that schedule gangs. `make_queue` must be called before the methods below it."""

    queue_type: type[GangQueue] = GangQueue
    batch_type: type[GangBatch] = GangBatch
    finished_type: type[FinishedMembers] = FinishedMembers

    def __init__(
        self,
        config: SchedulerConfig,
        client: Client,
        cache: Cache,
        *,
        clock: Clock,
        recorder: EventRecorder,
        measurements: Measurements,
        permission: WritePermission,
        is_synced: Callable[[], bool],
        wake: Callable[[], None],
        groups_with_claims: dict[str, PodGroup],
        pauses: RetryPauses | None = None,
        outages: Outages | None = None,
    ) -> None:
        """`groups_with_claims`: where PodGroups that may have claims are to be kept, by namespace/name.

        `pauses`: retry pauses, shared by all clients of the apiserver; `outages` by its informers.
        """
        self._cache = cache
        self._config = config
        self._clock = clock
        self._measure = measurements
        self._permission = permission
        self._wake = wake
        self._pod_groups = groups_with_claims
        self._release: Release = config.release
        self._doors = open_doors(config.release, has_coscheduling=schedules_by_label(config))
        self.registry = Registry(Doors(self._doors), rules_of(config))
        self._statuses: GroupStatuses | None = None
        if KUBERNETES_DOOR in self._doors:
            self._statuses = GroupStatuses(
                client, pod_groups(config.release), config.release.pod_group_condition, permission, clock
            )
        self._phases: GroupPhases | None = None
        if COSCHEDULING_DOOR in self._doors:
            self._phases = GroupPhases(
                client, self.registry, permission, clock, is_synced=is_synced, pauses=pauses, outages=outages
            )
        versions = {door.api: resource_of(door.kind, config.release).group_version for door in self._doors}
        self.reports = GangReports(self.registry, recorder, self._statuses, measurements, permission, clock, versions)
        self.mending = Mending(
            self.registry, waits=self._waits, report=self.reports.stale, timeout_s=longest_wait_s(config), clock=clock
        )
        self.finished = self.finished_type(client, self.registry, self._member_changed)
        measurements.show_gangs(self.reports.states)
        self.queue: GangQueue  # set by `make_queue`
        self.victims: WholeVictims | KubernetesVictims | None = None
        if not self.registry.rules.preempts_by_member:
            kind = KubernetesVictims if self.registry.rules.follows_kubernetes else WholeVictims
            self.victims = kind(cache, self.registry)
        self.handle: Handle  # of the profiles; set before `make_batch`
        self._parked: ParkedReports  # set by `make_batch`
        self.reservations: Reservations | None = None  # set by `make_batch`, if room may be kept for gangs

    # --- in place of the types that a scheduler without gangs has ---

    def make_queue(
        self,
        less_key: Callable[[Any], tuple[float, ...]],
        pre_enqueue: Callable[[PodInfo], Status | None],
        *,
        registered: Mapping[str, Mapping[str, Sequence[ClusterEvent | Registration]]],
        **settings: Any,
    ) -> GangQueue:
        """Build the queue, and let it follow the cache."""
        own: list[ClusterEvent] = []
        if self.registry.rules.heeds_topology:
            # What may help a gang that is in no domain of nodes: labels, or that it asks for others.
            groups = (EventResource.POD_GROUP, COSCHEDULING_RESOURCE)
            own.append(ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL))
            own += [ClusterEvent(resource, Action.UPDATE) for resource in groups]
        if len(self._doors) > 1:
            own.append(ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_LABEL))
            pre_enqueue = self._with_one_gang(pre_enqueue)
        if own:
            registered = {name: {**events, PLUGIN: own} for name, events in registered.items()}
        self.queue = self.queue_type(less_key, pre_enqueue, gangs=self.registry, registered=registered, **settings)
        self._measure.show_groups(self.queue.groups)
        self._cache.follow(
            MemberStages(self.registry, will_return=self.queue.will_return, changed=self._member_changed)
        )
        return self.queue

    def make_batch(
        self,
        queue: SchedulingQueue,
        cache: Cache,
        profiles: Mapping[str, Framework],
        one: ScheduleOne,
        lane: CompiledLane | None,
        **settings: Any,
    ) -> ScheduleBatch:
        """Build what decides pods and gangs of the queue that `make_queue` returned."""
        # 1. What all rules need.
        self._parked = ParkedReports(self.registry, self.queue, one.report_not_scheduled, self._permission, self._clock)
        self.queue.on_parked = self._parked.parked
        batch = self.batch_type(queue, cache, profiles, one, lane, **settings)
        rules, handle = self.registry.rules, self.handle
        follows = rules.follows_kubernetes
        if self.victims is not None:
            self.victims.handle = handle
        kind = MemberwisePlanner if rules.preempts_by_member else Planner
        planner = kind(cache, profiles, lane, asks_again=follows, nominations=handle.nominations)
        parts = self.queue, self.registry, planner, one
        around: dict[str, Any] = {
            "dispatch": settings["dispatch"],
            "clock": self._clock,
            "stopwatch": settings["stopwatch"],
            "reports": self.reports,
        }
        if settings["decisions"] is not None:
            around["reviews"] = MemberReviews(settings["decisions"], self._clock, settings["stopwatch"])
        # 2. Who carries out evictions, and which placements a topology allows.
        executor = GangExecutor(
            handle,
            DEFAULT_PREEMPTION,
            record_event=self.reports.evicted,
            gang_uid=self.reports.uid_of_face,
            counts_apart=follows and not rules.preempts_by_member,
        )
        placements = None
        if follows and rules.heeds_topology:
            placements = self._placements(planner, profiles, settings["stopwatch"])
        # 3. The cycle of the rules: kube-scheduler's of 1.36, of 1.37, or ours.
        if isinstance(planner, MemberwisePlanner):
            together = None
            if rules.preempts_together:
                self.queue.gate = executor.gate
                together = MemberwisePreemption(cache, self.registry, handle, executor)
            by_member = None if placements is None else MemberwisePlacements(planner, placements)
            batch.gangs = MemberwiseCycle(*parts, placements=by_member, group_preemption=together, **around)
        elif follows:
            self.queue.gate = executor.gate
            batch.gangs = KubernetesGangCycle(
                *parts,
                release=self._release,
                group_preemption=KubernetesPreemption(cache, self.registry, planner, handle, executor),
                placements=placements,
                composites=None if placements is None else Composites(planner, placements),
                **around,
            )
        else:
            self.queue.waits_for_others = executor.waits_for_others
            preemption = WholePreemption(cache, self.registry, planner, profiles, handle, executor)
            domains = DomainIndex(cache.table)
            reservations = self.reservations = self._make_reservations(planner, profiles)
            batch.gangs = GangCycle(*parts, preemption=preemption, domains=domains, reservations=reservations, **around)
        return batch

    def _make_reservations(self, planner: Planner, profiles: Mapping[str, Framework]) -> Reservations | None:
        """Build what keeps room for gangs that have failed for long; None if no room is ever kept."""
        after_s = reserves_after_s(self._config)
        if after_s is None:
            return None
        search = RoomSearch(self._cache, planner)
        made = Reservations(
            search,
            self.registry,
            self.queue,
            profiles,
            self.handle,
            self._clock,
            after_s=after_s,
            wake=self._wake,
            ended=self._measure.gang_reservation_ended,
        )
        report_parked = self.queue.on_parked

        def parked(key: GangKey) -> None:
            made.release(key)
            report_parked(key)

        self.queue.on_parked, self.queue.on_left = parked, made.forget
        self._measure.show_gang_reservation(made.reserved_pods)
        return made

    def _placements(
        self, planner: Planner, profiles: Mapping[str, Framework], stopwatch: Callable[[], float]
    ) -> Placements:
        return Placements(
            planner,
            DomainIndex(self._cache.table),
            profiles,
            placement_plugins(self._config),
            self.handle.rng.choice,
            observer=self._measure,
            stopwatch=stopwatch,
        )

    def demand_of(self, queued: QueuedPodInfo, demand: Demand) -> Demand:
        """Return what a gang asks of its queue with shares, or a pod. `demand`: of the pod, or of a member."""
        return demand if type(queued) is not StandIn else demand.times(len(queued.members))

    def reclaims_for(self, queued: QueuedPodInfo) -> Demand | None:
        """Return what a gang in the queue would take room of other queues for; None for a pod, or if it takes none."""
        if type(queued) is not StandIn or self.registry.rules.follows_kubernetes:
            return None
        tracked = self.registry.get(queued.gang_key)
        members = queued.members or queued.flying
        queues = self.handle.share_queues
        if tracked is None or not members or queues is None:
            return None
        demands = [queues.demand_of(member.pod_info.pod) for member in members.values()]
        return together(demands, max(tracked.missing, 1))

    # --- what runs beside decisions ---

    def informers(self) -> list[tuple[Resource[Any], Handler[Any]]]:
        """Return the kinds of objects to watch, each with its handler."""
        return [(resource_of(door.kind, self._release), self._events(door)) for door in self._doors]

    def around(self, events: Around) -> Around:
        """Return what makes the handlers of informers: as `events` makes them, and members that finish are noticed."""

        def handler_of(resource: Resource[Any], handler: Handler[Any]) -> Handler[Any]:
            made = events(resource, handler)
            return self.finished.around(made) if resource.plural == PODS.plural else made

        return handler_of

    def _events(self, door: Any) -> GroupEvents:
        is_kubernetes = door is KUBERNETES_DOOR
        return GroupEvents(
            door,
            self.registry,
            self.queue,
            self._object_changed,
            clock=self._clock,
            measurements=self._measure,
            wake=self._wake,
            statuses=self._statuses if is_kubernetes else self._phases,
            pod_groups=self._pod_groups if is_kubernetes and self._release.has_group_claims else None,
        )

    async def run(self) -> None:
        """Do what gangs need beside decisions: write conditions, watch over broken gangs. Runs until cancelled."""
        lanes = [self.mending.run(), self.finished.run(), self._parked.run()]
        lanes += [each.run() for each in (self._statuses, self._phases) if each is not None]
        await run_together(*lanes)

    def explainer(self, latest_of: Callable[[str], DecisionRecord | None]) -> GangExplainer:
        """Return what explains gangs. `latest_of(uid)`: the latest recorded decision about a pod."""
        return GangExplainer(
            self.registry,
            self.queue,
            self.reports,
            self.mending,
            self._clock,
            self.reservations,
            reclaims_for=self.reclaims_for,
            latest_of=latest_of,
        )

    # --- what changes ---

    def _member_changed(self, key: GangKey) -> None:
        self._object_changed(key, self._clock.now())

    def _object_changed(self, key: GangKey, now: float) -> None:
        self.queue.reconsider(key, now)
        if self.registry.rules.mends:
            self.mending.look(key)
        self.reports.forget(key)
        if self.reservations is not None:
            self.reservations.reconsider(key)

    def _waits(self, key: GangKey) -> bool:
        return self.queue.stand_in(key) is not None

    def _with_one_gang(self, pre_enqueue: Callable[[PodInfo], Status | None]) -> Callable[[PodInfo], Status | None]:
        """Return a PreEnqueue that gates pods which name gangs by several APIs."""

        def gate(pod: PodInfo) -> Status | None:
            apis = self.registry.apis_of(pod.pod)
            if len(apis) < 2:
                return pre_enqueue(pod)
            metadata = pod.pod.metadata
            return unresolvable(two_gangs(metadata.name, apis, GangKey("", metadata.namespace, ""))).of(PLUGIN)

        return gate
