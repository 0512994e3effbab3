"""The report follows nodes and pods over time in a compact form."""

from __future__ import annotations

import msgspec
import pytest

from kscheduler.simulator.accounting import Moment
from kscheduler.simulator.fragmentation import fragmentation, frequent_shapes
from kscheduler.simulator.report import build_report
from kscheduler.simulator.report_history import FULL, NO_CAPACITY
from kscheduler.simulator.run import RunSettings, simulate_scenario
from kscheduler.simulator.workload import default_workload, generate
from tests.simulator.first_fit import FirstFit
from tests.simulator.reports import small


def test_every_frame_has_the_use_of_every_node() -> None:
    report = small()
    history = report.node_history
    assert history is not None
    assert history.names == ["n0", "n1"]
    assert history.capacity["cpu"] == [4.0, 4.0]
    assert history.time_s[0] == 0.0
    assert history.time_s[-1] == report.simulated_s
    frames = [history.used["cpu"][at : at + 2] for at in range(0, len(history.used["cpu"]), 2)]
    assert len(frames) == len(history.time_s)
    for time_s, frame in zip(history.time_s, frames, strict=True):
        used = 2 * (time_s < 100) + (time_s >= 10)  # "a" from 0 to 100, "b" from 10 on
        assert list(frame) == [int(FULL * used / 4 + 0.5), 0]


def test_frames_hold_a_byte_of_their_own_where_a_node_lacks_the_resource() -> None:
    scenario = generate(default_workload(nodes=40, pods=50))
    history = build_report(scenario, simulate_scenario(scenario, FirstFit, RunSettings()), {}).node_history
    assert history is not None
    gpus = history.capacity["example.com/gpu"]
    first = history.used["example.com/gpu"][:40]
    assert [byte == NO_CAPACITY for byte in first] == [not has for has in gpus]
    zones = history.labels[0]
    assert (zones.key, zones.values) == ("topology.kubernetes.io/zone", ["zone-a", "zone-b", "zone-c"])
    assert zones.of_node[:4] == [0, 1, 2, 0]


def test_fragmentation_over_time_ends_with_that_of_the_final_state() -> None:
    scenario = generate(default_workload(nodes=30, pods=300, arrival="poisson:10", seed=3))
    outcome = simulate_scenario(scenario, FirstFit, RunSettings())
    report, books = build_report(scenario, outcome, {}), outcome.accounting
    assert report.node_history is not None
    last: Moment = books.moment()
    for name, series in report.node_history.fragmentation.items():
        expected = fragmentation(name, frequent_shapes(books.records.values(), name), books.resources, books.rows, last)
        assert series[-1] == pytest.approx(expected, abs=1e-4)


def test_every_pod_is_counted_once_as_created_bound_and_left() -> None:
    flow = small().flow
    assert flow is not None
    assert (sum(flow.created), sum(flow.bound), sum(flow.left), sum(flow.preempted)) == (4, 2, 1, 0)


def test_placements_name_each_pods_node_and_times() -> None:
    placed = small().placements
    assert placed is not None
    named = zip(placed.pods, [placed.nodes[row] for row in placed.node], placed.bound_s, placed.left_s, strict=True)
    assert list(named) == [("default/a", "n0", 0.0, 100.0), ("default/b", "n0", 10.0, None)]


def test_pods_without_a_node_report_what_they_request() -> None:
    assert [pod.requests for pod in small().unplaced] == [{"cpu": 9.0}, {"cpu": 9.0}]


def test_the_history_is_base64_in_json() -> None:
    history = small().node_history
    assert history is not None
    read = msgspec.json.decode(msgspec.json.encode(history), type=type(history))
    assert read == history
