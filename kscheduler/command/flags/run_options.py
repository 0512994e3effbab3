"""The options of `kscheduler run`: what its flags say, and what they change in a configuration."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

import msgspec

from kscheduler.command.flags.flag_values import flag_values
from kscheduler.command.flags.ineffective import warnings
from kscheduler.command.flags.parser import from_flags
from kscheduler.command.flags.version import VersionOptions
from kscheduler.config.duration import Duration
from kscheduler.config.gate_flag import parsed_gates
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.observability.log_modules import ModuleVerbosity
from kscheduler.observability.metric_limits import MetricLimits, metric_limits
from kscheduler.serving.options import AuthenticationOptions, AuthorizationOptions, RequestHeaderOptions, TlsOptions


@dataclass(frozen=True, slots=True)
class LeaderElectionFlags:
    """The flags that override the configuration's `leaderElection`; None if a flag is not given."""

    leader_elect: bool | None = None
    lease_duration: Duration | None = None
    renew_deadline: Duration | None = None
    retry_period: Duration | None = None
    resource_lock: str | None = None
    resource_name: str | None = None
    resource_namespace: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectionFlags:
    """The flags that set `clientConnection` if there is no configuration file; None if a flag is not given."""

    qps: float | None = None
    burst: int | None = None
    content_type: str | None = None


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `kscheduler run`."""

    config: str = ""  # "": the default configuration
    kubeconfig: str = ""  # "": the configuration's, else in-cluster
    master: str = ""  # URL that replaces the kubeconfig's server
    write_config_to: str = ""
    bind_address: str = "0.0.0.0"
    secure_port: int = 10259  # 0: no server
    cert_dir: str = ""
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    tls: TlsOptions = field(default_factory=TlsOptions)
    authentication: AuthenticationOptions = field(default_factory=AuthenticationOptions)
    authorization: AuthorizationOptions = field(default_factory=AuthorizationOptions)
    always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    connection: ConnectionFlags = ConnectionFlags()
    profiling: bool | None = None  # None: as the configuration says
    leader_election: LeaderElectionFlags = LeaderElectionFlags()
    pod_max_in_unschedulable_pods_s: float = 300.0
    logging_format: str = "text"
    verbosity: int = 0
    vmodule: tuple[ModuleVerbosity, ...] = ()  # the first pattern that matches a module sets its verbosity
    metric_limits: MetricLimits = field(default_factory=MetricLimits)
    feature_gates: dict[str, bool] = field(default_factory=dict)
    emulated_version: str | None = None  # None: chosen by the apiserver's version
    tie_break: str = "seeded"  # or "first"
    replace_ended_holder: bool = False  # take the Lease from a holder whose Pod ended before it expires
    seed: int = 0
    bind_concurrency: int | None = None  # None: the scheduler's own default
    assumed_pod_ttl_s: float = 0.0  # 0: assumed pods never expire
    recover_events: bool = True  # write missing Scheduled Events of pods that a predecessor bound
    explain: DecisionLogOptions = field(default_factory=DecisionLogOptions)
    ui: bool = False  # serve a page about this scheduler at /ui/ of the secure port
    routing_config: str = ""  # "": no webhook, new pods keep the scheduler they name
    plugin_cache_dir: str | None = None  # for compiled wasm plugins; None: the user's cache directory, "": no cache
    record: str = ""  # file to record all decisions in, and what they depend on; "": none
    record_part_bytes: int = 0  # size at which another file is begun; 0: no limit
    record_keep_parts: int = 0  # how many of the newest files are kept; 0: all
    warnings: tuple[str, ...] = ()  # to be logged once logging is set up
    # All flags with their values, for /flagz: names without dashes in front.
    flags: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)


def apply_run_options(config: SchedulerConfig, options: RunOptions) -> SchedulerConfig:
    """Return the configuration with the values of flags in place of its own.

    Leader election flags always apply, --kubeconfig if the configuration names no kubeconfig, and other connection
    flags and --profiling if there is no configuration file. The result is not validated: `config.check_config` does
    that.
    """
    given = options.leader_election
    overrides = {name: getattr(given, name) for name in LeaderElectionFlags.__slots__}
    election = {name: value for name, value in overrides.items() if value is not None}
    connection = config.client_connection
    profiling = config.enable_profiling
    if options.kubeconfig and not connection.kubeconfig:
        connection = msgspec.structs.replace(connection, kubeconfig=options.kubeconfig)
    if not options.config:
        flags = {name: getattr(options.connection, name) for name in ConnectionFlags.__slots__}
        given_flags = {name: value for name, value in flags.items() if value is not None}
        connection = msgspec.structs.replace(connection, **given_flags)
        profiling = profiling if options.profiling is None else options.profiling
    return msgspec.structs.replace(
        config,
        leader_election=msgspec.structs.replace(config.leader_election, **election),
        client_connection=connection,
        enable_profiling=profiling,
    )


def read_run(namespace: argparse.Namespace) -> RunOptions | VersionOptions:
    if namespace.version != "false":
        return VersionOptions("json" if namespace.version == "raw" else "short")
    if namespace.vmodule and namespace.logging_format != "text":
        raise ConfigError("--vmodule: Only supported for text log format")
    if namespace.ui and not namespace.secure_port:
        raise ConfigError("--ui: the page is served at the secure port, and --secure-port=0 serves none")
    return from_flags(
        RunOptions,
        namespace,
        tls=TlsOptions(namespace.tls_min_version, namespace.tls_cipher_suites, tuple(namespace.tls_sni_cert_key)),
        authentication=_authentication(namespace),
        authorization=AuthorizationOptions(
            namespace.authorization_kubeconfig,
            namespace.authorization_webhook_cache_authorized_ttl.seconds,
            namespace.authorization_webhook_cache_unauthorized_ttl.seconds,
        ),
        always_allow_paths=namespace.authorization_always_allow_paths,
        connection=ConnectionFlags(namespace.kube_api_qps, namespace.kube_api_burst, namespace.kube_api_content_type),
        leader_election=LeaderElectionFlags(
            namespace.leader_elect,
            namespace.leader_elect_lease_duration,
            namespace.leader_elect_renew_deadline,
            namespace.leader_elect_retry_period,
            namespace.leader_elect_resource_lock,
            namespace.leader_elect_resource_name,
            namespace.leader_elect_resource_namespace,
        ),
        verbosity=namespace.v,
        pod_max_in_unschedulable_pods_s=namespace.pod_max_in_unschedulable_pods_duration.seconds,
        metric_limits=metric_limits(
            namespace.disabled_metrics, namespace.allow_metric_labels, namespace.allow_metric_labels_manifest
        ),
        feature_gates=parsed_gates(namespace.feature_gates),
        replace_ended_holder=namespace.leader_elect_replace_ended_holder,
        assumed_pod_ttl_s=namespace.assumed_pod_ttl.seconds,
        explain=DecisionLogOptions(
            namespace.explain_decisions,
            namespace.explain_memory,
            namespace.explain_top_nodes,
            namespace.explain_annotations,
        ),
        record_part_bytes=namespace.record_part_size,
        warnings=warnings(namespace),
        flags=flag_values(namespace),
    )


def _authentication(namespace: argparse.Namespace) -> AuthenticationOptions:
    """Return the authentication options. Raises ConfigError for --requestheader-uid-headers without X-Remote-Uid."""
    uid_headers = namespace.requestheader_uid_headers
    if uid_headers and "x-remote-uid" not in {name.lower() for name in uid_headers}:
        raise ConfigError(
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - "
            "API aggregation will not work"
        )
    return AuthenticationOptions(
        kubeconfig=namespace.authentication_kubeconfig,
        token_ttl_s=namespace.authentication_token_webhook_cache_ttl.seconds,
        client_ca_file=namespace.client_ca_file,
        request_header=RequestHeaderOptions(
            client_ca_file=namespace.requestheader_client_ca_file,
            allowed_names=namespace.requestheader_allowed_names,
            username_headers=namespace.requestheader_username_headers,
            uid_headers=uid_headers,
            group_headers=namespace.requestheader_group_headers,
            extra_header_prefixes=namespace.requestheader_extra_headers_prefix,
        ),
        skip_lookup=namespace.authentication_skip_lookup,
        tolerate_lookup_failure=namespace.authentication_tolerate_lookup_failure,
    )
