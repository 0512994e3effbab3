"""The flags of `kscheduler run`: those of kube-scheduler, and our own."""

from __future__ import annotations

import argparse

from kscheduler.command.flags.actions import Modules, Strings, Suites, Words
from kscheduler.command.flags.ineffective import add_ignored
from kscheduler.command.flags.run_options import read_run
from kscheduler.command.flags.shared import add_boolean, add_plugin_cache, add_top_nodes
from kscheduler.command.flags.values import (
    byte_count,
    count,
    duration,
    int32,
    ip_address,
    named_pair,
    port,
    positive,
    positive_duration,
    real,
    seed,
    tls_version,
    verbosity,
    version_flag,
)
from kscheduler.config.duration import Duration
from kscheduler.config.emulated_version import add_emulated_version
from kscheduler.config.gate_flag import add_feature_gates
from kscheduler.explain.options import DEFAULT_BYTES, DEFAULT_RECORDS
from kscheduler.serving.tls_policy import INSECURE_SUITES, PREFERRED_SUITES, TLS_1_3_SUITES, VERSIONS


def add_run(parser: argparse.ArgumentParser) -> None:
    _add_cluster_flags(parser.add_argument_group("configuration and cluster"))
    _add_unconfigured_flags(parser.add_argument_group("for a start without --config"))
    _add_serving_flags(parser.add_argument_group("endpoint"))
    _add_authentication_flags(parser.add_argument_group("who may read the endpoint"))
    _add_election_flags(parser.add_argument_group("leader election (these override the configuration)"))
    _add_logging_flags(parser.add_argument_group("logs and features"))
    _add_metric_flags(parser.add_argument_group("metrics"))
    _add_own_flags(parser.add_argument_group("beyond kube-scheduler"))
    _add_explain_flags(parser.add_argument_group("memory of decisions"))
    _add_record_flags(parser.add_argument_group("record for kscheduler replay"))
    add_ignored(parser)
    parser.add_argument(
        "--version",
        type=version_flag,
        nargs="?",
        const="true",
        default="false",
        metavar="true|false|raw",
        help="print the version and exit; raw: as JSON, with that of Python",
    )
    parser.set_defaults(make=read_run)


def _add_cluster_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--config", default="", metavar="FILE", help="a KubeSchedulerConfiguration, YAML or JSON")
    group.add_argument(
        "--kubeconfig", default="", metavar="FILE", help="used where the configuration names none; else in-cluster"
    )
    group.add_argument("--master", default="", metavar="URL", help="the apiserver, in place of the kubeconfig's")
    group.add_argument(
        "--write-config-to",
        default="",
        metavar="FILE",
        help="write the configuration in force to FILE (mode 0600), secrets too, and exit",
    )
    group.add_argument(
        "--pod-max-in-unschedulable-pods-duration",
        type=duration,
        default=Duration.of_seconds(300),
        metavar="DURATION",
        help="longest stay among the unschedulable pods without another attempt (default 5m)",
    )


def _add_serving_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--bind-address", type=ip_address, default="0.0.0.0", metavar="IP", help="address to listen on (default all)"
    )
    group.add_argument(
        "--secure-port", type=port, default=10259, metavar="PORT", help="HTTPS port; 0 serves nothing (default 10259)"
    )
    group.add_argument("--cert-dir", default="", metavar="DIR", help="where a certificate made here is kept")
    group.add_argument(
        "--tls-cert-file", default="", metavar="FILE", help="certificate of the endpoint, PEM (default: made at start)"
    )
    group.add_argument("--tls-private-key-file", default="", metavar="FILE", help="its private key, PEM")
    group.add_argument(
        "--tls-min-version",
        type=tls_version,
        default="",
        metavar="VERSION",
        help=f"Possible values: {', '.join(VERSIONS)} (default VersionTLS12)",
    )
    group.add_argument(
        "--tls-cipher-suites",
        action=Suites,
        default=(),
        metavar="NAMES",
        help="comma-separated, for TLS 1.2 and below; those of TLS 1.3 cannot be chosen. "
        f"Preferred values: {', '.join(sorted([*PREFERRED_SUITES, *TLS_1_3_SUITES]))}. "
        f"Insecure values: {', '.join(sorted(INSECURE_SUITES))}.",
    )
    group.add_argument(
        "--tls-sni-cert-key",
        type=named_pair,
        action="append",
        default=[],
        metavar="CERT,KEY[:NAMES]",
        help="another certificate and key, for clients that ask for one of the names: example.crt,example.key, or "
        "foo.crt,foo.key:*.foo.com,foo.com",
    )


def _add_authentication_flags(group: argparse._ArgumentGroup) -> None:
    for name, kind in (("authentication", "TokenReviews"), ("authorization", "SubjectAccessReviews")):
        group.add_argument(
            f"--{name}-kubeconfig",
            default="",
            metavar="FILE",
            help=f"whose credentials ask the apiserver for {kind} (default: the scheduler's own)",
        )
    group.add_argument(
        "--client-ca-file",
        default="",
        metavar="FILE",
        help="PEM of the authorities whose client certificates count: the common name is the user, the organisations "
        "are the groups (default: those that the cluster publishes)",
    )
    group.add_argument(
        "--requestheader-client-ca-file",
        default="",
        metavar="FILE",
        help="PEM of the authorities of front proxies, which name users in headers (default: as the cluster publishes)",
    )
    for name, what, default in (
        ("allowed-names", "common names of front proxies; any by default", ()),
        ("username-headers", "headers that name the user", ("x-remote-user",)),
        ("uid-headers", "headers that give the user's uid", ()),
        ("group-headers", "headers that name the user's groups", ("x-remote-group",)),
        ("extra-headers-prefix", "prefixes of headers that say more of the user", ("x-remote-extra-",)),
    ):
        shown = f" (default {','.join(default)})" if default else ""
        group.add_argument(
            f"--requestheader-{name}",
            action=Strings,
            default=default,
            metavar="NAMES",
            help=f"comma-separated {what}{shown}",
        )
    add_boolean(
        group,
        "--authentication-skip-lookup",
        "do not ask the cluster for what the flags above leave out",
    )
    add_boolean(
        group,
        "--authentication-tolerate-lookup-failure",
        "start although the cluster could not be asked (default true)",
        default=True,
    )
    for name in (
        "authentication-token-webhook-cache-ttl",
        "authorization-webhook-cache-authorized-ttl",
        "authorization-webhook-cache-unauthorized-ttl",
    ):
        group.add_argument(
            f"--{name}",
            type=duration,
            default=Duration.of_seconds(10),
            metavar="DURATION",
            help="how long the apiserver's answer is kept (default 10s)",
        )
    group.add_argument(
        "--authorization-always-allow-paths",
        action=Words,
        default=("/healthz", "/readyz", "/livez"),
        metavar="PATHS",
        help="comma-separated paths anyone may read (default /healthz,/readyz,/livez)",
    )


def _add_unconfigured_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--kube-api-qps", type=real, default=None, metavar="N", help="writes a second to the apiserver (default 50)"
    )
    group.add_argument(
        "--kube-api-burst", type=int32, default=None, metavar="N", help="writes at once on top of it (default 100)"
    )
    group.add_argument("--kube-api-content-type", default=None, metavar="TYPE", help="shown at /configz, nothing else")
    add_boolean(
        group,
        "--profiling",
        "serve /debug/flags/v, by which the verbosity of the log is changed; no profiles (default true)",
        default=None,
    )


def _add_metric_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--disabled-metrics", action=Strings, default=(), metavar="NAMES", help="metrics not to be shown, in full"
    )
    group.add_argument(
        "--allow-metric-labels",
        action="append",
        default=[],
        metavar="METRIC,LABEL='V1,V2'",
        help='values that a label may have; all others become "unexpected"',
    )
    group.add_argument(
        "--allow-metric-labels-manifest", default="", metavar="FILE", help="the same, as a YAML mapping of texts"
    )


def _add_election_flags(group: argparse._ArgumentGroup) -> None:
    add_boolean(group, "--leader-elect", "schedule only while holding the Lease (default true)", default=None)
    for name, text in (
        ("lease-duration", "how long a Lease lasts that its holder does not renew (default 15s)"),
        ("renew-deadline", "how long the leader tries to renew it before it ends (default 10s)"),
        ("retry-period", "pause between two tries to acquire or renew it (default 2s)"),
    ):
        group.add_argument(f"--leader-elect-{name}", type=duration, default=None, metavar="DURATION", help=text)
    add_boolean(
        group,
        "--leader-elect-replace-ended-holder",
        "take the Lease at once from a holder whose Pod the kubelet reports as ended; needs POD_NAMESPACE, "
        "POD_NAME and POD_UID in the environment (default false)",
    )
    for name, text in (
        ("lock", "kind of the object; leases is the only one (default leases)"),
        ("name", "of the Lease (default kube-scheduler)"),
        ("namespace", "of the Lease (default kube-system)"),
    ):
        group.add_argument(f"--leader-elect-resource-{name}", default=None, metavar="TEXT", help=text)


def _add_logging_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--logging-format", choices=("text", "json"), default="text", help="of the logs on stderr")
    group.add_argument(
        "-v",
        "--v",
        type=verbosity,
        default=0,
        metavar="N",
        help="0 what the program does (default), 2 what became of each pod, 4 reasons, 10 scores",
    )
    group.add_argument(
        "--vmodule",
        action=Modules,
        default=(),
        metavar="PATTERN=N,...",
        help="-v for modules whose name, the last part of the logger's, fits a pattern: queue=5,bind*=4; only with "
        "--logging-format=text",
    )
    add_feature_gates(group)
    add_emulated_version(group, "the newest that is not newer than the apiserver")


def _add_own_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--tie-break", choices=("seeded", "first"), default="seeded", help="among equal nodes: by seed, or the first"
    )
    group.add_argument("--seed", type=seed, default=0, metavar="N", help="of the tie-break (default 0)")
    group.add_argument(
        "--bind-concurrency", type=positive, default=None, metavar="N", help="bindings under way at the same time"
    )
    group.add_argument(
        "--assumed-pod-ttl",
        type=positive_duration,
        default=Duration(0),
        metavar="DURATION",
        help="how long a bound pod holds its room without the watch confirming it (default: until the watch decides)",
    )
    add_boolean(
        group,
        "--recover-events",
        "write the Scheduled Events that a killed predecessor did not come to write (default true)",
        default=True,
    )
    add_boolean(
        group,
        "--ui",
        "serve a page about the running scheduler at /ui/ of the secure port, for users whom the apiserver allows it "
        "(default false)",
    )
    group.add_argument(
        "--routing-config",
        default="",
        metavar="FILE",
        help="a RoutingConfiguration: serve an admission webhook that names the scheduler of new pods",
    )
    add_plugin_cache(group)


def _add_explain_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--explain-decisions",
        type=count,
        default=DEFAULT_RECORDS,
        metavar="N",
        help=f"decisions remembered for `kscheduler explain` (default {DEFAULT_RECORDS}); 0 for none",
    )
    group.add_argument(
        "--explain-memory",
        type=byte_count,
        default=DEFAULT_BYTES,
        metavar="QUANTITY",
        help="bytes they may take (default 32Mi)",
    )
    add_top_nodes(group, "--explain-top-nodes", "best nodes of a decision whose scores are kept; 0 for none")
    add_boolean(
        group,
        "--explain-annotations",
        "annotate pods with their decisions, in kube-scheduler-simulator's keys; needs the right to patch pods",
    )


def _add_record_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--record",
        default="",
        metavar="FILE",
        help="record all decisions and what they depend on; a further part if it exists: FILE.2, FILE.3...",
    )
    group.add_argument(
        "--record-part-size",
        type=byte_count,
        default=0,
        metavar="QUANTITY",
        help="begin another part when one is larger",
    )
    group.add_argument(
        "--record-keep-parts", type=count, default=0, metavar="N", help="remove all but the last N; none by default"
    )
