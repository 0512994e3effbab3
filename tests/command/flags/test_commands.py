"""The commands: typed options out, one-line refusals otherwise."""

from __future__ import annotations

import pytest

from kscheduler import __version__
from kscheduler.command.flags.commands import parse
from kscheduler.command.flags.config import ShowOptions, ValidateOptions
from kscheduler.command.flags.version import VersionOptions
from kscheduler.explain.options import ExplainOptions
from tests.command.flags.given import refusal


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
            ["run", "--pod-max-in-unschedulable-pods-duration=5"],
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


def test_config_and_version_have_options_of_their_own() -> None:
    assert parse(["config", "validate", "f"]) == ValidateOptions("f")
    assert parse(["config", "show", "f", "--expanded"]) == ShowOptions("f", expanded=True)
    assert parse(["version"]) == VersionOptions("text")
    assert parse(["version", "--output", "json"]) == VersionOptions("json")


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


def test_explain_takes_a_pod_and_whom_to_ask() -> None:
    assert parse(["explain", "web"]) == ExplainOptions("web")
    arguments = ["explain", "web", "-n", "shop", "--server=https://x:1", "--token-file=/t", "--nodes=all", "--top=2"]
    assert "expected NAMESPACE/NAME, got 'x'" in refusal("explain", "web", "--lease=x")
    assert parse([*arguments, "-o", "json"]) == ExplainOptions(
        "web", namespace="shop", server="https://x:1", token_file="/t", all_nodes=True, top_nodes=2, output="json"
    )
