"""Guests in profiles of a scheduler: under multiPoint, at single points, and while many pods are bound at once."""

from __future__ import annotations

import functools
import json
import logging
import random
from pathlib import Path

import pytest

from kscheduler.cache.cache import Cache
from kscheduler.config.load import parse_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.framework.interface import Handle
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.framework.plugins.registry import build
from kscheduler.scheduler import Options
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.real_scheduler import real_scheduler
from kscheduler.simulator.run import Outcome, RunSettings, simulate_scenario
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.testing.wrappers import NodeBuilder, PodBuilder, make_node, make_pod
from kscheduler.wasm.plugins import GuestPlugins
from tests.wasm.extension.keeper import KEEPER
from tests.wasm.extension.kit import module, pair

_OK = "(i32.const 0)"


class Bench:
    """A guest in a file, and a profile that has it as plugin `Guest`."""

    def __init__(self, folder: Path, data: bytes, *points: str, **arguments: object) -> None:
        path = folder / "guest.wasm"
        path.write_bytes(data)
        self.guests = GuestPlugins(reloads=False)
        plugins = {point: {"enabled": [{"name": "Guest"}]} for point in points or ("multiPoint",)}
        args = {"guestURL": f"file://{path}", "deadline": "500ms", **arguments}
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"plugins": plugins, "pluginConfig": [{"name": "Guest", "args": args}]}],
        }
        find = functools.partial(find_plugins, guests=self.guests)
        self.config: SchedulerConfig = parse_config(json.dumps(document), "scheduler.yaml", find_plugins=find)

    def points(self) -> set[str]:
        """Where the profile has the guest."""
        handle = Handle(table=Cache().table, rng=random.Random(0))
        (profile,) = self.config.profiles
        built = build(profile, handle, self.guests)
        return {point for point, plugins in built.items() if any(plugin.name == "Guest" for plugin, _ in plugins)}

    def simulate(self, nodes: list[NodeBuilder], pods: list[PodBuilder]) -> Outcome:
        arrivals = [Arrival(0.01 * number, pod.obj()) for number, pod in enumerate(pods)]
        make = real_scheduler(self.config, Options(guests=self.guests))
        settings = RunSettings(latency=Latency(bind_s=0.5), max_time_s=60.0)
        return simulate_scenario(Scenario([node.obj() for node in nodes], arrivals), make, settings)


def places(outcome: Outcome) -> dict[str, str]:
    """Pod name -> its node."""
    from kscheduler.client.kinds import PODS

    return {pod.metadata.name: pod.spec.node_name for pod in outcome.cluster.store(PODS).sorted_objects()}


def test_under_multi_point_a_guest_is_at_all_its_points(tmp_path: Path) -> None:
    points = Bench(tmp_path, KEEPER).points()
    assert points == {
        "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit", "preBind", "bind", "postBind",
    }  # fmt: skip


def test_a_guest_is_at_the_points_it_is_enabled_at(tmp_path: Path) -> None:
    assert Bench(tmp_path, KEEPER, "filter", "score").points() == {"filter", "score"}


def test_a_guest_cannot_be_enabled_at_a_point_it_does_not_export(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Guest"):
        Bench(tmp_path, module(filter=_OK), "score").points()


def test_attempts_of_many_pods_overlap_and_the_guest_does_not_notice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Binding takes half a second, in which dozens of other pods are decided about."""
    caplog.set_level(logging.WARNING)
    nodes = [make_node(f"n{number}").capacity(cpu="64", pods=200) for number in range(3)]
    pods = [make_pod(f"p{number}").req(cpu="1") for number in range(80)]
    outcome = Bench(tmp_path, KEEPER).simulate(nodes, pods)
    assert outcome.violations == []
    assert all(places(outcome).values())
    assert max(outcome.attempts.values()) == 80
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_guest_decides_between_nodes_that_are_equal_to_others(tmp_path: Path) -> None:
    """It gives a hundred points to nodes whose names end with 2."""
    body = f"""
      (drop (call $node_name (i32.const 64) (i32.const 9)))
      (if (result i64) (i32.eq (i32.load8_u (i32.const 65)) (i32.const 50))
        (then (i64.const {pair(100, 0)})) (else (i64.const 0)))"""
    nodes = [make_node(f"n{number}").capacity(cpu="640", memory="100Gi", pods=200) for number in range(4)]
    pods = [make_pod(f"p{number}").req(cpu="1", memory="1Gi") for number in range(5)]
    outcome = Bench(tmp_path, module("node_name", score=body), "score").simulate(nodes, pods)
    assert set(places(outcome).values()) == {"n2"}


def test_a_guest_that_always_traps_keeps_pods_waiting_and_nothing_else(tmp_path: Path) -> None:
    outcome = Bench(tmp_path, module(prefilter=_OK, filter="unreachable"), "filter").simulate(
        [make_node("n").capacity(cpu="4", pods=10)], [make_pod("p").req(cpu="1")]
    )
    assert places(outcome) == {"p": ""}
    assert outcome.violations == []


def test_a_guest_that_always_traps_and_may_be_ignored_keeps_no_pod_waiting(tmp_path: Path) -> None:
    bench = Bench(tmp_path, module(prefilter=_OK, filter="unreachable"), failurePolicy="ignore")
    outcome = bench.simulate([make_node("n").capacity(cpu="4", pods=10)], [make_pod("p").req(cpu="1")])
    assert places(outcome) == {"p": "n"}
