"""`kscheduler plugin test`: guests run among nodes from files, good ones and bad ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import wasmtime

from kscheduler.command.cli import main
from kscheduler.command.flags.plugin import PluginTestOptions
from kscheduler.command.plugin_trial import read_cluster
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from tests.wasm.extension.kit import module as kit_module
from tests.wasm.loading.modules import module

NODES = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: there, namespace: default, uid: "1"}
  spec: {nodeName: n1, containers: [{name: c, image: i}]}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default, uid: "2"}
spec: {containers: [{name: c, image: i}]}
"""
RESIZE = """\
  status: {conditions: [{type: PodResizePending, status: "True", reason: Infeasible}]}
"""
TRAPS = module({"filter": ":i"}, answers={"filter": -1})


@pytest.fixture(autouse=True)
def _logging(logging_restored: None) -> None: ...


class Files:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.write("nodes.yaml", NODES)
        self.write("pod.yaml", POD)

    def write(self, name: str, content: str | bytes) -> str:
        path = self.directory / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def run(
    files: Files, capsys: pytest.CaptureFixture[str], wasm: bytes, *flags: str, pod: str = "pod.yaml"
) -> tuple[int, str, str]:
    guest = files.write("g.wasm", wasm)
    where = ["--cluster", str(files.directory / "nodes.yaml"), "--pod", str(files.directory / pod)]
    code = main(["plugin", "test", guest, *where, "--plugin-cache-dir", str(files.directory / "cache"), *flags])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_guest_that_takes_all_nodes_is_shown_with_time_and_memory(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(files, capsys, module({"filter": ":i", "score": ":I", "reserve": ":i", "permit": ":I"}))
    lines = out.splitlines()
    assert code == 0
    assert lines[1] == "points   filter, score, reserve, permit"
    assert lines[3].startswith("memory   0.06 MiB in the largest of ")
    assert lines[5] == "pod default/p goes to n1 (2 of 2 nodes fit)"
    assert lines[6].startswith("  a cycle takes ")
    assert lines[7:9] == ["  reserve: Success", "  permit: Success"]
    assert [line.split() for line in lines[9:]] == [["n1", "0", "fits"], ["n2", "0", "fits"]]


@pytest.mark.parametrize(("release", "counted"), [(RELEASE_1_36, 1000), (RELEASE_1_37, 0)])
def test_a_pod_that_cannot_be_resized_counts_as_in_the_release(files: Files, release: Release, counted: int) -> None:
    """It has no status of containers yet, so that 1.37 counts nothing for it, and 1.36 what it requests."""
    cluster = files.write(
        "resized.yaml", NODES.replace("image: i", 'image: i, resources: {requests: {cpu: "1"}}') + RESIZE
    )
    cache, _ = read_cluster(PluginTestOptions("", cluster, str(files.directory / "pod.yaml")), release)
    assert [node.requested.cpu_milli for node in cache.table] == [counted, 0]


def test_a_release_can_be_chosen(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, _ = run(files, capsys, module({"filter": ":i"}), "--emulated-version", "1.37")
    assert code == 0
    code, _, err = run(files, capsys, module({"filter": ":i"}), "--emulated-version", "1.2")
    assert (code, "emulation version 1.2 is not between" in err) == (2, True)


def test_a_trial_is_also_printed_as_json(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(files, capsys, module({"filter": ":i"}), "-o", "json")
    found: dict[str, Any] = json.loads(out)
    assert code == 0
    assert (found["extensionPoints"], found["memoryBytes"], found["nodes"]) == (["filter"], 65536, 2)
    (pod,) = found["pods"]
    assert (pod["pod"], pod["node"], pod["feasible"], pod["faults"]) == ("default/p", "n1", 2, [])
    assert pod["nodes"] == [
        {"node": "n1", "verdict": "fits", "score": None},
        {"node": "n2", "verdict": "fits", "score": None},
    ]


def test_a_guest_that_traps_is_reported_and_makes_the_command_fail(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(files, capsys, TRAPS)
    assert code == 1
    assert "pod default/p goes nowhere: " in out
    assert "wasm: filter error" in out


def test_a_guest_of_the_batch_abi_says_itself_where_it_runs(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = msgspec.msgpack.encode(
        {"abi": 1, "name": "t", "points": ["filter", "score"], "depends": ["pod", "node"]}
    )
    code, out, err = run(files, capsys, batch_guest(recorded))
    assert (code, err) == (0, "")
    assert "points   filter, score" in out
    assert "pod default/p goes to n1 (2 of 2 nodes fit)" in out


def test_a_guest_of_the_batch_abi_that_makes_no_sense_is_refused(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(files, capsys, batch_guest(b"\xc1"))
    assert code == 2
    assert err.startswith(f"kscheduler: error: {files.directory}/g.wasm: wasm: ")


def batch_guest(described: bytes) -> bytes:
    """Everything fits and scores 0."""
    data = "".join(f"\\{byte:02x}" for byte in described)
    text = f"""(module (memory (export "memory") 1) (data (i32.const 64) "{data}")
      (func (export "kscheduler_abi_v1") (result i32) i32.const 1)
      (func (export "ks_alloc") (param i32) (result i32) i32.const 1024)
      (func (export "ks_configure") (param i32 i32) (result i64) i64.const 0)
      (func (export "ks_describe") (result i64) i64.const {64 << 32 | len(described)})
      (func (export "ks_table") (param i32 i32) (result i64) i64.const 0)
      (func (export "ks_call") (param i32 i32 i32) (result i64) i64.const 0))"""
    return bytes(wasmtime.wat2wasm(text))


def test_compiled_code_is_kept_for_the_next_time(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    run(files, capsys, module({"filter": ":i"}))
    assert len(list((files.directory / "cache").iterdir())) == 1
    assert run(files, capsys, module({"filter": ":i"}))[0] == 0


def test_arguments_come_from_a_file_and_a_flag(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    args = files.write("args.yaml", "guestConfig: {a: 1}\ndeadline: 1s\n")
    assert run(files, capsys, module({"filter": ":i"}), "--args", args, "--guest-config", "b")[0] == 0
    wrong = files.write("wrong.yaml", "deadlin: 1s\n")
    code, _, err = run(files, capsys, module({"filter": ":i"}), "--args", wrong)
    assert code == 2
    assert f'{wrong}: unknown argument "deadlin" (did you mean deadline?)' in err


@pytest.mark.parametrize(
    ("wasm", "pod", "message"),
    [
        (b"<html>", "pod.yaml", "wasm: error compiling guest: expected WebAssembly"),
        (module(), "pod.yaml", "wasm: guest does not export any plugin functions"),
        (module({"filter": ":i"}), "nodes.yaml", None),
        (module({"filter": ":i"}), "absent.yaml", "absent.yaml"),
        (module({"filter": ":i"}), "empty.yaml", "expected a pod, found none"),
    ],
)
def test_what_cannot_be_tested_is_an_error_in_one_line(
    files: Files, capsys: pytest.CaptureFixture[str], wasm: bytes, pod: str, message: str | None
) -> None:
    files.write("empty.yaml", "")
    code, _, err = run(files, capsys, wasm, pod=pod)
    if message is None:
        assert code == 0
        return
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_a_guest_that_always_fails_is_reported_with_its_fault_wherever_it_is_asked(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(files, capsys, TRAPS, "-o", "json")
    (pod,) = json.loads(out)["pods"]
    assert "quarantined" not in out
    assert all("unreachable" in node["verdict"] for node in pod["nodes"])
    assert all("unreachable" in fault for fault in pod["faults"])


def test_the_binding_cycle_is_run_to_its_end_and_another_one_is_taken_back(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    points = {"reserve": ":i", "unreserve": ":", "permit": ":I", "prebind": ":i", "bind": ":i", "postbind": ":"}
    code, out, _ = run(files, capsys, module(points))
    assert code == 0
    assert out.splitlines()[7:13] == [
        "  reserve: Success",
        "  permit: Success",
        "  preBind: Success",
        "  bind: Success",
        "  postBind: called",
        "  unreserve: called",
    ]


@pytest.mark.parametrize("export", ["reserve", "prebind", "bind", "postbind", "unreserve"])
def test_a_fault_after_the_decision_makes_the_command_fail(
    export: str, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    traps = kit_module(**{"filter": "(i32.const 0)", "reserve": "(i32.const 0)", export: "unreachable"})
    code, out, _ = run(files, capsys, traps)
    assert code == 1
    assert f"wasm: {export} error: wasm `unreachable`" in out


def test_what_the_guest_logs_is_shown(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    says = "(call $log (i32.const 0) (i32.const 16) (i32.const 5))"
    code, out, _ = run(files, capsys, kit_module("log", text="hello", filter=f"{says} (i32.const 0)"))
    assert code == 0
    assert out.count("  log info: hello") == 2  # once a node, and not again for each repeat


def test_an_event_that_the_guest_records_is_shown_and_unreserve_is_among_its_points(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = dict.fromkeys(["Kind", "APIVersion", "Name", "Namespace", "UID", "ResourceVersion"], "")
    event = {"Eventtype": "Normal", "Reason": "Placed", "Action": "Binding", "Note": "3 licenses\x1b are left"}
    text = json.dumps({**event, "RegardingReference": {**nobody, "Kind": "Pod"}, "RelatedReference": nobody})
    records = f"(call $eventf (i32.const 16) (i32.const {len(text)}))"
    guest = kit_module("eventf", text=text, reserve="(i32.const 0)", unreserve="", postbind=records)
    code, out, err = run(files, capsys, guest)
    assert (code, err) == (0, "")
    assert "points   reserve, postBind, unreserve" in out
    assert out.count("  event Normal Placed: 3 licenses\\u001b are left\n") == 1
