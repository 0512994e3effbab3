"""The flags of `kscheduler run`, of which each is tested or named as without effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from kscheduler.command.flags.commands import _parser, parse
from kscheduler.command.flags.ineffective import IGNORED_FLAGS
from kscheduler.command.flags.run_options import RunOptions
from kscheduler.command.flags.version import VersionOptions
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.serving.options import (
    AuthenticationOptions,
    AuthorizationOptions,
    NamedPair,
    RequestHeaderOptions,
    TlsOptions,
)
from tests.command.flags.given import refusal, run


def test_run_without_flags_has_kube_schedulers_defaults() -> None:
    assert run() == RunOptions()


def test_run_takes_kube_schedulers_flags() -> None:
    options = run(
        "--config=/etc/s.yaml",
        "--kubeconfig",
        "/k",
        "--master=https://x:6443",
        "--write-config-to=/out",
        "--bind-address=127.0.0.1",
        "--secure-port=0",
        "--cert-dir=/c",
        "--tls-cert-file=/crt",
        "--tls-private-key-file=/key",
        "--authorization-always-allow-paths=/healthz, /metrics",
        "--pod-max-in-unschedulable-pods-duration=1m30s",
        "--logging-format=json",
        "-v=4",
    )
    assert options == RunOptions(
        config="/etc/s.yaml",
        kubeconfig="/k",
        master="https://x:6443",
        write_config_to="/out",
        bind_address="127.0.0.1",
        secure_port=0,
        cert_dir="/c",
        tls_cert_file="/crt",
        tls_private_key_file="/key",
        always_allow_paths=("/healthz", "/metrics"),
        pod_max_in_unschedulable_pods_s=90.0,
        logging_format="json",
        verbosity=4,
    )


@pytest.mark.parametrize(("given", "seconds"), [("0", 0.0), ("0s", 0.0), ("-1s", -1.0)])
def test_pods_may_be_retried_at_each_sweep(given: str, seconds: float) -> None:
    assert run(f"--pod-max-in-unschedulable-pods-duration={given}").pod_max_in_unschedulable_pods_s == seconds


def test_a_list_given_again_is_added_to_as_go_adds_to_it() -> None:
    flag = "--authorization-always-allow-paths"
    assert run(f"{flag}=/a,/b", f"{flag}=/c").always_allow_paths == ("/a", "/b", "/c")
    assert run(f"{flag}=").always_allow_paths == ()


@pytest.mark.parametrize("flag", [["-v", "5"], ["-v5"], ["-v=5"], ["--v=5"], ["-v=3", "-v=5"]])
def test_verbosity_can_be_written_in_every_way_go_takes(flag: list[str]) -> None:
    assert run(*flag).verbosity == 5


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--leader-elect", True),
        ("--leader-elect=true", True),
        ("--leader-elect=false", False),
        ("--leader-elect=0", False),
    ],
)
def test_leader_election_is_switched_as_go_switches_it(flag: str, value: bool) -> None:
    assert run(flag, "--config=x").leader_election.leader_elect is value


def test_flags_that_kube_scheduler_lacks_are_options() -> None:
    options = run("--tie-break=first", "--seed=7", "--bind-concurrency=32", "--assumed-pod-ttl=90s")
    assert (options.tie_break, options.seed, options.bind_concurrency) == ("first", 7, 32)
    assert options.assumed_pod_ttl_s == 90.0


def test_flags_say_who_may_read_the_endpoint() -> None:
    options = run(
        "--authentication-kubeconfig=/a",
        "--authorization-kubeconfig=/b",
        "--authentication-token-webhook-cache-ttl=1m",
        "--authorization-webhook-cache-authorized-ttl=2m",
        "--authorization-webhook-cache-unauthorized-ttl=0s",
        "--client-ca-file=/ca",
        "--requestheader-client-ca-file=/proxies",
        "--requestheader-allowed-names=a,b",
        "--requestheader-allowed-names=c",
        "--requestheader-username-headers=X-Remote-User,X-U",
        "--requestheader-uid-headers=X-Remote-Uid",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--authentication-skip-lookup",
        "--authentication-tolerate-lookup-failure=false",
    )
    headers = RequestHeaderOptions(
        "/proxies",
        ("a", "b", "c"),
        ("X-Remote-User", "X-U"),
        ("X-Remote-Uid",),
        ("X-Remote-Group",),
        ("X-Remote-Extra-",),
    )
    assert options.authentication == AuthenticationOptions("/a", 60.0, "/ca", headers, True, False)
    assert options.authorization == AuthorizationOptions("/b", 120.0, 0.0)
    assert options.warnings == ()


def test_tls_versions_and_suites() -> None:
    names = "TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    options = run("--tls-min-version=VersionTLS13", f"--tls-cipher-suites={names}")
    assert options.tls == TlsOptions("VersionTLS13", tuple(names.split(",")))


def test_certificates_are_given_by_name() -> None:
    options = run("--tls-sni-cert-key=a.crt, a.key", "--tls-sni-cert-key=b.crt,b.key:*.b.example, b.example")
    named = NamedPair("b.crt", "b.key", ("*.b.example", "b.example"))
    assert options.tls.named_pairs == (NamedPair("a.crt", "a.key"), named)
    assert run("--tls-sni-cert-key=a,b:10.0.0.1,a.example").warnings == (
        "--tls-sni-cert-key has no effect for the address 10.0.0.1: clients ask for names of hosts only",
    )


# Flag -> a value, and the part of the options that it changes. What a part does is tested where the part is:
# tests/serving (TLS, who may read the endpoint), test_logs.py, test_metrics.py, test_leaderelection.py and here.
IMPLEMENTED = {
    "--allow-metric-labels": ("scheduler_pending_pods,queue=active", "metric_limits"),
    "--allow-metric-labels-manifest": ("MANIFEST", "metric_limits"),
    "--authentication-kubeconfig": ("x", "authentication"),
    "--authentication-skip-lookup": ("true", "authentication"),
    "--authentication-token-webhook-cache-ttl": ("1s", "authentication"),
    "--authentication-tolerate-lookup-failure": ("false", "authentication"),
    "--authorization-always-allow-paths": ("/x", "always_allow_paths"),
    "--authorization-kubeconfig": ("x", "authorization"),
    "--authorization-webhook-cache-authorized-ttl": ("1s", "authorization"),
    "--authorization-webhook-cache-unauthorized-ttl": ("1s", "authorization"),
    "--bind-address": ("127.0.0.1", "bind_address"),
    "--cert-dir": ("x", "cert_dir"),
    "--client-ca-file": ("x", "authentication"),
    "--config": ("x", "config"),
    "--disabled-metrics": ("scheduler_pending_pods", "metric_limits"),
    "--emulated-version": ("1.37", "emulated_version"),
    "--feature-gates": ("StorageCapacityScoring=true", "feature_gates"),
    "--kube-api-burst": ("1", "connection"),
    "--kube-api-content-type": ("x", "connection"),
    "--kube-api-qps": ("1", "connection"),
    "--kubeconfig": ("x", "kubeconfig"),
    "--leader-elect": ("false", "leader_election"),
    "--leader-elect-lease-duration": ("1s", "leader_election"),
    "--leader-elect-renew-deadline": ("1s", "leader_election"),
    "--leader-elect-resource-lock": ("leases", "leader_election"),
    "--leader-elect-resource-name": ("x", "leader_election"),
    "--leader-elect-resource-namespace": ("x", "leader_election"),
    "--leader-elect-retry-period": ("1s", "leader_election"),
    "--logging-format": ("json", "logging_format"),
    "--master": ("x", "master"),
    "--pod-max-in-unschedulable-pods-duration": ("1s", "pod_max_in_unschedulable_pods_s"),
    "--profiling": ("false", "profiling"),
    "--requestheader-allowed-names": ("x", "authentication"),
    "--requestheader-client-ca-file": ("x", "authentication"),
    "--requestheader-extra-headers-prefix": ("x", "authentication"),
    "--requestheader-group-headers": ("x", "authentication"),
    "--requestheader-uid-headers": ("X-Remote-Uid", "authentication"),
    "--requestheader-username-headers": ("x", "authentication"),
    "--secure-port": ("1", "secure_port"),
    "--tls-cert-file": ("x", "tls_cert_file"),
    "--tls-cipher-suites": ("TLS_AES_128_GCM_SHA256", "tls"),
    "--tls-min-version": ("VersionTLS13", "tls"),
    "--tls-sni-cert-key": ("c,k", "tls"),
    "--tls-private-key-file": ("x", "tls_private_key_file"),
    "--v": ("1", "verbosity"),
    "--version": ("false", ""),
    "--vmodule": ("queue=5", "vmodule"),
    "--write-config-to": ("x", "write_config_to"),
}


@pytest.mark.parametrize("flag", IMPLEMENTED)
def test_every_implemented_flag_changes_what_it_is_about(flag: str, tmp_path: Path) -> None:
    manifest = tmp_path / "labels.yaml"
    manifest.write_text('"scheduler_pending_pods,queue": active\n')
    value, part = IMPLEMENTED[flag]
    given = run(f"{flag}={value.replace('MANIFEST', str(manifest))}")
    defaults = RunOptions()
    changed = {name for name in RunOptions.__slots__ if getattr(given, name) != getattr(defaults, name)}
    assert changed - {"warnings", "flags"} == {part} - {""}


def test_a_flag_is_either_implemented_or_warned_of() -> None:
    assert not IMPLEMENTED.keys() & IGNORED_FLAGS.keys()
    own = {
        *("--assumed-pod-ttl", "--bind-concurrency", "--explain-annotations", "--explain-decisions"),
        *("--explain-memory", "--explain-top-nodes", "--plugin-cache-dir", "--recover-events", "--routing-config"),
        *("--record", "--record-keep-parts", "--record-part-size", "--ui"),
        *("--seed", "--tie-break", "--help", "--leader-elect-replace-ended-holder"),
    }
    # A new flag is to be named here, in one of the three ways.
    assert accepted_flags() == {*IMPLEMENTED, *IGNORED_FLAGS, *own}


def accepted_flags() -> set[str]:
    commands = next(action for action in _parser()._actions if isinstance(action.choices, dict))
    assert isinstance(commands.choices, dict)
    actions = commands.choices["run"]._actions
    return {option for action in actions for option in action.option_strings if option.startswith("--")}


@pytest.mark.parametrize("value", ["", "=true", "=1", "=raw"])
def test_run_prints_the_version_as_kube_scheduler_does(value: str) -> None:
    options = parse(["run", "--leader-elect=false", f"--version{value}", "-v=2"])
    assert options == VersionOptions("json" if value == "=raw" else "short")


def test_a_version_that_is_not_wanted_is_among_the_flags() -> None:
    assert dict(run().flags)["version"] == dict(run("--version=false").flags)["version"] == "false"


def test_the_memory_of_decisions_is_bounded_by_flags() -> None:
    assert run().explain == DecisionLogOptions()
    options = run("--explain-decisions=7", "--explain-memory=2Mi", "--explain-top-nodes=0")
    assert options.explain == DecisionLogOptions(max_records=7, max_bytes=2 * 1024 * 1024, top_nodes=0)
    assert "expected an amount of memory, such as 32Mi, got 'much'" in refusal("run", "--explain-memory=much")
    assert "expected an amount of memory" in refusal("run", "--explain-memory=-1")
    assert "expected an integer from 0" in refusal("run", "--explain-decisions=-1")


@pytest.mark.parametrize("given", ["", "127.0.0.1", "::"])
def test_the_endpoint_listens_on_an_address(given: str) -> None:
    assert run(f"--bind-address={given}").bind_address == given


@pytest.mark.parametrize("given", ["localhost", "10.0.0", "127.0.0.1:10259"])
def test_a_name_is_no_address_to_listen_on(given: str) -> None:
    assert f"--bind-address: expected an IP address, got '{given}'" in refusal("run", f"--bind-address={given}")


def test_the_page_is_off_unless_asked_for_and_needs_the_secure_port() -> None:
    assert not run().ui
    assert run("--ui").ui
    assert run("--ui=false", "--secure-port=0").ui is False
    assert "--secure-port=0 serves none" in refusal("run", "--ui", "--secure-port=0")


@pytest.mark.parametrize(
    ("flags", "expected"), [([], None), (["--plugin-cache-dir="], ""), (["--plugin-cache-dir", "/c"], "/c")]
)
def test_the_cache_directory_is_the_default_one_none_or_the_named(flags: list[str], expected: str | None) -> None:
    options = parse(["run", *flags])
    assert isinstance(options, RunOptions)
    assert options.plugin_cache_dir == expected
