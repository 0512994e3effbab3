"""Implements `kscheduler run`: builds all parts of a scheduler from flags and a configuration file, and runs them.

The parts needed for the first request to the apiserver are imported and built first; the HTTP endpoint's libraries are
imported while the apiserver answers.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import socket
import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import uvloop

from kscheduler.client.adaptive_limit import DEFAULT_BIND_CONCURRENCY
from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.client.fault_log import report_fault
from kscheduler.client.kube import KubeClient
from kscheduler.client.leaderelection import ElectionConfig, LeaderElector
from kscheduler.client.outages import Outages
from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.clock import Clock
from kscheduler.command.emulation import Choice, Emulation, Emulations, choose, releases_of, warn_if_newer
from kscheduler.command.exit_codes import report
from kscheduler.command.flags.run_options import RunOptions, apply_run_options
from kscheduler.command.main_loop import run_to_its_end
from kscheduler.command.memory import Collections
from kscheduler.command.owner_file import write_for_owner
from kscheduler.command.replica import Endpoint, Replica
from kscheduler.command.served import Reviewers, build_probes, build_server, build_webhook, connect_reviewers
from kscheduler.command.stop_signals import SIGNALS, end_at_next_signal
from kscheduler.command.unsupported import refuse_unsupported
from kscheduler.config.dump import to_yaml
from kscheduler.config.emulated_version import FLAG
from kscheduler.config.ineffective import idle_arguments, ineffective_fields
from kscheduler.config.load import check_config, config_reader
from kscheduler.config.profiles import unimplemented_plugins, unreached_binders
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.config.types import LeaderElection, Profile, SchedulerConfig
from kscheduler.errors import ConfigError, KSchedulerError
from kscheduler.explain.explainer import Leadership
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.framework.plugins.registry import known_plugins
from kscheduler.observability import logs
from kscheduler.observability.metrics import Metrics
from kscheduler.observability.request_measurements import RestClientMeasurements
from kscheduler.scheduler import Options, Scheduler
from kscheduler.serving.health import Health
from kscheduler.wasm.plugins import GuestPlugins

if TYPE_CHECKING:
    from kscheduler.config.routing import RoutingConfig

log = logging.getLogger(__name__)

T = TypeVar("T")

LESS_THAN_IT_SEEMS = "a flag does less than it seems to"
# A leader must not lose its Lease because nobody reads what it logs.
LOG_WAIT_S = 0.5
# Without an answer of the apiserver, the HTTPS endpoint is there for probes after so long.
PROBES_AFTER_S = 2.0
FIELD_LESS_THAN_IT_SEEMS = "a field of the configuration does less than it seems to"


def run(options: RunOptions, clock: Clock) -> int:
    logs.configure(options.logging_format, options.verbosity, vmodule=options.vmodule, longest_wait_s=LOG_WAIT_S)
    guests = GuestPlugins(cache_dir=options.plugin_cache_dir)
    found = emulations(options, guests)
    profiles = found.first.config.profiles  # that there are, and their names, is the same in all releases
    routing = _routing(options.routing_config, profiles) if options.routing_config else None
    if options.write_config_to:
        write_config(found.first.config, options.write_config_to)
        return 0
    for warning in options.warnings:
        log.warning(LESS_THAN_IT_SEEMS, extra={"reason": warning})
    collections = Collections()
    collections.start()
    loop = uvloop.new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        loop.set_exception_handler(report_fault)
        run_to_its_end(loop, serve(found, options, clock, collections, guests, routing))
    except KSchedulerError as error:
        if not isinstance(error, ConfigError):
            log.critical("ended by an error", extra={"err": str(error)})
        return report(error, longest_wait_s=LOG_WAIT_S)
    finally:
        loop.close()
        asyncio.set_event_loop(None)
        collections.stop()
    return 0


def _routing(path: str, profiles: Sequence[Profile]) -> RoutingConfig:
    from kscheduler.config.routing import load_routing

    return load_routing(path, profiles)


def emulations(options: RunOptions, guests: GuestPlugins | None = None) -> Emulations:
    """Read the configuration for all releases that can be emulated. Raises ConfigError if it is good for none.

    With --write-config-to no apiserver will be asked, and it is read for one release only.
    """
    given = options.emulated_version or (DEFAULT_RELEASE.version if options.write_config_to else None)
    find = partial(find_plugins, guests=guests)
    read = config_reader(options.config, find)

    def configuration(release: Release) -> SchedulerConfig:
        """Return the validated configuration, with flags applied."""
        config = apply_run_options(read(release), options)
        check_config(config, find)
        refuse_unsupported(config, options.config, guests)
        return config

    return Emulations(configuration, options.feature_gates, releases_of(given))


def warn(emulation: Emulation, guests: GuestPlugins | None, *, is_from_file: bool) -> None:
    """Log what in the configuration and among the feature gates does less than it seems to.

    Without a file the configuration is that of flags, which `RunOptions.warnings` are about.
    """
    config = emulation.config
    for warning in emulation.warnings:
        log.warning(LESS_THAN_IT_SEEMS, extra={"reason": warning})
    for reason in ineffective_fields(config) if is_from_file else ():
        log.warning(FIELD_LESS_THAN_IT_SEEMS, extra={"reason": reason})
    for scheduler_name, plugin in idle_arguments(config):
        log.warning("arguments of a plugin that is not enabled", extra={"profile": scheduler_name, "plugin": plugin})
    known = known_plugins(config, guests)
    for scheduler_name, plugin in unreached_binders(config, known):
        log.warning(
            "a Bind plugin behind DefaultBinder is never asked", extra={"profile": scheduler_name, "plugin": plugin}
        )
    missing = unimplemented_plugins(config, known)
    if missing:
        log.warning("plugins that are not implemented have no effect", extra={"plugins": missing})


def write_config(config: SchedulerConfig, path: str) -> None:
    """Write the complete configuration, secrets included, to a file of mode 0600. Raises ConfigError."""
    try:
        write_for_owner(path, to_yaml(config, with_secrets=True))
    except OSError as error:
        raise ConfigError(f"--write-config-to {path}: cannot be written: {error.strerror}") from error


async def serve(
    found: Emulations,
    options: RunOptions,
    clock: Clock,
    collections: Collections,
    guests: GuestPlugins | None = None,
    routing: RoutingConfig | None = None,
) -> None:
    """Choose the release that is emulated, build one replica, and run it until a signal or an error stops it.

    Raises ConfigError if the configuration is good only for releases that are newer than the apiserver.
    """
    rng = random.Random(options.seed)
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    metrics = Metrics()
    metrics.limit(options.metric_limits.disabled, options.metric_limits.allowed)
    pauses, outages = RetryPauses(random.Random(identity)), Outages(clock)
    connection = found.first.config.client_connection
    observer = RestClientMeasurements(metrics)
    client = await KubeClient.connect(
        clock,
        kubeconfig=connection.kubeconfig,
        server=options.master,
        qps=connection.qps,
        burst=connection.burst,
        observer=observer,
        pauses=pauses,
    )
    reviewers = Reviewers(client, client)
    checking: asyncio.Future[None] | None = None
    try:
        # 1. Which release is emulated?
        if options.emulated_version is None:
            choosing = choose(found, client, clock, random.Random(identity))
            probes = partial(build_probes, options, reviewers, clock, metrics) if options.secure_port else None
            chosen = await until_signal(with_probes(choosing, probes))
            if chosen is None:
                return
            choice = chosen
        else:
            choice = Choice(found.first, f"{FLAG}={options.emulated_version}")
            checking = asyncio.ensure_future(warn_if_newer(found.first.config.release, client))
        choice.log()
        warn(choice.emulation, guests, is_from_file=bool(options.config))
        config = choice.emulation.config
        election = config.leader_election
        # 2. The scheduler.
        if options.secure_port:
            reviewers = await connect_reviewers(options, client, clock, observer)
        ended = None
        if election.leader_elect and options.replace_ended_holder:
            from kscheduler.client.gone_holder import GoneHolder

            ended = GoneHolder.from_environment(client)
            identity = ended.identity
        scheduler = scheduler_maker(options)(
            client,
            config,
            clock=clock,
            rng=rng,
            metrics=metrics,
            stopwatch=time.perf_counter,
            options=scheduler_options(options, election, identity, guests, pauses, outages),
        )
        # 3. What is served, and the leader election.
        health = Health()
        elector: LeaderElector | None = None

        def make_server() -> Endpoint:
            from kscheduler.serving.endpoints import Endpoints

            explainer = scheduler.explainer(lambda: leadership_of(elector, identity))
            found: list[Endpoint] = []
            if options.secure_port:
                watched = scheduler, lambda: leadership_of(elector, identity)
                shared = outages if reviewers.authentication is client else None
                found += build_server(config, options, reviewers, clock, metrics, health, explainer, watched, shared)
            if routing is not None:
                found.append(build_webhook(routing, scheduler, metrics))
            return Endpoints(found)

        replica = Replica(
            scheduler,
            clock=clock,
            make_server=make_server if options.secure_port or routing is not None else None,
            delay_cache_until_active=config.delay_cache_until_active,
            while_listing=collections.while_listing,
            end_at_next_signal=end_at_next_signal,
        )
        if election.leader_elect:
            # A generator of its own: its draws must not affect the scheduler's tie-breaks.
            draw = random.Random(identity)
            settings = election_config(election, identity)
            elected = elector = replica.elect_with(
                partial(LeaderElector, client, clock, draw, settings, has_ended=ended)
            )
            status = metrics.leader_election_master_status.labels(election.resource_name)
            metrics.before_collect(lambda: status.set(float(elected.is_leader)))
        # 4. It runs.
        replica.add_checks(health, election.resource_name, election.lease_duration.seconds)
        collections.freeze()
        await replica.run()
    finally:
        if checking is not None:
            await cancel_and_wait(checking)
        for one in {client, reviewers.authentication, reviewers.authorization}:
            await one.close()


async def with_probes(work: Coroutine[Any, Any, T], make_endpoint: Callable[[], Endpoint] | None) -> T:
    """Return the result of `work`; if it takes long, an endpoint answers probes meanwhile. None: there is none."""
    task = asyncio.ensure_future(work)
    endpoint: Endpoint | None = None
    try:
        await asyncio.wait({task}, timeout=PROBES_AFTER_S)
        if not task.done() and make_endpoint is not None:
            endpoint = make_endpoint()
            await endpoint.start()
        return await task
    finally:
        await cancel_and_wait(task)
        if endpoint is not None:
            await endpoint.stop()


async def until_signal(work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of `work`; None if a signal to stop comes before.

    The process's own handlers are back in place after that, until a `Replica` handles signals. If a signal came, the
    next one ends the process at once.
    """
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    for number in handlers:
        loop.add_signal_handler(number, stop.set)
    task, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for number, handler in handlers.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
        if stop.is_set():
            end_at_next_signal()
        await cancel_and_wait(task, stopping)


def scheduler_options(
    options: RunOptions,
    election: LeaderElection,
    identity: str,
    guests: GuestPlugins | None,
    pauses: RetryPauses,
    outages: Outages,
) -> Options:
    """Return what flags, rather than the configuration, say of the scheduler."""
    return Options(
        first_on_tie=options.tie_break == "first",
        bind_concurrency=options.bind_concurrency or DEFAULT_BIND_CONCURRENCY,
        max_in_unschedulable_s=options.pod_max_in_unschedulable_pods_s,
        assumed_pod_ttl_s=options.assumed_pod_ttl_s,
        # A scheduler without leader election has no predecessor.
        recover_events=options.recover_events and election.leader_elect,
        identity=identity,
        explain=options.explain,
        guests=guests,
        pauses=pauses,
        outages=outages,
        prove_silent_watches=True,
    )


def election_config(election: LeaderElection, identity: str) -> ElectionConfig:
    """Return what the configuration says of the Lease, and who is to hold it."""
    return ElectionConfig(
        identity,
        election.resource_namespace,
        election.resource_name,
        election.lease_duration.seconds,
        election.renew_deadline.seconds,
        election.retry_period.seconds,
    )


def scheduler_maker(options: RunOptions) -> Callable[..., Scheduler]:
    """Return what builds the scheduler: one that records itself if that is requested. Raises ConfigError."""
    if not options.record:
        return Scheduler
    from kscheduler.replay.recording import RecordedScheduler, RecordingOptions

    path = Path(options.record)
    if not path.parent.is_dir():
        raise ConfigError(f"--record {path}: expected a directory {path.parent}, there is none")
    recording = RecordingOptions(path, options.record_part_bytes, options.record_keep_parts)
    return partial(RecordedScheduler, recording=recording)


def leadership_of(elector: LeaderElector | None, identity: str) -> Leadership:
    """Return the leader election's state for explanations; without leader election this process is the leader."""
    if elector is None:
        return Leadership(identity, True, identity)
    return Leadership(identity, elector.is_leader, elector.leader_identity)
