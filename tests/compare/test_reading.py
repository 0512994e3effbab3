"""What the two arguments are is found out from the files, and what cannot be compared is refused in clear words."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from kscheduler.compare.options import CompareArguments
from kscheduler.compare.reading import read_sides
from kscheduler.compare.sides import Side
from kscheduler.errors import ConfigError
from kscheduler.record.entries import FORMAT, Header
from kscheduler.record.writer import RecordWriter
from kscheduler.simulator.options import SimulateArguments
from kscheduler.simulator.report import to_json
from kscheduler.simulator.scenario import Scenario
from tests.compare.runs import LEAST, MOST, arriving, nodes, simulated, small_pods, write_record

NO_INPUT = SimulateArguments()
GENERATED = SimulateArguments(nodes="5", pods="20")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a record, a report and two configurations, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    write_record(tmp_path / "record.zst", LEAST, nodes(2), small_pods(3))
    report = simulated("a", Scenario(nodes(2), arriving(*small_pods(3)))).run().report
    (tmp_path / "report.json").write_bytes(to_json(report))
    (tmp_path / "least.yaml").write_text(LEAST)
    (tmp_path / "most.yaml").write_text(MOST)
    return tmp_path


def read(a: str, b: str, simulate: SimulateArguments = NO_INPUT) -> tuple[Side, Side]:
    return read_sides(CompareArguments(a, b, simulate))


def kinds(*sides: Side) -> list[tuple[str, str]]:
    return [(side.name, side.kind) for side in sides]


@pytest.mark.usefixtures("folder")
def test_files_are_recognised_by_their_content() -> None:
    assert kinds(*read("record.zst", "report.json")) == [("record.zst", "record"), ("report.json", "report")]
    assert kinds(*read("least.yaml", "default", GENERATED)) == [("least.yaml", "simulated"), ("default", "simulated")]


@pytest.mark.usefixtures("folder")
def test_configurations_are_simulated_on_the_record_of_the_other_side() -> None:
    for sides in (read("record.zst", "most.yaml"), reversed(read("most.yaml", "record.zst"))):
        record, config = sides
        assert (record.arrivals, config.arrivals) == (3, 3)


@pytest.mark.usefixtures("folder")
def test_two_configurations_share_the_input_that_flags_name() -> None:
    assert [side.arrivals for side in read("least.yaml", "most.yaml", GENERATED)] == [20, 20]
    assert [side.arrivals for side in read("least.yaml", "most.yaml", SimulateArguments(record="record.zst"))] == [3, 3]


@pytest.mark.usefixtures("folder")
def test_a_gate_without_effect_is_a_note_on_what_is_simulated_with_it() -> None:
    for side in read("least.yaml", "most.yaml", replace(GENERATED, feature_gates=(("MemoryQoS", True),))):
        note = "--feature-gates MemoryQoS=true has no effect: it is of other parts of Kubernetes."
        assert side.run().report.notes.count(note) == 1


@pytest.mark.usefixtures("folder")
def test_a_file_named_default_is_taken_as_such(folder: Path) -> None:
    (folder / "default").write_text("kind: Other")
    with pytest.raises(ConfigError, match="default: apiVersion: expected"):
        read("default", "least.yaml", GENERATED)


def test_a_configuration_may_come_from_a_pipe(folder: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, LEAST.encode())
    os.close(writing)
    try:
        piped, _ = read(f"/dev/fd/{reading}", "least.yaml", GENERATED)
    finally:
        os.close(reading)
    assert (piped.kind, folder.exists()) == ("simulated", True)


def test_files_of_one_name_keep_their_folders(folder: Path) -> None:
    for name in ("old", "new"):
        (folder / name).mkdir()
        (folder / name / "config.yaml").write_text(LEAST)
    assert [side.name for side in read("old/config.yaml", "new/config.yaml", GENERATED)] == [
        "old/config.yaml",
        "new/config.yaml",
    ]


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (
            "least.yaml",
            "most.yaml",
            "expected an input to simulate configurations on: --record, --workload",
        ),
        ("report.json", "most.yaml", "expected an input to simulate configurations on"),
        ("missing", "most.yaml", "missing: cannot be read: No such file or directory"),
        ("most.yaml", ".", ".: cannot be read: Is a directory"),
        ("empty", "most.yaml", "empty: "),
        ("text", "most.yaml", "text: "),
        ("numbers.json", "most.yaml", "numbers.json: "),
        ("cut.json", "most.yaml", "cut.json: expected a record, a report of `kscheduler simulate --output`, or"),
        ("other.json", "most.yaml", "other.json: expected a record, a report of `kscheduler simulate --output`, or"),
        ("sweep.json", "most.yaml", "got a comparison or the report of a sweep"),
        ("typo.yaml", "most.yaml", "typo.yaml: "),
        ("zstd", "most.yaml", "zstd: "),
        ("newer.zst", "most.yaml", f"expected a record of format {FORMAT} or older, got format {FORMAT + 99}"),
    ],
)
def test_what_cannot_be_compared_is_refused(folder: Path, a: str, b: str, message: str) -> None:
    (folder / "empty").write_bytes(b"")
    (folder / "text").write_text("some text")
    (folder / "numbers.json").write_text("[1, 2]")
    (folder / "cut.json").write_bytes((folder / "report.json").read_bytes()[:500])
    (folder / "other.json").write_text('{"a": 1}')
    (folder / "sweep.json").write_text('{"runs": 1, "differences": []}')
    (folder / "typo.yaml").write_text(LEAST.replace("profiles:", "profile:"))
    (folder / "zstd").write_bytes(b"\x28\xb5\x2f\xfd rest")
    with RecordWriter(folder / "newer.zst") as writer:
        writer.write(Header(FORMAT + 99, "9.9.9", 0.0))
    with pytest.raises(ConfigError) as caught:
        read(a, b)
    assert message in str(caught.value)


@pytest.mark.usefixtures("folder")
def test_an_input_beside_sides_that_need_none_is_refused() -> None:
    for given in (GENERATED, replace(SimulateArguments(), record="record.zst")):
        with pytest.raises(ConfigError, match="expected no input beside a record and a report"):
            read("record.zst", "report.json", given)
