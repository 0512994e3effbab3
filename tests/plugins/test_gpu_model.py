"""The example extender runs for real, and a simulation that asks it comes to what its README says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.documents import PLUGINS, ROOT, blocks, run

EXAMPLE = PLUGINS / "gpu_model"
PORT = "8888"  # in the files


@pytest.fixture
def port() -> Iterator[str]:
    """Where the extender listens."""
    command = [sys.executable, str(EXAMPLE / "gpu_model.py"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.kill()


@pytest.mark.slow
def test_the_simulation_prints_what_the_readme_says(port: str, tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text((EXAMPLE / "scheduler.yaml").read_text().replace(PORT, port))
    (commands,) = blocks(EXAMPLE / "README.md", "console")
    asking = [line for line in commands.splitlines() if line.startswith("$ kscheduler")]
    printed = run("\n".join(asking).replace("plugins/gpu_model/scheduler.yaml", str(config)), ROOT)
    (promised,) = blocks(EXAMPLE / "README.md", "")
    assert promised.splitlines()
    for line in promised.splitlines():
        assert line in printed


@pytest.mark.slow
def test_without_the_extender_the_simulation_says_what_is_missing(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text((EXAMPLE / "scheduler.yaml").read_text().replace(PORT, "1"))  # nobody listens there
    files = " ".join(f"--{kind} {EXAMPLE}/{kind}.yaml" for kind in ("nodes", "pods"))
    printed = run(f"$ kscheduler simulate --config {config} {files}", ROOT)
    assert "placed 0 of 4 pods" in printed
    assert "extender at URL http://127.0.0.1:1/filter: " in printed


def test_the_readme_shows_the_configuration_that_is_there() -> None:
    (shown,) = blocks(EXAMPLE / "README.md", "yaml")
    assert shown in (EXAMPLE / "scheduler.yaml").read_text()
