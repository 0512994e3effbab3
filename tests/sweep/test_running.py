"""A run is a function of its task: in whatever process and order, and with files here or sent."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kscheduler.record.recorder import RecorderOptions
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.traces import read_nodes
from kscheduler.sweep.grid import parse_grid
from kscheduler.sweep.plan import Plan, sent
from kscheduler.sweep.running import carry_out, scaled_nodes
from tests.record.recording import record
from tests.simulator.first_fit import make_node
from tests.simulator.objects import pod
from tests.simulator.trace_files import NODES
from tests.sweep.grids import grid, tasks, traced


def test_a_run_repeated_gives_the_same_result() -> None:
    first, *_, last = tasks((1, 2))
    before = carry_out(first).result
    carry_out(last)
    assert carry_out(first).result == before
    assert not before.error
    assert before.figures["placed"] == 1.0
    assert 0 < before.figures["allocated:cpu"] < 1


def test_seeds_and_configurations_give_different_results() -> None:
    figures = [carry_out(task).result.figures for task in tasks((1, 2))]
    assert len({msgspec.json.encode(each) for each in figures}) == len(figures)


def test_a_file_that_is_sent_gives_the_same_result_where_there_is_none(tmp_path: Path) -> None:
    task, *_ = Plan(parse_grid(traced(tmp_path), "grid.yaml", ""), [1]).tasks()
    here = carry_out(task).result
    there = msgspec.structs.replace(task, inputs=sent(task.inputs))
    (tmp_path / "pods.csv").unlink()
    (tmp_path / "nodes.csv").unlink()
    assert not here.error
    assert carry_out(there).result == here


def test_a_file_that_changed_since_is_a_failure_with_its_name(tmp_path: Path) -> None:
    task, *_ = Plan(parse_grid(traced(tmp_path), "grid.yaml", ""), [1]).tasks()
    with (tmp_path / "pods.csv").open("a") as file:
        file.write("another,1000,1024,0,0,,,Running,100,300,\n")
    assert carry_out(task).result.error.endswith("expected the content that the sweep began with, it has changed since")


def test_a_fault_in_a_sent_file_is_named_with_the_users_path(tmp_path: Path) -> None:
    document = traced(tmp_path)
    (tmp_path / "pods.csv").write_text("name\nx\n")
    task, *_ = Plan(parse_grid(document, "grid.yaml", ""), [1]).tasks()
    there = msgspec.structs.replace(task, inputs=sent(task.inputs))
    assert carry_out(there).result.error.startswith(f"{tmp_path / 'pods.csv'}:1: missing column")


def recorded(directory: Path, configuration: str) -> str:
    """The record of a cluster of two nodes on which a pod arrives; return its path."""

    async def play(cluster: Cluster) -> None:
        cluster.create_pod(pod("late", cpu="1"))

    path = directory / "run.zst"
    nodes = ("n0", "n1")
    record(
        RecorderOptions(path, configuration),
        lambda cluster: [cluster.create_node(make_node(name, cpu="4")) for name in nodes],
        play,
    )
    return str(path)


def test_a_record_is_played_on_its_own_nodes_with_its_own_configuration(tmp_path: Path) -> None:
    configuration = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 50
"""
    document = grid(traces=[recorded(tmp_path, configuration)], configs=[])
    (task,) = Plan(parse_grid(document, "grid.yaml", ""), [1]).tasks()
    assert (task.run.trace, task.run.cluster, task.run.config) == ("run", "own", "default")
    assert '"percentageOfNodesToScore":50' in task.inputs.configuration
    result = carry_out(task).result
    assert not result.error
    assert (result.figures["placed"], result.figures["nodes-used"]) == (1.0, 1.0)
    there = msgspec.structs.replace(task, inputs=sent(task.inputs))
    assert carry_out(there).result == result


@pytest.mark.parametrize("scale", [0.5, 1.5, 2, 2.5])
def test_scaled_nodes_are_as_many_as_the_factor_says_with_distinct_names(tmp_path: Path, scale: float) -> None:
    header, *rows = NODES.splitlines()
    lines = [row.replace("n", f"n{number}-") for number in range(10) for row in rows]
    (tmp_path / "nodes.csv").write_text("\n".join([header, *lines]) + "\n")
    nodes = read_nodes(str(tmp_path / "nodes.csv"))
    scaled = scaled_nodes(nodes, scale)
    names = [node.metadata.name for node in scaled]
    assert len(scaled) == len(set(names)) == 20 * scale
    assert all(
        node.metadata.labels and node.metadata.labels["kubernetes.io/hostname"] == node.metadata.name for node in scaled
    )
    half = [node.status.capacity == nodes[0].status.capacity for node in scaled]
    assert abs(sum(half) - len(half) / 2) <= 5


def test_a_scaled_cluster_from_a_file_has_more_nodes(tmp_path: Path) -> None:
    document = traced(tmp_path)
    document["cluster"][0]["scale"] = [1, 3]
    figures = [
        carry_out(task).result.figures["nodes-empty"]
        for task in Plan(parse_grid(document, "grid.yaml", ""), [1]).tasks()
        if task.run.config == "spread"
    ]
    assert figures[1] > figures[0]
