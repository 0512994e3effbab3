"""Guests whose answers follow from pod, node and usage take part in the compiled lane, and decide the same there."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from kscheduler.api.objects import Node, Pod
from kscheduler.config.load import load_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.testing import make_node, make_pod
from kscheduler.wasm.plugins import GuestPlugins
from tests.support.lanes import TwoLanes
from tests.wasm.batch.c_guests import GPU, PLUGINS, builder

HOSTNAME = "kubernetes.io/hostname"  # differs within a profile
TEAM, SPEED = "example.com/team", "example.com/performance"
PURE = {"TeamNodes": "team_nodes", "LabelScore": "label_score"}


def lanes_with(guests: dict[str, str], directory: Path, config: str = "") -> TwoLanes:
    """`guests`: plugin name -> its example; all have the same configuration."""
    found = GuestPlugins()
    return TwoLanes(config_with(guests, directory, found, config), guests=found)


def config_with(guests: dict[str, str], directory: Path, found: GuestPlugins, config: str) -> SchedulerConfig:
    made = {name: builder.build(PLUGINS / guest / f"{guest}.c") for name, guest in guests.items()}
    document: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {"multiPoint": {"enabled": [{"name": name, "weight": 3} for name in made]}},
                "pluginConfig": [
                    {"name": name, "args": {"guestURL": path.as_uri(), "guestConfig": config, "deadline": "10s"}}
                    for name, path in made.items()
                ],
            }
        ],
    }
    path = directory / "scheduler.yaml"
    path.write_text(yaml.safe_dump(document))
    return load_config(str(path), find_plugins=partial(find_plugins, guests=found))


def node(name: str, chance: random.Random) -> Node:
    made = make_node(name).capacity(cpu="8", memory="16Gi", **{GPU: chance.choice((0, 4))})
    for key, values in ((TEAM, ("red", "blue", None)), (SPEED, ("10", "70", "7", None))):
        value = chance.choice(values)
        made = made.label(key, value) if value else made
    return made.obj()


def pod(name: str, chance: random.Random) -> Pod:
    made = make_pod(name).req(cpu=chance.choice(("100m", "1")), memory="128Mi")
    team = chance.choice(("red", "blue", None))
    return (made.label(TEAM, team) if team else made).obj()


@pytest.mark.parametrize("seed", range(6))
def test_both_lanes_make_the_same_decisions_while_nodes_come_and_go(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    lanes = lanes_with(PURE, tmp_path)
    names = [f"n{number}" for number in range(12)]
    for name in names[:8]:
        lanes.set_node(node(name, chance))
    for step in range(12):
        lanes.schedule(*(pod(f"p{step}-{number}", chance) for number in range(6)))
        for name in chance.sample(names, 2):
            lanes.set_node(node(name, chance))
    assert lanes.decided_by_lane > 20


@pytest.mark.parametrize("seed", range(4))
def test_both_lanes_make_the_same_decisions_with_a_guest_that_depends_on_usage(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    lanes = lanes_with({"GpuPacking": "gpu_packing"}, tmp_path)
    for number in range(6):
        lanes.set_node(node(f"n{number}", chance))
    for step in range(8):
        pods = [make_pod(f"p{step}-{number}").req(cpu="100m") for number in range(5)]
        lanes.schedule(*((each.req(**{GPU: 1}) if chance.random() < 0.5 else each).obj() for each in pods))
        lanes.set_node(node(f"n{chance.randrange(8)}", chance))
    assert lanes.decided_by_lane > 20


@pytest.mark.parametrize("seed", range(4))
def test_both_lanes_make_the_same_decisions_where_answers_differ_within_a_node_class(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    lanes = lanes_with({"LabelScore": "label_score"}, tmp_path, config=HOSTNAME)
    for number in range(20, 60, 7):
        lanes.set_node(make_node(str(number)).capacity(cpu="4", memory="8Gi").obj())
    for step in range(6):
        lanes.schedule(*(pod(f"p{step}-{number}", chance) for number in range(5)))
        lanes.set_node(make_node(str(chance.randrange(10, 99))).capacity(cpu="4", memory="8Gi").obj())
    assert lanes.decided_by_lane > 15


def test_a_filter_by_row_is_joined_with_what_the_class_knows(tmp_path: Path) -> None:
    lanes = lanes_with({"TeamNodes": "team_nodes"}, tmp_path, config=HOSTNAME)
    for number in range(6):
        lanes.set_node(make_node(f"n{number}").capacity(cpu="1", memory="8Gi").obj())
    pods = [make_pod(f"p{number}").req(cpu="400m").label(HOSTNAME, f"n{number % 4}").obj() for number in range(12)]
    found = [outcome.node for outcome in lanes.schedule(*pods)]
    assert found[:8] == ["n0", "n1", "n2", "n3"] * 2
    assert found[8:] == [""] * 4
    assert lanes.decided_by_lane == 8
