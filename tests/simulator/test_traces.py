"""CSV traces become nodes and arrivals; whatever is wrong in them is named by file, line, column and value."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kscheduler.errors import ConfigError
from kscheduler.simulator.csv_rows import MAX_LINE
from kscheduler.simulator.traces import Replay, read_arrivals, read_nodes
from tests.simulator.trace_files import NODES, POD_HEADER, PODS


def write(tmp_path: Path, text: str, name: str = "trace.csv") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_nodes_offer_their_gpus_in_thousandths_of_a_device(tmp_path: Path) -> None:
    plain, gpu = read_nodes(write(tmp_path, NODES))
    assert plain.status.allocatable == {"cpu": "32000m", "memory": "262144Mi", "pods": "110"}
    assert (gpu.status.allocatable or {})["alibabacloud.com/gpu-milli"] == "8000"
    assert (gpu.metadata.labels or {})["alibabacloud.com/gpu-model"] == "G2"
    assert "alibabacloud.com/gpu-model" not in (plain.metadata.labels or {})


def test_pods_arrive_in_time_order_counted_from_the_first(tmp_path: Path) -> None:
    arrivals = read_arrivals(write(tmp_path, PODS), Replay())
    reported = [(arrival.pod.metadata.name, arrival.at_s, arrival.leaves_at_s) for arrival in arrivals]
    assert reported == [("early", 0.0, None), ("plain", 0.0, 200.0), ("late", 400.0, 800.0)]


def test_a_trace_without_gpus_may_leave_out_their_columns_and_have_comments(tmp_path: Path) -> None:
    [node] = read_nodes(write(tmp_path, "# three racks\nsn,cpu_milli,memory_mib\n\nn0,4000,8192\n"))
    assert node.status.allocatable == {"cpu": "4000m", "memory": "8192Mi", "pods": "110"}
    [arrival] = read_arrivals(
        write(tmp_path, "name,cpu_milli,memory_mib,creation_time,deletion_time\n# a,1,1,0,\nb,500,256,0,60\n"), Replay()
    )
    resources = arrival.pod.spec.containers[0].resources
    assert resources is not None
    assert resources.requests == {"cpu": "500m", "memory": "256Mi"}
    assert arrival.pod.spec.affinity is None


def test_pods_ask_for_shares_and_for_the_models_they_accept(tmp_path: Path) -> None:
    early, plain, late = (arrival.pod.spec for arrival in read_arrivals(write(tmp_path, PODS), Replay("x.y/gpu")))
    asked = [(spec.containers[0].resources, spec.affinity) for spec in (early, plain, late)]
    assert asked[0][0] is not None
    assert asked[0][0].requests == {"cpu": "12000m", "memory": "16384Mi", "x.y/gpu": "2000"}
    assert asked[0][0].limits == {"x.y/gpu": "2000"}
    assert asked[1][0] is not None
    assert asked[1][0].requests == {"cpu": "1000m", "memory": "1024Mi"}
    assert asked[2][0] is not None
    assert (asked[2][0].requests or {})["x.y/gpu"] == "460"
    node_affinity = early.affinity.node_affinity if early.affinity else None
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    assert required is not None
    [accepted] = required.node_selector_terms[0].match_expressions or []
    assert (accepted.key, accepted.operator, accepted.values) == ("alibabacloud.com/gpu-model", "In", ["G2", "T4"])
    assert plain.affinity is None


def test_a_trace_may_be_sped_up_and_its_departures_ignored(tmp_path: Path) -> None:
    path = write(tmp_path, PODS)
    fast = read_arrivals(path, Replay(speedup=100))
    assert [(arrival.at_s, arrival.leaves_at_s) for arrival in fast] == [(0.0, None), (0.0, 2.0), (4.0, 8.0)]
    assert all(arrival.leaves_at_s is None for arrival in read_arrivals(path, Replay(arrivals_only=True)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: missing column sn, cpu_milli, memory_mib; the header has nothing"),
        ("sn,cpu_milli,gpu,model\n", ":1: missing column memory_mib; the header has sn, cpu_milli, gpu, model"),
        ("sn,cpu_milli,memory_mib,gpu\n", ":1: missing column model; the header has sn, cpu_milli, memory_mib, gpu"),
        ("sn,sn,cpu_milli,memory_mib\n", ":1: expected one column sn, the header has 2"),
        ("sn,cpu_milli,memory_mib,gpu,model,gpu\n", ":1: expected one column gpu, the header has 2"),
        (NODES + "n2,32000,abc,0,\n", ':4: column memory_mib: expected a whole number of zero or more, got "abc"'),
        (NODES + "n2,-1,1,0,\n", ':4: column cpu_milli: expected a whole number of zero or more, got "-1"'),
        (NODES + "n2,1.5,1,0,\n", ':4: column cpu_milli: expected a whole number of zero or more, got "1.5"'),
        (NODES + "n2,1,1,0\n", ":4: expected 5 fields as in the header, got 4"),
        (NODES + ",1,1,0,\n", ":4: column sn: expected a value, got nothing"),
        (NODES + "n1,1,1,0,\n", ':4: column sn: expected a name not used on an earlier line, got "n1"'),
        (NODES + '"n2,1,1,0,\n', ": not CSV: "),
    ],
)
def test_what_is_wrong_with_nodes_is_named_by_line_column_and_value(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_nodes(path)
    assert str(caught.value).startswith(path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("p,1,1,x,0,,,,0,1,", ':2: column num_gpu: expected a whole number of zero or more, got "x"'),
        ("p,1,1,1,1001,,,,0,1,", ':2: column gpu_milli: expected at most 1000, one whole device, got "1001"'),
        ("p,1,1,2,500,,,,0,1,", ':2: column gpu_milli: expected 1000: only a pod with one GPU may share it, got "500"'),
        ("p,1,1,0,0,,,,,1,", ':2: column creation_time: expected seconds, a number of zero or more, got ""'),
        ("p,1,1,0,0,,,,-5,1,", ':2: column creation_time: expected seconds, a number of zero or more, got "-5"'),
        (
            "p,1,1,0,0,,,,1700000000000,1700000060000,",
            ":2: column creation_time: expected seconds, at most 1e+11; milliseconds have to be divided by 1000, "
            'got "1700000000000"',
        ),
        ("p,1,1,0,0,,,,9,1,", ':2: column deletion_time: expected at least creation_time, 9, got "1"'),
        ("p,1,1,0,0,,,,0,nan,", ':2: column deletion_time: expected seconds, a number of zero or more, got "nan"'),
    ],
)
def test_what_is_wrong_with_pods_is_named_by_line_column_and_value(tmp_path: Path, row: str, message: str) -> None:
    path = write(tmp_path, POD_HEADER + row + "\n")
    with pytest.raises(ConfigError) as caught:
        read_arrivals(path, Replay())
    assert str(caught.value) == path + message


def test_a_file_that_is_missing_or_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.csv: cannot be read: No such file"):
        read_nodes(str(tmp_path / "nowhere.csv"))
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"sn,\xff\xfe\n")
    with pytest.raises(ConfigError, match=r"binary\.csv:1: expected UTF-8 text, got the byte 0xff$"):
        read_nodes(str(binary))


def test_a_byte_of_another_encoding_is_named_by_its_line(tmp_path: Path) -> None:
    rows = [f"node-{number},1000,1024" for number in range(5_000)]  # more than is read at once
    rows[3_000] = "knot\u00e9,1000,1024"
    path = tmp_path / "latin.csv"
    path.write_bytes("\n".join(["sn,cpu_milli,memory_mib", *rows]).encode("latin-1"))
    with pytest.raises(ConfigError, match=r"latin\.csv:3002: expected UTF-8 text, got the byte 0xe9$"):
        read_nodes(str(path))


def test_a_trace_with_too_many_pods_is_refused_before_it_is_read_to_its_end(tmp_path: Path) -> None:
    path = write(tmp_path, PODS + "cut off")
    with pytest.raises(ConfigError, match=r"\.csv:3: expected at most 1 pod, got more: .*--max-pods"):
        read_arrivals(path, Replay(max_pods=1))


def test_a_file_without_line_ends_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_bytes(b"")
    os.truncate(path, 8 * MAX_LINE)
    with pytest.raises(ConfigError, match=r"pods\.csv:1: expected a line of CSV, got more than 1,048,576 characters"):
        read_arrivals(str(path), Replay())


def test_of_a_wrong_header_only_the_beginning_is_shown(tmp_path: Path) -> None:
    path = write(tmp_path, f"{'x' * 100_000}\n")
    with pytest.raises(ConfigError, match=r"missing column sn, .*; the header has x{200}\.\.\.$"):
        read_nodes(path)
