"""Measures a policy's cost in each way of writing it: in the program, in Python, as a wasm guest, as an HTTP extender.

    python -m perf.wasm_policies                          # all forms, 500 and 5,000 nodes
    python -m perf.wasm_policies --nodes 5000 --rounds 7 --forms native batch-c
    python -m perf.wasm_policies --real                   # on a real etcd and kube-apiserver: perf.wasm_control_plane

There are two policies. `label` prefers nodes by a number in one of their labels, so it depends on the node object
alone. `packing` prefers nodes by how much of their CPU is requested, so each placed pod changes the answer. Each form
runs on a cluster in memory with the default plugins beside it, in turn within each round:

    native       a plugin in the compiled core, asked once for all pods with equal specs; for `packing` it is
                 NodeResourcesFit with MostAllocated in the place of its usual score
    kernel       a plugin that runs a compiled kernel over the table for each pod
    py-table     a Python plugin that is called once per pod, and loops over the nodes
    py-node      a Python plugin that is called for each node
    batch-...    a guest of the batch ABI, the examples label_score and gpu_packing, with the library of a language
    extension    a guest of kube-scheduler-wasm-extension's interface in C, which is called for each node
    ext-parallel the same, its nodes divided among several instances if they take long enough (parallel: true)
    ext-pure     the same, with cached answers (pure: true): it is called once per node, for all pods of a run
    http         an extender on this machine that is sent complete nodes, as extenders are by default
    http-names   an extender that is sent names, and knows the nodes by itself (nodeCacheCapable)

Guests of the extension interface and extenders do not know what is used on a node, so there is no `packing` for them.

All pods are pending when the clock starts. `decisions/s` are per second of CPU time of the scheduling loop (without the
extenders' requests), `pods/s` per second of real time, `CPU us/pod` all that this process and the extender's spend on a
pod, with binding, Events and the cluster itself. `of native` is the ratio of CPU time to that of native, computed
within a round: median, lowest and highest.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import json
import os
import random
import runpy
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from kscheduler.clock import SystemClock
from kscheduler.config.load import parse_config
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.observability.logs import QUIET, configure
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import Options, Scheduler
from kscheduler.simulator.cluster import Cluster
from kscheduler.testing import make_node, make_pod
from kscheduler.wasm.plugins import GuestPlugins
from perf import policy_plugins
from perf.decisions import is_waiting, time_decisions
from perf.policy_plugins import CORES, LABEL, number_of

ROOT = Path(__file__).parent.parent
SDKS = runpy.run_path(str(ROOT / "plugins" / "sdk" / "build_examples.py"))
MissingTool: type[Exception] = SDKS["MissingTool"]
LABEL_POLICY, PACKING = "label", "packing"
FIT = "NodeResourcesFit"
LANGUAGES = ("go", "rust", "assemblyscript")  # beside C
IMAGES = 30  # on a node; a kubelet tells of up to 50
POD_CPU, POD_MEMORY = "100m", "500Mi"


# --- the extender ---------------------------------------------------------------------------------------------------


async def serve() -> None:
    """Answers `prioritize` on a free port, which it prints; until its input ends."""
    server = await asyncio.start_server(_answer_all, "127.0.0.1", 0, limit=1 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def _answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while head := await _read_head(reader):
        question = msgspec.json.decode(await reader.readexactly(head))
        body = msgspec.json.encode(prioritize(question))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
        writer.write(body)
        await writer.drain()
    writer.close()


async def _read_head(reader: asyncio.StreamReader) -> int:
    """The length of the body that follows; 0 at the end."""
    size = 0
    while line := (await reader.readline()).strip().lower():
        if line.startswith(b"content-length:"):
            size = int(line.partition(b":")[2])
    return size


def prioritize(question: Mapping[str, Any]) -> list[dict[str, Any]]:
    """ExtenderArgs -> HostPriorityList, in steps of ten, as extenders have them."""
    if question.get("NodeNames") is not None:
        return [{"Host": name, "Score": number_of(name) // 10} for name in question["NodeNames"]]
    return [
        {"Host": node["metadata"]["name"], "Score": int(node["metadata"]["labels"][LABEL]) // 10}
        for node in question["Nodes"]["items"]
    ]


@contextmanager
def extender() -> Iterator[tuple[int, int]]:
    """A process of its own: (its id, its port)."""
    command = [sys.executable, "-m", "perf.wasm_policies", "--serve"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield process.pid, int(process.stdout.readline())
        finally:
            process.stdin.close()


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has spent."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --- forms ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Form:
    """A way to write a policy, and how many pods make its run last some hundred milliseconds."""

    policy: str
    name: str
    pods: int  # pods of a run with 500 nodes; if `shrinks`, a tenth of them with ten times the nodes
    plugin: str = ""
    guest: Callable[[], Path] | None = None  # compiles the guest; raises MissingTool if its compiler is missing
    config: str = ""
    extender: bool | None = None  # None: no extender; True: one that is sent names; False: one that is sent nodes
    shrinks: bool = True
    more: str = ""  # name of a plugin argument to set to true

    def pods_for(self, nodes: int, scale: float) -> int:
        return max(20, int(scale * (self.pods * 500 / max(nodes, 500) if self.shrinks else self.pods)))


def c_guest(name: str) -> Path:
    builder = runpy.run_path(str(ROOT / "plugins" / "build_guests.py"))
    made: Path = builder["build"](ROOT / "plugins" / name / f"{name}.c")
    return made


def sdk_guest(language: str, name: str) -> Path:
    made: Path = SDKS["LANGUAGES"][language].build(name)
    return made


def is_here(form: Form) -> bool:
    """Whether its guest can be compiled here; if not, a line says why."""
    try:
        if form.guest is not None:
            form.guest()
    except MissingTool as missing:
        print(f"{form.policy}, {form.name}: left out, {missing}", file=sys.stderr)
        return False
    return True


def extension_guest() -> Path:
    """Without the library, which is for the other interface."""
    source, made = (
        ROOT / "perf" / "wasm_guests" / "extension_label.c",
        ROOT / "build" / "guests" / "extension_label.wasm",
    )
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        made.parent.mkdir(parents=True, exist_ok=True)
        options = ["-target", "wasm32-freestanding", "-O2", "-nostdlib", "-Wl,--no-entry", "-Wl,--export-memory"]
        fresh = made.with_suffix(f".{os.getpid()}.tmp")
        command = [sys.executable, "-m", "ziglang", "cc", *options, "-o", str(fresh), str(source)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        fresh.replace(made)
    return made


def batch_forms(policy: str, example: str, pods: int, config: str = "") -> list[Form]:
    """A form for each language there is a library for."""
    makers: dict[str, Callable[[], Path]] = {"c": functools.partial(c_guest, example)}
    makers |= {language: functools.partial(sdk_guest, language, example) for language in LANGUAGES}
    return [
        Form(policy, f"batch-{language.removesuffix('script')}", pods, "Guest", make, config, shrinks=False)
        for language, make in makers.items()
    ]


_PLUGINS = policy_plugins.__name__
FORMS = (
    Form(LABEL_POLICY, "native", 20_000, f"{_PLUGINS}:NativeLabel", shrinks=False),
    *batch_forms(LABEL_POLICY, "label_score", 20_000),
    Form(LABEL_POLICY, "py-table", 1_500, f"{_PLUGINS}:PythonLabelTable"),
    Form(LABEL_POLICY, "py-node", 700, f"{_PLUGINS}:PythonLabel"),
    Form(LABEL_POLICY, "extension", 1_000, "Guest", extension_guest),
    Form(LABEL_POLICY, "ext-parallel", 1_000, "Guest", extension_guest, more="parallel"),
    Form(LABEL_POLICY, "ext-pure", 20_000, "Guest", extension_guest, shrinks=False, more="pure"),
    Form(LABEL_POLICY, "http-names", 300, extender=True),
    Form(LABEL_POLICY, "http", 150, extender=False),
    Form(PACKING, "native", 20_000, FIT, shrinks=False),
    Form(PACKING, "kernel", 5_000, f"{_PLUGINS}:KernelPacking", shrinks=False),
    *batch_forms(PACKING, "gpu_packing", 20_000, "cpu"),
    Form(PACKING, "py-table", 1_000, f"{_PLUGINS}:PythonPackingTable"),
    Form(PACKING, "py-node", 700, f"{_PLUGINS}:PythonPacking"),
)


def document(form: Form, port: int) -> dict[str, Any]:
    """The configuration of a scheduler with this form of the policy."""
    made: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
    }
    if form.extender is not None:
        made["extenders"] = [
            {
                "urlPrefix": f"http://127.0.0.1:{port}",
                "prioritizeVerb": "prioritize",
                "weight": 1,
                "nodeCacheCapable": form.extender,
                "httpTimeout": "30s",
            }
        ]
        return made
    if form.plugin == FIT:  # the default plugin, configured to pack instead of to spread
        strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
        made["profiles"] = [{"pluginConfig": [{"name": FIT, "args": {"scoringStrategy": strategy}}]}]
        return made
    profile: dict[str, Any] = {"plugins": {"score": {"enabled": [{"name": form.plugin, "weight": 1}]}}}
    if form.guest is not None:
        args: dict[str, Any] = {"guestURL": form.guest().as_uri(), "deadline": "1s", "guestConfig": form.config}
        if form.more:
            args[form.more] = True
        profile["pluginConfig"] = [{"name": form.plugin, "args": args}]
    made["profiles"] = [profile]
    return made


# --- one run --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Result:
    policy: str
    form: str
    nodes: int
    pods: int
    decisions_per_s: float  # 0 for extenders
    pods_per_s: float
    cpu_us_per_pod: float
    guest_calls: int
    mean_score: float  # mean of the policy's scores of the chosen nodes; should be equal for all forms


async def run(form: Form, nodes: int, pods: int, pid: int, port: int) -> Result:
    clock, metrics, guests = SystemClock(), Metrics(process=False), GuestPlugins()
    find = functools.partial(find_plugins, guests=guests)
    config = parse_config(json.dumps(document(form, port)), "scheduler.yaml", find_plugins=find)
    cluster = Cluster(clock, seed=1, history_limit=10 * pods + 1000)
    for number in range(nodes):
        node = make_node(f"n{number}").capacity(cpu=str(CORES), memory="256Gi", pods=110)
        for image in range(IMAGES):
            node = node.image(f"registry.example/team-{image}/service:1.{image}", 1 << 27)
        cluster.create_node(node.label(LABEL, str(number_of(f"n{number}"))).obj())
    scheduler = Scheduler(
        cluster.client(),
        config,
        clock=clock,
        rng=random.Random(1),
        metrics=metrics,
        stopwatch=time.perf_counter,
        options=Options(guests=guests),
    )
    deciding = time_decisions(scheduler)
    observing = asyncio.ensure_future(scheduler.observe())
    await scheduler.wait_for_sync()
    for number in range(pods):
        cluster.create_pod(make_pod(f"p{number}").req(cpu=POD_CPU, memory=POD_MEMORY).obj())
    while len(scheduler.queue) < pods:  # noqa: ASYNC110 -- nobody tells
        await asyncio.sleep(0.01)
    gc.collect()
    gc.freeze()
    begin, own, others = time.perf_counter(), time.process_time(), cpu_of(pid) if pid else 0.0
    scheduling = asyncio.ensure_future(scheduler.schedule())
    while is_waiting(cluster, scheduler):  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    wall = time.perf_counter() - begin
    spent = time.process_time() - own + (cpu_of(pid) - others if pid else 0.0)
    for task in (scheduling, observing):
        task.cancel()
    await asyncio.gather(scheduling, observing, return_exceptions=True)
    gc.unfreeze()
    return Result(
        form.policy, form.name, nodes, pods,
        decisions_per_s=0.0 if form.extender is not None else pods / deciding[0],
        pods_per_s=pods / wall,
        cpu_us_per_pod=1e6 * spent / pods,
        guest_calls=int(metrics.wasm_calls_total.labels("Guest").value),
        mean_score=_mean_score(form.policy, cluster),
    )  # fmt: skip


def _mean_score(policy: str, cluster: Cluster) -> float:
    """SystemExit for a run that went wrong."""
    on = Counter(pod.spec.node_name for pod in cluster.pods.values())
    if on[""] or max(on.values()) > 110:
        raise SystemExit(f"{on['']} pods were not bound, and a node has {max(on.values())} of 110 pods")
    if policy == LABEL_POLICY:
        return statistics.fmean(number_of(pod.spec.node_name) for pod in cluster.pods.values())
    return len(cluster.pods) / len(on)  # pods on a node that has any


# --- the command ----------------------------------------------------------------------------------------------------


def measure(nodes: int, forms: Sequence[Form], rounds: int, scale: float) -> list[list[Result]]:
    """By round, the forms in turn."""
    found: list[list[Result]] = []
    with extender() as (pid, port):
        for turn in range(rounds):
            order = [forms[(turn + place) % len(forms)] for place in range(len(forms))]
            taken = {}
            for form in order:
                asked = (pid, port) if form.extender is not None else (0, 0)
                taken[form.policy, form.name] = asyncio.run(run(form, nodes, form.pods_for(nodes, scale), *asked))
                gc.collect()
            found.append([taken[form.policy, form.name] for form in forms])
    return found


def table(rounds: Sequence[Sequence[Result]]) -> str:
    nodes = rounds[0][0].nodes
    head = (
        f"{'policy':9}{'form':15}{'pods':>7}{'decisions/s':>13}{'pods/s':>9}{'CPU us/pod':>12}{'calls':>8}{'score':>8}"
    )
    lines = [f"{nodes:,} nodes, medians of {len(rounds)}", f"{head}   of native"]
    for column, first in enumerate(rounds[0]):
        results = [each[column] for each in rounds]
        decisions = statistics.median(each.decisions_per_s for each in results)
        lines.append(
            f"{first.policy:9}{first.form:15}{first.pods:7,}"
            f"{f'{decisions:,.0f}' if decisions else '-':>13}"
            f"{statistics.median(each.pods_per_s for each in results):9,.0f}"
            f"{statistics.median(each.cpu_us_per_pod for each in results):12,.0f}"
            f"{first.guest_calls:8,}{first.mean_score:8.1f}   {_spread(ratios(rounds, first.policy, first.form))}"
        )
    return "\n".join([*lines, *goals(rounds)])


def ratios(rounds: Sequence[Sequence[Result]], policy: str, form: str, base: str = "native") -> list[float]:
    """CPU of the base over CPU of the form, by round: 1 is as fast."""
    found = []
    for each in rounds:
        by_form = {result.form: result.cpu_us_per_pod for result in each if result.policy == policy}
        if base in by_form and form in by_form:
            found.append(by_form[base] / by_form[form])
    return found


def _spread(found: Sequence[float]) -> str:
    return f"{statistics.median(found):.3f} ({min(found):.3f} .. {max(found):.3f})" if found else "-"


# What is promised: (what it is called, policy, form, base, at least).
GOALS = (
    ("a pure guest, of native", LABEL_POLICY, "batch-c", "native", 0.9),
    ("a guest that depends on usage, of a kernel", PACKING, "batch-c", "kernel", 0.6),
    ("the same, of what only the compiled core can do", PACKING, "batch-c", "native", 0.6),
    ("a guest of the extension interface, of an extender", LABEL_POLICY, "extension", "http", 5.0),
)


def goals(rounds: Sequence[Sequence[Result]]) -> list[str]:
    lines = []
    for title, policy, form, base, least in GOALS:
        found = ratios(rounds, policy, form, base)
        if found:
            is_met = statistics.median(found) >= least
            lines.append(f"{title}: {_spread(found)}, goal {least:g}: {'met' if is_met else 'NOT met'}")
    return lines


def measure_real(options: argparse.Namespace, forms: Sequence[Form]) -> int:
    """1 if something was wrong: a pod not bound, a node overcommitted, an Event missing."""
    from perf import wasm_control_plane as real

    everything: list[real.RealResult] = []
    wrong: list[str] = []
    forms = [form for form in forms if options.forms or form.name in real.FORMS]
    for nodes in options.nodes:
        rounds = real.measure_rounds(nodes, forms, options.rounds, options.scale)
        print(real.table(rounds), flush=True)
        wrong += real.problems(rounds)
        everything += [result for each in rounds for result in each]
    for problem in wrong[:10]:
        print(f"perf: error: {problem}", file=sys.stderr)
    if options.output:
        options.output.write_text(json.dumps([asdict(result) for result in everything], indent=1))
    return 1 if wrong else 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.wasm_policies", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[500, 5000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--forms", nargs="+", choices=sorted({form.name for form in FORMS}), help="default: all")
    parser.add_argument("--policies", nargs="+", choices=(LABEL_POLICY, PACKING), default=[LABEL_POLICY, PACKING])
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of pods")
    parser.add_argument("--real", action="store_true", help="on a real etcd and kube-apiserver: see wasm_control_plane")
    parser.add_argument("--output", type=Path, help="write the results of all rounds as JSON")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.serve:
        asyncio.run(serve())
        return 0
    configure(verbosity=QUIET)
    forms = [f for f in FORMS if f.policy in options.policies and (not options.forms or f.name in options.forms)]
    forms = [form for form in forms if is_here(form)]
    if options.real:
        return measure_real(options, forms)
    everything: list[Result] = []
    for nodes in options.nodes:
        rounds = measure(nodes, forms, options.rounds, options.scale)
        print(table(rounds), flush=True)
        everything += [result for each in rounds for result in each]
    if options.output:
        options.output.write_text(json.dumps([asdict(result) for result in everything], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
