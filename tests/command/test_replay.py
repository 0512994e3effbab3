"""`kscheduler replay` says how many decisions are equal, and shows what differs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kscheduler.command.cli import main
from kscheduler.command.flags.commands import parse
from kscheduler.command.flags.replay import ReplayOptions
from kscheduler.command.flags.run_options import RunOptions
from kscheduler.command.running import scheduler_maker
from kscheduler.config.load import default_config
from kscheduler.config.releases import RELEASE_1_37
from kscheduler.errors import ConfigError
from kscheduler.record.emulation import recorded_release
from kscheduler.record.entries import OBJECTS_ONLY, End, Header, Synced
from kscheduler.record.reader import RecordReader
from kscheduler.record.writer import RecordWriter
from kscheduler.scheduler import Scheduler
from tests.replay.recorded_run import HEAD, busy, decisions, recorded

PACKING = """
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: more}
status: {allocatable: {cpu: "64", memory: 64Gi, pods: "500"}}
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("record") / "run.zst"
    recorded(path, busy)
    return path


def test_flags_are_read() -> None:
    assert parse(["replay", "run.zst", "--config", "c", "--nodes", "n", "--show", "7", "-o", "json"]) == ReplayOptions(
        "run.zst", "c", "n", "json", 7
    )
    options = parse(["run", "--record", "run.zst", "--record-part-size", "1Mi", "--record-keep-parts", "2"])
    assert isinstance(options, RunOptions)
    assert (options.record, options.record_part_bytes, options.record_keep_parts) == ("run.zst", 1 << 20, 2)


def test_a_scheduler_that_does_not_record_is_the_plain_one(tmp_path: Path) -> None:
    assert scheduler_maker(RunOptions()) is Scheduler
    with pytest.raises(ConfigError, match=r"--record .*: expected a directory .*/none, there is none"):
        scheduler_maker(RunOptions(record=str(tmp_path / "none" / "run.zst")))


def test_equal_decisions_are_counted(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(path)]) == 0
    number = len(decisions(path))
    assert capsys.readouterr().out == f"{number:,} of {number:,} decisions equal\n"


def test_the_first_difference_is_shown_with_both_sides(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "packing.yaml"
    config.write_text(HEAD + PACKING)
    assert main(["replay", str(path), "--config", str(config)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert "another node" in printed[1]
    (place,) = (number for number, line in enumerate(printed) if line.startswith("  record: "))
    assert printed[place - 1].endswith(": another node")
    assert printed[place + 1].startswith("  replay: n")
    assert printed[place].split(":")[1] != printed[place + 1].split(":")[1]


def test_further_nodes_are_read_from_a_file(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text(NODE)
    assert main(["replay", str(path), "--nodes", str(nodes), "-o", "json", "--show", "0"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["kinds"]["placed only in the replay"] > 0
    assert report["differences"] == []


def test_a_record_is_replayed_with_the_release_that_it_was_made_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.zst"
    release = RELEASE_1_37.with_gates({"VolumeLimitScaling": False})
    recorded(path, busy, config=default_config(release))
    assert recorded_release(RecordReader(path).header, "run.zst") == release
    for flags in ([], ["--emulated-version=1.37"]):
        assert main(["replay", str(path), *flags]) == 0
        assert "decisions equal\n" in capsys.readouterr().out
    # The recorded configuration has a field that is an error in 1.36, which decides in other words.
    assert main(["replay", str(path), "--emulated-version=1.36"]) == 1
    assert "rejected for other reasons\n" in capsys.readouterr().out


def test_a_record_is_replayed_with_other_feature_gates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.zst"
    recorded(path, busy)
    gates = "StorageCapacityScoring=true,OpportunisticBatching=false"
    assert main(["replay", str(path), f"--feature-gates={gates}"]) == 0
    shown = capsys.readouterr()
    assert "decisions equal\n" in shown.out
    assert shown.err == (
        "kscheduler: --feature-gates OpportunisticBatching=false has no effect: kscheduler has one behaviour\n"
    )
    assert main(["replay", str(path), "--feature-gates=Foo=true"]) == 2
    assert "--feature-gates: unrecognized feature gate: Foo" in capsys.readouterr().err


def test_a_record_of_a_release_that_is_not_known_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.zst"
    with RecordWriter(path) as writer:
        writer.write(Header(OBJECTS_ONLY, "9.9.9", 0.0, emulated_version="1.99"))
        writer.write(Synced(0.0))
        writer.write(End(0.0))
    assert main(["replay", str(path)]) == 2
    assert 'run.zst: emulated release: expected one of 1.36, 1.37, got "1.99"' in capsys.readouterr().err


def test_a_file_that_is_no_record_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "no.zst").write_text("no")
    assert main(["replay", str(tmp_path / "no.zst")]) == 2
    assert "expected a file compressed with zstd" in capsys.readouterr().err
