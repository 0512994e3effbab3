"""`kscheduler record` says what is wrong with its options, and `simulate --record` takes what the record holds."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import msgspec
import pytest

from kscheduler.api.objects import Pod
from kscheduler.command.flags.commands import parse
from kscheduler.command.flags.record import RecordOptions
from kscheduler.command.record import record
from kscheduler.command.simulate import simulate
from kscheduler.errors import ConfigError
from kscheduler.record.entries import Change, End, Header, Synced
from kscheduler.record.writer import RecordWriter
from kscheduler.simulator.options import add_arguments
from tests.simulator.first_fit import make_node
from tests.simulator.objects import make_pod
from tests.support.clocks import ManualClock

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: other}]
"""


def namespace(*flags: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(["--quiet", *flags])


def recorded(path: Path, pod: Pod, configuration: str = "", emulated_version: str = "") -> str:
    """Write a record of one node and one pod that waits for its scheduler, and return its path."""
    pod = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid="u"))
    with RecordWriter(path) as writer:
        writer.write(Header(1, "0.1.0", 0.0, configuration=configuration, emulated_version=emulated_version))
        node = make_node("n0", cpu="4")
        writer.write(Change(0.0, "nodes", "ADDED", msgspec.Raw(msgspec.json.encode(node))))
        writer.write(Synced(0.0))
        writer.write(Change(1.0, "pods", "ADDED", msgspec.Raw(msgspec.json.encode(pod))))
        bound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="n0"))
        writer.write(Change(1.5, "pods", "MODIFIED", msgspec.Raw(msgspec.json.encode(bound))))
        writer.write(End(2.0))
    return str(path)


def test_flags_of_record_are_read() -> None:
    flags = ["--out", "run.zst", "--duration", "5m", "--part-size", "64Mi", "--keep-parts", "3"]
    expected = RecordOptions("run.zst", duration_s=300.0, part_bytes=64 << 20, keep_parts=3)
    assert parse(["record", *flags]) == expected


def test_a_directory_that_is_not_there_is_named_before_anything_is_listed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--out .*/none/run\.zst: expected a directory .*/none, there is none"):
        record(RecordOptions(str(tmp_path / "none" / "run.zst")), ManualClock())


def test_a_record_is_simulated_with_the_configuration_in_it(tmp_path: Path) -> None:
    path = recorded(tmp_path / "run.zst", make_pod("p", scheduler_name="other"), CONFIGURATION)
    output = tmp_path / "report.json"
    assert simulate(namespace("--record", path, "--output", str(output))) == 0
    report = json.loads(output.read_bytes())
    assert report["pods"]["placed"] == 1
    assert "1 of 1 pod is on the node that the record has." in report["notes"]


def test_another_configuration_beats_that_of_the_record(tmp_path: Path) -> None:
    path = recorded(tmp_path / "run.zst", make_pod("p"), CONFIGURATION)
    config, output = tmp_path / "config.yaml", tmp_path / "report.json"
    config.write_text(CONFIGURATION.replace("other", "default-scheduler"))
    assert simulate(namespace("--record", path, "--config", str(config), "--output", str(output))) == 0
    assert json.loads(output.read_bytes())["pods"]["placed"] == 1


def test_a_record_is_the_only_source_of_nodes_and_pods(tmp_path: Path) -> None:
    path = recorded(tmp_path / "run.zst", make_pod("p"))
    with pytest.raises(ConfigError, match="--record: expected no other source of nodes, pods and times, got --nodes"):
        simulate(namespace("--record", path, "--nodes", "5"))


def test_a_wrong_configuration_in_a_record_is_named_with_its_file(tmp_path: Path) -> None:
    path = recorded(tmp_path / "run.zst", make_pod("p"), "kind: Pod\n")
    with pytest.raises(ConfigError, match=r"run\.zst: configuration: "):
        simulate(namespace("--record", path))


@pytest.mark.parametrize(
    ("recorded_version", "flags", "expected"),
    [("", (), "1.36"), ("1.37", (), "1.37"), ("1.37", ("--emulated-version=1.36",), "1.36")],
)
@pytest.mark.parametrize("configuration", ["", CONFIGURATION])
def test_a_record_is_simulated_with_its_release_or_that_of_the_flag(
    tmp_path: Path, recorded_version: str, flags: tuple[str, ...], expected: str, configuration: str
) -> None:
    path = recorded(tmp_path / "run.zst", make_pod("p"), configuration, recorded_version)
    output = tmp_path / "report.json"
    assert simulate(namespace("--record", path, "--output", str(output), *flags)) == 0
    assert json.loads(output.read_bytes())["parameters"]["emulated release"] == expected
