"""Parses the flags of each command into typed options. Starts nothing and reads no file.

`run` accepts all flags of kube-scheduler, so that its manifest works with only the command name changed. Those that
have no meaning here are accepted with a warning; unknown flags are errors.
"""

from __future__ import annotations

import argparse
import csv
import inspect
import ipaddress
import math
import sys
import urllib.parse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn, TypeVar

import msgspec

from kscheduler import __version__
from kscheduler.api.quantity import parse_units
from kscheduler.command.completion import SHELLS
from kscheduler.config.duration import Duration
from kscheduler.config.emulated_version import add_emulated_version
from kscheduler.config.gate_flag import add_feature_gates, parsed_gates
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.explain.options import (
    DEFAULT_BYTES,
    DEFAULT_LEASE,
    DEFAULT_RECORDS,
    DEFAULT_SERVER,
    DEFAULT_TOP_NODES,
    MAX_TOP_NODES,
    DecisionLogOptions,
    ExplainOptions,
)
from kscheduler.input.redaction import SecretURL, hide_urls
from kscheduler.observability.log_modules import ModuleVerbosity, parse_vmodule
from kscheduler.observability.metric_limits import MetricLimits, metric_limits
from kscheduler.serving.options import (
    AuthenticationOptions,
    AuthorizationOptions,
    NamedPair,
    RequestHeaderOptions,
    TlsOptions,
)
from kscheduler.serving.tls_policy import INSECURE_SUITES, PREFERRED_SUITES, TLS_1_3_SUITES, VERSIONS, tls_policy

OptionsT = TypeVar("OptionsT")

OUTPUT_HELP = "text for people, json for programs (default text)"
EXIT_RUNTIME = 1  # the program started, and failed
EXIT_USAGE = 2  # wrong flags or configuration; the program did not start

# Flag of kube-scheduler that is accepted and has no effect here -> the reason.
IGNORED_FLAGS: dict[str, str] = {
    "--contention-profiling": "there is no such profile",
    "--disable-http2-serving": "only HTTP/1.1 is served",
    "--emulation-forward-compatible": "it is about the APIs that an apiserver serves",
    "--http2-max-streams-per-connection": "only HTTP/1.1 is served",
    "--log-flush-frequency": "logs are not buffered",
    "--log-json-info-buffer-size": "logs are not buffered",
    "--log-json-split-stream": "all logs go to stderr",
    "--log-text-info-buffer-size": "logs are not buffered",
    "--log-text-split-stream": "all logs go to stderr",
    "--min-compatibility-version": "no implemented feature depends on it",
    "--permit-address-sharing": "the address is not shared",
    "--permit-port-sharing": "the port is not shared",
    "--profiling": "there is no such endpoint",
    "--show-hidden-metrics-for-version": "no metrics are hidden",
    "--tls-curve-preferences": "OpenSSL's defaults are used",
}


# --- the commands -----------------------------------------------------------------------------------------------


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


@dataclass(frozen=True, slots=True)
class ValidateOptions:
    """The options of `kscheduler config validate FILE`."""

    file: str
    emulated_version: str | None = None  # None: the default one


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """The options of `kscheduler config show FILE [--expanded] [--secrets]`."""

    file: str
    expanded: bool = False  # also print the plugins of each extension point, in order and with weights
    secrets: bool = False  # print secrets as they are in the file
    emulated_version: str | None = None  # None: the default one


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """The options of `kscheduler simulate`, as parsed; the simulator defines these flags and interprets them."""

    arguments: argparse.Namespace


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """The options of `kscheduler sweep`, as parsed; the sweep defines these flags and interprets them."""

    arguments: argparse.Namespace
    part: str = "grid"  # or "collect", or "index"


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """The options of `kscheduler compare`, as parsed; the comparison defines these flags and interprets them."""

    arguments: argparse.Namespace


RECORD_PATH = "/record"  # of a scheduler's endpoint: where its record is


@dataclass(frozen=True, slots=True)
class WhatIfOptions:
    """The options of `kscheduler whatif`, as parsed; the what-if defines these flags and interprets them."""

    arguments: argparse.Namespace


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """The options of `kscheduler record --out FILE`. Those below `server` are for downloading from a scheduler."""

    out: str
    kubeconfig: str = ""  # "": that of the environment, or the pod's service account; with `server`, its token is sent
    config: str = ""  # configuration file of the scheduler whose decisions are recorded; "": not known
    duration_s: float | None = None  # None: record until stopped
    part_bytes: int = 0  # size at which another file is begun; 0: no limit
    keep_parts: int = 0  # how many of the newest files are kept; 0: all
    server: str = ""  # the scheduler whose own record is downloaded; "": the cluster is recorded
    follows: bool = False  # go on with what is added to the record, until stopped
    lease: str = DEFAULT_LEASE
    token_file: str = ""
    certificate_authority: str = ""
    insecure_skip_tls_verify: bool = False
    emulated_version: str | None = None  # of the cluster's scheduler; None: that of the apiserver


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The options of `kscheduler replay RECORD`."""

    record: str
    config: str = ""  # configuration file; "": the configuration in the record
    nodes: str = ""  # file with nodes that are added to the recorded ones
    output: str = "text"
    shown: int = 1  # how many differences are printed
    emulated_version: str | None = None  # None: the release in the record
    feature_gates: dict[str, bool] = field(default_factory=dict)  # besides those in the record


@dataclass(frozen=True, slots=True)
class UiOptions:
    """The options of `kscheduler ui FILE [FILE]`."""

    files: tuple[str, ...]  # one report or record, or two to compare
    port: int = 0  # 0: a free one
    browser: bool = True  # open a browser, if there is a display


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """The options of `kscheduler plugin inspect FILE`."""

    file: str  # a path or a URL
    output: str = "text"  # or "json"
    allow_insecure: bool = False


@dataclass(frozen=True, slots=True)
class PluginTestOptions:
    """The options of `kscheduler plugin test FILE --cluster CLUSTER --pod POD`."""

    file: str  # a path or a URL
    cluster: str  # file with nodes, and pods on them
    pod: str  # file with the pods to be scheduled
    args: str = ""  # file with the plugin's arguments as in pluginConfig, without guestURL
    config: str | None = None  # guestConfig, in place of that in the arguments' file
    output: str = "text"
    allow_insecure: bool = False
    plugin_cache_dir: str | None = None
    emulated_version: str | None = None  # None: the default one


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """The options of `kscheduler doctor`."""

    config: str = ""  # "": the default configuration
    kubeconfig: str = ""  # "": the configuration's, else in-cluster
    context: str = ""  # of the kubeconfig; "": its current one
    service_account: str | None = None  # NAMESPACE/NAME whose rights are checked; None: the kubeconfig's user's
    emulated_version: str | None = None  # None: chosen by the apiserver's version
    output: str = "text"  # or "json"


@dataclass(frozen=True, slots=True)
class CompletionOptions:
    """The options of `kscheduler completion SHELL`."""

    shell: str


@dataclass(frozen=True, slots=True)
class VersionOptions:
    """The options of `kscheduler version [--output json]`, and of `kscheduler run --version`."""

    output: str = "text"  # or "json", or "short": what `kscheduler --version` prints


Options = (
    RunOptions
    | ValidateOptions
    | ShowOptions
    | SimulateOptions
    | SweepOptions
    | CompareOptions
    | WhatIfOptions
    | RecordOptions
    | ReplayOptions
    | UiOptions
    | ExplainOptions
    | InspectOptions
    | PluginTestOptions
    | CompletionOptions
    | DoctorOptions
    | VersionOptions
)


def parse(argv: Sequence[str] | None = None) -> Options:
    """Parse `argv`, or the process's own arguments if None.

    Raises ConfigError for wrong ones, SystemExit(0) for --help.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments[:1] == ["sweep"] and arguments[1:2] and (inner := f"sweep-{arguments[1]}") in _SWEEP_PARTS:
        arguments[:2] = [inner]
    words = argparse.Namespace(words=tuple(arguments))  # as they were typed
    namespace = _parser(arguments[0] if arguments else "").parse_args(arguments, words)
    make: Callable[[argparse.Namespace], Options] = namespace.make
    return make(namespace)


def report(error: Exception) -> int:
    """Print an error as one line on stderr and return its exit code: 2 for a ConfigError, else 1."""
    text = hide_urls(" ".join(str(error).split())) or type(error).__name__
    print(f"kscheduler: error: {text}", file=sys.stderr)
    return EXIT_USAGE if isinstance(error, ConfigError) else EXIT_RUNTIME


def apply_run_options(config: SchedulerConfig, options: RunOptions) -> SchedulerConfig:
    """Return the configuration with the values of flags in place of its own.

    Leader election flags always apply, --kubeconfig if the configuration names no kubeconfig, and other connection
    flags if there is no configuration file. The result is not validated: `config.check_config` does that.
    """
    given = options.leader_election
    overrides = {name: getattr(given, name) for name in LeaderElectionFlags.__slots__}
    election = {name: value for name, value in overrides.items() if value is not None}
    connection = config.client_connection
    if options.kubeconfig and not connection.kubeconfig:
        connection = msgspec.structs.replace(connection, kubeconfig=options.kubeconfig)
    if not options.config:
        flags = {name: getattr(options.connection, name) for name in ConnectionFlags.__slots__}
        given_flags = {name: value for name, value in flags.items() if value is not None}
        connection = msgspec.structs.replace(connection, **given_flags)
    return msgspec.structs.replace(
        config,
        leader_election=msgspec.structs.replace(config.leader_election, **election),
        client_connection=connection,
    )


# --- the parser -------------------------------------------------------------------------------------------------


def _from_flags(kind: Callable[..., OptionsT], namespace: argparse.Namespace, **others: object) -> OptionsT:
    """Return options of class `kind`: each field has the value of the flag of its name, or the one given in
    `others`.
    """
    names = [name for name in inspect.signature(kind).parameters if name not in others]
    return kind(**{name: getattr(namespace, name) for name in names}, **others)


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises ConfigError for errors, and accepts no abbreviated flags."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, **kwargs)
        # In place of argparse's own messages, which call a wrong value an "invalid int value".
        self.register("type", int, _whole_number)
        self.register("type", float, _number)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; what is not known is an error of the command at hand, so that it names that command's help."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._nearest(unknown[0])}")
        return found, unknown

    def _nearest(self, word: str) -> str:
        """Return a question about the flag that is spelt nearly like a word, "" if there is none."""
        import difflib  # only where somebody mistypes

        flags = [flag for action in self._actions for flag in action.option_strings]
        near = difflib.get_close_matches(word.partition("=")[0], flags, n=1, cutoff=0.75)
        return f"; did you mean {near[0]}?" if near else ""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message} (see {self.prog} --help)")

    def print_help(self, file: Any = None) -> None:
        """Print all flags. Raises OSError if that fails, which argparse's own method hides."""
        print(self.format_help(), end="", file=file)


def _parser(command: str = "") -> _Parser:
    """Build the parser. Commands that simulate import and define their flags only if they are the `command`."""
    parser = _Parser(prog="kscheduler", description="A Kubernetes scheduler and a simulator of one.")
    parser.add_argument("--version", action="version", version=f"kscheduler {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_run(commands.add_parser("run", help="schedule the pods of a cluster"))
    simulate = commands.add_parser("simulate", help="schedule a generated or recorded workload")
    _add_simulate(simulate, command == "simulate")
    _add_sweep(commands, command)
    _add_compare(commands.add_parser("compare", help="say how two runs differ, and why"), command == "compare")
    whatif = commands.add_parser("whatif", help="simulate with other nodes or settings; plan capacity")
    _add_whatif(whatif, command == "whatif")
    _add_record(
        commands.add_parser("record", help="record a cluster's objects and their changes, for simulate and replay")
    )
    _add_replay(commands.add_parser("replay", help="decide again what a record of a running scheduler decided"))
    _add_ui(commands.add_parser("ui", help="look at a report, or compare two, in a browser"))
    _add_explain(commands.add_parser("explain", help="ask a running scheduler why a pod is where it is, or nowhere"))
    _add_config(commands.add_parser("config", help="check or show a configuration file"))
    _add_plugin(commands.add_parser("plugin", help="look at a wasm plugin, or try it on a cluster from a file"))
    _add_doctor(commands.add_parser("doctor", help="check a cluster, and say what mends what is wrong"))
    completion = commands.add_parser("completion", help="print a script that completes commands in a shell")
    completion.add_argument("shell", choices=SHELLS, help="whose script is printed")
    completion.set_defaults(make=partial(_from_flags, CompletionOptions))
    version = commands.add_parser("version", help="print the version")
    version.add_argument("-o", "--output", choices=("text", "json"), default="text", help=OUTPUT_HELP)
    version.set_defaults(make=partial(_from_flags, VersionOptions))
    _describe(commands)
    return parser


def _describe(commands: argparse._SubParsersAction[Any]) -> None:
    """Have the help of each command that has no description begin with what its parent's help says of it."""
    for choice in commands._choices_actions:
        parser = commands.choices[choice.dest]
        if choice.help and parser.description is None:
            parser.description = f"{choice.help[0].upper()}{choice.help[1:]}."


def parsers_of_commands() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command, with all its flags. "" is the program, "config show" a subcommand."""
    found: dict[str, argparse.ArgumentParser] = {"": _parser()}
    for command in _below(found[""]):
        found[command] = parser = _below(_parser(command))[command]
        found |= {f"{command} {name}": below for name, below in _below(parser).items()}
    for inner, part in _SWEEP_PARTS.items():
        found[f"sweep {part}"] = _below(_parser(inner))[inner]
    return found


def words_of_commands() -> dict[str, list[str]]:
    """Return what may follow each command: its flags and subcommands. "" is the program, "config show" a subcommand."""
    return {command: _words_of(parser) for command, parser in parsers_of_commands().items()}


# Inner name of a command below `sweep`, which has arguments of its own -> its name. `parse` alone uses the inner ones.
_SWEEP_PARTS = {"sweep-collect": "collect", "sweep-index": "index"}


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of a parser's commands."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


def _words_of(parser: argparse.ArgumentParser) -> list[str]:
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    return [*_below(parser), *(flag for action in shown for flag in action.option_strings)]


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", default="", metavar="FILE", help="as for run; without it the default configuration")
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help="instead of the configuration's")
    parser.add_argument("--context", default="", metavar="NAME", help="of the kubeconfig, instead of its current one")
    parser.add_argument(
        "--service-account",
        type=_lease,
        metavar="NAMESPACE/NAME",
        help="check its rights, such as those of kscheduler/kscheduler, not those of the kubeconfig's user",
    )
    add_emulated_version(parser, "chosen by the apiserver's version")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help=OUTPUT_HELP)
    parser.set_defaults(make=partial(_from_flags, DoctorOptions))


def _add_config(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    validate = commands.add_parser("validate", help="say what is wrong in a configuration file")
    validate.add_argument("file", metavar="FILE", help="a KubeSchedulerConfiguration or a RoutingConfiguration")
    add_emulated_version(validate)
    validate.set_defaults(make=partial(_from_flags, ValidateOptions))
    show = commands.add_parser("show", help="print a configuration file with all defaults")
    show.add_argument("file", metavar="FILE", help="a KubeSchedulerConfiguration")
    add_emulated_version(show)
    show.add_argument("--expanded", action="store_true", help="with the plugins that run at each extension point")
    show.add_argument("--secrets", action="store_true", help="with the tokens and keys that stand in the file")
    show.set_defaults(make=partial(_from_flags, ShowOptions))
    _describe(commands)


def _add_plugin(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    show = commands.add_parser("inspect", help="print what a guest exports and imports; runs nothing of it")
    _add_guest(show)
    show.set_defaults(make=partial(_from_flags, InspectOptions))
    test = commands.add_parser("test", help="run a guest: what it says of the nodes of a cluster for a pod")
    _add_guest(test)
    test.add_argument(
        "--cluster", required=True, metavar="FILE", help="nodes, and pods on them, as kubectl prints them"
    )
    test.add_argument("--pod", required=True, metavar="FILE", help="the pods to be judged")
    test.add_argument("--args", default="", metavar="FILE", help="the plugin's arguments, as in pluginConfig")
    test.add_argument(
        "--guest-config", dest="config", default=None, metavar="TEXT", help="in place of the arguments' guestConfig"
    )
    _add_plugin_cache(test)
    add_emulated_version(test)
    test.set_defaults(make=partial(_from_flags, PluginTestOptions))
    _describe(commands)


def _add_guest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a path, or a URL: file://, https://, http://")
    parser.add_argument("--allow-insecure", action="store_true", help="take plain http from other machines too")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help=OUTPUT_HELP)


def _add_plugin_cache(to: argparse._ActionsContainer) -> None:
    to.add_argument(
        "--plugin-cache-dir",
        default=None,
        metavar="DIR",
        help='where compiled wasm plugins are kept for the next start; "" for nowhere '
        "(default $XDG_CACHE_HOME/kscheduler/plugins or ~/.cache/kscheduler/plugins, if it can be written to)",
    )


def _add_record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", required=True, metavar="FILE", help="a further part if it exists: FILE.2, FILE.3...")
    parser.add_argument(
        "--kubeconfig",
        default="",
        metavar="FILE",
        help="of a user who may list and watch; with --from, show the scheduler its user's token",
    )
    parser.add_argument("--config", default="", metavar="FILE", help="the scheduler's, kept with the record")
    add_emulated_version(parser, "the newest that is not newer than the apiserver")
    parser.add_argument(
        "--duration", type=_positive_duration, default=None, metavar="DURATION", help="default: until Ctrl-C"
    )
    parser.add_argument(
        "--part-size", type=_bytes, default=0, metavar="QUANTITY", help="begin another part when one is larger"
    )
    parser.add_argument("--keep-parts", type=_count, default=0, metavar="N", help="remove all but the last N")
    group = parser.add_argument_group("download the record of kscheduler run --record")
    group.add_argument(
        "--from",
        dest="server",
        type=_url,
        default=None,
        metavar="URL",
        help="from this scheduler; given again, the command goes on where it ended",
    )
    group.add_argument("--follow", dest="follows", action="store_true", help="go on with what is added, until Ctrl-C")
    _add_endpoint(group)
    parser.set_defaults(make=_record_options)


_OF_CLUSTER = {
    "config": "--config",
    "emulated_version": "--emulated-version",
    "part_size": "--part-size",
    "keep_parts": "--keep-parts",
}
_OF_SCHEDULER = {
    "follows": "--follow",
    "token_file": "--token-file",
    "certificate_authority": "--certificate-authority",
    "insecure_skip_tls_verify": "--insecure-skip-tls-verify",
}


def _record_options(namespace: argparse.Namespace) -> RecordOptions:
    duration = namespace.duration
    for name, flag in (_OF_CLUSTER if namespace.server else _OF_SCHEDULER).items():
        if getattr(namespace, name):
            raise ConfigError(f"{flag}: expected {'no --from with it' if namespace.server else 'only with --from'}")
    if namespace.server and duration is not None and not namespace.follows:
        raise ConfigError("--duration: expected with --follow: without it, --from downloads what there is, and ends")
    return _from_flags(
        RecordOptions,
        namespace,
        duration_s=None if duration is None else duration.seconds,
        part_bytes=namespace.part_size,
        server=namespace.server or "",
    )


def _add_replay(parser: argparse.ArgumentParser) -> None:
    kinds = "the first file of a record of kscheduler run --record, or one of kscheduler record"
    parser.add_argument("record", metavar="RECORD", help=kinds)
    parser.add_argument("--config", default="", metavar="FILE", help="another configuration than the recorded one")
    add_emulated_version(parser, "the record's")
    add_feature_gates(parser, beside=", besides the record's if it has the same release")
    parser.add_argument("--nodes", default="", metavar="FILE", help="manifests of further nodes, there from the start")
    parser.add_argument(
        "--show", dest="shown", type=_count, default=1, metavar="N", help="differences to print (default 1)"
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help=OUTPUT_HELP)
    parser.set_defaults(make=_replay_options)


def _replay_options(namespace: argparse.Namespace) -> ReplayOptions:
    return _from_flags(ReplayOptions, namespace, feature_gates=parsed_gates(namespace.feature_gates))


def _add_ui(parser: argparse.ArgumentParser) -> None:
    kinds = "a report of simulate --output, what compare or whatif print as JSON, or a record, which is simulated"
    parser.add_argument("file", metavar="FILE", help=kinds)
    parser.add_argument("other", metavar="FILE2", nargs="?", help="another one, to compare")
    parser.add_argument("--port", type=_port, default=0, metavar="PORT", help="on 127.0.0.1 (default 0: a free one)")
    parser.add_argument("--no-browser", action="store_true", help="only print the page's address")
    parser.set_defaults(make=_ui_options)


def _ui_options(namespace: argparse.Namespace) -> UiOptions:
    files = (namespace.file,) if namespace.other is None else (namespace.file, namespace.other)
    return UiOptions(files, namespace.port, not namespace.no_browser)


def _add_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pod", metavar="POD", help="a name, or NAMESPACE/NAME; with gang/ before it, a gang")
    parser.add_argument("-n", "--namespace", default="default", metavar="NAME", help="of the pod (default default)")
    add_scheduler_flags(parser)
    parser.add_argument("--nodes", choices=("top", "all"), default="top", help="all: also what each node said")
    _add_top_nodes(parser, "--top", "best nodes shown with their scores")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help=OUTPUT_HELP)
    parser.set_defaults(make=_explain_options)


def add_scheduler_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say which running scheduler is asked, and as whom."""
    parser.add_argument(
        "--server", type=_url, default=DEFAULT_SERVER, metavar="URL", help=f"the scheduler (default {DEFAULT_SERVER})"
    )
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help="show the scheduler its user's token")
    _add_endpoint(parser)


def _add_endpoint(to: argparse._ActionsContainer) -> None:
    """Add the flags that say how a scheduler's endpoint is asked, besides its URL and --kubeconfig."""
    to.add_argument(
        "--lease",
        type=_lease,
        default=DEFAULT_LEASE,
        metavar="NAMESPACE/NAME",
        help=f"read with the kubeconfig to name the leader, if nobody answers (default {DEFAULT_LEASE})",
    )
    to.add_argument("--token-file", default="", metavar="FILE", help="show the scheduler this token")
    to.add_argument("--certificate-authority", default="", metavar="FILE", help="that vouches for the scheduler")
    to.add_argument("--insecure-skip-tls-verify", action="store_true", help="as is done on this machine anyway")


def _explain_options(namespace: argparse.Namespace) -> ExplainOptions:
    return _from_flags(ExplainOptions, namespace, all_nodes=namespace.nodes == "all", top_nodes=namespace.top)


def _add_simulate(parser: argparse.ArgumentParser, wanted: bool) -> None:
    if wanted:
        from kscheduler.simulator.options import add_arguments

        add_arguments(parser)
    parser.set_defaults(make=SimulateOptions)


def _add_sweep(commands: argparse._SubParsersAction[_Parser], command: str) -> None:
    parser = commands.add_parser("sweep", help="simulate a grid of traces, clusters, configurations and seeds; compare")
    parser.set_defaults(make=SweepOptions)
    if command == "sweep":
        from kscheduler.sweep.options import add_arguments

        add_arguments(parser)
    elif command in _SWEEP_PARTS:  # only then, so that no error message lists the inner name
        from kscheduler.sweep.options import add_collect_arguments, add_index_arguments

        part = _SWEEP_PARTS[command]
        below = commands.add_parser(command, prog=f"kscheduler sweep {part}")
        {"collect": add_collect_arguments, "index": add_index_arguments}[part](below)
        below.set_defaults(make=partial(SweepOptions, part=part))


def _add_compare(parser: argparse.ArgumentParser, wanted: bool) -> None:
    if wanted:
        from kscheduler.compare.options import add_arguments

        add_arguments(parser)
    parser.set_defaults(make=CompareOptions)


def _add_whatif(parser: argparse.ArgumentParser, wanted: bool) -> None:
    if wanted:
        from kscheduler.whatif.options import add_arguments

        add_arguments(parser)
    parser.set_defaults(make=WhatIfOptions)


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_cluster_flags(parser.add_argument_group("configuration and cluster"))
    _add_connection_flags(parser.add_argument_group("connection, for a start without --config"))
    _add_serving_flags(parser.add_argument_group("endpoint"))
    _add_authentication_flags(parser.add_argument_group("who may read the endpoint"))
    _add_election_flags(parser.add_argument_group("leader election (these override the configuration)"))
    _add_logging_flags(parser.add_argument_group("logs and features"))
    _add_metric_flags(parser.add_argument_group("metrics"))
    _add_own_flags(parser.add_argument_group("beyond kube-scheduler"))
    _add_explain_flags(parser.add_argument_group("memory of decisions"))
    _add_record_flags(parser.add_argument_group("record for kscheduler replay"))
    for name in IGNORED_FLAGS:
        parser.add_argument(name, nargs="?", const="true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--version",
        type=_version_flag,
        nargs="?",
        const="true",
        default="false",
        metavar="true|false|raw",
        help="print the version and exit; raw: as JSON, with that of Python",
    )
    parser.set_defaults(make=_run_options)


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
        type=_positive_duration,
        default=Duration.of_seconds(300),
        metavar="DURATION",
        help="longest stay among the unschedulable pods without another attempt (default 5m)",
    )


def _add_serving_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--bind-address", default="0.0.0.0", metavar="IP", help="address to listen on (default all)")
    group.add_argument(
        "--secure-port", type=_port, default=10259, metavar="PORT", help="HTTPS port; 0 serves nothing (default 10259)"
    )
    group.add_argument("--cert-dir", default="", metavar="DIR", help="where a certificate made here is kept")
    group.add_argument(
        "--tls-cert-file", default="", metavar="FILE", help="certificate of the endpoint, PEM (default: made at start)"
    )
    group.add_argument("--tls-private-key-file", default="", metavar="FILE", help="its private key, PEM")
    group.add_argument(
        "--tls-min-version",
        type=_tls_version,
        default="",
        metavar="VERSION",
        help=f"Possible values: {', '.join(VERSIONS)} (default VersionTLS12)",
    )
    group.add_argument(
        "--tls-cipher-suites",
        action=_Suites,
        default=(),
        metavar="NAMES",
        help="comma-separated, for TLS 1.2 and below; those of TLS 1.3 cannot be chosen. "
        f"Preferred values: {', '.join(sorted([*PREFERRED_SUITES, *TLS_1_3_SUITES]))}. "
        f"Insecure values: {', '.join(sorted(INSECURE_SUITES))}.",
    )
    group.add_argument(
        "--tls-sni-cert-key",
        type=_named_pair,
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
            action=_Strings,
            default=default,
            metavar="NAMES",
            help=f"comma-separated {what}{shown}",
        )
    _add_boolean(
        group,
        "--authentication-skip-lookup",
        "do not ask the cluster for what the flags above leave out",
    )
    _add_boolean(
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
            type=_duration,
            default=Duration.of_seconds(10),
            metavar="DURATION",
            help="how long the apiserver's answer is kept (default 10s)",
        )
    group.add_argument(
        "--authorization-always-allow-paths",
        action=_Words,
        default=("/healthz", "/readyz", "/livez"),
        metavar="PATHS",
        help="comma-separated paths anyone may read (default /healthz,/readyz,/livez)",
    )


def _add_connection_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--kube-api-qps", type=_float, default=None, metavar="N", help="writes a second to the apiserver (default 50)"
    )
    group.add_argument(
        "--kube-api-burst", type=_int32, default=None, metavar="N", help="writes at once on top of it (default 100)"
    )
    group.add_argument("--kube-api-content-type", default=None, metavar="TYPE", help="shown at /configz, nothing else")


def _add_metric_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--disabled-metrics", action=_Strings, default=(), metavar="NAMES", help="metrics not to be shown, in full"
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
    _add_boolean(group, "--leader-elect", "schedule only while holding the Lease (default true)", default=None)
    for name, text in (
        ("lease-duration", "how long a Lease lasts that its holder does not renew (default 15s)"),
        ("renew-deadline", "how long the leader tries to renew it before it ends (default 10s)"),
        ("retry-period", "pause between two tries to acquire or renew it (default 2s)"),
    ):
        group.add_argument(f"--leader-elect-{name}", type=_duration, default=None, metavar="DURATION", help=text)
    _add_boolean(
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
        type=_verbosity,
        default=0,
        metavar="N",
        help="0 what the program does (default), 2 what became of each pod, 4 reasons, 10 scores",
    )
    group.add_argument(
        "--vmodule",
        action=_Modules,
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
    group.add_argument("--seed", type=_seed, default=0, metavar="N", help="of the tie-break (default 0)")
    group.add_argument(
        "--bind-concurrency", type=_positive, default=None, metavar="N", help="bindings under way at the same time"
    )
    group.add_argument(
        "--assumed-pod-ttl",
        type=_positive_duration,
        default=Duration(0),
        metavar="DURATION",
        help="how long a bound pod holds its room without the watch confirming it (default: until the watch decides)",
    )
    _add_boolean(
        group,
        "--recover-events",
        "write the Scheduled Events that a killed predecessor did not come to write (default true)",
        default=True,
    )
    _add_boolean(
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
    _add_plugin_cache(group)


def _add_explain_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--explain-decisions",
        type=_count,
        default=DEFAULT_RECORDS,
        metavar="N",
        help=f"decisions remembered for `kscheduler explain` (default {DEFAULT_RECORDS}); 0 for none",
    )
    group.add_argument(
        "--explain-memory",
        type=_bytes,
        default=DEFAULT_BYTES,
        metavar="QUANTITY",
        help="bytes they may take (default 32Mi)",
    )
    _add_top_nodes(group, "--explain-top-nodes", "best nodes of a decision whose scores are kept; 0 for none")
    _add_boolean(
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
        type=_bytes,
        default=0,
        metavar="QUANTITY",
        help="begin another part when one is larger",
    )
    group.add_argument(
        "--record-keep-parts", type=_count, default=0, metavar="N", help="remove all but the last N; none by default"
    )


def _add_boolean(group: argparse._ArgumentGroup, flag: str, text: str, *, default: bool | None = False) -> None:
    """Add a boolean flag, which may be given without a value, as in Go. `text` is its help."""
    group.add_argument(flag, type=_boolean, nargs="?", const=True, default=default, metavar="true|false", help=text)


def _add_top_nodes(to: argparse._ActionsContainer, flag: str, what: str) -> None:
    to.add_argument(
        flag,
        type=_top_nodes,
        default=DEFAULT_TOP_NODES,
        metavar="N",
        help=f"{what} (default {DEFAULT_TOP_NODES})",
    )


def _run_options(namespace: argparse.Namespace) -> RunOptions | VersionOptions:
    if namespace.version != "false":
        return VersionOptions("json" if namespace.version == "raw" else "short")
    if namespace.vmodule and namespace.logging_format != "text":
        raise ConfigError("--vmodule: Only supported for text log format")
    if namespace.ui and not namespace.secure_port:
        raise ConfigError("--ui: the page is served at the secure port, and --secure-port=0 serves none")
    return _from_flags(
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
        warnings=_warnings(namespace),
        flags=_flag_values(namespace),
    )


_NO_FLAGS = ("make", "words")  # what a namespace has besides


def _defaults() -> dict[str, str]:
    """Return what flags that are not given say, as in kube-scheduler, though the configuration may say otherwise."""
    from kscheduler.config.defaults import CLIENT_CONNECTION, LEADER_ELECTION  # `run` alone needs them

    found = {"leader-elect": "true"}
    for prefix, values in (("leader-elect", LEADER_ELECTION), ("kube-api", CLIENT_CONNECTION)):
        for name, value in values.items():
            found[f"{prefix}-{name.replace('_', '-')}"] = f"{value:g}" if isinstance(value, float) else str(value)
    return found


def _flag_values(namespace: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    """Return all flags with their values as texts, without passwords in URLs; ignored ones only if they are given."""
    defaults = _defaults()
    named = {name.replace("_", "-"): value for name, value in vars(namespace).items() if name not in _NO_FLAGS}
    return tuple(
        (name, hide_urls(defaults.get(name, "") if value is None else _as_text(name, value)))
        for name, value in named.items()
        if value is not None or f"--{name}" not in IGNORED_FLAGS
    )


def _as_text(name: str, value: object) -> str:
    """Return a flag's value as Go prints one: true, [a,b], and a map as it is given: a=1,b=2."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        if name == "vmodule":
            return ",".join(f"{each.pattern}={each.verbosity}" for each in value)
        listed = ",".join(map(str, value))
        return listed if name == "feature-gates" else f"[{listed}]"
    return str(value)


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


# Flags that only take effect without a configuration file, as in kube-scheduler.
_WITHOUT_CONFIG = ("--kube-api-qps", "--kube-api-burst", "--kube-api-content-type")
# Flag -> (the header that API aggregation requires in its value, what kind of header it is).
_STANDARD_HEADERS = {
    "--requestheader-username-headers": ("X-Remote-User", "header"),
    "--requestheader-group-headers": ("X-Remote-Group", "header"),
    "--requestheader-extra-headers-prefix": ("X-Remote-Extra-", "header prefix"),
}


def _warnings(namespace: argparse.Namespace) -> tuple[str, ...]:
    given = [name for name in IGNORED_FLAGS if _value(namespace, name) is not None]
    flags = [f"{name} has no effect: {IGNORED_FLAGS[name]}" for name in given]
    if namespace.config:
        late = [name for name in _WITHOUT_CONFIG if _value(namespace, name) is not None]
        flags += [f"{name} has no effect: the configuration file decides" for name in late]
    elif namespace.kube_api_content_type is not None:
        flags.append("--kube-api-content-type has no effect: each request has the type that suits it")
    flags += [
        f"--tls-sni-cert-key has no effect for the address {name}: clients ask for names of hosts only"
        for pair in namespace.tls_sni_cert_key
        for name in pair.names
        if _is_address(name)
    ]
    for name, (standard, kind) in _STANDARD_HEADERS.items():
        headers = {header.lower() for header in _value(namespace, name)}
        if headers and standard.lower() not in headers:
            flags.append(
                f"{name} is set without specifying the standard {standard} {kind} - API aggregation will not work"
            )
    return tuple(flags)


def _value(namespace: argparse.Namespace, flag: str) -> Any:
    return getattr(namespace, flag.removeprefix("--").replace("-", "_"))


# --- values -----------------------------------------------------------------------------------------------------


def _duration(text: str) -> Duration:
    try:
        return Duration.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _positive_duration(text: str) -> Duration:
    value = _duration(text)
    if value.nanoseconds <= 0:
        raise argparse.ArgumentTypeError(f"expected a duration above zero, got {text}")
    return value


def _integer(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"expected an integer from {low} to {high}, got {text!r}")
        return value

    return read


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}") from None


def _float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}")
    return value


def _named_pair(text: str) -> NamedPair:
    try:
        return NamedPair.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _tls_version(text: str) -> str:
    if text and text not in VERSIONS:
        raise argparse.ArgumentTypeError(f'unknown tls version "{text}"')
    return text


class _Words(argparse.Action):
    """Parses comma-separated values like pflag's StringSlice.

    The first flag replaces the default, further ones add to it.
    """

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        before = getattr(namespace, self.dest)
        kept = () if before is self.default else before
        setattr(namespace, self.dest, (*kept, *self._read(values)))

    def _read(self, text: str) -> tuple[str, ...]:
        return tuple(word.strip() for word in next(csv.reader([text]), []) if word.strip())


class _Strings(_Words):
    """Parses comma-separated values, none of which may be empty."""

    def _read(self, text: str) -> tuple[str, ...]:
        if any(not word.strip() for word in next(csv.reader([text]), [])):
            raise argparse.ArgumentError(self, f'empty value in "{self.option_strings[0].removeprefix("--")}"')
        return super()._read(text)


class _Suites(_Strings):
    """Parses comma-separated names of TLS cipher suites, all of which must be known."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        super().__call__(parser, namespace, values, option)
        try:
            tls_policy("", getattr(namespace, self.dest))
        except ConfigError as error:
            raise argparse.ArgumentError(self, str(error)) from error


class _Modules(argparse.Action):
    """Parses comma-separated `pattern=N` settings of --vmodule; further flags add to them."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        try:
            modules = parse_vmodule(values)
        except ValueError as error:
            raise argparse.ArgumentError(self, str(error)) from error
        setattr(namespace, self.dest, (*getattr(namespace, self.dest), *modules))


_port = _integer(0, 65535)
_int32 = _integer(-(2**31), 2**31 - 1)
_verbosity = _integer(0, 2**31 - 1)
_seed = _integer(0, 2**64 - 1)
_positive = _integer(1, 100_000)
_count = _integer(0, 10_000_000)
_top_nodes = _integer(0, MAX_TOP_NODES)


def _bytes(text: str) -> int:
    try:
        value = parse_units(text, "")
    except DecodeError:
        value = 0
    if value <= 0:
        raise argparse.ArgumentTypeError(f"expected an amount of memory, such as 32Mi, got {text!r}")
    return value


def _url(text: str) -> str:
    try:
        parts = urllib.parse.urlsplit(text)
        is_good = parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
    except ValueError:  # argparse would quote the text
        is_good = False
    if not is_good:
        raise argparse.ArgumentTypeError(f"expected a URL such as {DEFAULT_SERVER}, got {SecretURL(text).shown!r}")
    return text


def _boolean(text: str) -> bool:
    """Parse a boolean in the spellings that Go's flags accept."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise argparse.ArgumentTypeError(f"expected true or false, got {text!r}")


def _version_flag(text: str) -> str:
    """Parse kube-scheduler's --version: raw, or a boolean. Its third form, vX.Y.Z, has it report another version."""
    if text == "raw":
        return text
    try:
        return str(_boolean(text)).lower()
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"expected true, false or raw, got {text!r}") from None


def _lease(text: str) -> str:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise argparse.ArgumentTypeError(f"expected NAMESPACE/NAME, got {text!r}")
    return text
