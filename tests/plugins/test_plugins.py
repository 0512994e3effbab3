"""plugins/README.md and the example plugin do what they say, command by command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kscheduler.wasm.arguments import KNOWN_KEYS
from tests.plugins.documents import PLUGINS, ROOT, blocks, run
from tests.support.skips import package

EXAMPLE = PLUGINS / "cheapest_node"


@pytest.mark.slow
def test_the_commands_of_the_example_print_what_its_readme_says() -> None:
    (commands,) = blocks(EXAMPLE / "README.md", "console")
    (promised,) = blocks(EXAMPLE / "README.md", "")
    printed = run(commands, ROOT)
    assert promised.splitlines()
    for line in promised.splitlines():
        assert line in printed


def check_patch(text: str) -> None:
    """It is about the Deployment and the container that the manifests have."""
    patch = yaml.safe_load(text)
    deployment = yaml.safe_load((ROOT / "deploy" / "base" / "deployment.yaml").read_text())
    for key in ("apiVersion", "kind"):
        assert patch[key] == deployment[key]
    assert patch["metadata"].items() <= deployment["metadata"].items()
    (patched,), (container,) = (d["spec"]["template"]["spec"]["containers"] for d in (patch, deployment))
    assert patched["name"] == container["name"]


@pytest.mark.slow
def test_a_reader_of_the_guide_gets_a_plugin_that_is_tested_and_runs(tmp_path: Path) -> None:
    guide = PLUGINS / "README.md"
    plugin, test, *_ = blocks(guide, "python")
    config, patch, *_ = blocks(guide, "yaml")
    check_patch(patch)
    (commands,) = blocks(guide, "console")
    for text in (plugin, test):
        (tmp_path / text.splitlines()[0].removeprefix("# ")).write_text(text)
    (tmp_path / "prefer_team.yaml").write_text(config)
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_prefer_team.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    printed = run(commands, tmp_path)
    assert "prefer_team.yaml: valid" in printed
    assert "prefer_team:PreferTeam (5)" in printed
    assert "placed 100 of 100 pods" in printed


@pytest.mark.slow
def test_a_reader_of_the_page_on_c_gets_a_plugin_that_runs(tmp_path: Path) -> None:
    package("wasmtime")
    package("ziglang")
    page = PLUGINS / "sdk" / "c" / "README.md"
    (tmp_path / "plugins").symlink_to(PLUGINS)
    (source,) = blocks(page, "c")
    (tmp_path / "prefer_old.c").write_text(source)
    for text in blocks(page, "yaml"):
        (tmp_path / text.splitlines()[0].removeprefix("# ")).write_text(text)
    commands = "\n".join(blocks(page, "console"))
    printed = run(commands.replace("$ pip install --quiet ziglang\n", ""), tmp_path)
    assert "pod default/collector goes to old" in printed
    assert "scheduler.yaml: valid" in printed
    assert "placed 1 of 1 pod (" in printed


def test_every_argument_of_a_wasm_plugin_is_explained() -> None:
    rows = [line.split("|")[1] for line in (PLUGINS / "README.md").read_text().splitlines() if line.startswith("| `")]
    named = re.findall(r"`(\w+)`", " ".join(rows))
    assert sorted(named) == sorted(KNOWN_KEYS)
