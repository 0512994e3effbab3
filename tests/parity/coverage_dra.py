"""What a run of cases of dynamic resource allocation has covered, by the oracle's answers; `python -m
tests.parity.coverage_dra` prints it."""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator

from kscheduler.api.devices import EXTENDED_RESOURCE_PREFIX
from kscheduler.testing.controlplane import ensure
from kscheduler.testing.controlplane.binaries import kubernetes_version
from tests.parity.case import SEQUENCE, Case, Object
from tests.parity.compare import all_differences
from tests.parity.compare_preemption import all_differences as all_differences_of_preemption
from tests.parity.devices.coverage import features_of_claims, features_of_result, published_devices
from tests.parity.generate_dra import generate_dra
from tests.parity.generate_dra_preemption import generate_dra_preemption
from tests.parity.oracle import Answer, Decision, Oracle, Preempted
from tests.parity.ours_devices import TIMED_OUT
from tests.parity.shrink import kind_of
from tests.support.releases import SHARE_OF_OTHERS, releases_to_test

CASES = 1700  # somewhat more than 20,000 decisions
PREEMPTIONS = 400  # cases of PostFilter
LITTLE = 3  # what was met less often in a long run has not been tried
NAME = "DynamicResources"

KINDS = ("claims", "resources", "claims and resources", "neither")  # what a pod asks for; resources that classes back
VERDICTS = ("gated", "turned down by PreFilter", "fits nowhere", "placed", "fault")
PREEMPTION_VERDICTS = ("fits", "nobody preempted", "preempts", "fault")
FEATURES = (
    "several claims",
    "claim by template",
    "claim of several pods",
    "allocated before",
    "allocated and reserved for others",
    "several devices of a request",
    "all devices",
    "first alternative",
    "later alternative",
    "admin access",
    "CEL selector of a claim",
    "matchAttribute",
    "distinctAttribute",
    "consumed capacity",
    "shared device in use",
    "counters",
    "tolerated taint",
    "binding conditions",
    "configuration of a class",
    "configuration of a claim",
    "only on this node",
    "on nodes by selector",
    "on all nodes",
    "after other pods of the case",
    "a choice of nodes",
    "different scores by alternatives",
    "extended resource by its own name",
    "extended resource by its class's name",
    "extended resource of several containers",
    "extended resource of an init container",
    "devices that an init container leaves to another container",
    "extended resource of the node itself",
)
TEXTS = {  # extension point -> the texts that are returned there, with … for names
    "PreEnqueue": (
        'could not find ResourceClaim "…"',
        'resourceclaim "…" is being deleted',
        "ResourceClaim … was not created for Pod … (Pod is not owner)",
        'pod "…": ResourceClaim not created yet',
    ),
    "PreFilter": (
        "resource claim … is in the process of being allocated",
        "request …: device class … does not exist",
        "resource claim …, request …: unknown request type",
    ),
    "Filter": (
        "cannot allocate all claims",
        "resourceclaim not available on the node",
        "cannot schedule extended resource claim",
        "invalid resource pools were encountered",
    ),
    "fault": (
        "request …: unsupported request type",
        "asks for all devices, but resource pool … is currently being updated",
        "asks for all devices, but resource pool … is currently invalid",
        "because a claim constraint would not be satisfied",
        "exceeds the claim limit",
        "CEL runtime error",
        "CEL compile error",
    ),
    "PostFilter": ("deallocation of ResourceClaim completed", "deletion of ResourceClaim completed"),
}
_TEXTS = {
    point: [(text, re.compile(re.escape(text).replace("…", ".*?"))) for text in texts] for point, texts in TEXTS.items()
}


class DraCoverage:
    """Of decisions and of preemptions."""

    def __init__(self) -> None:
        self.cases = 0
        self.decisions = 0
        self.preemptions = 0
        self.left_out = 0  # decisions that are not compared, since the search for devices takes too long
        self.verdicts: Counter[tuple[str, str]] = Counter()  # (kind of the pod, verdict) -> pods
        self.preemption_verdicts: Counter[tuple[str, str]] = Counter()
        self.features: Counter[str] = Counter()  # of pods that were placed
        self.texts: Counter[tuple[str, str]] = Counter()  # (extension point, text) -> times
        self.choices = 0  # preemptions in which one of several claims may be taken back

    def add(self, case: Case, answer: Answer) -> None:
        self.cases += 1
        cluster = _Cluster(case)
        for position, (pod, decision) in enumerate(zip(case.pending, answer.pods or (), strict=False)):
            self.decisions += 1
            self.verdicts[cluster.kind_of(pod), _verdict(decision)] += 1
            self.left_out += TIMED_OUT in decision.failure
            self._hear(decision)
            if decision.host:
                self.features.update(set(cluster.features(pod, decision)))
                if case.mode == SEQUENCE and position and decision.allocations:
                    self.features["after other pods of the case"] += 1
        for pod, preempted in zip(case.pending, answer.preempted or (), strict=False):
            self.preemptions += 1
            self.preemption_verdicts[cluster.kind_of(pod), _preemption_verdict(preempted)] += 1
            self._hear_text("PostFilter", preempted.message)
            self.choices += len(preempted.taken_back) > 1

    def _hear(self, decision: Decision) -> None:
        if decision.pre_enqueue is not None and decision.pre_enqueue.plugin == NAME:
            self._hear_text("PreEnqueue", " ".join(decision.pre_enqueue.reasons or ()))
        elif decision.pre_filter is not None and decision.pre_filter.plugin == NAME:
            self._hear_text("PreFilter", " ".join(decision.pre_filter.reasons or ()))
        if NAME in decision.failure and not decision.is_fit_error:
            self._hear_text("fault", decision.failure)
        else:
            for status in decision.statuses.values():
                if status.plugin == NAME and decision.pre_filter is None:
                    self._hear_text("Filter", " ".join(status.reasons or ()))

    def _hear_text(self, point: str, returned: str) -> None:
        for text, pattern in _TEXTS[point]:
            if pattern.search(returned):
                self.texts[point, text] += 1

    def missing(self) -> list[str]:
        """What a run that is long enough should have covered, and this one has not."""
        gaps = [f"placed with {name}: {self.features[name]}" for name in FEATURES if self.features[name] < LITTLE]
        heard = [point for point in TEXTS if self.preemptions or point != "PostFilter"]
        gaps += [
            f"{point} says {text!r}: {self.texts[point, text]}"
            for point in heard
            for text in TEXTS[point]
            if self.texts[point, text] < LITTLE
        ]
        if self.preemptions and self.choices < LITTLE:
            gaps.append(f"one of several claims taken back: {self.choices}")
        if self.left_out > self.decisions / 100:
            gaps.append(f"too many searches take too long: {self.left_out} of {self.decisions}")
        return gaps

    def table(self) -> str:
        """Markdown."""
        lines = _crossed("decisions about pods with", VERDICTS, self.verdicts)
        lines += ["", *_crossed("preemptions for pods with", PREEMPTION_VERDICTS, self.preemption_verdicts)]
        lines += ["", "| Placed with | pods |", "|---|---:|"]
        lines += [f"| {name} | {self.features[name]:,} |" for name in FEATURES]
        lines += ["", "| Point | text | times |", "|---|---|---:|"]
        lines += [
            f"| {point} | {text} | {self.texts[point, text]:,} |" for point, texts in TEXTS.items() for text in texts
        ]
        lines += ["", f"One of several claims could be taken back in {self.choices:,} preemptions."]
        lines += ["", f"{self.decisions:,} decisions and {self.preemptions:,} preemptions in {self.cases:,} clusters; "]
        lines[-1] += f"{self.left_out:,} decisions left out."
        return "\n".join(lines)


def _crossed(what: str, verdicts: tuple[str, ...], counted: Counter[tuple[str, str]]) -> list[str]:
    lines = [f"| {what} | {' | '.join(verdicts)} |", f"|---|{'---:|' * len(verdicts)}"]
    lines += [f"| {kind} | {' | '.join(f'{counted[kind, verdict]:,}' for verdict in verdicts)} |" for kind in KINDS]
    return lines


def _verdict(decision: Decision) -> str:
    if decision.pre_enqueue is not None:
        return "gated"
    if decision.host:
        return "placed"
    if not decision.is_fit_error:
        return "fault"
    return "fits nowhere" if decision.pre_filter is None else "turned down by PreFilter"


def _preemption_verdict(preempted: Preempted) -> str:
    if preempted.host:
        return "fits"
    if preempted.fault or preempted.code == "Error":
        return "fault"
    return "preempts" if preempted.chosen else "nobody preempted"


class _Cluster:
    """A case's cluster, to look things up in."""

    def __init__(self, case: Case) -> None:
        cluster = case.cluster
        self._claims = {
            (each["metadata"]["namespace"], each["metadata"]["name"]): each for each in cluster["resourceClaims"]
        }
        self._devices = published_devices(cluster["resourceSlices"])
        self._nodes = {each["metadata"]["name"]: each for each in cluster["nodes"]}
        self._used = {
            (result["driver"], result["pool"], result["device"])
            for claim in cluster["resourceClaims"]
            for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
        }
        self._backed = {each["spec"].get("extendedResourceName") for each in cluster["deviceClasses"]}
        self._backed |= {EXTENDED_RESOURCE_PREFIX + each["metadata"]["name"] for each in cluster["deviceClasses"]}
        self._uses = Counter(key for pod in case.pending for key in self._keys(pod))

    def kind_of(self, pod: Object) -> str:
        has_claims, has_resources = bool(pod["spec"].get("resourceClaims")), bool(self._resources(pod))
        if has_claims:
            return "claims and resources" if has_resources else "claims"
        return "resources" if has_resources else "neither"

    def _resources(self, pod: Object) -> set[str]:
        """The backed resources that the pod asks for."""
        containers = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]
        return {name for each in containers for name in each.get("resources", {}).get("requests", ())} & self._backed

    def _keys(self, pod: Object) -> Iterator[tuple[str, str]]:
        """(namespace, name) of the pod's claims."""
        made = {
            each["name"]: each.get("resourceClaimName")
            for each in pod.get("status", {}).get("resourceClaimStatuses", ())
        }
        for entry in pod["spec"].get("resourceClaims", ()):
            name = entry.get("resourceClaimName") or made.get(entry["name"])
            if name is not None:
                yield pod["metadata"]["namespace"], name

    def features(self, pod: Object, decision: Decision) -> Iterator[str]:
        """What the placement of the pod has shown."""
        keys = list(self._keys(pod))
        claims = [self._claims[key] for key in keys]
        allocated = [each for each in claims if "allocation" in each.get("status", {})]
        waiting = [each for each in claims if each not in allocated]
        if allocated:
            yield "allocated before"
            users = {user["uid"] for each in allocated for user in each["status"].get("reservedFor", ())}
            if users - {pod["metadata"]["uid"]}:
                yield "allocated and reserved for others"
        if any("resourceClaimTemplateName" in entry for entry in pod["spec"].get("resourceClaims", ())):
            yield "claim by template"
        if any(self._uses[key] > 1 for key in keys):
            yield "claim of several pods"
        found = decision.allocations.get(decision.host)
        yield from self._of_resources(pod, decision)
        if found is None:
            return
        if len(decision.found) > 1:
            yield "a choice of nodes"
        scores = decision.scores.get(NAME)
        if scores is not None and len(set(scores.raw)) > 1:
            yield "different scores by alternatives"
        results = found.results or []
        yield from features_of_claims(waiting, results[: len(waiting)])
        for allocation in results:
            for result in allocation["devices"].get("results", ()):
                name = result["driver"], result["pool"], result["device"]
                yield from features_of_result(result, self._devices[name], is_used=name in self._used)

    def _of_resources(self, pod: Object, decision: Decision) -> Iterator[str]:
        found = decision.allocations.get(decision.host)
        mappings = [] if found is None else found.mappings
        by_class = {each["resourceName"] for each in mappings}
        if any(name.startswith(EXTENDED_RESOURCE_PREFIX) for name in by_class):
            yield "extended resource by its class's name"
        if any(not name.startswith(EXTENDED_RESOURCE_PREFIX) for name in by_class):
            yield "extended resource by its own name"
        users = {each["containerName"] for each in mappings}
        if len(users) > 1:
            yield "extended resource of several containers"
        inits = {each["name"] for each in pod["spec"].get("initContainers", ())}
        if users & inits:
            yield "extended resource of an init container"
        containers_of: dict[str, set[str]] = {}  # request -> the containers that use its devices
        for each in mappings:
            containers_of.setdefault(each["requestName"], set()).add(each["containerName"])
        if any(len(containers) > 1 for containers in containers_of.values()):
            yield "devices that an init container leaves to another container"
        offered = self._nodes[decision.host]["status"]["allocatable"]
        if any(offered.get(name, "0") != "0" for name in self._resources(pod)):
            yield "extended resource of the node itself"


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Compare decisions about pods with claims with kube-scheduler's and print what was covered."
    )
    for name, default in (("cases", CASES), ("preemptions", PREEMPTIONS)):
        text = f"clusters with the default release; with others a third ({default})"
        parser.add_argument(f"--{name}", type=int, default=default, help=text)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 40))
    options = parser.parse_args()
    found = 0
    for index, release in enumerate(releases_to_test()):
        share = SHARE_OF_OTHERS if index else 1
        found += _run(release, options.seed, options.cases // share, options.preemptions // share)
    return 1 if found else 0


def _run(release: str, first: int, cases: int, preemptions: int) -> int:
    """Print what seeds from the first on have shown with a release; the number of differences."""
    began_s = time.monotonic()
    oracle = Oracle(ensure(["oracle"], release).path("oracle"))
    coverage = DraCoverage()
    different: Counter[str] = Counter()
    examples: dict[str, tuple[int, str]] = {}  # kind -> seed, difference
    for count, make, compare in (
        (cases, generate_dra, all_differences),
        (preemptions, generate_dra_preemption, all_differences_of_preemption),
    ):
        for case, answer in oracle.answers(make(seed, release) for seed in range(first, first + count)):
            coverage.add(case, answer)
            for _, difference in compare(case, answer):
                different[kind_of(difference)] += 1
                examples.setdefault(kind_of(difference), (case.seed, difference))
    oracle.close()
    print(f"### Pods with claims, Kubernetes {kubernetes_version(release)}\n\n{coverage.table()}\n")
    for kind, times in different.most_common():
        seed, difference = examples[kind]
        print(f"{times} × {kind}; seed {seed}: {difference}")
    print(
        f"Seeds from {first}; differences: {different.total()}; {time.monotonic() - began_s:.0f} s. "
        f"Not covered: {'; '.join(coverage.missing()) or 'nothing'}.\n",
        flush=True,
    )
    return different.total()


if __name__ == "__main__":
    sys.exit(main())
