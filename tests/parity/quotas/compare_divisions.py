"""Fair shares of random trees of queues: ours beside KAI-Scheduler's steps.

    python -m tests.parity.quotas.compare_divisions --trees 10000 --seed 1

With exact numbers both must be equal. With floating-point numbers, as KAI-Scheduler has them, siblings are compared who
divide the same: where a share is close to a whole number it may be rounded down to another one, and units then go to
other queues. Such divisions are counted, not forbidden.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

from kscheduler.quotas.fair_share import set_fair_shares
from kscheduler.quotas.queues import Queue, Share
from tests.parity.quotas.kai_division import UNLIMITED, Number, Row, divide
from tests.parity.quotas.queue_trees import RESOURCES, QueueRecord, TreeCase, generate_tree, random_of

Shares = dict[tuple[str, str], Number]  # (queue, resource) -> fair share


class Tally:
    """What a run has compared."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.exact: list[str] = []  # differences of exact numbers
        self.apart: list[str] = []  # differences of floating-point numbers by more than rounding explains

    def add(self, case: TreeCase) -> None:
        ours = our_shares(case)
        self._count(case, ours)
        kais = kais_shares(case)
        self.exact += [
            f"seed {case.seed}: {resource} of {name}: ours is {ours[name, resource]}, KAI's {kais[name, resource]}"
            for name, resource in ours
            if ours[name, resource] != kais[name, resource]
        ]
        self._compare_floats(case, ours)

    def _count(self, case: TreeCase, ours: Shares) -> None:
        self.counts["trees"] += 1
        self.counts["queues"] += len(case.queues)
        self.counts["shares"] += len(ours)
        for queue in case.queues:
            for resource, terms in queue.terms.items():
                fair = ours[queue.name, resource]
                self.counts["above what is deserved"] += UNLIMITED != terms.quota < fair
                self.counts["less than what is asked for"] += fair < terms.request
                self.counts["at the limit"] += fair == terms.limit
                self.counts["corrected by usage"] += bool(terms.usage and case.k)

    def _compare_floats(self, case: TreeCase, ours: Shares) -> None:
        rng = random_of(case.seed)
        for parent, siblings in case.siblings():
            for resource in RESOURCES:
                total = ours[parent, resource] if parent else case.total[resource]
                found = divide(total, rows_of(siblings, resource), case.k, float, rng)
                differences = {name: share - ours[name, resource] for name, share in found.items()}
                self.counts["divisions"] += 1
                self.counts["divisions that differ by floating point"] += any(differences.values())
                # Rounding moves at most a unit of each sibling to others.
                if any(abs(difference) > len(siblings) for difference in differences.values()):
                    self.apart.append(f"seed {case.seed}: {resource} below {parent or 'the top'}: {differences}")


def rows_of(siblings: Iterable[QueueRecord], resource: str) -> list[Row]:
    return [queue.row(resource) for queue in siblings]


def our_shares(case: TreeCase) -> Shares:
    queues: dict[str, Queue] = {}
    for record in case.queues:
        shares = {
            resource: Share(
                deserved=None if terms.quota == UNLIMITED else terms.quota,
                limit=None if terms.limit == UNLIMITED else terms.limit,
                weight=terms.weight,
                request=terms.request,
                usage=terms.usage,
            )
            for resource, terms in record.terms.items()
        }
        queues[record.name] = Queue(record.name, queues.get(record.parent), record.priority, record.created, shares)
    set_fair_shares(queues.values(), case.total, k=case.k)
    return {(queue.name, resource): share.fair for queue in queues.values() for resource, share in queue.shares.items()}


def kais_shares(case: TreeCase) -> Shares:
    """Return what KAI-Scheduler's steps come to with exact numbers."""
    rng = random_of(case.seed)
    shares: Shares = {}
    for parent, siblings in case.siblings():
        for resource in RESOURCES:
            total = shares[parent, resource] if parent else case.total[resource]
            for name, share in divide(total, rows_of(siblings, resource), case.k, Fraction, rng).items():
                shares[name, resource] = share
    return shares


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.parity.quotas.compare_divisions", description="compare fair shares")
    parser.add_argument("--trees", type=int, default=10_000, help="how many random trees (10,000)")
    parser.add_argument("--seed", type=int, default=1, help="of the first (1)")
    options = parser.parse_args(argv)
    tally = Tally()
    for seed in range(options.seed, options.seed + options.trees):
        tally.add(generate_tree(seed))
    for what, count in tally.counts.items():
        print(f"{count:>10,} {what}")
    for text in (tally.exact + tally.apart)[:20]:
        print(text)
    print(f"{len(tally.exact)} differences, {len(tally.apart)} by floating point of more than rounding explains")
    return 1 if tally.exact or tally.apart else 0


if __name__ == "__main__":
    sys.exit(main())
