"""The command line: typed options out, one-line refusals otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from kscheduler import __version__
from kscheduler.command.flags import (
    IGNORED_FLAGS,
    InspectOptions,
    PluginTestOptions,
    RunOptions,
    ShowOptions,
    ValidateOptions,
    VersionOptions,
    _parser,
    apply_run_options,
    parse,
    report,
)
from kscheduler.config.duration import Duration
from kscheduler.config.load import default_config
from kscheduler.errors import ConfigError, KSchedulerError
from kscheduler.explain.options import DecisionLogOptions, ExplainOptions
from kscheduler.serving.options import (
    AuthenticationOptions,
    AuthorizationOptions,
    NamedPair,
    RequestHeaderOptions,
    TlsOptions,
)
from tests.config.documents import read


def run(*argv: str) -> RunOptions:
    options = parse(["run", *argv])
    assert isinstance(options, RunOptions)
    return options


def refusal(*argv: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(argv)
    return str(caught.value)


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


def test_our_own_flags() -> None:
    options = run("--tie-break=first", "--seed=7", "--bind-concurrency=32", "--assumed-pod-ttl=90s")
    assert (options.tie_break, options.seed, options.bind_concurrency) == ("first", 7, 32)
    assert options.assumed_pod_ttl_s == 90.0


def test_flags_without_meaning_here_are_accepted_with_a_warning() -> None:
    options = run("--http2-max-streams-per-connection=9", "--profiling")
    assert options.warnings == (
        "--http2-max-streams-per-connection has no effect: only HTTP/1.1 is served",
        "--profiling has no effect: there is no such endpoint",
    )


@pytest.mark.parametrize("flag", IGNORED_FLAGS)
def test_every_ignored_flag_is_accepted(flag: str) -> None:
    assert run(f"{flag}=x").warnings[0].startswith(f"{flag} has no effect")


# --- TLS, and who may read the endpoint ---


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


@pytest.mark.parametrize(
    ("name", "standard"),
    [
        ("username-headers", "X-Remote-User header"),
        ("group-headers", "X-Remote-Group header"),
        ("extra-headers-prefix", "X-Remote-Extra- header prefix"),
    ],
)
def test_headers_without_the_standard_one_are_warned_of(name: str, standard: str) -> None:
    flag = f"--requestheader-{name}"
    warning = f"{flag} is set without specifying the standard {standard} - API aggregation will not work"
    assert run(f"{flag}=X-Mine").warnings == (warning,)


def test_tls_versions_and_suites() -> None:
    names = "TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    options = run("--tls-min-version=VersionTLS13", f"--tls-cipher-suites={names}")
    assert options.tls == TlsOptions("VersionTLS13", tuple(names.split(",")))


def test_certificates_by_name() -> None:
    options = run("--tls-sni-cert-key=a.crt, a.key", "--tls-sni-cert-key=b.crt,b.key:*.b.example, b.example")
    named = NamedPair("b.crt", "b.key", ("*.b.example", "b.example"))
    assert options.tls.named_pairs == (NamedPair("a.crt", "a.key"), named)
    assert run("--tls-sni-cert-key=a,b:10.0.0.1,a.example").warnings == (
        "--tls-sni-cert-key has no effect for the address 10.0.0.1: clients ask for names of hosts only",
    )


# --- the connection, without a configuration file ---


def test_flags_of_the_connection_hold_without_a_configuration_file() -> None:
    flags = ("--kube-api-qps=7.5", "--kube-api-burst=9", "--kube-api-content-type=application/json")
    connection = apply_run_options(default_config(), run(*flags)).client_connection
    assert (connection.qps, connection.burst, connection.content_type) == (7.5, 9, "application/json")


def test_with_a_configuration_file_they_do_nothing_and_say_so() -> None:
    options = run("--config=/c", "--kube-api-qps=7.5", "--kube-api-burst=9", "--kube-api-content-type=x")
    assert apply_run_options(default_config(), options) == default_config()
    assert options.warnings == tuple(
        f"--kube-api-{name} has no effect: the configuration file decides" for name in ("qps", "burst", "content-type")
    )


# --- every flag of kube-scheduler ---

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


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["frobnicate"], "argument COMMAND: invalid choice: 'frobnicate'"),
        (["config"], "the following arguments are required: COMMAND"),
        (["config", "validate"], "the following arguments are required: FILE"),
        (["run", "--secur-port=1"], "unrecognized arguments: --secur-port=1"),
        (["run", "--secure=1"], "unrecognized arguments: --secure=1"),
        (["run", "--zzz"], "unrecognized arguments: --zzz (see kscheduler run --help)"),
        (["run", "--bind-adress=::"], "unrecognized arguments: --bind-adress=::; did you mean --bind-address? (see "),
        (["simulate", "--seed", "x"], "argument --seed: expected a whole number, got 'x' (see kscheduler simulate"),
        (["simulate", "--max-time", "10m"], "argument --max-time: expected a number, got '10m'"),
        (["simulate", "--node", "3"], "unrecognized arguments: --node 3; did you mean --nodes?"),
        (["run", "--secure-port=x"], "argument --secure-port: expected an integer from 0 to 65535, got 'x'"),
        (["run", "--secure-port=65536"], "argument --secure-port: expected an integer from 0 to 65535, got '65536'"),
        (["run", "--config"], "argument --config: expected one argument"),
        (["run", "--leader-elect=maybe"], "argument --leader-elect: expected true or false, got 'maybe'"),
        (
            ["run", "--leader-elect-lease-duration=15"],
            'argument --leader-elect-lease-duration: expected a duration such as "15s" or "1m30s", got "15"',
        ),
        (
            ["run", "--pod-max-in-unschedulable-pods-duration=0s"],
            "argument --pod-max-in-unschedulable-pods-duration: exp",
        ),
        (["run", "--tls-min-version=1.2"], 'argument --tls-min-version: unknown tls version "1.2"'),
        (
            ["run", "--tls-cipher-suites=TLS_X"],
            "argument --tls-cipher-suites: Cipher suite TLS_X not supported or doesn't exist",
        ),
        (
            ["run", "--requestheader-allowed-names=a, ,b"],
            'argument --requestheader-allowed-names: empty value in "requestheader-allowed-names"',
        ),
        (
            ["run", "--requestheader-uid-headers=X-Mine"],
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation",
        ),
        (["run", "--tls-sni-cert-key=a"], "argument --tls-sni-cert-key: expected comma separated certificate and key"),
        (["run", "--tls-sni-cert-key=a,b:"], "argument --tls-sni-cert-key: empty names list is not allowed"),
        (["run", "--vmodule=queue"], 'argument --vmodule: "queue" does not have the pattern=N format'),
        (["run", "--vmodule=queue=x"], 'argument --vmodule: parsing verbosity in "queue=x": expected an integer'),
        (["run", "--vmodule=a=1", "--logging-format=json"], "--vmodule: Only supported for text log format"),
        (["run", "--disabled-metrics=a-b"], "--disabled-metrics: must be fully qualified metric names matching"),
        (["run", "--allow-metric-labels=a=b"], "--allow-metric-labels: must have keys with format `metricName,label"),
        (["run", "--allow-metric-labels=a"], "--allow-metric-labels: a must be formatted as key=value"),
        (["run", "--allow-metric-labels-manifest=/absent"], "--allow-metric-labels-manifest /absent: failed to read"),
        (
            ["run", "--allow-metric-labels-manifest=/x", "--allow-metric-labels=a,b=c"],
            "--allow-metric-labels, --allow-metric-labels-manifest: cannot specify both",
        ),
        (["run", "--kube-api-qps=many"], "argument --kube-api-qps: expected a number, got 'many'"),
        (["run", "--feature-gates=A"], "--feature-gates: missing bool value for A"),
        (["run", "--emulated-version=1.12"], "argument --emulated-version: emulation version 1.12 is not between [1.3"),
        (["run", "--logging-format=xml"], "argument --logging-format: invalid choice: 'xml'"),
        (["run", "--bind-concurrency=0"], "argument --bind-concurrency: expected an integer from 1 to 100000, got '0'"),
        (["run", "--version=v1.36.0"], "argument --version: expected true, false or raw, got 'v1.36.0'"),
        (["version", "--output=xml"], "argument -o/--output: invalid choice: 'xml'"),
    ],
)
def test_wrong_flags_are_refused_with_flag_expectation_and_value(argv: list[str], message: str) -> None:
    assert refusal(*argv).startswith(message)


def test_config_and_version_commands() -> None:
    assert parse(["config", "validate", "f"]) == ValidateOptions("f")
    assert parse(["config", "show", "f", "--expanded"]) == ShowOptions("f", expanded=True)
    assert parse(["version"]) == VersionOptions("text")
    assert parse(["version", "--output", "json"]) == VersionOptions("json")


@pytest.mark.parametrize("value", ["", "=true", "=1", "=raw"])
def test_run_prints_the_version_as_kube_scheduler_does(value: str) -> None:
    options = parse(["run", "--leader-elect=false", f"--version{value}", "-v=2"])
    assert options == VersionOptions("json" if value == "=raw" else "short")


def test_a_version_that_is_not_wanted_is_among_the_flags() -> None:
    assert dict(run().flags)["version"] == dict(run("--version=false").flags)["version"] == "false"


@pytest.mark.parametrize("command", ["frobnicate", "sweep-collected"])
def test_an_unknown_command_is_refused_with_the_commands_that_there_are(command: str) -> None:
    message = refusal(command).replace(command, "")
    assert all(name in message for name in ("run", "simulate", "sweep", "doctor"))
    assert "sweep-collect" not in message
    assert "sweep-index" not in message


@pytest.mark.parametrize("command", [["explain"], ["simulate"], ["config", "show"], ["plugin", "test"]])
def test_the_help_of_a_command_says_what_it_does(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse([*command, "--help"])
    usage, description, *_ = capsys.readouterr().out.split("\n\n")
    assert usage.startswith(f"usage: kscheduler {' '.join(command)} ")
    assert description[0].isupper()
    assert description.endswith(".")


def test_version_and_help_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["--version"], ["--help"], ["run", "--help"]):
        with pytest.raises(SystemExit) as caught:
            parse(argv)
        assert caught.value.code == 0
    printed = capsys.readouterr().out
    assert f"kscheduler {__version__}" in printed
    assert "--tie-break" in printed


def test_leader_election_flags_override_the_configuration() -> None:
    options = run("--leader-elect=false", "--leader-elect-lease-duration=30s", "--leader-elect-resource-name=mine")
    config = apply_run_options(read("leaderElection: {retryPeriod: 3s}"), options)
    election = config.leader_election
    assert (election.leader_elect, election.resource_name) == (False, "mine")
    assert election.lease_duration == Duration.parse("30s")
    assert election.retry_period == Duration.parse("3s")


def test_the_kubeconfig_flag_holds_where_the_configuration_names_none() -> None:
    options = run("--kubeconfig=/flag")
    assert apply_run_options(default_config(), options).client_connection.kubeconfig == "/flag"
    config = read("clientConnection: {kubeconfig: /file}")
    assert apply_run_options(config, options).client_connection.kubeconfig == "/file"


def test_no_flags_change_nothing() -> None:
    assert apply_run_options(default_config(), run()) == default_config()


@pytest.mark.parametrize(("error", "code"), [(ConfigError("a\n  b"), 2), (KSchedulerError("a b"), 1)])
def test_a_fault_is_one_line_and_an_exit_code(error: Exception, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(error) == code
    assert capsys.readouterr().err == "kscheduler: error: a b\n"


def test_the_memory_of_decisions_is_bounded_by_flags() -> None:
    assert run().explain == DecisionLogOptions()
    options = run("--explain-decisions=7", "--explain-memory=2Mi", "--explain-top-nodes=0")
    assert options.explain == DecisionLogOptions(max_records=7, max_bytes=2 * 1024 * 1024, top_nodes=0)
    assert "expected an amount of memory, such as 32Mi, got 'much'" in refusal("run", "--explain-memory=much")
    assert "expected an amount of memory" in refusal("run", "--explain-memory=-1")
    assert "expected an integer from 0" in refusal("run", "--explain-decisions=-1")


def test_the_page_is_off_unless_asked_for_and_needs_the_secure_port() -> None:
    assert not run().ui
    assert run("--ui").ui
    assert run("--ui=false", "--secure-port=0").ui is False
    assert "--secure-port=0 serves none" in refusal("run", "--ui", "--secure-port=0")


def test_explain_takes_a_pod_and_whom_to_ask() -> None:
    assert parse(["explain", "web"]) == ExplainOptions("web")
    arguments = ["explain", "web", "-n", "shop", "--server=https://x:1", "--token-file=/t", "--nodes=all", "--top=2"]
    assert "expected NAMESPACE/NAME, got 'x'" in refusal("explain", "web", "--lease=x")
    assert parse([*arguments, "-o", "json"]) == ExplainOptions(
        "web", namespace="shop", server="https://x:1", token_file="/t", all_nodes=True, top_nodes=2, output="json"
    )


# --- kscheduler plugin, --plugin-cache-dir ---


def test_inspect_takes_a_file_and_how_to_print() -> None:
    assert parse(["plugin", "inspect", "g.wasm"]) == InspectOptions("g.wasm")
    flags = ["--output", "json", "--allow-insecure"]
    assert parse(["plugin", "inspect", "http://a/g", *flags]) == InspectOptions("http://a/g", "json", True)


def test_test_takes_a_cluster_and_pods() -> None:
    given = ["plugin", "test", "g.wasm", "--cluster", "c.yaml", "--pod", "p.yaml"]
    assert parse(given) == PluginTestOptions("g.wasm", "c.yaml", "p.yaml")
    more = ["--args", "a.yaml", "--guest-config", "x", "--plugin-cache-dir", "", "-o", "json", "--allow-insecure"]
    assert parse([*given, *more]) == PluginTestOptions(
        "g.wasm", "c.yaml", "p.yaml", args="a.yaml", config="x", output="json", allow_insecure=True, plugin_cache_dir=""
    )


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        (["plugin"], "COMMAND"),
        (["plugin", "inspect"], "FILE"),
        (["plugin", "test", "g.wasm", "--pod", "p"], "--cluster"),
        (["plugin", "test", "g.wasm", "--cluster", "c"], "--pod"),
    ],
)
def test_what_a_plugin_command_lacks_is_named(given: list[str], missing: str) -> None:
    with pytest.raises(ConfigError, match=f"required: {missing}"):
        parse(given)


@pytest.mark.parametrize(
    ("flags", "expected"), [([], None), (["--plugin-cache-dir="], ""), (["--plugin-cache-dir", "/c"], "/c")]
)
def test_the_cache_directory_is_the_default_one_none_or_the_named(flags: list[str], expected: str | None) -> None:
    options = parse(["run", *flags])
    assert isinstance(options, RunOptions)
    assert options.plugin_cache_dir == expected
