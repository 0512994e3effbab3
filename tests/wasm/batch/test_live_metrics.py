"""The guest in C that plugins/README.md shows, in a whole scheduler: pods go where it is coolest, as samples say."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from kscheduler.config.load import parse_config
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.scheduler import Options
from kscheduler.testing import make_pod
from kscheduler.wasm.plugins import GuestPlugins
from tests.plugins.documents import PLUGINS, blocks
from tests.support.skips import package
from tests.support.world import World, in_virtual_time
from tests.telemetry.fakes import FakeSource
from tests.wasm.batch.c_guests import builder

package("wasmtime")
package("ziglang")

LANES = pytest.mark.parametrize("in_lane", [True, False], ids=["compiled lane", "general lane"])


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    """The guide's configuration, with its guest built."""
    (source,) = blocks(PLUGINS / "README.md", "c")
    path = tmp_path / "coolest.c"
    path.write_text(source)
    shown: dict[str, Any] = yaml.safe_load(blocks(PLUGINS / "README.md", "yaml")[-1])
    config = {each["name"]: each["args"] for each in shown["profiles"][0]["pluginConfig"]}
    assert config["Coolest"] == {"guestURL": "file:///plugins/coolest.wasm"}
    config["Coolest"] |= {"guestURL": builder.build(path, tmp_path).as_uri(), "deadline": "10s"}
    return shown


def world_of(document: dict[str, Any], source: FakeSource, *, in_lane: bool) -> World:
    guests = GuestPlugins(reloads=False)
    config = parse_config(json.dumps(document), "scheduler.yaml", find_plugins=partial(find_plugins, guests=guests))
    options = Options(guests=guests, compiled_lane=in_lane)
    return World(config=config, options=options, metric_source=lambda config: source)


async def place(world: World, *names: str) -> list[str]:
    for name in names:
        world.add_pod(make_pod(name).req(cpu="100m"))
    await world.until(world.all_bound)
    placed = {pod.metadata.name: pod.spec.node_name for pod in world.cluster.pods.values()}
    return [placed[name] for name in names]


def calls(world: World) -> int:
    return int(world.metrics.wasm_calls_total.labels("Coolest").value)


@LANES
@in_virtual_time
async def test_pods_go_to_the_coolest_node_as_temperatures_change(document: dict[str, Any], in_lane: bool) -> None:
    source = FakeSource()
    source.values["temperature"] = {"n0": 70.0, "n1": 41.5, "n2": 43.0}
    async with world_of(document, source, in_lane=in_lane) as world:
        for number in range(4):
            world.add_node(f"n{number}", cpu="8")  # of n3 nothing is known
        await world.sleep(1.0)
        assert await place(world, "a", "b", "c") == ["n1"] * 3
        assert calls(world) == 1  # pods with the same look
        source.values["temperature"]["n1"] = 90.0
        await world.sleep(16.0)
        assert await place(world, "d", "e") == ["n2"] * 2
        source.values["temperature"]["n3"] = 20.0
        await world.sleep(16.0)
        assert await place(world, "f", "g") == ["n3"] * 2
        assert calls(world) == 3


@LANES
@in_virtual_time
async def test_what_is_too_old_counts_for_nothing(document: dict[str, Any], in_lane: bool) -> None:
    source = FakeSource()
    source.values["temperature"] = {"n0": 20.0, "n1": 80.0}
    async with world_of(document, source, in_lane=in_lane) as world:
        for number in range(2):
            world.add_node(f"n{number}", cpu="8")
        await world.sleep(60.0)
        assert await place(world, "first", "second") == ["n0"] * 2
        source.fail()
        await world.sleep(300.0)
        assert "n1" in await place(world, "third")  # the emptier one
