"""The command: flags and a configuration file become parts, and the parts run. The only place they meet.

Exit codes: 0 done, 1 a failure at run time (the lease lost, an unreachable apiserver), 2 wrong flags or configuration.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import platform
import random
import socket
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kscheduler import __version__, logs
from kscheduler._fast import COMPILED
from kscheduler.config.dump import to_v1, to_yaml
from kscheduler.config.extension_points import ExtensionPoint
from kscheduler.config.load import check_config, default_config, load_config
from kscheduler.config.profiles import effective_plugins, unimplemented_plugins
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError, KSchedulerError
from kscheduler.explain.options import ExplainOptions
from kscheduler.flags import (
    RunOptions,
    ShowOptions,
    SimulateOptions,
    ValidateOptions,
    VersionOptions,
    apply_run_options,
    parse,
    report,
)
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.framework.plugins.registry import known_plugins

if TYPE_CHECKING:
    from kscheduler.explain.explainer import Leadership
    from kscheduler.leaderelection import LeaderElector

log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """The `kscheduler` command; returns its exit code."""
    try:
        options = parse(argv)
        if isinstance(options, RunOptions):
            return run(options)
        if isinstance(options, ValidateOptions):
            return validate(options)
        if isinstance(options, ShowOptions):
            return show(options)
        if isinstance(options, SimulateOptions):
            return simulate(options)
        if isinstance(options, ExplainOptions):
            return explain(options)
        return version(options)
    except KSchedulerError as error:
        return report(error)
    except BrokenPipeError:
        # Whoever read our output has seen enough; nothing more can be said to them.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


# --- small commands ---


def validate(options: ValidateOptions) -> int:
    config = load_config(options.file, find_plugins=find_plugins)
    refuse_unsupported(config, options.file)
    print(f"{options.file}: valid, profiles: {', '.join(profile.scheduler_name for profile in config.profiles)}")
    missing = unimplemented_plugins(config, known_plugins(config))
    if missing:
        print(f"{options.file}: not implemented yet, pods that require them are refused: {', '.join(missing)}")
    return 0


def show(options: ShowOptions) -> int:
    config = load_config(options.file, find_plugins=find_plugins)
    print(to_yaml(config), end="")
    if options.expanded:
        known = known_plugins(config)
        for profile in config.profiles:
            print(f"---\n# plugins of profile {profile.scheduler_name} that run, in order (weight)")
            for point, entries in effective_plugins(profile, known).items():
                weighted = point is ExtensionPoint.SCORE
                names = [f"{name} ({weight})" if weighted else name for name, weight in entries]
                print(f"{point.value}: [{', '.join(names)}]")
    return 0


def version(options: VersionOptions) -> int:
    facts = {"version": __version__, "python": platform.python_version(), "compiled": COMPILED}
    if options.output == "json":
        print(json.dumps(facts))
    else:
        kernels = "compiled" if COMPILED else "plain Python"
        print(f"kscheduler {__version__} (CPython {platform.python_version()}, {kernels} kernels)")
    return 0


def simulate(options: SimulateOptions) -> int:
    from kscheduler.simulator.main import simulate as run_simulation

    logs.configure(verbosity=logs.QUIET)  # the report is the answer; only warnings go beside it
    return run_simulation(options.arguments)


def explain(options: ExplainOptions) -> int:
    from kscheduler.explain.command import explain as ask

    logs.configure(verbosity=logs.QUIET)
    print(ask(options, SystemClock()), end="")
    return 0


# --- run ---


def run(options: RunOptions) -> int:
    config = configuration(options)
    logs.configure(options.logging_format, options.verbosity)
    if options.write_config_to:
        write_config(config, options.write_config_to)
        return 0
    for warning in options.warnings:
        log.warning("flag without effect", extra={"reason": warning})
    missing = unimplemented_plugins(config, known_plugins(config))
    if missing:
        log.warning("plugins not implemented yet; pods that require them are refused", extra={"plugins": missing})
    import uvloop

    loop = uvloop.new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(serve(config, options))
    except KSchedulerError as error:
        if not isinstance(error, ConfigError):
            log.critical("ended by a fault", extra={"err": str(error)})
        return report(error)
    finally:
        loop.close()
        asyncio.set_event_loop(None)
    return 0


def configuration(options: RunOptions) -> SchedulerConfig:
    """The file, or the defaults without one, with the flags that override it."""
    config = load_config(options.config, find_plugins=find_plugins) if options.config else default_config()
    config = apply_run_options(config, options)
    check_config(config, find_plugins)
    refuse_unsupported(config, options.config)
    return config


def refuse_unsupported(config: SchedulerConfig, source: str) -> None:
    """Raise ConfigError for what kube-scheduler can do and this program cannot yet; `source` is "" for the defaults."""
    from kscheduler.scheduler import check_supported

    try:
        check_supported(config)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}" if source else str(error)) from error


def write_config(config: SchedulerConfig, path: str) -> None:
    try:
        Path(path).write_text(to_yaml(config), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--write-config-to {path}: cannot be written: {error.strerror}") from error


async def serve(config: SchedulerConfig, options: RunOptions) -> None:
    """Build one replica and run it until a signal or a fault ends it."""
    from kscheduler.client.kube import KubeClient
    from kscheduler.explain.endpoint import PATH as EXPLAIN_PATH
    from kscheduler.explain.endpoint import ExplainEndpoint
    from kscheduler.leaderelection import ElectionConfig, LeaderElector
    from kscheduler.measurements import RestClientMeasurements
    from kscheduler.memory import Collections
    from kscheduler.metrics import Metrics
    from kscheduler.replica import Replica
    from kscheduler.scheduler import DEFAULT_BIND_CONCURRENCY, Options, Scheduler
    from kscheduler.server import Listen, Server
    from kscheduler.serving.authorization import DelegatedAuthorizer
    from kscheduler.serving.certificates import server_context
    from kscheduler.serving.health import Health

    clock = SystemClock()
    rng = random.Random(options.seed)
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    metrics = Metrics()
    connection, election = config.client_connection, config.leader_election
    client = await KubeClient.connect(
        clock,
        kubeconfig=connection.kubeconfig,
        server=options.master,
        qps=connection.qps,
        burst=connection.burst,
        observer=RestClientMeasurements(metrics),
    )
    try:
        scheduler = Scheduler(
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
                identity=identity,
                explain=options.explain,
            ),
        )
        health = Health()
        server = None
        if options.secure_port:
            tls = server_context(options.tls_cert_file, options.tls_private_key_file, options.cert_dir)
            server = Server(
                Listen(options.bind_address, options.secure_port, tls),
                metrics=metrics,
                health=health,
                config=lambda: {"componentconfig": to_v1(config)},
                authorizer=DelegatedAuthorizer(client.token_review, client.subject_access_review, clock),
                always_allow=options.always_allow_paths,
            )
        collections = Collections()
        replica = Replica(
            scheduler,
            clock=clock,
            server=server,
            delay_cache_until_active=config.delay_cache_until_active,
            while_listing=collections.while_listing,
        )
        elector = None
        if election.leader_elect:
            settings = ElectionConfig(
                identity,
                election.resource_namespace,
                election.resource_name,
                election.lease_duration.seconds,
                election.renew_deadline.seconds,
                election.retry_period.seconds,
            )
            # Its own generator: how often it draws must not move the scheduler's tie-breaks.
            draw = random.Random(identity)
            elector = replica.elect_with(
                lambda started: LeaderElector(client, clock, draw, settings, on_started=started)
            )
            status = metrics.leader_election_master_status.labels(election.resource_name)
            metrics.before_collect(lambda: status.set(float(elector.is_leader)))
        explainer = scheduler.explainer(lambda: leadership_of(elector, identity))
        if server is not None and explainer is not None:
            server.add_handler(EXPLAIN_PATH, ExplainEndpoint(explainer).answer)
        replica.add_checks(health, election.resource_name, election.lease_duration.seconds)
        collections.start()
        await replica.run()
    finally:
        await client.close()


def leadership_of(elector: LeaderElector | None, identity: str) -> Leadership:
    """Without an elector this process leads."""
    from kscheduler.explain.explainer import Leadership

    if elector is None:
        return Leadership(identity, True, identity)
    return Leadership(identity, elector.is_leader, elector.leader_identity)


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()


if __name__ == "__main__":
    sys.exit(main())
