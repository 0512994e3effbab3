"""What a run of groups has covered, and what it should have; prints the decisions of a longer run.

python -m tests.parity.coverage_gangs --cases 5000
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable

from kscheduler.gangs.texts import (
    GROUP_UNSCHEDULABLE,
    NEVER_PREEMPTS,
    NO_PLACEMENTS,
    NOBODY_BELOW,
    WAITS_FOR_MINIMUM,
    WAITS_FOR_ROOM,
)
from tests.parity.compare_gangs import gang_differences, gang_oracle
from tests.parity.generate_composites import generate_composite
from tests.parity.generate_gang_claims import GROUP_UID, generate_claiming_gang
from tests.parity.generate_gangs import (
    CLAIMS,
    COMPOSITES,
    EVICTING,
    NEWEST,
    PLACEMENTS,
    POLICIES,
    TOGETHER,
    TOGETHER_PLACED,
    GangCase,
    generate_gang,
    generate_gang_together,
    generate_gang_with_policy,
    generate_placed_gang,
)
from tests.parity.oracle import Answer, ClaimWrites, Ganged
from tests.support.releases import CHOSEN
from tests.support.seeds import first_seed

SHARED = (
    "held back",
    "scheduled whole",
    "scheduled, some without a node",
    "beside bound members",
    "rejected after some were placed",
    "refused since members differ",
    "the condition stays",
    "a basic group",
    "several classes",
    "pods are evicted",
    "pods are evicted beside budgets",
)
EXPECTED = {
    "1.36": (*SHARED, "waits for room", "pods are evicted for a group that does not fit"),
    "1.37": (
        *SHARED,
        "an error of PodGroupPostFilter",  # where no member was tried, since the minimum was out of reach
        "a group is evicted whole",
    ),
}
WITH_PLACEMENTS = (
    "scheduled whole",
    "beside bound members",
    "pods are evicted",
    "several placements are available",
    "no placement is available",
    "no node has the label",
    "the domain of placed pods is unknown",
)
WITH_POLICIES = (
    "scheduled whole",
    "pods are evicted",
    "the group may not preempt",
    "refused since policies differ",
)
WITH_COMPOSITES = (
    "held back",
    "scheduled whole",
    "pods are evicted",
    "some groups are scheduled and some are not",
    "all groups are rejected",
    "beside bound members of a composite group",
    "a composite group below another",
    "a composite group in one domain",
    "a composite group is evicted whole",
)
WITH_CLAIMS = (
    "held back",
    "scheduled whole",
    "beside bound members",
    "pods are evicted",
    "claims are written",
    "a claim is reserved for the group",
    "a claim is reserved for pods",
    "several pods share a claim",
    "a claim is deallocated",
    "a reservation for the group is taken back",
    "a reservation for a pod is taken back",
    "a claim cannot be used on a node",
    "the devices are too few",
)
WITH_TOGETHER = (
    "held back",
    "scheduled whole",
    "beside bound members",
    "pods are evicted",
    "pods are evicted beside budgets",
    "a group is evicted whole",
    "there is nobody to evict",
    "evictions do not help",
)
OF_GATES: dict[tuple[str, ...], tuple[str, ...]] = {
    PLACEMENTS: WITH_PLACEMENTS,
    POLICIES: WITH_POLICIES,
    COMPOSITES: WITH_COMPOSITES,
    CLAIMS: WITH_CLAIMS,
    TOGETHER: WITH_TOGETHER,
    TOGETHER_PLACED: (*WITH_TOGETHER, "no placement is available"),
}
REJECTED_BESIDE = ("pod group is unschedulable, minCount", "pod group is unschedulable, waiting for minCount")


GENERATORS: dict[tuple[str, ...], Callable[[int, float], GangCase]] = {
    POLICIES: generate_gang_with_policy,
    COMPOSITES: generate_composite,
}


class GangCoverage:
    def __init__(self, release: str = NEWEST, more_gates: tuple[str, ...] = ()) -> None:
        self.expected = OF_GATES[more_gates] if more_gates else EXPECTED[release]
        self.met: Counter[str] = Counter()

    def add(self, case: GangCase, answer: Answer) -> None:
        found = answer.gang
        assert found is not None
        if not found.is_tried:
            self.met["held back"] += 1
            return
        hosts = [each for each in found.pods.values() if each.host]
        texts = [each.failure for each in found.pods.values() if each.failure]
        message = "" if found.condition is None else found.condition.message
        met = {
            "scheduled whole": hosts and not texts,
            "scheduled, some without a node": hosts and texts,
            "beside bound members": hosts and any("schedulingGroup" in pod["spec"] for pod in case.cluster["pods"]),
            "rejected after some were placed": found.taken and any(text.startswith(REJECTED_BESIDE) for text in texts),
            "refused since members differ": any(text.startswith("all pods in a single pod group") for text in texts),
            "an error of PodGroupPostFilter": any("PodGroupPostFilter plugins" in text for text in texts),
            "the condition stays": found.condition is None,
            "a basic group": any("basic" in group["spec"]["schedulingPolicy"] for group in case.pod_groups),
            "several classes": len({str(pod["spec"]["containers"]) for pod in case.pending}) > 1,
        }
        met |= {
            "pods are evicted": bool(found.ended),
            "waits for room": any(WAITS_FOR_ROOM in text for text in texts),
            "pods are evicted for a group that does not fit": bool(found.ended)
            and any(WAITS_FOR_MINIMUM in text for text in texts),
            "pods are evicted beside budgets": bool(found.ended and case.cluster.get("podDisruptionBudgets")),
            "a group is evicted whole": _is_group_evicted(case, set(found.ended or ())),
        }
        met |= {
            "several placements are available": hosts and any(len(set(had)) > 1 for had in _first(found).values()),
            "no placement is available": any("placements are available" in text for text in (message, *texts)),
            "no node has the label": any(NO_PLACEMENTS in text for text in texts),
            "the domain of placed pods is unknown": any("cannot determine domain" in text for text in texts),
        }
        met |= {
            "there is nobody to evict": message.endswith(NOBODY_BELOW),
            "evictions do not help": message.endswith(f"{GROUP_UNSCHEDULABLE}, {GROUP_UNSCHEDULABLE}")
            or message.count("placements are available") > 1,
        }
        met |= {
            "the group may not preempt": any(NEVER_PREEMPTS in text for text in texts),
            "refused since policies differ": any("the pod group's preemption policy" in text for text in texts),
        }
        statuses = {each.status for each in (found.conditions or {}).values()}
        own = {group["metadata"]["name"] for group in case.pod_groups if case.composites}
        of_tree = [pod for pod in case.cluster["pods"] if pod["metadata"]["name"].startswith("b")]
        met |= {
            "some groups are scheduled and some are not": statuses == {"True", "False"},
            "all groups are rejected": statuses == {"False"},
            "beside bound members of a composite group": hosts
            and any(pod["spec"].get("schedulingGroup", {}).get("podGroupName") in own for pod in of_tree),
            "a composite group below another": len(case.composites) > 1 and statuses == {"True"},
            "a composite group in one domain": hosts
            and any("schedulingConstraints" in group["spec"] for group in case.composites),
            "a composite group is evicted whole": _is_tree_evicted(case, set(found.ended or ())),
        }
        if case.has_claims:
            met |= _of_claims(found, texts)
        self.met.update(name for name, is_met in met.items() if is_met)

    def missing(self) -> list[str]:
        return [name for name in self.expected if not self.met[name]]


def _of_claims(found: Ganged, texts: list[str]) -> dict[str, bool]:
    writes = found.claims or ClaimWrites()
    users = [set(each.reserved_for or ()) for each in writes.written.values()]
    released = [each.rpartition(" ")[2] for each in writes.released or ()]
    return {
        "claims are written": bool(writes.written),
        "a claim is reserved for the group": any(GROUP_UID in each for each in users),
        "a claim is reserved for pods": any(each - {GROUP_UID, "another"} for each in users),
        "several pods share a claim": any(len(each - {GROUP_UID, "another"}) > 1 for each in users),
        "a claim is deallocated": bool(writes.deallocated),
        "a reservation for the group is taken back": GROUP_UID in released,
        "a reservation for a pod is taken back": any(uid != GROUP_UID for uid in released),
        "a claim cannot be used on a node": any("resourceclaim not available on the node" in text for text in texts),
        "the devices are too few": any("cannot allocate all claims" in text for text in texts),
    }


def _first(found: Ganged) -> dict[str, list[str]]:
    """pod -> the nodes that it had in the placements of the attempt."""
    return found.tried[0] if found.tried else {}


def _is_group_evicted(case: GangCase, ended: set[str]) -> bool:
    modes = {each["metadata"]["name"]: each["spec"].get("disruptionMode", ()) for each in case.pod_groups}
    whole = {name for name, mode in modes.items() if mode == "PodGroup" or "all" in mode}
    groups = [pod["spec"].get("schedulingGroup", {}) for pod in case.cluster["pods"] if pod["metadata"]["uid"] in ended]
    return any(group.get("podGroupName") in whole for group in groups)


def _is_tree_evicted(case: GangCase, ended: set[str]) -> bool:
    whole = {each["metadata"]["name"] for each in case.composites if "all" in each["spec"].get("disruptionMode", {})}
    below = {
        group["metadata"]["name"]
        for group in case.pod_groups
        if group["spec"].get("parentCompositePodGroupName") in whole
    }
    groups = [pod["spec"].get("schedulingGroup", {}) for pod in case.cluster["pods"] if pod["metadata"]["uid"] in ended]
    return any(group.get("podGroupName") in below for group in groups)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare decisions about groups with kube-scheduler's.")
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=first_seed())
    parser.add_argument("--evicting", type=float, default=EVICTING, help="in how many of all cases pods can be evicted")
    parser.add_argument("--release", choices=sorted(EXPECTED), default=os.environ.get(CHOSEN) or NEWEST)
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--placements", action="store_true", help="groups ask for one domain of nodes")
    only.add_argument("--composites", action="store_true", help="groups are in trees of composite groups, with 1.37")
    only.add_argument("--policies", action="store_true", help="groups state a preemption policy, with 1.37")
    only.add_argument("--together", action="store_true", help="groups preempt as a whole, with 1.36")
    only.add_argument("--together-placed", action="store_true", help="and ask for one domain of nodes")
    only.add_argument("--claims", action="store_true", help="groups and their pods have claims")
    asked = parser.parse_args()
    logging.disable(logging.ERROR)  # of faults that kube-scheduler has, too
    seeds = range(asked.seed, asked.seed + asked.cases)
    asked_for = {
        PLACEMENTS: asked.placements,
        POLICIES: asked.policies,
        COMPOSITES: asked.composites,
        CLAIMS: asked.claims,
        TOGETHER: asked.together,
        TOGETHER_PLACED: asked.together_placed,
    }
    more_gates = next((gates for gates, is_asked in asked_for.items() if is_asked), ())
    if more_gates in (TOGETHER, TOGETHER_PLACED):
        asked.release = "1.36"
        cases = (generate_gang_together(seed, asked.evicting, asked.together_placed) for seed in seeds)
    elif more_gates in GENERATORS:
        asked.release = NEWEST
        cases = (GENERATORS[more_gates](seed, asked.evicting) for seed in seeds)
    else:
        generate = generate_gang
        if asked.claims or asked.placements:
            generate = generate_claiming_gang if asked.claims else generate_placed_gang
        cases = (generate(seed, asked.evicting, asked.release) for seed in seeds)
    oracle = gang_oracle(asked.release, more_gates)
    coverage = GangCoverage(asked.release, more_gates)
    different, began = 0, time.monotonic()
    for case, answer in oracle.answers(cases):
        coverage.add(case, answer)
        for _, text in gang_differences(case, answer)[:1]:
            different += 1
            print(f"seed {case.seed}: {text}")
    oracle.close()
    took = time.monotonic() - began
    print(f"Kubernetes {asked.release}: {asked.cases} groups in {took:.0f} s, {different} with a difference")
    for name in coverage.expected:
        print(f"{coverage.met[name]:7} {name}")
    return 1 if different or coverage.missing() else 0


if __name__ == "__main__":
    sys.exit(main())
