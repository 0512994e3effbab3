"""Random gangs and pods that evict each other, under faults, lost nodes and restarts: nobody is forgotten.

At rest nobody is evicted any more, no room is kept for nothing, and who fits has a node. A job that comes then evicts
for its whole minimum or nobody. With room for all, all have nodes in the end.
"""

from __future__ import annotations

import pytest

from tests.scenarios.preempting_gangs import CONFIGS, play

FINDS = [
    (1002, "rooms of queues"),  # a reservation was made and given up many times a second
    (3000, "rooms of queues"),  # a pod evicted another where the room was kept from it
]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "rules"), [*((seed, rules) for rules in CONFIGS for seed in (1, 2)), *FINDS])
def test_whatever_is_evicted_all_come_to_rest_and_nobody_is_forgotten(seed: int, rules: str) -> None:
    play(seed, rules)
