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
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import uvloop

from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.client.fault_log import report_fault
from kscheduler.client.gone_holder import GoneHolder
from kscheduler.client.kube import KubeClient
from kscheduler.client.leaderelection import ElectionConfig, LeaderElector
from kscheduler.client.request_observer import RequestObserver
from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.clock import Clock
from kscheduler.command.emulation import Choice, Emulation, Emulations, choose, releases_of, warn_if_newer
from kscheduler.command.exit_codes import report
from kscheduler.command.flags.record import RECORD_PATH
from kscheduler.command.flags.run_options import RunOptions, apply_run_options
from kscheduler.command.memory import Collections
from kscheduler.command.owner_file import write_for_owner
from kscheduler.command.replica import Endpoint, Replica
from kscheduler.command.start import SIGNALS, end_at_next_signal
from kscheduler.config.dump import to_v1, to_yaml
from kscheduler.config.emulated_version import FLAG
from kscheduler.config.load import check_config, default_config, load_config
from kscheduler.config.profiles import unimplemented_plugins
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.config.routing import RoutingConfig, load_routing
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError, KSchedulerError
from kscheduler.explain.explainer import Leadership
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.framework.plugins.registry import known_plugins
from kscheduler.observability import logs
from kscheduler.observability.measurements import RestClientMeasurements
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import DEFAULT_BIND_CONCURRENCY, Options, Scheduler, check_supported
from kscheduler.serving.health import Health
from kscheduler.telemetry.settings import idle_arguments
from kscheduler.wasm.loading.plugins import GuestPlugins

if TYPE_CHECKING:
    from kscheduler.explain.explainer import Explainer
    from kscheduler.serving.live.loop_thread import LoopThread
    from kscheduler.serving.routing.webhook import RoutingWebhook
    from kscheduler.serving.server import Server

log = logging.getLogger(__name__)

T = TypeVar("T")

LESS_THAN_IT_SEEMS = "a flag does less than it seems to"
NO_RECORD = "this scheduler does not record itself: it was started without --record"


def run(options: RunOptions, clock: Clock) -> int:
    guests = GuestPlugins(cache_dir=options.plugin_cache_dir)
    found = emulations(options, guests)
    profiles = found.first.config.profiles  # that there are, and their names, is the same in all releases
    routing = load_routing(options.routing_config, profiles) if options.routing_config else None
    logs.configure(options.logging_format, options.verbosity, vmodule=options.vmodule)
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
        loop.run_until_complete(serve(found, options, clock, collections, guests, routing))
    except KSchedulerError as error:
        if not isinstance(error, ConfigError):
            log.critical("ended by an error", extra={"err": str(error)})
        return report(error)
    finally:
        loop.close()
        asyncio.set_event_loop(None)
        collections.stop()
    return 0


def emulations(options: RunOptions, guests: GuestPlugins | None = None) -> Emulations:
    """Read the configuration for all releases that can be emulated. Raises ConfigError if it is good for none.

    With --write-config-to no apiserver will be asked, and it is read for one release only.
    """
    given = options.emulated_version or (DEFAULT_RELEASE.version if options.write_config_to else None)
    return Emulations(partial(configuration, options, guests), options.feature_gates, releases_of(given))


def configuration(options: RunOptions, guests: GuestPlugins | None, release: Release) -> SchedulerConfig:
    """Return the validated configuration: of the file, or the default one, with flags applied. Raises ConfigError."""
    find = partial(find_plugins, guests=guests)
    if options.config:
        config = load_config(options.config, find_plugins=find, release=release)
    else:
        config = default_config(release)
    config = apply_run_options(config, options)
    check_config(config, find)
    refuse_unsupported(config, options.config, guests)
    return config


def warn(emulation: Emulation, guests: GuestPlugins | None) -> None:
    """Log what in the configuration and among the feature gates does less than it seems to."""
    config = emulation.config
    for warning in emulation.warnings:
        log.warning(LESS_THAN_IT_SEEMS, extra={"reason": warning})
    for scheduler_name, plugin in idle_arguments(config):
        log.warning("arguments of a plugin that is not enabled", extra={"profile": scheduler_name, "plugin": plugin})
    missing = unimplemented_plugins(config, known_plugins(config, guests))
    if missing:
        log.warning("plugins that are not implemented have no effect", extra={"plugins": missing})


def refuse_unsupported(config: SchedulerConfig, source: str, guests: GuestPlugins | None = None) -> None:
    """Raise ConfigError for settings of kube-scheduler that are not supported.

    `source`: the file's name, "" if none.
    """
    try:
        check_supported(config, guests)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}" if source else str(error)) from error


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
    pauses = RetryPauses(random.Random(identity))
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
        if options.emulated_version is None:
            chosen = await until_signal(choose(found, client, clock, random.Random(identity)))
            if chosen is None:
                return
            choice = chosen
        else:
            choice = Choice(found.first, f"{FLAG}={options.emulated_version}")
            checking = asyncio.ensure_future(warn_if_newer(found.first.config.release, client))
        choice.log()
        warn(choice.emulation, guests)
        config = choice.emulation.config
        election = config.leader_election
        if options.secure_port:
            reviewers = await connect_reviewers(options, client, clock, observer)
        ended = None
        if election.leader_elect and options.replace_ended_holder:
            ended = GoneHolder.from_environment(client)
            identity = ended.identity
        scheduler = scheduler_maker(options)(
            client,
            config,
            clock=clock,
            rng=rng,
            metrics=metrics,
            stopwatch=time.perf_counter,
            options=Options(
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
                prove_silent_watches=True,
            ),
        )
        health = Health()
        elector: LeaderElector | None = None

        def make_server() -> Endpoint:
            from kscheduler.serving.endpoints import Endpoints

            explainer = scheduler.explainer(lambda: leadership_of(elector, identity))
            found: list[Endpoint] = []
            if options.secure_port:
                watched = scheduler, lambda: leadership_of(elector, identity)
                found += build_server(config, options, reviewers, clock, metrics, health, explainer, watched)
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
            settings = ElectionConfig(
                identity,
                election.resource_namespace,
                election.resource_name,
                election.lease_duration.seconds,
                election.renew_deadline.seconds,
                election.retry_period.seconds,
            )
            # A generator of its own: its draws must not affect the scheduler's tie-breaks.
            draw = random.Random(identity)
            elected = elector = replica.elect_with(
                partial(LeaderElector, client, clock, draw, settings, has_ended=ended)
            )
            status = metrics.leader_election_master_status.labels(election.resource_name)
            metrics.before_collect(lambda: status.set(float(elected.is_leader)))
        replica.add_checks(health, election.resource_name, election.lease_duration.seconds)
        collections.freeze()
        await replica.run()
    finally:
        if checking is not None:
            await cancel_and_wait(checking)
        for one in {client, reviewers.authentication, reviewers.authorization}:
            await one.close()


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


class Reviewers(NamedTuple):
    """The clients that send TokenReviews and SubjectAccessReviews for the endpoint.

    Both may be the scheduler's client.
    """

    authentication: KubeClient  # for TokenReviews, and the ConfigMap with the authorities of client certificates
    authorization: KubeClient  # for SubjectAccessReviews


async def connect_reviewers(
    options: RunOptions, client: KubeClient, clock: Clock, observer: RequestObserver
) -> Reviewers:
    """Connect with --authentication-kubeconfig and --authorization-kubeconfig; without a flag, use `client`.

    Raises ConfigError that names the flag.
    """
    made: list[KubeClient] = []
    try:
        for flag, path in (
            ("--authentication-kubeconfig", options.authentication.kubeconfig),
            ("--authorization-kubeconfig", options.authorization.kubeconfig),
        ):
            try:
                made.append(await KubeClient.connect(clock, kubeconfig=path, observer=observer) if path else client)
            except ConfigError as error:
                raise ConfigError(f"{flag}: {error}") from error
    except BaseException:
        for one in made:
            if one is not client:
                await one.close()
        raise
    return Reviewers(*made)


def build_server(
    config: SchedulerConfig,
    options: RunOptions,
    reviewers: Reviewers,
    clock: Clock,
    metrics: Metrics,
    health: Health,
    explainer: Explainer | None,
    watched: tuple[Scheduler, Callable[[], Leadership]],
) -> list[Endpoint]:
    """Build the HTTPS server and what it verifies client certificates with, in the order in which to start them.

    Their libraries are imported here, after the first lists were requested. Raises ConfigError for files and flags that
    cannot be used.
    """
    from kscheduler.explain.endpoint import PATH as EXPLAIN_PATH
    from kscheduler.explain.endpoint import ExplainEndpoint
    from kscheduler.serving.authentication import DelegatedAuthenticator
    from kscheduler.serving.authorization import DelegatedAuthorizer
    from kscheduler.serving.certificates import server_context
    from kscheduler.serving.client_tls import ClientAskingContext
    from kscheduler.serving.pod_metrics import PodResourceMetrics
    from kscheduler.serving.server import Listen, Server
    from kscheduler.serving.tls_policy import tls_policy
    from kscheduler.serving.trust import EndpointTrust

    thread = page_thread() if options.ui else None
    policy = tls_policy(options.tls.min_version, options.tls.cipher_suites)
    for warning in policy.warnings:
        log.warning(warning)
    context = ClientAskingContext.under(policy, options.tls.named_pairs)
    server_context(options.tls_cert_file, options.tls_private_key_file, options.cert_dir, context=context)
    trust = EndpointTrust(
        options.authentication,
        reviewers.authentication,
        clock,
        random.Random(options.seed),
        on_change=context.name_authorities if thread is None else thread.hand_over(context.name_authorities),
    )
    authenticator = DelegatedAuthenticator(
        trust, reviewers.authentication.reviews.token_review, clock, ttl_s=options.authentication.token_ttl_s
    )
    authorizer = DelegatedAuthorizer(
        reviewers.authorization.reviews.subject_access_review,
        clock,
        always_allow=options.always_allow_paths,
        allowed_ttl_s=options.authorization.allowed_ttl_s,
        denied_ttl_s=options.authorization.denied_ttl_s,
    )
    listen = Listen(options.bind_address, options.secure_port, context)

    def configz() -> dict[str, Any]:
        return {"componentconfig": to_v1(config), "emulatedVersion": config.release.version}

    endpoint: Endpoint
    if thread is None:
        server = endpoint = Server(
            listen,
            metrics=metrics,
            health=health,
            config=configz,
            authenticator=authenticator,
            authorizer=authorizer,
        )
    else:
        from kscheduler.serving.live.build import Guards, Watched, server_with_page

        scheduler, leadership = watched
        server, endpoint = server_with_page(
            thread,
            listen,
            Watched(scheduler, explainer, leadership, options.pod_max_in_unschedulable_pods_s),
            Guards(
                trust,
                authenticator,
                authorizer,
                reviewers.authentication.reviews,
                reviewers.authorization.reviews,
            ),
            metrics=metrics,
            health=health,
            config=configz,
            clock=clock,
        )
    if explainer is not None:
        server.add_handler(EXPLAIN_PATH, ExplainEndpoint(explainer).answer)
    server.add_handler("/metrics/resources", PodResourceMetrics(watched[0].pods.store).answer)
    add_record(server, watched[0])
    add_zpages(server, options, config.release.version, clock)
    return [trust, endpoint]


def add_record(server: Server, scheduler: Scheduler) -> None:
    """Have the server offer the scheduler's record, or answer that there is none."""
    if type(scheduler) is Scheduler:
        from kscheduler.serving.absent import absent

        server.add_handler(RECORD_PATH, absent(NO_RECORD), reads_scheduler=False)
        return
    from kscheduler.record.endpoint import RecordEndpoint
    from kscheduler.replay.recording import RecordedScheduler

    assert isinstance(scheduler, RecordedScheduler)
    recorded = RecordEndpoint(scheduler.writer, scheduler.started)
    server.add_handler(RECORD_PATH, recorded.answer_list, reads_scheduler=False)
    server.add_handler(f"{RECORD_PATH}/{{number}}", recorded.answer_part, reads_scheduler=False)


def add_zpages(server: Server, options: RunOptions, emulated: str, clock: Clock) -> None:
    """Have the server say what runs, and with which flags."""
    from kscheduler.serving.zpages import flagz, statusz

    server.add_handler("/flagz", flagz(dict(options.flags)), reads_scheduler=False)
    server.add_handler("/statusz", statusz(clock, emulated, lambda: server.paths), reads_scheduler=False)


def page_thread() -> LoopThread:
    """Return the thread, not started, in which the endpoint runs if it serves the page."""
    from kscheduler.serving.live.loop_thread import LoopThread

    return LoopThread("ui")


def build_webhook(routing: RoutingConfig, scheduler: Scheduler, metrics: Metrics) -> RoutingWebhook:
    """Build the admission webhook that sets the schedulerName of new pods; it is not started. Raises ConfigError."""
    from kscheduler.serving.routing.rules import NewPod, Router
    from kscheduler.serving.routing.webhook import RoutingWebhook

    live = scheduler.live_metrics

    def is_plan_b(scheduler_name: str, pod: NewPod) -> bool:
        return live is not None and live.policies.book.is_in_plan_b(
            scheduler_name, pod.namespace, pod.labels, pod.annotations, live.telemetry.failures
        )

    router = Router(routing.rules, scheduler.namespaces.get, is_plan_b)
    return RoutingWebhook(routing, router, lambda rule: metrics.routed_pods_total.labels(rule).inc())


def leadership_of(elector: LeaderElector | None, identity: str) -> Leadership:
    """Return the leader election's state for explanations; without leader election this process is the leader."""
    if elector is None:
        return Leadership(identity, True, identity)
    return Leadership(identity, elector.is_leader, elector.leader_identity)
