"""Builds the parts of a scheduler from its configuration, and connects them; `scheduler.py` runs them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kscheduler.api.objects import Pod
from kscheduler.cache.cache import Cache
from kscheduler.client.adaptive_limit import DEFAULT_BIND_CONCURRENCY
from kscheduler.client.bind_lane import BindLane
from kscheduler.client.binder import Binder
from kscheduler.client.claim_writer import ClaimWriter
from kscheduler.client.concurrency import within
from kscheduler.client.informer import Handler
from kscheduler.client.kinds import Resource
from kscheduler.client.outages import Outages
from kscheduler.client.pod_status import PodStatusLane
from kscheduler.client.protocol import Client
from kscheduler.client.recorder import EventRecorder
from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.client.times import rfc3339
from kscheduler.client.turns import Turns
from kscheduler.client.volume_writer import VolumeWriter
from kscheduler.client.write_permission import WritePermission
from kscheduler.client.written_claims import WrittenClaims
from kscheduler.clock import Clock
from kscheduler.config.capacity_scheduling import keeps_quotas
from kscheduler.config.coscheduling import schedules_gangs
from kscheduler.config.live_metrics import names_live_metrics
from kscheduler.config.queues import QUEUES, keeps_queues
from kscheduler.config.releases import Release
from kscheduler.config.types import Profile, SchedulerConfig
from kscheduler.cycle.binding_tasks import BackgroundTasks, BindingTasks, PreBindSteps, QuickSteps
from kscheduler.cycle.bindings import Bindings
from kscheduler.cycle.evictions import SchedulerEvictions
from kscheduler.cycle.pod_timers import PodTimers
from kscheduler.cycle.refused_pods import RefusedPods
from kscheduler.cycle.schedule_batch import ScheduleBatch
from kscheduler.cycle.schedule_one import ScheduleOne
from kscheduler.cycle.waiting_pods import WaitingPods
from kscheduler.errors import ConfigError
from kscheduler.explain.decisions import DecisionLog
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.framework.claim_writes import ClaimWrites
from kscheduler.framework.compiled_lane import CompiledLane
from kscheduler.framework.events import (
    METRICS_CHANGED,
    Action,
    ClusterEvent,
    EventResource,
    Registration,
)
from kscheduler.framework.evictions import Evictions
from kscheduler.framework.extender_verdict import EXTENDER
from kscheduler.framework.interface import Handle, Plugin
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.pod_times import BINDINGS_KNOWN_S
from kscheduler.framework.runtime import Framework
from kscheduler.framework.status import Status
from kscheduler.framework.stopwatch import stands_still
from kscheduler.framework.telemetry import Telemetry
from kscheduler.observability.measurements import Measurements
from kscheduler.observability.metrics import Metrics
from kscheduler.queue.active_queue import ActiveQueue, LessKey
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.snapshot.devices import Devices
from kscheduler.snapshot.disruption_budgets import DisruptionBudgets
from kscheduler.snapshot.namespaces import Namespaces
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.owners import Owners
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.volumes import Volumes
from kscheduler.watch.eventhandlers import NodeDocuments
from kscheduler.watch.past_bindings import PastBindings
from kscheduler.watch.pod_documents import PodDocuments
from kscheduler.watch.watches import Listeners, Watches

# What only some configurations need is imported where it is built: a feature that is off is not even loaded.
if TYPE_CHECKING:
    from kscheduler.client.quota_statuses import QuotaStatuses
    from kscheduler.client.share_queue_statuses import ShareQueueStatuses
    from kscheduler.explain.annotations import AnnotationLane
    from kscheduler.explain.explainer import Explainer, Leadership
    from kscheduler.explain.quotas import QuotaExplainer
    from kscheduler.explain.share_queues import ShareQueueExplainer
    from kscheduler.extenders.binder import ExtenderBinder
    from kscheduler.extenders.build import MakeEndpoint
    from kscheduler.extenders.chain import ExtenderChain
    from kscheduler.extenders.lanes import ExtenderLanes
    from kscheduler.gangs.assembly import GangParts
    from kscheduler.quotas.elastic import ElasticQuotas
    from kscheduler.quotas.pod_demand import Demand
    from kscheduler.quotas.share_queues import ShareQueues
    from kscheduler.telemetry.live_metrics import LiveMetrics
    from kscheduler.telemetry.source import MakeSource
    from kscheduler.wasm.plugins import GuestPlugins
    from kscheduler.watch.share_queue_divisions import ShareDivisionWatch
    from kscheduler.watch.share_queue_events import ShareQueueWatch

# A plugin that still runs so long after it was cancelled ignores that. Nobody waits for it longer: its pod would never
# be tried again, and the process could not stop.
LEAVE_AFTER_S = 2.0
MAX_QUEUED_EVENTS = 100_000  # Events waiting for their lane; a burst of so many binds still gets one each


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of the command line that are not in kube-scheduler's configuration file."""

    first_on_tie: bool = False  # among equal scores take the first node, not a random one
    bind_concurrency: int = DEFAULT_BIND_CONCURRENCY  # most binding cycles at work at once; then decisions wait
    max_in_unschedulable_s: float = 300.0
    assumed_pod_ttl_s: float = 0.0  # seconds after which a bound pod that no watch confirms is given up; 0: never
    identity: str = "kscheduler"  # reporting instance of Events
    explain: DecisionLogOptions | None = None  # what is remembered of decisions; None: nothing
    compiled_lane: bool = True  # decide many pods in one call of a kernel where possible; the decisions are the same
    scheduled_events: bool = True  # write an Event for each pod that is bound
    measures_steps: bool = True  # keep metrics of the steps of decisions in the compiled lane
    recover_events: bool = False  # write the Scheduled Events that a killed predecessor left unwritten
    guests: GuestPlugins | None = None  # the wasm plugins that the configuration names; None: it may name none
    pauses: RetryPauses | None = None  # ended by every success of the client; None: by those of the informers only
    outages: Outages | None = None  # what hinders the client's informers; None: those of the scheduler's watches only
    prove_silent_watches: bool = False  # test whether watches without events still work


def check_supported(config: SchedulerConfig, guests: GuestPlugins | None = None) -> None:
    """Raise ConfigError, as a Scheduler would, for a valid configuration that names something unsupported."""
    if config.extenders:
        from kscheduler.extenders.build import build_extenders

        build_extenders(config, Measurements(), stands_still)
    if names_live_metrics(config):
        from kscheduler.telemetry.settings import telemetry_settings

        telemetry_settings(config)
    _check_gangs(config)
    handle = Handle(
        table=NodeTable(),
        rng=random.Random(0),
        release=config.release,
        elastic_quotas=_elastic_quotas(config),
        share_queues=_share_queues(config),
    )
    for profile in _without_ignored_resources(config).profiles:
        build(profile, handle, guests)


def _elastic_quotas(config: SchedulerConfig) -> ElasticQuotas | None:
    """Return what counts the pods of namespaces with quotas; None if no profile keeps quotas."""
    if not keeps_quotas(config):
        return None
    from kscheduler.quotas.elastic import ElasticQuotas

    return ElasticQuotas()


def _share_queues(config: SchedulerConfig) -> ShareQueues | None:
    """Return the queues with shares, those of a file included; None if no profile shares by them.

    Raises ConfigError for a file that is none.
    """
    if not keeps_queues(config):
        return None
    from kscheduler.quotas.queue_file import share_queues

    return share_queues(config)


def _without_ignored_resources(config: SchedulerConfig) -> SchedulerConfig:
    """Return the configuration with what its extenders say that the scheduler should ignore."""
    if not config.extenders:
        return config
    from kscheduler.extenders.build import without_ignored_resources

    return without_ignored_resources(config)


def _check_gangs(config: SchedulerConfig) -> None:
    """Raise ConfigError for a configuration with gangs and with extenders that take part in decisions."""
    if schedules_gangs(config):
        for extender in config.extenders:
            verbs = extender.filter_verb, extender.prioritize_verb, extender.preempt_verb
            if any(verbs):
                what = "gangs (the plugin Coscheduling, or the feature gate GenericWorkload)"
                raise ConfigError(f"extenders: expected none that filter, prioritize or preempt beside {what}, got one")


class SchedulerParts:
    """The parts of a scheduler, built and connected, but not started.

    Raises ConfigError for a configuration that names something unsupported. Schedulers that record or replay decisions
    have some parts of other types, and build others differently.
    """

    queue_type: type[SchedulingQueue] = SchedulingQueue
    one_type: type[ScheduleOne] = ScheduleOne
    batch_type: type[ScheduleBatch] = ScheduleBatch
    bindings_type: type[Bindings] = Bindings

    def __init__(
        self,
        client: Client,
        config: SchedulerConfig,
        *,
        clock: Clock,
        rng: random.Random,
        metrics: Metrics,
        stopwatch: Callable[[], float],
        options: Options = Options(),
        extender_endpoint: MakeEndpoint | None = None,
        metric_source: MakeSource | None = None,
    ) -> None:
        """Build all parts, without starting them.

        `extender_endpoint` and `metric_source` make the clients of extenders and metrics; a simulation has its own.
        None: those of `kscheduler run`.
        """
        # 1. What everything else is given: settings, the cache, a wake-up, and permission to write.
        self.measurements = Measurements(metrics)
        self.release = config.release
        self.measurements.emulate(config.release)
        extended, config = config, _without_ignored_resources(config)
        self._clock = clock
        self._rng = rng  # of decisions
        # Of pauses and of how long watches last. What these draw depends on answers of the apiserver, so decisions do
        # not draw from it, too: else a preemption would begin at another node because a watch was opened again.
        self._jitter = copy(rng)
        self._known_pods: dict[str, Pod] = {}  # key -> unfinished pod, as the watch shows it
        self.cache = Cache(assumed_ttl_s=options.assumed_pod_ttl_s)
        self.nominations = Nominations()
        self._work = Turns(self._decide)  # set when there may be something to decide
        self.waiting_pods = self._build_waiting_pods()
        self._timers = PodTimers(clock, self._work.set)
        self._assumed_ttl_s = options.assumed_pod_ttl_s
        self.permission = WritePermission()
        # 2. Writers, and what is known of the cluster beside nodes and pods.
        self.binder = Binder(client, self._jitter, self.permission)
        self.recorder = self._build_recorder(client, config, options)
        self._past_bindings = PastBindings(clock, enabled=options.recover_events)
        self.volumes = Volumes()
        self._volume_writer = VolumeWriter(client, self.permission)
        self.devices = Devices(config.release)
        self.namespaces = Namespaces()
        self.owners = Owners()
        self.budgets = DisruptionBudgets()
        self.elastic_quotas = _elastic_quotas(config)
        self._quota_statuses = None if self.elastic_quotas is None else self._keep(self.elastic_quotas, client)
        self.share_queues = _share_queues(config)
        self._queue_watch = None if self.share_queues is None else self._build_queue_watch(self.share_queues, config)
        self._queue_statuses = (
            None if self.share_queues is None else self._build_queue_statuses(self.share_queues, client)
        )
        # 3. Gangs, and work in the background, which plugins start.
        self.gangs = self._build_gangs(client, config, options)
        self.preemptions = BackgroundTasks("a preemption", self._work.set)
        self.claim_writes = BackgroundTasks("the write of a resource claim", self._work.set)
        self._pre_binds = self._build_pre_binds()
        quick_steps = QuickSteps(options.bind_concurrency, self._work.set)
        self._evictions = self._build_evictions(client)
        self._written_claims = WrittenClaims()
        self._claims = self._build_claims(client)
        self._node_documents = NodeDocuments()
        self._pod_documents = PodDocuments({profile.scheduler_name for profile in config.profiles})
        self.extenders = self._build_extenders(extended, stopwatch, extender_endpoint)
        self._guests = options.guests
        self.live_metrics = self._build_live_metrics(client, config, options, metric_source)
        # 4. Profiles with their plugins, and the queue, which asks them.
        self.profiles = self._build_profiles(config, stopwatch, options)
        self.queue = self._build_queue(config, options, stopwatch)
        self._divisions = None if self.share_queues is None else self._build_divisions(self.share_queues)
        self._attach_guests()
        # 5. The watch, which feeds cache and queue.
        self.statuses = self._build_statuses(client)
        outside = self._build_outside_binder()
        self._bind_lane = BindLane(client, self.binder, limit=options.bind_concurrency, on_overdue=self._work.set)
        watches = self._build_watches(client, stopwatch, options)
        self.pods, self.nodes, self.informers = watches.pods, watches.nodes, watches.informers
        # 6. The scheduling and binding cycles.
        self._annotations = self._build_annotations(client, options)
        self.decisions = self._build_decisions(options, stopwatch)
        self._max_in_unschedulable_s = options.max_in_unschedulable_s
        pauses = options.pauses or RetryPauses(random.Random(0))
        self._refused_pods = self._build_refused_pods(pauses)
        self._schedule_one = self._build_schedule_one(stopwatch, quick_steps, outside)
        self.bindings = self._build_bindings(options, quick_steps, outside)
        self._batch = self._build_batch(stopwatch, options)
        self.lanes = self._build_lanes(client, stopwatch)
        if self.live_metrics is not None:
            self.live_metrics.telemetry.watch(self._metrics_changed)
        # 7. What metrics show of all this.
        self._show_state()

    def _decide(self) -> float | None:
        """Take one turn of decisions, as `Turns` demands: what runs the parts says how."""
        raise NotImplementedError

    # --- construction ---

    def _build_recorder(self, client: Client, config: SchedulerConfig, options: Options) -> EventRecorder:
        return EventRecorder(
            client,
            self._clock,
            self._jitter,
            controller=config.profiles[0].scheduler_name,
            instance=options.identity,
            max_queued=MAX_QUEUED_EVENTS,
            on_dropped=self.measurements.event_dropped,
            writes_scheduled=options.scheduled_events,
        )

    def _build_gangs(self, client: Client, config: SchedulerConfig, options: Options) -> GangParts | None:
        """Build the parts that schedule gangs; None, without importing them, if pods can name no gang."""
        if not schedules_gangs(config):
            return None
        _check_gangs(config)
        return self._gang_parts()(
            config,
            client,
            self.cache,
            clock=self._clock,
            recorder=self.recorder,
            measurements=self.measurements,
            permission=self.permission,
            is_synced=lambda: self.is_synced,
            wake=self._work.set,
            groups_with_claims=self.devices.groups,
            pauses=options.pauses,
            outages=options.outages,
        )

    def _gang_parts(self) -> type[GangParts]:
        from kscheduler.gangs.assembly import GangParts

        return GangParts

    def _keep(self, quotas: ElasticQuotas, client: Client) -> QuotaStatuses:
        """Let the quotas count the pods on nodes, and build what writes their statuses."""
        from kscheduler.client.quota_statuses import QuotaStatuses
        from kscheduler.quotas.quota_standings import quota_amounts

        self.cache.follow(quotas)
        self.measurements.show_quotas(lambda: quota_amounts(quotas))
        return QuotaStatuses(client, quotas, self.recorder, self.permission)

    def _build_queue_watch(self, queues: ShareQueues, config: SchedulerConfig) -> ShareQueueWatch:
        """Let the queues with shares count pods on nodes, and build what feeds them the rest."""
        from kscheduler.quotas.share_standings import share_amounts
        from kscheduler.watch.share_queue_events import ShareQueueWatch

        self.cache.follow(queues)
        self.measurements.show_queues(lambda: share_amounts(queues))
        names = {profile.scheduler_name for profile in config.profiles if QUEUES in profile.plugins.enabled_names()}
        return ShareQueueWatch(queues, names)

    def _build_queue_statuses(self, queues: ShareQueues, client: Client) -> ShareQueueStatuses:
        from kscheduler.client.share_queue_statuses import ShareQueueStatuses

        return ShareQueueStatuses(client, queues, self.permission, self.measurements)

    def _build_divisions(self, queues: ShareQueues) -> ShareDivisionWatch:
        from kscheduler.watch.share_queue_divisions import ShareDivisionWatch

        return ShareDivisionWatch(
            queues,
            self.queue,
            clock=self._clock,
            wake=self._work.set,
            demand_of_gang=self._demand_of_gang,
        )

    def _demand_of_gang(self, queued: QueuedPodInfo) -> Demand | None:
        """Return what a gang in the queue reclaims room for; None for a pod, or if it reclaims none."""
        return None if self.gangs is None else self.gangs.reclaims_for(queued)

    def _build_extenders(
        self, config: SchedulerConfig, stopwatch: Callable[[], float], make_endpoint: MakeEndpoint | None
    ) -> ExtenderChain | None:
        """Build what calls the extenders; None, without importing it, if the configuration has none."""
        if not config.extenders:
            return None
        from kscheduler.extenders.build import build_extenders, webhook
        from kscheduler.extenders.chain import ExtenderChain

        extenders = build_extenders(config, self.measurements, stopwatch, make_endpoint or webhook)
        return ExtenderChain(extenders, self._node_documents.nodes, self._pods_on)

    def _build_outside_binder(self) -> ExtenderBinder | None:
        """Build what binds pods through extenders; None if none of them binds."""
        if self.extenders is None or not self.extenders.binders:
            return None
        from kscheduler.extenders.binder import ExtenderBinder

        return ExtenderBinder(self.extenders.binders, self.binder, self._work.set)

    def _build_profiles(
        self, config: SchedulerConfig, stopwatch: Callable[[], float], options: Options
    ) -> dict[str, Framework]:
        profiles: dict[str, Framework] = {}
        self._handle = handle = self._build_handle(profiles, config.release, stopwatch)
        for profile in config.profiles:
            percentage = profile.percentage_of_nodes_to_score
            profiles[profile.scheduler_name] = Framework(
                profile.scheduler_name,
                self._plugins_of(profile, handle),
                handle,
                observer=self.measurements,
                stopwatch=stopwatch,
                percentage_of_nodes_to_score=config.percentage_of_nodes_to_score if percentage is None else percentage,
                first_on_tie=options.first_on_tie,
            )
        return profiles

    def _build_handle(
        self, profiles: Mapping[str, Framework], release: Release, stopwatch: Callable[[], float]
    ) -> Handle:
        return Handle(
            table=self.cache.table,
            rng=self._rng,
            release=release,
            bind=self.binder.bind_pod,
            namespaces=self.namespaces,
            owners=self.owners,
            stopwatch=stopwatch,
            within=partial(within, leave_after_s=LEAVE_AFTER_S),
            volumes=self.volumes,
            patch_volume=self._volume_writer.patch_volume,
            patch_claim=self._volume_writer.patch_claim,
            devices=self.devices,
            claims=self._claims,
            sleep=asyncio.sleep,
            profiles=profiles,
            nominations=self.nominations,
            waiting_pods=self.waiting_pods,
            budgets=self.budgets,
            elastic_quotas=self.elastic_quotas,
            share_queues=self.share_queues,
            evictions=self._evictions,
            victim_groups=None if self.gangs is None else self.gangs.victims,
            telemetry=Telemetry() if self.live_metrics is None else self.live_metrics.telemetry,
            retry=self._timers.retry,
        )

    def _build_waiting_pods(self) -> WaitingPods:
        return WaitingPods(self._work.set)

    def _build_pre_binds(self) -> PreBindSteps:
        return PreBindSteps(self._work.set)

    def _build_statuses(self, client: Client) -> PodStatusLane:
        return PodStatusLane(client)

    def _build_refused_pods(self, pauses: RetryPauses) -> RefusedPods:
        return RefusedPods(self.queue, self._clock, pauses, self._work.set)

    def _build_evictions(self, client: Client) -> Evictions:
        """Build the object through which preemption writes; profiles need it when they are built."""
        return SchedulerEvictions(
            client,
            self._clock,
            pods=self._known_pods,
            timers=self._timers,
            recorder=self.recorder,
            measurements=self.measurements,
            waiting_pods=self.waiting_pods,
            pre_binds=self._pre_binds,
            tasks=self.preemptions,
            permission=self.permission,
        )

    def _build_claims(self, client: Client) -> ClaimWrites:
        """Build the object through which DynamicResources writes; profiles need it when they are built."""
        return ClaimWriter(
            client,
            self._clock,
            recorder=self.recorder,
            measurements=self.measurements,
            permission=self.permission,
            written=self._written_claims,
            start=self.claim_writes.start,
            labels_creation=self.release.claim_creation_labels,
        )

    def _plugins_of(self, profile: Profile, handle: Handle) -> dict[str, list[tuple[Plugin, int]]]:
        """Return the profile's plugins with their weights, by extension point."""
        return build(profile, handle, self._guests)

    def _build_annotations(self, client: Client, options: Options) -> AnnotationLane | None:
        """Build what writes decisions to their pods; None if they are not to be written there."""
        if options.explain is None or not options.explain.annotate:
            return None
        from kscheduler.explain.annotations import AnnotationLane

        return AnnotationLane(client)

    def _build_decisions(self, options: Options, stopwatch: Callable[[], float]) -> DecisionLog | None:
        """Build the record of decisions; None if nothing is to be recorded."""
        if options.explain is None or not options.explain.max_records:
            return None
        return DecisionLog(options.explain, self.cache.table, self._clock, stopwatch, annotations=self._annotations)

    def _build_live_metrics(
        self, client: Client, config: SchedulerConfig, options: Options, make_source: MakeSource | None
    ) -> LiveMetrics | None:
        """Build live metrics; None, without importing them, if no profile uses any."""
        if not names_live_metrics(config):
            return None
        from kscheduler.telemetry.live_metrics import build_live_metrics
        from kscheduler.telemetry.settings import telemetry_settings

        settings = telemetry_settings(config)
        if not settings.is_wanted:
            return None

        return build_live_metrics(
            settings,
            config.profiles,
            client,
            self.cache.table,
            clock=self._clock,
            identity=options.identity,
            observer=self.measurements,
            recorder=self.recorder,
            permission=self.permission,
            record_for_pod=self._record_for_pod,
            make_source=make_source,
            pauses=options.pauses,
            outages=options.outages,
        )

    def _build_queue(
        self, config: SchedulerConfig, options: Options, stopwatch: Callable[[], float]
    ) -> SchedulingQueue:
        first = next(iter(self.profiles.values()))
        extenders = self._deciding_extenders
        sort_key = first.sort_key  # the same in all profiles: validation demands it
        make = self.queue_type if self.gangs is None else self.gangs.make_queue
        return make(
            lambda queued: sort_key(queued.pod_info.priority, queued.timestamp),
            first.run_pre_enqueue if len(self.profiles) == 1 else self._pre_enqueue,
            initial_backoff_s=config.pod_initial_backoff_seconds,
            max_backoff_s=config.pod_max_backoff_seconds,
            max_in_unschedulable_s=options.max_in_unschedulable_s,
            registered={name: self._registered(framework) for name, framework in self.profiles.items()},
            observer=self.measurements,
            stopwatch=stopwatch,
            clock=self._clock.now,
            lane_of=None if extenders is None else lambda pod: extenders.lane_of(pod.pod),
            release=config.release,
            make_active=ActiveQueue if self.share_queues is None else self._in_turn(self.share_queues),
        )

    @property
    def _deciding_extenders(self) -> ExtenderChain | None:
        """The extenders, if some of them take part in decisions, and do not only bind."""
        return self.extenders if self.extenders is not None and self.extenders.deciders else None

    def _in_turn(self, queues: ShareQueues) -> Callable[[LessKey, Iterator[int]], ActiveQueue]:
        """Return what makes an active queue in which the queues with shares get their turns."""
        from kscheduler.queue.queues_in_turn import QueuesInTurn

        def demand_of(queued: QueuedPodInfo) -> Demand:
            demand = queues.demand_of(queued.pod_info.pod)
            return demand if self.gangs is None else self.gangs.demand_of(queued, demand)

        return lambda less_key, tickets: QueuesInTurn(less_key, tickets, queues, demand_of)

    def _registered(self, framework: Framework) -> dict[str, Sequence[ClusterEvent | Registration]]:
        """Return rejecting plugin -> events that may help its pods; an extender cannot register any, so it gets all."""
        registered = framework.events_by_plugin()
        if framework.hands_over:  # a pod may have been rejected by plugins of another profile
            others = [other.events_by_plugin() for other in self.profiles.values() if other is not framework]
            registered = {**{name: events for each in others for name, events in each.items()}, **registered}
        if self._deciding_extenders is not None:
            registered[EXTENDER] = (ClusterEvent(EventResource.WILDCARD, Action.ALL),)
        return registered

    def _attach_guests(self) -> None:
        """Give the guests (wasm plugins) what they ask the scheduler for, if there are any."""
        if self._guests is None:
            return
        self._guests.attach(
            clock=self._clock,
            observer=self.measurements,
            recorder=self.recorder,
            nodes=self._node_documents.nodes,
            pods=self._pod_documents.pods,
        )
        if self._guests.keep_answers:
            self._node_documents.call_on_change(self.cache.table.note_change)

    def _build_schedule_one(
        self, stopwatch: Callable[[], float], quick_steps: QuickSteps, outside: ExtenderBinder | None
    ) -> ScheduleOne:
        return self.one_type(
            self.cache,
            self.queue,
            self.profiles,
            clock=self._clock,
            measurements=self.measurements,
            stopwatch=stopwatch,
            recorder=self.recorder,
            statuses=self.statuses,
            nominations=self.nominations,
            waiting_pods=self.waiting_pods,
            pre_binds=self._pre_binds,
            quick_steps=quick_steps,
            current_pod=self._known_pods.get,
            refused_pods=self._refused_pods,
            decisions=self.decisions,
            bind_outside=None if outside is None else outside.bind,
        )

    def _build_bindings(self, options: Options, quick_steps: QuickSteps, outside: ExtenderBinder | None) -> Bindings:
        unbound: Sequence[Sized] = (quick_steps,) if outside is None else (quick_steps, outside)
        return self.bindings_type(
            self._schedule_one,
            BindingTasks(
                options.bind_concurrency,
                self._work.set,
                lambda: self._unwritten + sum(map(len, unbound)),
                lambda: self._unwritten,
            ),
            self._bind_lane,
            self._work.set,
        )

    def _build_batch(self, stopwatch: Callable[[], float], options: Options) -> ScheduleBatch:
        lane = None
        if options.compiled_lane:
            lane = CompiledLane(
                self.profiles, self._handle, self.measurements, stopwatch, measures_steps=options.measures_steps
            )
            self._schedule_one.rejections = lane.rejections
        make: Callable[..., ScheduleBatch] = self.batch_type
        if self.gangs is not None:
            self.gangs.handle, make = self._handle, self.gangs.make_batch
        return make(
            self.queue,
            self.cache,
            self.profiles,
            self._schedule_one,
            lane,
            dispatch=self.bindings.start,
            clock=self._clock,
            stopwatch=stopwatch,
            decisions=self.decisions,
        )

    def _build_lanes(self, client: Client, stopwatch: Callable[[], float]) -> ExtenderLanes | None:
        """Build the part that decides pods which call extenders; None if no extender takes part in decisions."""
        if self._deciding_extenders is None:
            return None
        from kscheduler.extenders.cycle import ExtenderCycle
        from kscheduler.extenders.lanes import ExtenderLanes

        cycle = ExtenderCycle(
            self._schedule_one,
            self._deciding_extenders,
            client,
            clock=self._clock,
            stopwatch=stopwatch,
            measurements=self.measurements,
        )
        return ExtenderLanes(self.queue, self.cache, cycle, self.bindings, self._clock, self._work.set)

    def _pods_on(self, node_name: str) -> Mapping[str, PodInfo] | None:
        """Return the node's pods by uid; None if there is no such node."""
        node = self.cache.table.get(node_name)
        return None if node is None else node.pods

    def _needs_nodes(self) -> bool:
        """Return True if extenders or guests (wasm plugins) need complete node objects."""
        if self.extenders is not None and self.extenders.needs_nodes:
            return True
        return self._guests is not None and self._guests.needs_nodes

    def _build_watches(self, client: Client, stopwatch: Callable[[], float], options: Options) -> Watches:
        listeners = Listeners(
            self.cache,
            self.queue,
            self.profiles,
            self.nominations,
            self.namespaces,
            self.owners,
            self.budgets,
            self.volumes,
            self.devices,
            self._written_claims,
            self.release,
            self._node_documents if self._needs_nodes() else None,
            self._pod_documents if self._guests is not None and self._guests.needs_pods else None,
            self.elastic_quotas,
            wake=self._work.set,
            past_bindings=self._past_bindings,
            pods=self._known_pods,
            on_gone=self.statuses.forget,
            waiting=self.waiting_pods.by_uid,
            on_node_gone=self._bind_lane.refuse_to,
            around=self._around(),
            further=self._further_kinds(),
        )
        return Watches(
            client,
            listeners,
            clock=self._clock,
            rng=self._jitter,
            stopwatch=stopwatch,
            measurements=self.measurements,
            pauses=options.pauses,
            outages=options.outages,
            prove_silent=options.prove_silent_watches,
            bound_since=None if self.live_metrics is None else self._bound_since,
        )

    def _around(self) -> Callable[[Resource[Any], Handler[Any]], Handler[Any]]:
        around = self._events if self.gangs is None else self.gangs.around(self._events)
        return around if self._queue_watch is None else self._queue_watch.around(around)

    def _further_kinds(self) -> list[tuple[Resource[Any], Handler[Any]]]:
        """Return the kinds that only some configurations need, with their handlers."""
        kinds = [] if self.gangs is None else self.gangs.informers()
        if self._queue_watch is not None:
            kinds += self._queue_watch.informers(self.queue, clock=self._clock, wake=self._work.set)
        return kinds

    def _events(self, resource: Resource[Any], handler: Handler[Any]) -> Handler[Any]:
        """Return the handler that the informer of this kind calls: `handler`, or one that calls it."""
        return handler

    def _bound_since(self) -> str:
        """Return the time since which bindings matter, because samples of live metrics may not include their pods."""
        return rfc3339(self._clock.wall() - BINDINGS_KNOWN_S)

    def explainer(self, leadership: Callable[[], Leadership]) -> Explainer | None:
        """Return the explainer of decisions; None if decisions are not recorded."""
        if self.decisions is None:
            return None
        from kscheduler.explain.claims import ClaimExplainer
        from kscheduler.explain.explainer import Explainer

        return Explainer(
            self.decisions,
            self.queue,
            self.cache,
            self.profiles,
            claims=ClaimExplainer(self.devices, self.release, self._handle.stopwatch),
            quotas=self._quota_explainer(),
            share_queues=self._share_queue_explainer(),
            clock=self._clock,
            current_pod=self._known_pods.get,
            leadership=leadership,
            waits_for=self._permits_awaited,
            max_in_unschedulable_s=self._max_in_unschedulable_s,
            gangs=None if self.gangs is None else self.gangs.explainer(self.decisions.ring.latest.get),
        )

    def _quota_explainer(self) -> QuotaExplainer | None:
        if self.elastic_quotas is None:
            return None
        from kscheduler.explain.quotas import QuotaExplainer

        return QuotaExplainer(self.elastic_quotas)

    def _share_queue_explainer(self) -> ShareQueueExplainer | None:
        if self.share_queues is None:
            return None
        from kscheduler.explain.share_queues import ShareQueueExplainer

        return ShareQueueExplainer(self.share_queues)

    def _permits_awaited(self, uid: str) -> list[str]:
        waiting = self.waiting_pods.get(uid)
        return [] if waiting is None else waiting.pending_plugins

    def _pre_enqueue(self, pod: PodInfo) -> Status | None:
        return self.profiles[pod.pod.spec.scheduler_name].run_pre_enqueue(pod)

    def _show_state(self) -> None:
        """Let the metrics show how many objects queue, cache and informers hold, and the newest versions of these."""
        self.measurements.show_queue(self.queue)
        self.measurements.show_sizes(
            self.cache.sizes,
            self.bindings.__len__,
            lambda: {informer.resource.plural: len(informer.store) for informer in self.informers},
        )
        self.measurements.show_versions(
            lambda: {
                (informer.resource.group_version, informer.resource.plural): informer.resource_version
                for informer in self.informers
            }
        )

    def _metrics_changed(self) -> None:
        """Requeue pods that were rejected because of live metrics, since their values or sources have changed."""
        self.queue.move_all_to_active_or_backoff(METRICS_CHANGED, None, None, self._clock.now())
        self._work.set()

    def _record_for_pod(self, pod: PodInfo, reason: str, note: str) -> None:
        scheduler = pod.pod.spec.scheduler_name
        self.recorder.record(
            pod.pod, type="Warning", reason=reason, action="Scheduling", note=note, controller=scheduler
        )

    @property
    def _unwritten(self) -> int:
        """The number of pods that wait, on Permit or in PreBind, before their binding is written."""
        return len(self._pre_binds) + len(self.waiting_pods)

    @property
    def is_synced(self) -> bool:
        return all(informer.synced.is_set() for informer in self.informers)
