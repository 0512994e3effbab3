"""What a run of cases has covered, by the oracle's answers; `python -m tests.parity.devices.coverage` prints it."""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from kscheduler.testing.controlplane import ensure
from tests.parity.devices.case import DeviceCase, Object
from tests.parity.devices.compare import all_differences, is_compared
from tests.parity.devices.gates import DEFAULTS
from tests.parity.devices.generate import generate
from tests.parity.devices.oracle import Decision, DeviceAnswer, DeviceOracle
from tests.parity.shrink import kind_of
from tests.support.releases import SHARE_OF_OTHERS, releases_to_test

CASES = 4400  # somewhat more than 20,000 decisions
LITTLE = 5  # what was met less often in a long run has not been tried

FEATURES = (
    "several claims",
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
    "taint rules",
    "after other pods of the case",
    "search that went back",
    "attributes that are lists",
)
SKIPPED = "skipped node operations"
DERIVED = "derived attributes"
GROUPS = "compatibility groups"  # which 1.36 does not know
FAILURES = (
    "could not retrieve device class",
    "asks for all devices, but resource pool … is currently being updated",
    "asks for all devices, but resource pool … is currently invalid",
    "because a claim constraint would not be satisfied",
    "exceeds the claim limit",
    "CEL runtime error: no such key",
    "CEL runtime error: no such overload",
    "CEL runtime error: division by zero",
    "CEL compile error",
    "could not be converted to bool",
    "invalid resource pools were encountered",
)
_FAILURE = re.compile("|".join(f"({re.escape(text).replace('…', '[^ ]+')})" for text in FAILURES))


class Coverage:
    def __init__(self) -> None:
        self.cases = 0
        self.decisions = 0
        self.left_out = 0  # whose search takes too long
        self.verdicts: Counter[str] = Counter()
        self.features: Counter[str] = Counter()  # of claims that were allocated
        self.expected: tuple[str, ...] = FEATURES
        self.failures: Counter[str] = Counter()

    def add(self, case: DeviceCase, answer: DeviceAnswer) -> None:
        self.cases += 1
        self.expected = (
            (*FEATURES, GROUPS, SKIPPED, DERIVED)
            if "DRADeviceCompatibilityGroups" in DEFAULTS[case.release]
            else FEATURES
        )
        for position, (pod, of_nodes) in enumerate(zip(case.pending, answer.pods, strict=True)):
            if not all(map(is_compared, of_nodes)):
                self.left_out += len(of_nodes)
                continue
            for decision in of_nodes:
                self.decisions += 1
                self.verdicts[decision.verdict] += 1
                if decision.failure:
                    self.failures[_kind_of_failure(decision.failure)] += 1
                if decision.results is not None:
                    self.features.update(_features(case, position, pod, decision))

    def missing(self) -> list[str]:
        """What a run that is long enough should have covered, and this one has not."""
        gaps = [
            f"allocated with {name}: {self.features[name]}" for name in self.expected if self.features[name] < LITTLE
        ]
        gaps += [f"failed by {text!r}: {self.failures[text]}" for text in FAILURES if self.failures[text] < LITTLE]
        if self.left_out > self.decisions / 20:
            gaps.append(f"too many searches take too long: {self.left_out} of {self.decisions + self.left_out}")
        return gaps

    def table(self) -> str:
        """Markdown."""
        lines = ["| Verdict | decisions |", "|---|---:|"]
        lines += [f"| {name} | {times:,} |" for name, times in self.verdicts.most_common()]
        lines += ["", "| Allocated with | decisions |", "|---|---:|"]
        lines += [f"| {name} | {self.features[name]:,} |" for name in self.expected]
        lines += ["", "| Failed by | decisions |", "|---|---:|"]
        lines += [f"| {text} | {times:,} |" for text, times in self.failures.most_common()]
        lines += ["", f"{self.decisions:,} decisions in {self.cases:,} clusters; {self.left_out:,} left out."]
        return "\n".join(lines)


def _kind_of_failure(failure: str) -> str:
    found = _FAILURE.search(failure)
    return "other" if found is None or found.lastindex is None else FAILURES[found.lastindex - 1]


def _features(case: DeviceCase, position: int, pod: Object, decision: Decision) -> set[str]:
    """What the allocation of a pod's claims has shown."""
    cluster, found = case.cluster, set(features_of_claims(pod["claims"], decision.results or ()))
    devices = published_devices(cluster["resourceSlices"])
    used = {(each["driver"], each["pool"], each["device"]) for each in cluster["allocated"]}
    chosen = 0
    for allocation in decision.results or ():
        for result in allocation["devices"].get("results", ()):
            chosen += 1
            name = result["driver"], result["pool"], result["device"]
            found |= set(features_of_result(result, devices[name], is_used=name in used))
    if case.gates["DRAListTypeAttributes"]:
        found.add("attributes that are lists")
    if case.gates.get("DRADeviceCompatibilityGroups"):
        found.add(GROUPS)
    if case.gates.get("DRADerivedAttributes") and any(_derives(claim["spec"]["devices"]) for claim in pod["claims"]):
        found.add(DERIVED)
    if case.gates["DRADeviceTaintRules"] and cluster["deviceTaintRules"]:
        found.add("taint rules")
    if case.is_sequence and position:
        found.add("after other pods of the case")
    if decision.steps > 3 * chosen + 2 * len(pod["claims"]) + 4:
        found.add("search that went back")
    return found


def _derives(spec: Object) -> bool:
    wanted = [asked for each in spec["requests"] for asked in (each.get("exactly"), *each.get("firstAvailable", ()))]
    return any(asked is not None and "derivedAttributes" in asked for asked in wanted)


_FROM = {"FromClass": "configuration of a class", "FromClaim": "configuration of a claim"}


def published_devices(slices: Iterable[Object]) -> dict[tuple[str, str, str], Object]:
    """The devices in slices, by driver, pool and name."""
    return {
        (spec["driver"], spec["pool"]["name"], device["name"]): device
        for spec in (each["spec"] for each in slices)
        for device in spec.get("devices") or ()
    }


def _where(allocation: Object) -> str:
    if "nodeSelector" not in allocation:
        return "on all nodes"
    (term,) = allocation["nodeSelector"]["nodeSelectorTerms"]
    is_by_name = any(field["key"] == "metadata.name" for field in term.get("matchFields", ()))
    return "only on this node" if is_by_name else "on nodes by selector"


def features_of_claims(claims: Sequence[Object], allocations: Sequence[Object]) -> Iterator[str]:
    """What the claims of a pod, each with its allocation, have shown."""
    if len(claims) > 1:
        yield "several claims"
    for claim, allocation in zip(claims, allocations, strict=True):
        yield _where(allocation)
        yield from (_FROM[config["source"]] for config in allocation["devices"].get("config", ()))
        spec, names = claim["spec"]["devices"], Counter(_names(allocation))
        for constraint in spec.get("constraints", ()):
            yield "matchAttribute" if "matchAttribute" in constraint else "distinctAttribute"
        for request in spec["requests"]:
            for index, alternative in enumerate(request.get("firstAvailable", ())):
                if f"{request['name']}/{alternative['name']}" in names:
                    yield "first alternative" if index == 0 else "later alternative"
            asked = request.get("exactly", {})
            if asked.get("allocationMode") == "All":
                yield "all devices"
            if asked.get("selectors"):
                yield "CEL selector of a claim"
            if names[request["name"]] > 1:
                yield "several devices of a request"


def _names(allocation: Object) -> Iterable[str]:
    return (result["request"] for result in allocation["devices"].get("results", ()))


def features_of_result(result: Object, device: Object, *, is_used: bool) -> Iterator[str]:
    """What the allocation of one device has shown; `is_used`: other claims have used it before."""
    if result.get("adminAccess"):
        yield "admin access"
    if result.get("consumedCapacity"):
        yield "consumed capacity"
    if result.get("skipNodeOperations"):
        yield SKIPPED
    if result.get("bindingConditions"):
        yield "binding conditions"
    if device.get("consumesCounters"):
        yield "counters"
    if is_used and device.get("allowMultipleAllocations"):
        yield "shared device in use"
    if any(taint["effect"] in ("NoSchedule", "NoExecute") for taint in device.get("taints", ())):
        yield "tolerated taint"


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Compare allocations with kube-scheduler's and print what was covered."
    )
    parser.add_argument(
        "--cases", type=int, default=CASES, help=f"for the default release; a third for others ({CASES})"
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 40))
    options = parser.parse_args()
    found = 0
    for index, release in enumerate(releases_to_test()):
        cases = options.cases // SHARE_OF_OTHERS if index else options.cases
        found += _run(release, range(options.seed, options.seed + cases))
    return 1 if found else 0


def _run(release: str, seeds: range) -> int:
    """Print what the seeds have shown with a release; the number of differences."""
    began_s = time.monotonic()
    oracle = DeviceOracle(ensure(["device-oracle"], release).path("device-oracle"))
    coverage = Coverage()
    different: Counter[str] = Counter()
    examples: dict[str, tuple[int, str]] = {}  # kind -> seed, difference
    for case, answer in oracle.answers(generate(seed, release) for seed in seeds):
        coverage.add(case, answer)
        for _, difference in all_differences(case, answer):
            different[kind_of(difference)] += 1
            examples.setdefault(kind_of(difference), (case.seed, difference))
    oracle.close()
    print(f"### Kubernetes {release}\n\n{coverage.table()}\n")
    for kind, times in different.most_common():
        seed, difference = examples[kind]
        print(f"{times} × {kind}; seed {seed}: {difference}")
    print(
        f"Seeds from {seeds.start}; differences: {different.total()}; {time.monotonic() - began_s:.0f} s. "
        f"Not covered: {'; '.join(coverage.missing()) or 'nothing'}.\n"
    )
    return different.total()


if __name__ == "__main__":
    sys.exit(main())
