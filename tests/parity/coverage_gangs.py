"""What a run of groups has covered, and what it should have; prints the decisions of a longer run.

python -m tests.parity.coverage_gangs --cases 5000
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter

from tests.parity.compare_gangs import gang_differences, gang_oracle
from tests.parity.generate_gangs import EVICTING, GangCase, generate_gang
from tests.parity.oracle import Answer
from tests.support.seeds import first_seed

EXPECTED = (
    "held back",
    "scheduled whole",
    "scheduled, some without a node",
    "beside bound members",
    "rejected after some were placed",
    "refused since members differ",
    "an error of PodGroupPostFilter",  # where no member was tried, since the minimum was out of reach
    "the condition stays",
    "a basic group",
    "several classes",
    "pods are evicted",
    "a group is evicted whole",
    "pods are evicted beside budgets",
)


class GangCoverage:
    def __init__(self) -> None:
        self.met: Counter[str] = Counter()

    def add(self, case: GangCase, answer: Answer) -> None:
        found = answer.gang
        assert found is not None
        if not found.is_tried:
            self.met["held back"] += 1
            return
        hosts = [each for each in found.pods.values() if each.host]
        texts = [each.failure for each in found.pods.values() if each.failure]
        met = {
            "scheduled whole": hosts and not texts,
            "scheduled, some without a node": hosts and texts,
            "beside bound members": hosts and any("schedulingGroup" in pod["spec"] for pod in case.cluster["pods"]),
            "rejected after some were placed": any("pod group is unschedulable, minCount" in text for text in texts)
            and found.taken,
            "refused since members differ": any(text.startswith("all pods in a single pod group") for text in texts),
            "an error of PodGroupPostFilter": any("PodGroupPostFilter plugins" in text for text in texts),
            "the condition stays": found.condition is None,
            "a basic group": any("basic" in group["spec"]["schedulingPolicy"] for group in case.pod_groups),
            "several classes": len({str(pod["spec"]["containers"]) for pod in case.pending}) > 1,
        }
        met |= {
            "pods are evicted": bool(found.ended),
            "pods are evicted beside budgets": bool(found.ended and case.cluster.get("podDisruptionBudgets")),
            "a group is evicted whole": _is_group_evicted(case, set(found.ended or ())),
        }
        self.met.update(name for name, is_met in met.items() if is_met)

    def missing(self) -> list[str]:
        return [name for name in EXPECTED if not self.met[name]]


def _is_group_evicted(case: GangCase, ended: set[str]) -> bool:
    whole = {each["metadata"]["name"] for each in case.pod_groups if "all" in each["spec"].get("disruptionMode", {})}
    groups = [pod["spec"].get("schedulingGroup", {}) for pod in case.cluster["pods"] if pod["metadata"]["uid"] in ended]
    return any(group.get("podGroupName") in whole for group in groups)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare decisions about groups with kube-scheduler's.")
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=first_seed())
    parser.add_argument("--evicting", type=float, default=EVICTING, help="in how many of all cases pods can be evicted")
    asked = parser.parse_args()
    logging.disable(logging.ERROR)  # of faults that kube-scheduler has, too
    cases = (generate_gang(seed, asked.evicting) for seed in range(asked.seed, asked.seed + asked.cases))
    oracle = gang_oracle()
    coverage, different, began = GangCoverage(), 0, time.monotonic()
    for case, answer in oracle.answers(cases):
        coverage.add(case, answer)
        for _, text in gang_differences(case, answer)[:1]:
            different += 1
            print(f"seed {case.seed}: {text}")
    oracle.close()
    print(f"{asked.cases} groups in {time.monotonic() - began:.0f} s, {different} with a difference")
    for name in EXPECTED:
        print(f"{coverage.met[name]:7} {name}")
    return 1 if different or coverage.missing() else 0


if __name__ == "__main__":
    sys.exit(main())
