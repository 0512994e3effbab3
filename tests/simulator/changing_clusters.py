"""Random scenarios in which pods come, evict each other and leave, and nodes go, come again and change in size."""

from __future__ import annotations

import random

from msgspec.structs import replace

from kscheduler.client.kinds import NODES
from kscheduler.client.protocol import EventType
from kscheduler.simulator.object_changes import ObjectChange
from kscheduler.simulator.scenario import Arrival, Scenario
from tests.simulator.first_fit import make_node
from tests.simulator.objects import pod


def arrivals(source: random.Random) -> list[Arrival]:
    found, at_s = [], 0.0
    for number in range(source.randint(0, 40)):
        at_s += source.choice((0.0, 0.1, 5.0, 40.0)) * source.random()
        made = pod(
            f"p{number}",
            source.choice(("250m", "1", "2", "9")),
            priority=source.choice((0, 0, 10, 100)),
            termination_grace_period_seconds=source.choice((0, 3, 30)),
        )
        lives = source.choice(("on", "runs", "leaves"))
        found.append(
            Arrival(
                at_s,
                made,
                runs_s=100 * source.random() if lives == "runs" else None,
                leaves_at_s=at_s + source.choice((0.0, 50.0)) * source.random() if lives == "leaves" else None,
            )
        )
    return found


def scenario(seed: int) -> Scenario:
    source = random.Random(seed)
    nodes = [make_node(f"n{number}", cpu=source.choice(("2", "4"))) for number in range(source.randint(0, 4))]
    changes: list[ObjectChange] = []
    gone: set[str] = set()
    at_s = 0.0
    for _ in range(source.randint(0, 6) if nodes else 0):
        at_s += 30 * source.random() + 0.01
        node = source.choice(nodes)
        name = node.metadata.name
        if name in gone:
            gone.remove(name)
            changes.append(ObjectChange(at_s, NODES, EventType.ADDED, node))
        elif source.random() < 0.5:
            gone.add(name)
            changes.append(ObjectChange(at_s, NODES, EventType.DELETED, node))
        else:
            other = replace(node, status=replace(node.status, capacity={"cpu": source.choice(("1", "8")), "pods": "9"}))
            changes.append(ObjectChange(at_s, NODES, EventType.MODIFIED, other))
    return Scenario(nodes, arrivals(source), changes=changes)
