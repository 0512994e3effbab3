"""What a run of cases has covered, by the oracle's answers; `python -m tests.parity.coverage` prints it as a table.

A plugin accepts a node if it was asked and the node was turned down by a later plugin, or by none.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kscheduler.config.extension_points import KUBE_PLUGINS
from kscheduler.config.releases import release_of
from kscheduler.framework.plugins.registry import IN_TREE
from kscheduler.testing.controlplane import ensure
from kscheduler.testing.controlplane.binaries import DEFAULT_RELEASE, RELEASES, kubernetes_version
from tests.parity.case import SEQUENCE, Case
from tests.parity.compare import all_differences
from tests.parity.generate import generate
from tests.parity.generate_dra import generate_dra
from tests.parity.generate_newer import ASKED_OF_NODE_NAME
from tests.parity.oracle import Answer, Decision, Oracle, Status
from tests.parity.words import FPGA, GPU, HUGE

# Plugins that decide nothing about nodes. PrioritySort is compared by the order of the queue, in every case.
BESIDE = frozenset({"PrioritySort", "DefaultBinder", "DefaultPreemption"})
COMPARED = tuple(name for name in IN_TREE if name in KUBE_PLUGINS and name not in BESIDE)
FILTERS_LITTLE = 20  # a run with fewer rejections or acceptances of a plugin has not tried it
OF_CLAIMS = frozenset({"DynamicResources"})  # what has something to do in the cases of generate_dra only
SCORES_LITTLE = {  # different raw scores
    "default": 15,
    "DynamicResources": 5,
    "TaintToleration": 3,
    "PodTopologySpread": 8,
}
GATED_SCORES = {"VolumeBinding": "StorageCapacityScoring"}  # plugin -> the feature gate without which it does not score
REASONS = {  # plugin -> all it can say, where that is more than one thing
    "NodeAffinity": (
        "node(s) didn't match Pod's node affinity/selector",
        "node(s) didn't match scheduler-enforced node affinity",
        "pod affinity terms conflict",
    ),
    "NodeResourcesFit": (
        "Too many pods",
        *(f"Insufficient {name}" for name in ("cpu", "memory", "ephemeral-storage", GPU, FPGA, HUGE)),
    ),
    "PodTopologySpread": (
        "node(s) didn't match pod topology spread constraints",
        "node(s) didn't match pod topology spread constraints (missing required label)",
    ),
    "InterPodAffinity": (
        "node(s) didn't match pod affinity rules",
        "node(s) didn't match pod anti-affinity rules",
        "node(s) didn't satisfy existing pods anti-affinity rules",
    ),
    "VolumeRestrictions": (
        "node(s) had no available disk",
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
        "another pod",
        'persistentvolumeclaim "…" not found',
    ),
    "NodeVolumeLimits": (
        "node(s) exceed max volume count",
        'looking up PVC …: persistentvolumeclaim "…" not found',
    ),
    "VolumeBinding": (
        'persistentvolumeclaim "…" not found',
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "…"',
        'persistentvolumeclaim "…" bound to non-existent persistentvolume "…"',
        'persistentvolumeclaim "…" is being deleted',
        "PVC … was not created for pod … (pod is not owner)",
        "pod has unbound immediate PersistentVolumeClaims",
        "node(s) didn't match PersistentVolume's node affinity",
        "node(s) didn't find available persistent volumes to bind",
        "node(s) did not have enough free storage",
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    ),
    "DynamicResources": (
        'could not find ResourceClaim "…"',
        'resourceclaim "…" is being deleted',
        "cannot allocate all claims",
        "resourceclaim not available on the node",
        "cannot schedule extended resource claim",
        "invalid resource pools were encountered",
    ),
    "VolumeZone": (
        'persistentvolumeclaim "…" not found',
        'persistentvolume "…" not found',
        'storageclass.storage.k8s.io "…" not found',
        "PersistentVolumeClaim had no pv name and storageClass name",
        "PersistentVolume had no name",
        "node(s) had no available volume zone",
    ),
}
_QUOTED = re.compile(r'"[^"]+"')  # in a reason, the name of an object
_CALLED = re.compile(r"(?<=\bPVC )[^\s:]+|(?<=\bfor pod )\S+")  # likewise, without quotes


@dataclass(slots=True)
class PluginCoverage:
    gates: int = 0  # pods held back in PreEnqueue
    pre_filter_rejections: int = 0  # pods
    rejections: int = 0  # nodes
    acceptances: int = 0  # nodes
    scored: int = 0  # nodes
    raw: set[int] = field(default_factory=set)
    normalized: set[int] = field(default_factory=set)
    reasons: Counter[str] = field(default_factory=Counter)  # with … for names of objects

    def hear(self, status: Status) -> None:
        self.reasons.update(_QUOTED.sub('"…"', _CALLED.sub("…", reason)) for reason in status.reasons or ())


class Coverage:
    """Of a run with one release of Kubernetes."""

    def __init__(self, release: str = DEFAULT_RELEASE) -> None:
        self._release = release_of(release)
        self.cases = 0
        self.decisions = 0
        self.placed = 0
        self.assumed = 0
        self.left_out = 0  # nodes that PreFilter did not name
        self.cut_short = 0  # pods placed by a sampled search that left out nodes they fit on
        self.as_nominated = 0  # pods placed on the node they were nominated to
        self.plugins: dict[str, PluginCoverage] = {}
        self.arguments: Counter[str] = Counter()  # "plugin.field" or "plugin.field=value" -> cases

    def add(self, case: Case, answer: Answer) -> None:
        self.cases += 1
        self._add_arguments(case)
        orders = {
            name.partition("/")[0]: [plugin.name for plugin in plugins]
            for name, plugins in (answer.plugins or {}).items()
            if name.endswith("/filter")
        }
        for pod, decision in zip(case.pending, answer.pods or (), strict=True):
            self.decisions += 1
            self.placed += bool(decision.host)
            self.assumed += bool(decision.host) and case.mode == SEQUENCE
            if decision.host:
                self.cut_short += case.is_sampled and len(decision.found) < len(decision.feasible)
                self.as_nominated += decision.host == pod.get("status", {}).get("nominatedNodeName")
            self._add_decision(decision, orders[pod["spec"].get("schedulerName", "default-scheduler")])

    def _plugin(self, name: str) -> PluginCoverage:
        return self.plugins.setdefault(name, PluginCoverage())

    def _add_arguments(self, case: Case) -> None:
        for profile in case.config["profiles"]:
            for entry in profile.get("pluginConfig", ()):
                for name, value in entry["args"].items():
                    kind = value.get("type") if isinstance(value, dict) else value if isinstance(value, str) else None
                    self.arguments[f"{entry['name']}.{name}" + (f"={kind}" if kind else "")] += 1

    def _add_decision(self, decision: Decision, order: list[str]) -> None:
        if decision.pre_enqueue is not None:
            self._plugin(decision.pre_enqueue.plugin).gates += 1
        if decision.pre_filter is not None:
            rejecting = self._plugin(decision.pre_filter.plugin)
            rejecting.pre_filter_rejections += 1
            rejecting.hear(decision.pre_filter)
            return
        asked = [name for name in order if name not in decision.filter_skipped]
        for status in decision.statuses.values():
            if status.plugin not in asked:
                self.left_out += 1
                continue
            rejecting = self._plugin(status.plugin)
            rejecting.rejections += 1
            rejecting.hear(status)
            for name in asked[: asked.index(status.plugin)]:
                self._plugin(name).acceptances += 1
        for name in asked:
            self._plugin(name).acceptances += len(decision.feasible)
        for name, scores in decision.scores.items():
            scoring = self._plugin(name)
            scoring.scored += len(scores.raw)
            scoring.raw.update(scores.raw)
            scoring.normalized.update(scores.normalized)

    def missing(self, beside: Iterable[str] = ()) -> list[str]:
        """What a run that is long enough should have covered, and this one has not, but for the plugins `beside`."""
        beside = {*beside, *(() if self._release.version in ASKED_OF_NODE_NAME else ("NodeName",))}
        gaps = [gap for name in COMPARED if name not in beside for gap in self._gaps(name)]
        for count, gap in (
            (self.left_out, "PreFilter leaves out no node"),
            (self.cut_short, "no search ends early"),
            (self.as_nominated, "no pod gets the node it is nominated to"),
        ):
            gaps += [] if count else [gap]
        return gaps

    def _gaps(self, name: str) -> Iterator[str]:
        covered = self.plugins.get(name, PluginCoverage())
        plugin = IN_TREE_POINTS[name]
        if "preEnqueue" in plugin and not covered.gates and name == "SchedulingGates":
            yield f"{name} gates no pod"
        if "filter" in plugin and covered.rejections < FILTERS_LITTLE:
            yield f"{name} rejects {covered.rejections} nodes"
        for reason in REASONS.get(name, ()):
            if not covered.reasons[reason]:
                yield f"{name} never says {reason!r}"
        if "filter" in plugin and covered.acceptances < FILTERS_LITTLE:
            yield f"{name} accepts {covered.acceptances} nodes"
        if "score" in plugin and len(covered.raw) < self._fewest_scores(name):
            yield f"{name} gives {len(covered.raw)} different raw scores"

    def _fewest_scores(self, name: str) -> int:
        if name in GATED_SCORES and not self._release.has(GATED_SCORES[name]):
            return 0
        return SCORES_LITTLE.get(name, SCORES_LITTLE["default"])

    def table(self) -> str:
        """Markdown."""
        lines = [
            "| Plugin | pods held back | nodes rejected | accepted | scored | different scores: raw, 0–100 |",
            "|---|---:|---:|---:|---:|---:|",
        ]
        for name in COMPARED:
            covered = self.plugins.get(name, PluginCoverage())
            held = covered.gates + covered.pre_filter_rejections
            different = f"{len(covered.raw)}, {len(covered.normalized)}" if covered.scored else ""
            cells = [held, covered.rejections, covered.acceptances, covered.scored]
            lines.append(f"| {name} | {' | '.join(f'{c:,}' if c else '' for c in cells)} | {different} |")
        lines += ["", f"{self.decisions:,} decisions in {self.cases:,} clusters; {self.placed:,} pods placed, "]
        lines[-1] += f"{self.assumed:,} of them kept for the pods after them."
        return "\n".join(lines)

    def details(self) -> str:
        """Markdown: the reasons and arguments met."""
        lines = ["| Plugin | reason | times |", "|---|---|---:|"]
        for name, covered in sorted(self.plugins.items()):
            lines += [f"| {name} | {reason} | {times:,} |" for reason, times in sorted(covered.reasons.items())]
        lines += ["", "| Argument | cases |", "|---|---:|"]
        lines += [f"| {name} | {times:,} |" for name, times in sorted(self.arguments.items())]
        return "\n".join(lines)


def _points() -> dict[str, frozenset[str]]:
    from kscheduler.config.extension_points import KUBE_PLUGINS

    return {name: frozenset(point.value for point in points) for name, points in KUBE_PLUGINS.items()}


IN_TREE_POINTS = _points()  # plugin -> the extension points of kube-scheduler's plugin of that name


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare decisions with kube-scheduler's and print what was covered.")
    parser.add_argument("--cases", type=int, default=600)
    parser.add_argument("--claims", type=int, default=600, help="cases with resource claims beside those (600)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 40))
    parser.add_argument("--details", action="store_true", help="also the reasons and arguments met")
    parser.add_argument("--release", choices=RELEASES, help="of Kubernetes; all without it")
    options = parser.parse_args()
    different = 0
    for release in [options.release] if options.release else RELEASES:
        coverage, found = cover(release, options.seed, options.cases, options.claims)
        print(f"Kubernetes {kubernetes_version(release)}\n\n{coverage.table()}")
        print(f"\nSeeds from {options.seed}; differences: {found}.")
        if options.details:
            print(f"\n{coverage.details()}")
        print(flush=True)
        different += found
    return 1 if different else 0


def cover(release: str, first: int, cases: int, claims: int) -> tuple[Coverage, int]:
    """Compare so many cases without and with resource claims with kube-scheduler of a release, from a seed on.

    Returns what they covered, and the number of differences.
    """
    oracle = Oracle(ensure(["oracle"], release).path("oracle"))
    coverage, different = Coverage(release), 0
    for count, make in ((cases, generate), (claims, generate_dra)):
        for case, answer in oracle.answers(make(seed, release) for seed in range(first, first + count)):
            coverage.add(case, answer)
            different += len(all_differences(case, answer))
    oracle.close()
    return coverage, different


if __name__ == "__main__":
    sys.exit(main())
