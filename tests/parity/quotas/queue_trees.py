"""Random trees of queues, from seeds: what each is promised, may use and asks for.

Trees are one to four levels deep. Some ask for less than there is and some for far more; weights may be zero, fractions
or equal, so that remainders tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from random import Random

from tests.parity.quotas.kai_division import UNLIMITED, Row, Terms

CPU, MEMORY, GPU = "cpu", "memory", "nvidia.com/gpu"
RESOURCES = (CPU, MEMORY, GPU)
CREATED = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z")
WEIGHTS = tuple(map(Fraction, ("0", "1", "1", "1", "2", "3", "7", "0.5", "0.1", "1.3", "100")))
_UNITS: dict[str, tuple[int, ...]] = {CPU: (1, 50, 1000), MEMORY: (1, 1_000_000, 1 << 30), GPU: (1,)}


@dataclass(slots=True)
class QueueRecord:
    """A queue with its terms by resource."""

    name: str
    parent: str
    priority: int
    created: str
    terms: dict[str, Terms]

    def row(self, resource: str) -> Row:
        return Row(self.name, self.priority, self.created, self.terms[resource])


@dataclass(slots=True)
class TreeCase:
    seed: int
    total: dict[str, int]
    queues: list[QueueRecord]  # parents first
    k: int

    def siblings(self) -> Iterator[tuple[str, list[QueueRecord]]]:
        """Yield the name of each queue that has others below it, and those; first "" with the top level."""
        below: dict[str, list[QueueRecord]] = {}
        for queue in self.queues:
            below.setdefault(queue.parent, []).append(queue)
        yield from below.items()


def generate_tree(seed: int) -> TreeCase:
    rng = random_of(seed)
    most_amount = rng.choice((5, 40, 1000))
    unit = {resource: rng.choice(_UNITS[resource]) for resource in RESOURCES}

    def amount(resource: str) -> int:
        return 0 if rng.random() < 0.1 else rng.randint(0, most_amount) * unit[resource]

    names = _shape(rng)
    parents = set(names.values())
    queues = _queues(rng, names, parents, amount)
    _add_up(queues)
    asked = {resource: sum(q.terms[resource].request for q in queues if not q.parent) for resource in RESOURCES}
    total = {
        resource: rng.choice(
            (0, amount(resource), asked[resource], round(asked[resource] * rng.random()), 2 * asked[resource] + 1)
        )
        for resource in RESOURCES
    }
    return TreeCase(seed, total, queues, k=rng.choice((0, 1, 1, 2)))


def random_of(seed: int) -> Random:
    return Random(f"queues {seed}")


def _shape(rng: Random) -> dict[str, str]:
    """Return the parent of each queue, "" of the topmost; parents come first."""
    depth, most = rng.randint(1, 4), rng.choice((2, 3, 8))
    parent_of: dict[str, str] = {}
    level = [""]
    for number in range(depth):
        below = []
        for parent in level:
            if number and rng.random() < 0.3:
                continue  # a leaf
            for _ in range(rng.randint(1, most if number < 2 else 3)):
                name = f"q{len(parent_of)}"
                parent_of[name] = parent
                below.append(name)
        level = below
    return parent_of


def _queues(rng: Random, names: dict[str, str], parents: set[str], amount: Callable[[str], int]) -> list[QueueRecord]:
    priorities = rng.choice(((100,), (100,), (1, 2), (0, 100, 200)))
    weights = rng.choice((WEIGHTS, (Fraction(1),), (Fraction(1), Fraction(2))))
    has_usage = rng.random() < 0.2
    shares_of_promises = rng.choice((0.0, 0.3, 1.0))

    def terms(name: str, resource: str) -> Terms:
        quota = 0 if rng.random() > shares_of_promises else amount(resource)
        return Terms(
            quota=UNLIMITED if rng.random() < 0.08 else quota,
            limit=amount(resource) if rng.random() < 0.2 else UNLIMITED,
            weight=rng.choice(weights),
            request=0 if name in parents else amount(resource),
            usage=Fraction(rng.randint(0, 8), 8) if has_usage and rng.random() < 0.5 else Fraction(0),
        )

    return [
        QueueRecord(
            name,
            parent,
            rng.choice(priorities),
            rng.choice(CREATED),
            {resource: terms(name, resource) for resource in RESOURCES},
        )
        for name, parent in names.items()
    ]


def _add_up(queues: list[QueueRecord]) -> None:
    """A queue asks for what those below it ask for."""
    by_name = {queue.name: queue for queue in queues}
    for queue in reversed(queues):
        if not queue.parent:
            continue
        above = by_name[queue.parent].terms
        for resource, terms in queue.terms.items():
            stated = above[resource]
            above[resource] = Terms(
                stated.quota, stated.limit, stated.weight, stated.request + terms.request, stated.usage
            )
