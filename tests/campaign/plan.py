"""Which fault begins when and for how long: a pure function of the seed, so that a finding can be had again."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.support.faultproxy import (
    Answer,
    Cut,
    Drip,
    Fault,
    Freeze,
    Garble,
    Hang,
    Latency,
    Refuse,
    Reset,
    Silent,
)
from tests.support.faultproxy.faults import GarbleKind

BINDING = "pods/binding"
GARBLES: tuple[GarbleKind, ...] = (
    "bad_bytes",
    "bad_chunk",
    "error",
    "gone",
    "invalid_utf8",
    "truncated",
    "unknown_type",
    "wrong_json",
)
STATUSES = (400, 401, 403, 410, 429, 500, 503, 504)  # not 404 and 409: on a binding they are definite answers
# Answered although the request was carried out. The others say that it was not: a lie with one of them is believed.
LIES = (500, 503, 504)


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault. Faults of the proxy hold a `fault`, the others are done by the campaign according to their kind."""

    at_s: float  # from the campaign's beginning
    for_s: float
    kind: str
    replica: int  # whose proxy or process; without a meaning for faults of objects and of the apiserver
    fault: Fault | None = None
    blocks: bool = False  # while it lasts, this replica cannot be expected to bind anything

    def __str__(self) -> str:
        what = str(self.fault) if self.fault else self.kind
        return f"{self.at_s:7.2f} s for {self.for_s:.2f} s on {self.replica}: {what}"


# Kind -> how often, the longest duration, whether it blocks, and what makes it.
Maker = Callable[[random.Random], Fault]
PROXY_FAULTS: dict[str, tuple[float, float, bool, Maker]] = {
    "latency": (4, 3, False, lambda r: Latency(seconds=r.uniform(0.02, 0.4), jitter_s=0.1)),
    "reset-before": (5, 3, False, lambda r: Reset(resource=r.choice([BINDING, "*"]), share=r.uniform(0.2, 0.7))),
    "reset-after": (7, 3, False, lambda r: Reset(resource=BINDING, arrived=True, share=r.uniform(0.2, 0.7))),
    "hang-before": (3, 3, False, lambda r: Hang(resource=BINDING, share=0.5, limit=r.randint(1, 15))),
    "hang-after": (3, 3, False, lambda r: Hang(resource=BINDING, arrived=True, share=0.5, limit=r.randint(1, 15))),
    "cut": (5, 1, False, lambda r: Cut(resource=_watched(r), how=r.choice(["end", "reset", "half_line"]))),
    "freeze": (
        *(5, 8, True),
        lambda r: Freeze(resource=_watched(r), then=r.choice(["deliver", "reset"])),
    ),
    "garble": (8, 2, False, lambda r: Garble(resource=_watched(r), kind=r.choice(GARBLES))),
    "error": (6, 3, False, lambda r: _answer(r, arrived=False)),
    "lie": (8, 3, False, lambda r: _answer(r, arrived=True)),
    "not-found": (1, 1, False, lambda r: Answer(status=404, verb="watch", content=b"page not found")),
    "all-errors": (3, 3, True, lambda r: Answer(status=r.choice(STATUSES), retry_after_s=1)),
    "drip": (2, 2, False, lambda r: Drip(piece_bytes=256, pause_s=0.01, share=0.5)),
    "outage": (3, 4, True, lambda r: Refuse()),
    "silent": (2, 3, True, lambda r: Silent()),
    "half-open": (2, 3, True, lambda r: Hang(old_connections=True, spared="leases")),
    "bad-backend": (3, 5, False, lambda r: Refuse(backend=r.randint(0, 2))),
    "bad-backend-hangs": (2, 4, False, lambda r: Hang(backend=r.randint(0, 2), spared="leases")),
}
# Kind -> how often, the longest duration, whether it blocks.
OTHER_FAULTS: dict[str, tuple[float, float, bool]] = {
    "kill": (1.5, 0, True),
    "terminate": (0.7, 0, True),
    "stop": (1.2, 6, True),
    "clock": (1.0, 0, False),
    "apiserver-stop": (1.0, 3, True),
    "apiserver-kill": (0.3, 0, True),
    "node-recreated": (4, 0, False),
    "node-resized": (4, 0, False),
    "node-cordoned": (4, 3, False),
    "node-tainted": (4, 3, False),
    "pods-deleted": (5, 0, False),
    "pods-recreated": (5, 0, False),
    "pods-bound-by-another": (4, 0, False),
    "pods-of-high-priority": (3, 0, False),
}


def plan(
    seed: int, duration_s: float, per_minute: float, replicas: int, kinds: Sequence[str] | None = None
) -> list[Planned]:
    """So many faults a minute, evenly over the duration by chance, of all kinds or of those named."""
    weights = {kind: row[0] for kind, row in PROXY_FAULTS.items()} | {
        kind: row[0] for kind, row in OTHER_FAULTS.items()
    }
    weights = {kind: weight for kind, weight in weights.items() if not kinds or kind in kinds}
    chance = random.Random(seed)
    count = round(duration_s / 60 * per_minute)
    times = sorted(chance.uniform(0, duration_s) for _ in range(count))
    chosen = chance.choices(list(weights), list(weights.values()), k=count)
    return [_planned(chance, at_s, kind, chance.randrange(replicas)) for at_s, kind in zip(times, chosen, strict=True)]


def _planned(chance: random.Random, at_s: float, kind: str, replica: int) -> Planned:
    if kind in PROXY_FAULTS:
        _, longest_s, blocks, make = PROXY_FAULTS[kind]
        for_s, fault = chance.uniform(0.3, longest_s), make(chance)
        return Planned(at_s, for_s, kind, replica, fault, blocks or _hides_pods(fault))
    _, longest_s, blocks = OTHER_FAULTS[kind]
    return Planned(at_s, chance.uniform(0.3, longest_s) if longest_s else 0.0, kind, replica, None, blocks)


def _hides_pods(fault: Fault) -> bool:
    """Return whether no watch of pods lasts meanwhile, so that the replica does not know of those that come."""
    return isinstance(fault, Cut | Garble) and fault.resource in ("pods", "*")


def _watched(chance: random.Random) -> str:
    return chance.choice(["pods", "pods", "nodes", "*"])


def _answer(chance: random.Random, *, arrived: bool) -> Answer:
    status = chance.choice(LIES if arrived else STATUSES)
    resource = BINDING if arrived else chance.choice([BINDING, "pods*", "*"])
    retry_after_s = 1 if status == 429 else None
    return Answer(
        status=status, resource=resource, arrived=arrived, share=chance.uniform(0.3, 0.9), retry_after_s=retry_after_s
    )
