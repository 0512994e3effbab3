"""The arguments of `kscheduler simulate`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from dataclasses import dataclass

from kscheduler.client.adaptive_limit import DEFAULT_BIND_CONCURRENCY
from kscheduler.config.emulated_version import add_emulated_version
from kscheduler.config.gate_flag import add_feature_gates, gates_in_words, parsed_gates
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.errors import ConfigError
from kscheduler.simulator.pod_limit import DEFAULT_MAX_PODS
from kscheduler.simulator.processes import ARRIVALS, DURATIONS
from kscheduler.simulator.traces import DEFAULT_GPU_RESOURCE

DEFAULT_NODES = "100"
DEFAULT_PODS = "1000"
# A binding takes a few milliseconds on an apiserver with a machine of its own and no other load.
DEFAULT_BIND_LATENCY_S = 0.005
LONGEST_BIND_LATENCY_S = 30.0  # after which the scheduler takes a request for lost
DEFAULT_RETRY_WAITING_S = 300.0


@dataclass(frozen=True, slots=True)
class SimulateArguments:
    """The arguments as given; None where the workload file, or else the default, decides."""

    record: str | None = None
    workload: str | None = None
    nodes: str | None = None
    pods: str | None = None
    arrival: str | None = None
    duration: str | None = None
    seed: int | None = None
    speedup: float = 1.0
    arrivals_only: bool = False
    gpu_resource: str = DEFAULT_GPU_RESOURCE
    max_pods: int = DEFAULT_MAX_PODS
    config: str | None = None
    emulated_version: str | None = None  # such as "1.37"
    feature_gates: tuple[tuple[str, bool], ...] = ()  # sorted (name, is on)
    first_on_tie: bool = False
    bind_latency_s: float = DEFAULT_BIND_LATENCY_S
    bind_concurrency: int = DEFAULT_BIND_CONCURRENCY
    retry_waiting_s: float = DEFAULT_RETRY_WAITING_S
    max_time_s: float | None = None
    output: str | None = None
    html: str | None = None
    placements: str | None = None
    decisions: int | None = 0  # of how many pods the report has them; None: of all
    quiet: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run the scheduler on a cluster in memory, in virtual time, and report what it did. "
        "Nodes and pods are generated, read from CSV traces, or read from Kubernetes YAML or JSON lists; volumes, "
        "claims, storage classes, what drivers say of their nodes, devices with their classes, claims and templates, "
        "Namespaces, Services, controllers of pods, PodDisruptionBudgets, and objects MetricPolicy, TASPolicy, "
        "ElasticQuota and Queue are read from these lists too."
    )
    add_input_arguments(parser.add_argument_group("nodes and pods"))
    scheduler = parser.add_argument_group("scheduler")
    scheduler.add_argument("--config", metavar="FILE", help="a KubeSchedulerConfiguration; default profile without")
    add_scheduler_arguments(scheduler)
    _add_output(parser.add_argument_group("report", "FILE - is standard output."))


def add_input_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--nodes",
        metavar="N|FILE",
        help=f"so many generated nodes, or the nodes in a .csv, .yaml or .json file (default {DEFAULT_NODES})",
    )
    group.add_argument(
        "--pods",
        metavar="N|FILE",
        help=f"so many generated pods, or the pods in a .csv, .yaml or .json file (default {DEFAULT_PODS})",
    )
    group.add_argument(
        "--record",
        metavar="FILE",
        help="all from a record, a SimKube trace, a KAI snapshot or lines of kube-scheduler-simulator",
    )
    group.add_argument("--workload", metavar="FILE", help="shapes, use, arrivals and seed from a YAML file")
    group.add_argument("--arrival", metavar="PROCESS", help=f"{ARRIVALS} (default now); not for traces")
    group.add_argument("--duration", metavar="LAW", help=f"{DURATIONS} (default forever); not for traces")
    group.add_argument("--seed", type=int, metavar="N", help="of all chance (default 0)")
    group.add_argument("--speedup", type=float, default=1.0, metavar="X", help="divide the times of a trace by this")
    group.add_argument("--arrivals-only", action="store_true", help="ignore when the pods of a trace leave")
    group.add_argument(
        "--gpu-resource",
        default=DEFAULT_GPU_RESOURCE,
        metavar="NAME",
        help=f"the extended resource for the GPUs of a trace (default {DEFAULT_GPU_RESOURCE})",
    )
    group.add_argument(
        "--max-pods",
        type=int,
        default=DEFAULT_MAX_PODS,
        metavar="N",
        help=f"refuse an input with more pods; each takes 2 KB of memory (default {DEFAULT_MAX_PODS})",
    )


def add_scheduler_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the flags that say how the scheduler runs, without its configuration."""
    add_emulated_version(group, f"{DEFAULT_RELEASE.version}, or that of the record")
    add_feature_gates(group, beside=", besides the record's")
    group.add_argument("--first-on-tie", action="store_true", help="of equal nodes take the first, not a random one")
    group.add_argument(
        "--bind-latency",
        dest="bind_latency_s",
        type=float,
        default=DEFAULT_BIND_LATENCY_S,
        metavar="S",
        help=f"virtual seconds that a write to the apiserver takes (default {DEFAULT_BIND_LATENCY_S:g})",
    )
    group.add_argument(
        "--bind-concurrency",
        type=int,
        default=DEFAULT_BIND_CONCURRENCY,
        metavar="N",
        help=f"bindings in flight at most (default {DEFAULT_BIND_CONCURRENCY})",
    )
    group.add_argument(
        "--retry-waiting",
        dest="retry_waiting_s",
        type=float,
        default=DEFAULT_RETRY_WAITING_S,
        metavar="S",
        help="try pods again that waited so long without an event that could help them (default 300, as a cluster)",
    )
    group.add_argument("--max-time", dest="max_time_s", type=float, metavar="S", help="stop after virtual seconds")


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--output", metavar="FILE", help="write the report as JSON")
    group.add_argument("--html", metavar="FILE", help="write the report as one HTML page with plots")
    group.add_argument("--placements", metavar="FILE", help="write where each pod went, or why it did not, as CSV")
    group.add_argument(
        "--decisions",
        type=_pods_or_all,
        default=0,
        metavar="N|all",
        help="keep in the report how N pods, or all, were decided: the scores by plugin, and what rejected each node",
    )
    group.add_argument("--quiet", action="store_true", help="no progress, no text report")


def _pods_or_all(text: str) -> int | None:
    """Return the number of pods, None for all."""
    if text == "all":
        return None
    if not text.isdecimal() or not text.isascii() or len(text) > 15:
        raise argparse.ArgumentTypeError(f'expected a number of pods or "all", got "{text}"')
    return int(text)


def read_arguments(namespace: argparse.Namespace) -> SimulateArguments:
    """Convert the parsed arguments. Raises ConfigError that names the flag, what was expected and what was given."""
    arguments = arguments_of(namespace, SimulateArguments.__slots__)
    check_arguments(arguments)
    return arguments


def arguments_of(namespace: argparse.Namespace, names: Iterable[str]) -> SimulateArguments:
    """Return the arguments of these names that were parsed; others have their defaults. Raises ConfigError."""
    given = {name: getattr(namespace, name) for name in names if hasattr(namespace, name)}
    given["feature_gates"] = tuple(sorted(parsed_gates(namespace.feature_gates).items()))
    return SimulateArguments(**given)


def check_arguments(arguments: SimulateArguments) -> None:
    """Raise ConfigError, naming the flag, for a value that is out of range, or that another flag excludes."""
    _check("--max-pods", arguments.max_pods, 1)
    _check("--speedup", arguments.speedup, 0.0, above=True)
    _check_record(arguments)
    _check("--bind-latency", arguments.bind_latency_s, 0.0, most=LONGEST_BIND_LATENCY_S)
    _check("--bind-concurrency", arguments.bind_concurrency, 1)
    _check("--retry-waiting", arguments.retry_waiting_s, 1)
    if arguments.max_time_s is not None:
        _check("--max-time", arguments.max_time_s, 0.0, above=True)


def settings_of(arguments: SimulateArguments, release: Release) -> dict[str, str]:
    """Return the arguments that affect the result, besides the input and the configuration, for the report."""
    gates = gates_in_words(release.set_gates)
    return {
        "emulated release": release.version,
        **({"feature gates": gates} if gates else {}),
        "equal scores": "the first node" if arguments.first_on_tie else "a random node",
        "apiserver latency": f"{arguments.bind_latency_s:g} s a write",
        "bindings in flight": f"{arguments.bind_concurrency:,} at most",
        "retry of waiting pods": f"after {arguments.retry_waiting_s:g} s",
    }


def _check_record(arguments: SimulateArguments) -> None:
    if arguments.record is None:
        return
    given = {name: getattr(arguments, name) for name in ("pods", "workload", "arrival", "duration")}
    flags = [f"--{name}" for name, value in given.items() if value is not None]
    if arguments.arrivals_only:
        flags.append("--arrivals-only")
    if arguments.speedup != 1:
        flags.append("--speedup")
    if flags:
        raise ConfigError(f"--record: expected no other source of nodes, pods and times, got {', '.join(flags)}")


def _check(flag: str, value: float, low: float, *, above: bool = False, most: float = math.inf) -> None:
    fits = value > low if above else value >= low
    if not fits or not math.isfinite(value):
        raise ConfigError(f"{flag}: expected a number {'above' if above else 'of at least'} {low:g}, got {value:g}")
    if value > most:
        raise ConfigError(f"{flag}: expected a number of at most {most:g}, got {value:g}")
