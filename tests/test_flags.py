"""The command line: typed options out, one-line refusals otherwise."""

from __future__ import annotations

import pytest

from kscheduler import __version__
from kscheduler.config import default_config
from kscheduler.config.duration import Duration
from kscheduler.errors import ConfigError, KSchedulerError
from kscheduler.explain.options import DecisionLogOptions, ExplainOptions
from kscheduler.flags import (
    IGNORED_FLAGS,
    RunOptions,
    ShowOptions,
    ValidateOptions,
    VersionOptions,
    apply_run_options,
    parse,
    report,
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
    options = run(
        "--authentication-kubeconfig=/k", "--profiling", "--feature-gates=A=true,B=false", "--feature-gates=C=1"
    )
    assert options.feature_gates == {"A": True, "B": False, "C": True}
    assert options.warnings == (
        "--authentication-kubeconfig has no effect: the scheduler's own credentials ask for reviews",
        "--profiling has no effect: there is no such endpoint",
        "--feature-gates A: feature gates have no effect",
        "--feature-gates B: feature gates have no effect",
        "--feature-gates C: feature gates have no effect",
    )


@pytest.mark.parametrize("flag", IGNORED_FLAGS)
def test_every_ignored_flag_is_accepted(flag: str) -> None:
    assert run(f"{flag}=x").warnings[0].startswith(f"{flag} has no effect")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["frobnicate"], "argument COMMAND: invalid choice: 'frobnicate'"),
        (["config"], "the following arguments are required: COMMAND"),
        (["config", "validate"], "the following arguments are required: FILE"),
        (["run", "--secur-port=1"], "unrecognized arguments: --secur-port=1"),
        (["run", "--secure=1"], "unrecognized arguments: --secure=1"),
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
        (["run", "--feature-gates=A"], "argument --feature-gates: expected Name=true or Name=false, got 'A'"),
        (["run", "--logging-format=xml"], "argument --logging-format: invalid choice: 'xml'"),
        (["run", "--bind-concurrency=0"], "argument --bind-concurrency: expected an integer from 1 to 100000, got '0'"),
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


def test_explain_takes_a_pod_and_whom_to_ask() -> None:
    assert parse(["explain", "web"]) == ExplainOptions("web")
    arguments = ["explain", "web", "-n", "shop", "--server=https://x:1", "--token-file=/t", "--nodes=all", "--top=2"]
    assert "expected NAMESPACE/NAME, got 'x'" in refusal("explain", "web", "--lease=x")
    assert parse([*arguments, "-o", "json"]) == ExplainOptions(
        "web", namespace="shop", server="https://x:1", token_file="/t", all_nodes=True, top_nodes=2, output="json"
    )
