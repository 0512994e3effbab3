"""Measures the forms of a policy on a real etcd and kube-apiserver: how much of their differences remains end to end.

    python -m perf.wasm_policies --real --nodes 500 5000 --rounds 3

Forms and policies are those of perf.wasm_policies. Each run has a control plane of its own, with nodes and pending pods
created before the scheduler starts, and ends when all pods are bound; then the apiserver's lists are checked: every pod
bound, no node overcommitted, one Event per pod. The forms take turns within a round, and ratios are computed within
one.

`pods/s` are bindings per second as seen by a watch. `CPU us/pod` is what the scheduler spends on a pod from the first
binding to the last, with all that a binding costs it (but without its start, and what it decided before the first
binding was seen), and `extender` what the extender's process spends in addition.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kscheduler.testing.controlplane import ControlPlane
from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.workload import node
from perf.control_plane_run import Load, measure
from perf.policy_plugins import CORES, LABEL, NUMBERS

if TYPE_CHECKING:
    from perf.wasm_policies import Form

MOST_PODS = 5_000  # of a form that is fast
FORMS = ("native", "batch-c", "batch-go", "py-node", "extension", "http-names", "http")


@dataclass(frozen=True, slots=True)
class RealResult:
    policy: str
    form: str
    nodes: int
    pods: int
    pods_per_s: float
    cpu_us_per_pod: float
    extender_us_per_pod: float
    problems: tuple[str, ...] = ()

    @property
    def all_cpu_us_per_pod(self) -> float:
        return self.cpu_us_per_pod + self.extender_us_per_pod


def node_templates(label: str, numbers: int, cores: int, images: int) -> list[Object]:
    """Node n<i> has the number i modulo `numbers` in its label, as all forms of the policy expect."""
    made = []
    for number in range(numbers):
        template = node("n{index}", capacity={"cpu": str(cores), "memory": "256Gi", "pods": "110"})
        template["metadata"]["labels"][label] = str(number)
        template["status"]["images"] = [
            {"names": [f"registry.example/team-{image}/service:1.{image}"], "sizeBytes": 1 << 27}
            for image in range(images)
        ]
        made.append(template)
    return made


def run(form: Form, nodes: int, scale: float, pid: int, port: int) -> RealResult:
    """`pid` and `port` of an extender, if the form has one."""
    from perf.wasm_policies import IMAGES, cpu_of, document

    configuration: dict[str, Any] = document(form, port)
    pods = min(form.pods_for(nodes, scale), int(MOST_PODS * scale))
    load = Load(nodes, pods, node_templates=lambda: node_templates(LABEL, NUMBERS, CORES, IMAGES))
    before = cpu_of(pid) if pid else 0.0
    found = measure(form.name, lambda plane: _start(plane, configuration), load)
    spent = cpu_of(pid) - before if pid else 0.0
    return RealResult(
        form.policy, form.name, nodes, pods, found.pods_per_s,
        cpu_us_per_pod=1e6 * found.binding_cpu_s / pods,
        extender_us_per_pod=1e6 * spent / pods,
        problems=tuple(found.problems),
    )  # fmt: skip


def _start(plane: ControlPlane, configuration: dict[str, Any]) -> KScheduler:
    return KScheduler(plane, configuration=configuration)


def measure_rounds(nodes: int, forms: Sequence[Form], rounds: int, scale: float) -> list[list[RealResult]]:
    """By round, the forms in turn."""
    from perf.wasm_policies import extender

    found = []
    with extender() as (pid, port):
        for turn in range(rounds):
            taken = {}
            for place in range(len(forms)):
                form = forms[(turn + place) % len(forms)]
                asked = (pid, port) if form.extender is not None else (0, 0)
                taken[form] = run(form, nodes, scale, *asked)
            found.append([taken[form] for form in forms])
    return found


def table(rounds: Sequence[Sequence[RealResult]]) -> str:
    """Medians; ratios to `native` of the same round: above 1 is faster, or cheaper."""
    nodes = rounds[0][0].nodes
    lines = [
        f"{nodes:,} nodes on a real control plane, medians of {len(rounds)}",
        f"{'policy':9}{'form':12}{'pods':>7}{'pods/s':>9}{'CPU us/pod':>12}{'extender':>10}"
        f"   {'pods/s, of native':22}CPU, of native",
    ]
    for column, first in enumerate(rounds[0]):
        results = [each[column] for each in rounds]
        lines.append(
            f"{first.policy:9}{first.form:12}{first.pods:7,}"
            f"{statistics.median(each.pods_per_s for each in results):9,.0f}"
            f"{statistics.median(each.cpu_us_per_pod for each in results):12,.0f}"
            f"{statistics.median(each.extender_us_per_pod for each in results):10,.0f}"
            f"   {_spread(speeds(rounds, first.policy, first.form)):22}"
            f"{_spread(costs(rounds, first.policy, first.form))}"
        )
    return "\n".join(lines)


def speeds(rounds: Sequence[Sequence[RealResult]], policy: str, form: str) -> list[float]:
    """Pods a second of the form over those of native."""
    return [mine.pods_per_s / base.pods_per_s for mine, base in _pairs(rounds, policy, form)]


def costs(rounds: Sequence[Sequence[RealResult]], policy: str, form: str) -> list[float]:
    """CPU of native over that of the form, with its extender's."""
    return [base.all_cpu_us_per_pod / mine.all_cpu_us_per_pod for mine, base in _pairs(rounds, policy, form)]


def problems(rounds: Sequence[Sequence[RealResult]]) -> list[str]:
    return [f"{each.policy} {each.form}: {problem}" for one in rounds for each in one for problem in each.problems]


def _pairs(rounds: Sequence[Sequence[RealResult]], policy: str, form: str) -> list[tuple[RealResult, RealResult]]:
    found = []
    for each in rounds:
        by_form = {result.form: result for result in each if result.policy == policy}
        if form in by_form and "native" in by_form:
            found.append((by_form[form], by_form["native"]))
    return found


def _spread(found: Sequence[float]) -> str:
    return f"{statistics.median(found):5.2f} ({min(found):.2f} .. {max(found):.2f})" if found else "-"
