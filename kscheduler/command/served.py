"""Builds what `kscheduler run` serves: the HTTPS endpoint, with what says who may read it, and the routing webhook."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kscheduler.client.kube import KubeClient
from kscheduler.client.outages import Outages
from kscheduler.client.request_observer import RequestObserver
from kscheduler.clock import Clock
from kscheduler.command.flags.record import RECORD_PATH
from kscheduler.command.flags.run_options import RunOptions
from kscheduler.command.replica import Endpoint
from kscheduler.config.dump import to_v1
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.explain.explainer import Leadership
from kscheduler.observability import logs
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import Scheduler
from kscheduler.serving.health import Health

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from kscheduler.config.routing import RoutingConfig
    from kscheduler.explain.explainer import Explainer
    from kscheduler.serving.authentication import DelegatedAuthenticator
    from kscheduler.serving.authorization import DelegatedAuthorizer
    from kscheduler.serving.client_tls import ClientAskingContext
    from kscheduler.serving.live.loop_thread import LoopThread
    from kscheduler.serving.routing.webhook import RoutingWebhook
    from kscheduler.serving.server import Server
    from kscheduler.serving.trust import EndpointTrust

log = logging.getLogger(__name__)

NO_RECORD = "this scheduler does not record itself: it was started without --record"


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
    outages: Outages | None,
) -> list[Endpoint]:
    """Build the HTTPS server and what it verifies client certificates with, in the order in which to start them.

    `outages`: those of the client that reads the authorities, if others share it.
    Their libraries are imported here, after the first lists were requested. Raises ConfigError for files and flags that
    cannot be used.
    """
    from kscheduler.explain.endpoint import ExplainEndpoint
    from kscheduler.explain.options import PATH as EXPLAIN_PATH
    from kscheduler.serving.pod_metrics import PodResourceMetrics
    from kscheduler.serving.server import Listen, Server

    # 1. How it is encrypted.
    thread = page_thread() if options.ui else None
    warnings, context = _encryption(options)
    for warning in warnings:
        log.warning(warning)
    listen = Listen(options.bind_address, options.secure_port, context)
    metrics.before_collect(lambda: _show_expiries(metrics, context))
    # 2. Who may read it.
    name_authorities = context.name_authorities if thread is None else thread.hand_over(context.name_authorities)
    trust, authenticator, authorizer = who_may_read(options, reviewers, clock, outages, name_authorities)

    # 3. The server, with what it serves.
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
    if config.enable_profiling:  # as kube-scheduler
        add_verbosity_switch(server, options)
    return [trust, endpoint]


def _encryption(options: RunOptions) -> tuple[Sequence[str], ClientAskingContext]:
    """Return warnings about the ciphers, and how the HTTPS endpoint is encrypted. Raises ConfigError as the others."""
    from kscheduler.serving.certificates import server_context
    from kscheduler.serving.client_tls import ClientAskingContext
    from kscheduler.serving.tls_policy import tls_policy

    policy = tls_policy(options.tls.min_version, options.tls.cipher_suites)
    context = ClientAskingContext.under(policy, options.tls.named_pairs)
    server_context(options.tls_cert_file, options.tls_private_key_file, options.cert_dir, context=context)
    return policy.warnings, context


def _show_expiries(metrics: Metrics, context: ClientAskingContext) -> None:
    """Update the metric of when the certificates of the HTTPS endpoint expire."""
    for file, expires in context.expiries().items():
        metrics.serving_certificate_expiration_timestamp_seconds.labels(file).set(expires)


def build_probes(options: RunOptions, reviewers: Reviewers, clock: Clock, metrics: Metrics) -> Endpoint:
    """Build what answers probes at the HTTPS endpoint's address before there is a scheduler.

    It is alive, and not ready: a kubelet would restart a process that does not answer while the apiserver is away, and
    wait longer each time. Raises ConfigError for files and flags that cannot be used.
    """
    from kscheduler.serving.server import Listen, Server

    _, context = _encryption(options)
    _, authenticator, authorizer = who_may_read(options, reviewers, clock, None, context.name_authorities)
    health = Health()
    health.add("readyz", "apiserver-version", lambda: "the apiserver's version is not known yet; the log says why")
    return Server(
        Listen(options.bind_address, options.secure_port, context),
        metrics=metrics,
        health=health,
        authenticator=authenticator,
        authorizer=authorizer,
    )


def who_may_read(
    options: RunOptions,
    reviewers: Reviewers,
    clock: Clock,
    outages: Outages | None,
    name_authorities: Callable[[Sequence[Certificate]], None],
) -> tuple[EndpointTrust, DelegatedAuthenticator, DelegatedAuthorizer]:
    """Build what client certificates are verified with, what finds out who asks, and what they may read.

    `outages`: those of the client that reads the authorities, if others share it.
    `name_authorities` is called with the authorities of client certificates each time they change.
    """
    from kscheduler.serving.authentication import DelegatedAuthenticator
    from kscheduler.serving.authorization import DelegatedAuthorizer
    from kscheduler.serving.trust import EndpointTrust

    trust = EndpointTrust(
        options.authentication,
        reviewers.authentication,
        clock,
        random.Random(options.seed),
        outages=outages,
        on_change=name_authorities,
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
    return trust, authenticator, authorizer


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


def add_verbosity_switch(server: Server, options: RunOptions) -> None:
    """Have the server change the verbosity of the log on request; that of `--vmodule` stays the least."""
    from kscheduler.serving.debug_flags import PATH, verbosity_switch

    switch = verbosity_switch(partial(logs.set_verbosity, vmodule=options.vmodule))
    server.add_handler(PATH, switch, method="PUT", reads_scheduler=False)


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
