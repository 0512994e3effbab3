"""Reports that go where standard output goes, as a shell sends them there."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = [sys.executable, "-m", "kscheduler"]
SMALL = ["--nodes", "1", "--pods", "2", "--quiet"]
SIMULATE = [*PROGRAM, "simulate", *SMALL]
COMPARE = [*PROGRAM, "compare", "default", "default", *SMALL]
WHAT_IF = [*PROGRAM, "whatif", *SMALL, "--no-plugin", "ImageLocality"]


def run_after(before: str, path: Path, command: list[str]) -> str:
    """Return what is in a file in the end to which a shell sends a text, and then what a command writes."""
    with path.open("w") as file:
        file.write(before)
        file.flush()
        ended = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return path.read_text()


@pytest.mark.parametrize("name", ["/dev/stdout", "-", "out.txt"])
def test_placements_are_written_after_what_standard_output_holds(tmp_path: Path, name: str) -> None:
    path = tmp_path / "out.txt"
    given = str(path) if name == "out.txt" else name
    text = run_after("mine\n", path, [*SIMULATE, "--placements", given])
    first, header, *rows = text.splitlines()
    assert first == "mine"
    assert header.startswith("pod")
    assert len(rows) == 2


def test_several_reports_to_standard_output_follow_each_other(tmp_path: Path) -> None:
    text = run_after("", tmp_path / "out", [*SIMULATE, "--output", "-", "--placements", "-"])
    report, end = json.JSONDecoder().raw_decode(text)
    assert report["pods"]["total"] == 2
    assert len(list(csv.reader(text[end:].strip().splitlines()))) == 3


def test_a_report_to_standard_output_comes_before_the_text(tmp_path: Path) -> None:
    command = [each for each in SIMULATE if each != "--quiet"]
    text = run_after("mine\n", tmp_path / "out", [*command, "--placements", "/dev/stdout"])
    assert text.startswith("mine\npod")
    assert "placed 2 of 2 pods" in text


@pytest.mark.parametrize("command", [COMPARE, WHAT_IF], ids=["compare", "whatif"])
def test_a_page_to_standard_output_truncates_nothing(tmp_path: Path, command: list[str]) -> None:
    text = run_after("mine\n", tmp_path / "out", [*command, "--html", "/dev/stdout"])
    assert text.startswith("mine\n<!doctype html>")


def test_the_page_of_a_sweep_to_standard_output_truncates_nothing(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text(
        "traces: [{name: t, pods: 1}]\ncluster: [{name: c, nodes: 1}]\nconfigs: [{name: only}]\nmetrics: [placed]\n"
    )
    results = str(tmp_path / "results")
    command = [*PROGRAM, "sweep", str(grid), "--seeds", "1", "--out", results, "--html", "/dev/stdout"]
    text = run_after("mine\n", tmp_path / "out", command)
    assert text.startswith("mine\n<!doctype html>")


def test_a_configuration_to_standard_output_is_its_owners_and_truncates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "out"
    command = [*PROGRAM, "run", "--write-config-to", "/dev/stdout"]
    text = run_after("# mine\n", path, command)
    assert text.startswith("# mine\napiVersion:")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_report_to_a_closed_pipe_is_no_fault() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run([*SIMULATE, "--output", "-"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert "Traceback" not in ended.stderr
