"""Implements `kscheduler plugin test FILE --cluster CLUSTER --pod POD`: runs a guest (wasm plugin) on nodes from files.

For each pod a whole scheduling cycle is run with this plugin alone, as a profile would run it, which gives the decision
and its time. The binding cycle follows, PostBind included; then a second attempt that is rolled back after Reserve
(Unreserve). Finally the plugin is called for each node separately, which gives each node's verdict and score. Nothing
is bound, and no pod is assumed. The guest is never quarantined (stopped after failures), and its log is shown, with the
Events that it records.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kscheduler.api.manifest import load_manifests
from kscheduler.api.objects import Pod
from kscheduler.cache.cache import Cache
from kscheduler.client.protocol import Regarding
from kscheduler.clock import SystemClock
from kscheduler.command.flags.plugin import PluginTestOptions
from kscheduler.command.plugin_inspect import as_url, shown_file
from kscheduler.command.plugin_measured import MeasuredEngine
from kscheduler.config.decode import describe_kind
from kscheduler.config.releases import DEFAULT_RELEASE, Release, release_of
from kscheduler.config.secrets import GUEST_URL
from kscheduler.counted import counted
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.fence import Fence
from kscheduler.framework.interface import EXTENSION_POINTS, Handle
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision
from kscheduler.framework.status import STATUS_LABELS, Code, Status, code_of
from kscheduler.input.input_files import read_input
from kscheduler.input.yaml_documents import read_one_yaml
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.batch.plugin import BatchPlugin
from kscheduler.wasm.engines import engine_named
from kscheduler.wasm.loading.sections import printable
from kscheduler.wasm.plugins import GuestPlugins

T = TypeVar("T")
Document = dict[str, Any]

PLUGIN = "Plugin"  # the plugin's name in the profile that this command makes
PROFILE = "plugin-test"
EXIT_FAULT = 1  # the plugin had a fault
GUEST_LOGGERS = (  # loggers of guests' messages, and of faults of PostBind and Unreserve
    "kscheduler.wasm.guest",
    "kscheduler.wasm.batch.host_functions",
    "kscheduler.wasm.extension.points",
    "kscheduler.wasm.batch.binding",
)
UNRESERVE = "unreserve"
AFTER = ("reserve", "permit", "preBind", "bind", "postBind", UNRESERVE)  # points after the decision, in order
REPEATS = 9  # cycles whose median time is reported
TEXT_NODES = 20  # nodes of a pod that are shown in the text output
TEXT_LINES = 20  # lines of a guest's log that are shown in the text output


def try_plugin(options: PluginTestOptions) -> tuple[str, int]:
    """Run the command; return the text to print and the exit code. Raises ConfigError for unusable files or guests."""
    # 1. The cluster and the pods.
    release = release_of(options.emulated_version or DEFAULT_RELEASE.version)
    cache, pods = read_cluster(options, release)
    # 2. The plugin, as a profile would make it.
    with contextlib.closing(GuestLog()) as log:
        started = time.perf_counter()
        trial = Trial(options, release, cache, log)
        loading_s = time.perf_counter() - started
        # 3. Each pod.
        documents = [trial.judge(PodInfo(pod, release.sums_resizes_apart)) for pod in pods]
    # 4. The answer.
    document = {
        "guest": shown_file(options.file),
        "extensionPoints": trial.shown_points,
        "loadingMs": _ms(loading_s),
        "memoryBytes": trial.memory_bytes,  # of the largest instance
        "instances": trial.instances,
        "nodes": len(cache.table),
        "pods": documents,
    }
    is_fault = any(each["faults"] for each in documents)
    text = json.dumps(document, indent=2) + "\n" if options.output == "json" else text_of(document)
    return text, EXIT_FAULT if is_fault else 0


# --- the files ------------------------------------------------------------------------------------------------------


def read_cluster(options: PluginTestOptions, release: Release) -> tuple[Cache, list[Pod]]:
    """Return a cache with the nodes and bound pods of --cluster, and the pods of --pod to schedule.

    `release`: decides what a pod that is resized in place counts for. Raises ConfigError.
    """
    cluster, asked = load_manifests(options.cluster), load_manifests(options.pod)
    if not cluster.nodes:
        raise ConfigError(f"--cluster: {options.cluster}: expected nodes, found none")
    if not asked.pods:
        raise ConfigError(f"--pod: {options.pod}: expected a pod, found none")
    cache = Cache()
    for node in cluster.nodes:
        cache.set_node(node)
    known = {node.name for node in cache.table}
    for pod in cluster.pods:
        if pod.spec.node_name:
            if pod.spec.node_name not in known:
                raise ConfigError(f'pod "{pod.key}": spec.nodeName: "{pod.spec.node_name}" is none of the nodes')
            cache.set_pod(PodInfo(pod, release.sums_resizes_apart, release.counts_node_resources))
    return cache, list(asked.pods)


def read_plugin_args(options: PluginTestOptions) -> Document:
    """Return the plugin's arguments: those in the file of --args, with those from other flags. Raises ConfigError."""
    document: Any = {}
    if options.args:
        try:
            document = read_one_yaml(read_input(options.args)).value or {}
        except OSError as error:
            raise ConfigError(f"--args: {options.args}: cannot be read: {error.strerror or error}") from None
        except DecodeError as error:
            raise ConfigError(f"--args: {options.args}: expected YAML or JSON: {error}") from None
        if not isinstance(document, dict):
            raise ConfigError(f"--args: {options.args}: expected a mapping, got {describe_kind(document)}")
    given: Document = {GUEST_URL: as_url(options.file), **document}
    if options.config is not None:
        given["guestConfig"] = options.config
    if options.allow_insecure:
        given["allowInsecure"] = True
    return given


# --- the trial ------------------------------------------------------------------------------------------------------


class GuestLog(logging.Handler):
    """Collects a guest's log messages, whatever the program's log level, Events, and faults that are only logged."""

    def __init__(self) -> None:
        super().__init__()
        self._records: list[logging.LogRecord] = []
        self.events: list[str] = []  # since `begin` was called, as `type reason: note`
        self._levels = {name: logging.getLogger(name).level for name in GUEST_LOGGERS}
        for name in GUEST_LOGGERS:
            logger = logging.getLogger(name)
            logger.addHandler(self)
            logger.setLevel(logging.INFO)
            logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)

    def record(
        self,
        regarding: Pod | Regarding,
        *,
        type: str,
        reason: str,
        action: str,
        note: str,
        controller: str = "",
        related: Regarding | None = None,
    ) -> None:
        """Collect an Event, as an Event recorder would write it."""
        self.events.append(f"{type} {reason}: {note}")

    def begin(self) -> None:
        self._records.clear()
        self.events = []

    def take(self) -> list[str]:
        """Return the guest's log lines since `begin` was called, as `level: message`."""
        lines = []
        for record in self._records:
            if "err" in vars(record):
                continue
            more = " ".join(str(vars(record)[key]) for key in ("line", "values") if key in vars(record))
            text = more if record.msg == "guest log" else " ".join([record.getMessage(), more]).strip()
            lines.append(f"{record.levelname.lower()}: {text}")
        return lines

    def errors_of(self, message: str) -> list[str]:
        return [
            vars(record)["err"] for record in self._records if record.getMessage() == message and "err" in vars(record)
        ]

    def close(self) -> None:
        for name in GUEST_LOGGERS:
            logger = logging.getLogger(name)
            logger.removeHandler(self)
            logger.setLevel(self._levels[name])
            logger.propagate = True
        super().close()


class Trial:
    """Runs one plugin on the nodes in a cache, and describes what it did with each pod."""

    def __init__(self, options: PluginTestOptions, release: Release, cache: Cache, log: GuestLog) -> None:
        self._table = cache.table
        self._handle = handle = Handle(
            table=cache.table, rng=random.Random(0), stopwatch=time.perf_counter, release=release
        )
        args = read_plugin_args(options)
        self._engines: list[MeasuredEngine] = []
        guests = GuestPlugins(engine=self._engine, cache_dir=options.plugin_cache_dir, reloads=False, is_trial=True)
        kind = guests.class_of(PLUGIN, args, options.args or shown_file(options.file))
        guests.attach(clock=SystemClock(), observer=Measurements(), recorder=log, nodes={}, pods={})
        try:
            plugin = kind(args, handle)
            self._plugin: Any = Fence(plugin, handle)
        except Exception as error:
            raise ConfigError(f"{shown_file(options.file)}: {_one_line(error)}") from error
        self.points = {
            point: [(self._plugin, 1)] for point, method in EXTENSION_POINTS.items() if hasattr(self._plugin, method)
        }
        self._framework = Framework(
            PROFILE, self.points, handle, observer=Measurements(), stopwatch=time.perf_counter, first_on_tie=True
        )
        self._last_words = _last_words(plugin)
        self.shown_points = [point for point in EXTENSION_POINTS if point in self.points]
        if UNRESERVE in self._last_words:
            self.shown_points.append(UNRESERVE)
        self._faults: list[str] = []
        self._log = log

    def _engine(self, name: str) -> MeasuredEngine:
        self._engines.append(MeasuredEngine(engine_named(name)))
        return self._engines[-1]

    @property
    def memory_bytes(self) -> int:
        """The memory of the largest instance, in bytes; since wasm memory never shrinks, this is its peak."""
        return max((one.memory_bytes for engine in self._engines for one in engine.instances), default=0)

    @property
    def instances(self) -> int:
        return sum(len(engine.instances) for engine in self._engines)

    def judge(self, pod: PodInfo) -> Document:
        self._faults = []
        self._log.begin()
        state = CycleState()
        started = time.perf_counter()
        outcome = self._framework.schedule_pod(state, pod)
        cycle_s = time.perf_counter() - started
        document: Document = {"pod": pod.key, "cycleMs": _ms(cycle_s)}
        if isinstance(outcome, Decision):
            document |= {"node": outcome.node_name, "feasible": outcome.feasible, "message": ""}
            document |= self._after(state, pod, outcome.node_name)
        else:
            message = getattr(outcome, "message", "")
            document |= {"node": None, "feasible": 0, "message": message}
            if code_of(getattr(outcome, "status", None)) is Code.ERROR:
                self._faults.append(message)
        document["log"], document["events"] = self._log.take(), list(self._log.events)
        document["repeatedMs"] = self._repeated_ms(pod)
        document["nodes"] = self._each_node(pod)
        document["faults"] = list(dict.fromkeys(self._faults))
        return document

    def _repeated_ms(self, pod: PodInfo) -> float:
        """Return the median time of REPEATS scheduling cycles in ms, after the guest's first call."""
        spent = []
        for _ in range(REPEATS):
            started = time.perf_counter()
            self._framework.schedule_pod(CycleState(), pod)
            spent.append(time.perf_counter() - started)
        return _ms(statistics.median(spent))

    def _after(self, state: CycleState, pod: PodInfo, node_name: str) -> Document:
        """Run Reserve and the binding cycle until a plugin rejects the pod, then Unreserve.

        After a success Reserve is run again, for Unreserve to undo. Return extension point -> what the plugin answered.
        """
        framework, answers = self._framework, Document()
        status = framework.run_reserve(state, pod, node_name)
        if "reserve" in self.points:
            answers["reserve"] = self._status(status)
        if status is None and "permit" in self.points:
            status, waits = framework.run_permit(state, pod, node_name)
            answers["permit"] = self._status(status) if not waits else f"Wait, {max(waits.values()):g} s"
        if status is None and "preBind" in self.points:
            status = asyncio.run(framework.run_pre_bind(state, pod, node_name))
            answers["preBind"] = self._status(status)
        if status is None and "bind" in self.points:
            status = asyncio.run(self._plugin.bind(state, pod, node_name))
            answers["bind"] = self._status(status)
        if code_of(status) in (Code.SUCCESS, Code.SKIP):  # Skip leaves the pod to the next Bind plugin
            self._notify("postBind", lambda: framework.run_post_bind(state, pod, node_name), answers)
            state = CycleState()
            framework.run_reserve(state, pod, node_name)
        elif code_of(status) is Code.ERROR:
            self._faults.append(status.message if status is not None else "")
        self._notify("unreserve", lambda: framework.run_unreserve(state, pod, node_name), answers)
        return answers

    def _notify(self, point: str, run: Callable[[], list[Status]], answers: Document) -> None:
        """Run PostBind or Unreserve, which have no result, and record the faults that it returned or logged."""
        faults = [fault.message for fault in run()]
        faults += self._log.errors_of(f"failed {point.lower()}") + self._log.errors_of("plugin failed")
        self._faults += faults
        if faults or point in self._last_words:
            answers[point] = "; ".join(faults) or "called"

    # --- node by node ---

    def _each_node(self, pod: PodInfo) -> list[Document]:
        state = CycleState()
        verdicts = self._filter(state, pod)
        fitting = [name for name, verdict in verdicts.items() if verdict == "fits"]
        scores = self._score(state, pod, set(fitting))
        return [{"node": name, "verdict": verdict, "score": scores.get(name)} for name, verdict in verdicts.items()]

    def _filter(self, state: CycleState, pod: PodInfo) -> dict[str, str]:
        """Run PreFilter, then Filter for each node; return node name -> "fits" or the reason why it does not."""
        names: frozenset[str] | None = None
        plugin, all_fit = self._plugin, dict.fromkeys((node.name for node in self._table), "fits")
        if hasattr(plugin, "pre_filter"):
            answer = self._asked("PreFilter", lambda: plugin.pre_filter(state, pod))
            if isinstance(answer, str):
                return dict.fromkeys(all_fit, answer)
            result, status = answer
            if code_of(status) is Code.SKIP:
                return all_fit
            if code_of(status) is not Code.SUCCESS:
                return dict.fromkeys(all_fit, self._status(status))
            names = result.node_names if result is not None else None
        if hasattr(plugin, "filter"):
            for node in self._table:
                answer = self._asked("Filter", lambda node=node: plugin.filter(state, pod, node))  # type: ignore[misc]
                is_fit = not isinstance(answer, str) and code_of(answer) is Code.SUCCESS
                all_fit[node.name] = "fits" if is_fit else self._status(answer)
        if names is not None:
            all_fit |= dict.fromkeys(all_fit.keys() - names, "left out by PreFilter")
        return all_fit

    def _score(self, state: CycleState, pod: PodInfo, fitting: set[str]) -> dict[str, int]:
        """Return feasible node -> normalised score; {} if the plugin does not score or fails."""
        plugin = self._plugin
        if not hasattr(plugin, "score") or not fitting:
            return {}
        if hasattr(plugin, "pre_score"):
            status = self._asked("PreScore", lambda: plugin.pre_score(state, pod))
            if isinstance(status, str) or code_of(status) is not Code.SUCCESS:
                return {}
        scores: dict[str, int] = {}
        for node in self._table:
            if node.name in fitting:
                answer = self._asked("Score", lambda node=node: plugin.score(state, pod, node))  # type: ignore[misc]
                if isinstance(answer, str) or code_of(answer[1]) is not Code.SUCCESS:
                    return {}
                scores[node.name] = answer[0]
        if hasattr(plugin, "normalize_score"):
            status = self._asked("NormalizeScore", lambda: plugin.normalize_score(state, pod, scores))
            if isinstance(status, str) or code_of(status) is not Code.SUCCESS:
                return {}
        return scores

    def _asked(self, point: str, ask: Callable[[], Any]) -> Any:
        """Call `ask` and return its result. If the plugin fails, record the fault and return its text."""
        try:
            return ask()
        except Exception as error:
            self._faults.append(f"{point}: {_one_line(error)}")
            return f"{point}: {_one_line(error)}"

    def _status(self, status: Status | str | None) -> str:
        if isinstance(status, str):
            return status
        code = STATUS_LABELS[code_of(status)]
        return code if status is None or not status.message else f"{code}: {status.message}"


def _last_words(plugin: Any) -> set[str]:
    """Return which of Unreserve and PostBind the guest implements; the plugin object has both methods in any case."""
    if isinstance(plugin, BatchPlugin):
        own = {point.word for point in plugin.version.description.points}
    else:
        own = {"postBind" if export == "postbind" else export for export in plugin.exports}
    return own & {UNRESERVE, "postBind"}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


# --- text output ----------------------------------------------------------------------------------------------------


def text_of(document: Mapping[str, Any]) -> str:
    memory, instances = document["memoryBytes"], document["instances"]
    lines = [
        f"guest    {document['guest']}",
        f"points   {', '.join(document['extensionPoints'])}",
        f"loading  {document['loadingMs']:g} ms",
        f"memory   {memory / 1024**2:.2f} MiB in the largest of {counted(instances, 'instance')}",
    ]
    for pod in document["pods"]:
        lines += ["", *_pod_lines(pod, document["nodes"])]
    return "\n".join(lines) + "\n"


def _pod_lines(pod: Mapping[str, Any], nodes: int) -> list[str]:
    where = f"goes to {pod['node']}" if pod["node"] else f"goes nowhere: {printable(pod['message'], 400)}"
    lines = [f"pod {pod['pod']} {where} ({pod['feasible']:,} of {counted(nodes, 'node')} fit)"]
    lines.append(f"  a cycle takes {pod['cycleMs']:g} ms at first, {pod['repeatedMs']:g} ms when repeated")
    lines += [f"  {point}: {printable(pod[point], 400)}" for point in AFTER if point in pod]
    lines += [f"  log {printable(line, 400)}" for line in pod["log"][:TEXT_LINES]]
    if len(pod["log"]) > TEXT_LINES:
        lines.append(f"  and {counted(len(pod['log']) - TEXT_LINES, 'more line')} (all of them: --output json)")
    lines += [f"  event {printable(event, 400)}" for event in pod["events"][:TEXT_LINES]]
    if len(pod["events"]) > TEXT_LINES:
        lines.append(f"  and {counted(len(pod['events']) - TEXT_LINES, 'more Event')} (all of them: --output json)")
    shown = sorted(pod["nodes"], key=lambda each: -1 if each["score"] is None else each["score"], reverse=True)
    width = max((len(each["node"]) for each in shown), default=0)
    for each in shown[:TEXT_NODES]:
        score = "" if each["score"] is None else str(each["score"])
        lines.append(f"  {each['node']:{width}}  {score:>4}  {printable(each['verdict'], 400)}")
    if len(shown) > TEXT_NODES:
        lines.append(f"  and {counted(len(shown) - TEXT_NODES, 'more node')} (all of them: --output json)")
    return lines + [f"  fault: {printable(fault, 400)}" for fault in pod["faults"]]
