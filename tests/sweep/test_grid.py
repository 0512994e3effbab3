"""A grid is read strictly: what is wrong is named with its place and the nearest valid name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kscheduler.errors import ConfigError
from kscheduler.sweep.grid import parse_grid, read_grid
from tests.sweep.grids import grid, write_grid


def refused(**changes: Any) -> str:
    with pytest.raises(ConfigError) as raised:
        parse_grid(grid(**changes), "grid.yaml", "")
    return str(raised.value)


def test_texts_in_lists_are_files_named_by_their_stem() -> None:
    read = parse_grid({"traces": ["a/openb.csv", "r.zst", "w.yaml"], "configs": ["c.yaml"], "cluster": [7]}, "g", "d")
    assert [(trace.name, trace.pods, trace.record, trace.workload) for trace in read.traces] == [
        ("openb", "d/a/openb.csv", None, None),
        ("r", None, "d/r.zst", None),
        ("w", None, None, "d/w.yaml"),
    ]
    assert [(config.name, config.base) for config in read.configs] == [("c", "d/c.yaml")]
    assert [(cluster.name, cluster.nodes) for cluster in read.cluster] == [("7", 7)]


def test_files_are_relative_to_the_grid(tmp_path: Path) -> None:
    path = write_grid(tmp_path, traces=["pods.csv"])
    assert read_grid(path).traces[0].pods == str(tmp_path / "pods.csv")


def test_a_file_that_is_no_grid_is_refused_with_what_a_grid_has(tmp_path: Path) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text("- pods.csv\n")
    with pytest.raises(ConfigError, match=r"yaml: expected a mapping with traces, cluster and configs, got a list"):
        read_grid(str(path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trases": []}, 'grid.yaml: unknown key "trases": did you mean "traces"?'),
        ({"traces": [{"pods": 1, "arival": "now"}]}, 'traces[0]: unknown key "arival": did you mean "arrival"?'),
        ({"cluster": [{"nodes": 1, "scales": 2}]}, 'cluster[0]: unknown key "scales": did you mean "scale"?'),
        ({"configs": [{"patch": {}}]}, 'configs[0]: unknown key "patch": did you mean "patches"?'),
        ({"stop": {"maxtime": "1h"}}, 'stop: unknown key "maxtime": did you mean "maxTime"?'),
        ({"settings": {"firstontie": True}}, 'settings: unknown key "firstontie": did you mean "firstOnTie"?'),
        ({"metrics": ["pending-p98"]}, 'metrics[0]: unknown metric "pending-p98": did you mean "pending-p9'),
        ({"metrics": ["alocated:cpu"]}, 'metrics[0]: unknown metric "alocated:cpu": did you mean "allocated:cpu"?'),
        ({"metrics": ["allocated"]}, 'metrics[0]: "allocated" is of one resource: expected it behind a colon'),
        ({"zzz": 1}, 'unknown key "zzz": expected one of traces, cluster, configs, metrics, stop, settings'),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest_one(changes: dict[str, Any], message: str) -> None:
    assert message in refused(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"traces": []}, "traces: expected at least one trace, got none"),
        ({"traces": "pods.csv"}, 'traces: expected a list, got the string "pods.csv"'),
        ({"traces": [{"name": "x"}]}, "traces[0]: expected pods, workload or record, got none of them"),
        ({"traces": [{"pods": []}]}, "traces[0].pods: expected"),
        ({"traces": [{"pods": 1}, {"pods": 1}]}, 'traces[1].name: "1" is taken by an earlier entry'),
        ({"cluster": [{"nodes": -5}]}, "cluster[0].nodes: expected a number of zero or more, or a file, got -5"),
        ({"traces": [{"pods": -1}]}, "traces[0].pods: expected a number of zero or more, or a file, got -1"),
        ({"cluster": [{}]}, "cluster[0].nodes: expected a number or a file, got nothing"),
        (
            {"cluster": [{"nodes": 1, "scale": [0]}]},
            "cluster[0].scale: expected numbers above zero, at most 10,000, got 0",
        ),
        ({"cluster": [{"nodes": 1, "scale": 1e300}]}, "scale: expected numbers above zero, at most 10,000, got 1e+300"),
        ({"cluster": [{"nodes": 1, "scale": []}]}, "cluster[0].scale: expected at least one factor"),
        ({"metrics": []}, "metrics: expected at least one metric, got none"),
        ({"stop": {"maxTime": 5}}, 'stop.maxTime: expected a duration such as "15s", got the integer 5'),
        ({"stop": {"maxTime": "0"}}, "stop.maxTime: expected a duration above zero, got 0"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(changes: dict[str, Any], message: str) -> None:
    assert message in refused(**changes)


def test_one_scale_factor_needs_no_list() -> None:
    assert parse_grid(grid(cluster=[{"nodes": 4, "scale": 2}]), "g", "").cluster[0].scale == (2.0,)
