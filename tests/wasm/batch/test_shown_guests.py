"""The plugins of plugins/sdk/README.md in Go, AssemblyScript and Rust, compiled in a folder of their author's."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from kscheduler.command.cli import main
from tests.plugins.documents import blocks
from tests.support.skips import package

package("wasmtime")

pytestmark = pytest.mark.slow  # compilers run

SDK = Path(__file__).parents[3] / "plugins" / "sdk"
PAGE = SDK / "README.md"
builder = SimpleNamespace(**runpy.run_path(str(SDK / "build_examples.py")))

NODES = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: young, labels: {age: "1"}}, status: {allocatable: {pods: "9"}}}
- {apiVersion: v1, kind: Node, metadata: {name: old, labels: {age: "4"}}, status: {allocatable: {pods: "9"}}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: collector, namespace: default, labels: {likes: old}}
spec: {containers: [{name: c, image: i}]}
"""


@pytest.fixture(autouse=True)
def _logging(logging_restored: None) -> None: ...


def decided(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The node that the pod of the page goes to."""
    (folder / "nodes.yaml").write_text(NODES)
    (folder / "pod.yaml").write_text(POD)
    files = ["--cluster", str(folder / "nodes.yaml"), "--pod", str(folder / "pod.yaml")]
    args = folder / "args.yaml"
    args.write_text("deadline: 10s\n")  # for a machine where compilers run beside the tests
    assert main(["plugin", "test", str(folder / "guest.wasm"), *files, "--args", str(args), "-o", "json"]) == 0
    (pod,) = json.loads(capsys.readouterr().out)["pods"]
    node: str = pod["node"]
    return node


def run(folder: Path, *command: str | Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)


def test_the_one_in_assemblyscript(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (source,) = blocks(PAGE, "ts")
    library = os.path.relpath(SDK / "assemblyscript", tmp_path)
    (tmp_path / "guest.ts").write_text(source.replace("../plugins/sdk/assemblyscript", library))
    run(tmp_path, "node", builder._assemblyscript(), "guest.ts", "-O3", "--outFile", "guest.wasm")
    assert decided(tmp_path, capsys) == "old"


def test_the_one_in_go_and_its_unit_test(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    builder.LANGUAGES["go"].build("team_nodes")  # a MissingTool is a skip
    (tmp_path / "plugins").symlink_to(SDK.parent)
    write, test, build, *_ = blocks(PAGE, "console")
    (build_line,) = [line for line in build.splitlines() if " go build " in line]
    script = "\n".join([write, test, build_line, "cp prefer_old.wasm .."])
    run(tmp_path, "bash", "-ec", re.sub("^[$] ", "", script, flags=re.MULTILINE))
    (tmp_path / "prefer_old.wasm").rename(tmp_path / "guest.wasm")
    assert decided(tmp_path, capsys) == "old"


def test_unit_tests_in_rust_run_without_a_host(tmp_path: Path) -> None:
    (source,) = blocks(PAGE, "rust")
    says = 'ks::log(2, "said"); ks::event(true, "Reason", "noted"); assert!(ks::now() > 0);'
    (tmp_path / "guest.rs").write_text(f"{source}\n#[test]\nfn says() {{ {says} }}\n")
    rustc, library = builder._rustc(), str(SDK / "rust" / "src" / "lib.rs")
    run(tmp_path, rustc, "--edition=2021", "--crate-type=rlib", "--crate-name=ks", library, "-o", "libks.rlib")
    run(tmp_path, rustc, "--edition=2021", "--test", "--extern=ks=libks.rlib", "guest.rs", "-o", "tests")
    run(tmp_path, tmp_path / "tests")


def test_the_one_in_rust(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (source,) = blocks(PAGE, "rust")
    (tmp_path / "guest.rs").write_text(source)
    commands = [line.removeprefix("$ ") for each in blocks(PAGE, "console") for line in each.splitlines()]
    for command in [each for each in commands if each.startswith("rustc ")]:
        words = command.replace("../plugins/sdk", str(SDK)).replace("prefer_old", "guest").split()
        run(tmp_path, builder._rustc(), *words[1:])
    assert decided(tmp_path, capsys) == "old"
