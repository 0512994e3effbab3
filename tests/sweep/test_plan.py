"""A plan has each combination once, and its keys depend on the content of the inputs and on nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kscheduler.errors import ConfigError
from kscheduler.sweep import plan as planning
from kscheduler.sweep.grid import parse_grid
from kscheduler.sweep.plan import Plan
from tests.simulator.trace_files import PODS
from tests.sweep.grids import STRATEGY, grid, plan, tasks, traced

PLUGIN = """
class Even:
    name = "Even"

    def __init__(self, args, handle):
        pass

    def score(self, state, pod, node):
        return 50, None
"""


def keys(document: dict[str, Any], seeds: tuple[int, ...] = (1,)) -> list[str]:
    return [task.run.key for task in Plan(parse_grid(document, "grid.yaml", ""), seeds).tasks()]


def test_every_trace_is_combined_with_every_cluster_configuration_and_seed() -> None:
    runs = plan((1, 2), cluster=[{"name": "n", "nodes": 4, "scale": [0.5, 2]}]).runs()
    assert [(run.cluster, run.config, run.seed) for run in runs] == [
        (cluster, config, seed)
        for cluster in ("n[scale=0.5]", "n[scale=2]")
        for config in ("spread", "packed")
        for seed in (1, 2)
    ]
    assert len({run.key for run in runs}) == len(runs)


def test_a_generated_cluster_is_scaled_by_its_number_of_nodes() -> None:
    nodes = [task.inputs.arguments.nodes for task in tasks((1,), cluster=[{"nodes": 5, "scale": [0.1, 3]}])]
    assert nodes == ["1", "1", "15", "15"]


def test_a_cluster_without_nodes_stays_without_nodes() -> None:
    assert [task.inputs.arguments.nodes for task in tasks((1,), cluster=[{"nodes": 0}])] == ["0", "0"]


def test_names_and_places_of_files_do_not_change_keys(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    before, after = traced(here), traced(there)
    after["traces"][0]["name"] = "other"
    after["configs"] = [{"name": "renamed"}, after["configs"][1]]
    assert keys(before) == keys(after)


def test_equal_configurations_in_file_and_patch_have_equal_keys(tmp_path: Path) -> None:
    (tmp_path / "packed.yaml").write_text(
        """# a comment
kind: KubeSchedulerConfiguration
apiVersion: kubescheduler.config.k8s.io/v1
profiles:
- schedulerName: default-scheduler
  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]
"""
    )
    assert keys(grid(configs=[str(tmp_path / "packed.yaml")])) == keys(grid())[1:]


def test_content_settings_seed_and_version_change_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = traced(tmp_path)
    before = keys(document, (1,))
    assert keys(document, (2,)) != before
    assert keys({**document, "settings": {"bindLatency": "6ms"}}) != before
    assert keys({**document, "stop": {"maxTime": "1h"}}) != before
    (tmp_path / "pods.csv").write_text(PODS.replace("6000", "6001"))
    assert not set(keys(document)) & set(before)
    (tmp_path / "pods.csv").write_text(PODS)
    assert keys(document) == before
    monkeypatch.setattr(planning, "__version__", "0.0.0")
    assert not set(keys(document)) & set(before)


def test_metrics_do_not_change_keys() -> None:
    assert keys(grid()) == keys(grid(metrics=["unplaced"]))


def test_a_grid_with_too_many_runs_is_refused_before_it_is_expanded() -> None:
    patches = {f"profiles[0].x{number}": list(range(100)) for number in range(6)}
    with pytest.raises(ConfigError) as raised:
        plan(range(10), configs=[{"name": "huge", "patches": patches}])
    assert "the grid has 10,000,000,000,000 runs: expected at most 10,000" in str(raised.value)
    assert "--max-runs 10000000000000 allows them" in str(raised.value)


def test_a_configuration_that_is_wrong_is_named() -> None:
    with pytest.raises(ConfigError, match=r'config "x": .*MostAlocated'):
        plan(configs=[{"name": "x", "patches": {STRATEGY: ["MostAlocated"]}}])


def test_a_guest_needs_its_digest() -> None:
    guest = {"name": "Guest", "args": {"guestURL": "file:///nowhere.wasm"}}
    with pytest.raises(ConfigError, match='config "x": expected sha256 beside guestURL'):
        plan(configs=[{"name": "x", "patches": {"profiles[0].pluginConfig": [[guest]]}}])


def test_extenders_are_refused() -> None:
    extenders = [{"urlPrefix": "http://127.0.0.1:1/", "filterVerb": "filter"}]
    with pytest.raises(ConfigError, match='config "x": expected no extenders'):
        plan(configs=[{"name": "x", "patches": {"extenders": [extenders]}}])


def test_the_source_of_a_plugin_in_python_is_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    source = tmp_path / "sweep_trial_plugin.py"
    patch = {"profiles[0].plugins.multiPoint.enabled[name=sweep_trial_plugin:Even].weight": 1}
    document = grid(configs=[{"name": "even", "patches": patch}])
    source.write_text(PLUGIN)
    before = keys(document)
    assert keys(document) == before
    source.write_text(f"{PLUGIN}# changed\n")
    assert keys(document) != before


def test_a_trace_that_cannot_be_read_is_named_with_file_and_line(tmp_path: Path) -> None:
    document = traced(tmp_path)
    (tmp_path / "pods.csv").write_text(PODS.replace("12000,16384", "many,16384"))
    with pytest.raises(ConfigError, match=r'trace "pods" on "nodes": .*pods.csv:3: column cpu_milli: .*"many"'):
        Plan(parse_grid(document, "grid.yaml", ""), [1]).check_traces()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone.csv: cannot be read: No such file"):
        plan(traces=[str(tmp_path / "gone.csv")])


def test_a_file_too_large_to_be_kept_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "huge.csv").open("wb") as file:
        file.truncate(1 << 30)  # sparse
    with pytest.raises(ConfigError, match="expected a file of at most 128 MiB, got 1024 MiB"):
        plan(traces=[str(tmp_path / "huge.csv")])
