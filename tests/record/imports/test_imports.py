"""Files of other programs are recognised, read as records and simulated; bad ones are refused in clear words."""

from __future__ import annotations

import argparse
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kscheduler.command.simulate import simulate
from kscheduler.errors import ConfigError
from kscheduler.record import reader
from kscheduler.record.entries import Change
from kscheduler.record.imports import objects, open_record
from kscheduler.simulator.options import add_arguments

SECRET = "canary-in-an-environment"


def node(name: str) -> dict[str, Any]:
    room = {"cpu": "4", "memory": "8Gi", "pods": "20"}
    status = {"allocatable": room, "capacity": room}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def template() -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {"spec": {"containers": [container | {"env": [{"name": "TOKEN", "value": SECRET}]}]}}


def pod(name: str, on: str = "") -> dict[str, Any]:
    made = template()
    if on:
        made["spec"]["nodeName"] = on
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": name}, **made}


def deployment(replicas: int, name: str = "web") -> dict[str, Any]:
    spec = {"replicas": replicas, "template": template()}
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


# --- the three formats ----------------------------------------------------------------------------------------------


def simulator_lines(path: Path, *edits: Callable[[bytes], bytes]) -> Path:
    named = {"name": "a", "namespace": "default"}
    lines = [
        ("2024-05-01T10:00:00.5Z", "Add", node("n0")),
        ("2024-05-01T10:00:00.5Z", "Add", {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}),
        ("2024-05-01T10:00:01.5Z", "Add", pod("a")),
        ("2024-05-01T10:00:02.5Z", "Update", pod("a", on="n0")),
        ("2024-05-01T10:00:10.5Z", "Delete", {"apiVersion": "v1", "kind": "Pod", "metadata": named}),
    ]
    text = b"".join(
        msgspec.json.encode({"time": time, "event": event, "resource": resource}) + b"\n"
        for time, event, resource in lines
    )
    for edit in edits:
        text = edit(text)
    path.write_bytes(text)
    return path


def simkube(path: Path, version: int = 2, **fields: Any) -> Path:
    events = [
        {"ts": 1_700_000_000, "applied_objs": [deployment(2)], "deleted_objs": []},
        {"ts": 1_700_000_010, "applied_objs": [deployment(3)], "deleted_objs": []},
        {"ts": 1_700_000_100, "applied_objs": [], "deleted_objs": [deployment(3)]},
    ]
    document = {
        "version": version,
        "config": {"trackedObjects": {"apps/v1.Deployment": {"podSpecTemplatePaths": ["/spec/template"]}}},
        "events": events,
        "index": {},
        "pod_lifecycles": {("apps/v1.Deployment", "shop/web"): {7: [{"Finished": [100, 130]}, "Empty"]}},
        **fields,
    }
    path.write_bytes(msgspec.msgpack.encode(document))
    return path


def kai(path: Path, name: str = "snapshot.json", **fields: Any) -> Path:
    raw = {
        "nodes": [node("n0")],
        "pods": [pod("a"), pod("b", on="n0")],
        "queues": [{"kind": "Queue", "metadata": {"name": "team"}}],
        "configMaps": None,
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, json.dumps({"config": {}, "schedulerParams": {}, "rawObjects": raw, **fields}))
    return path


def changes(path: Path) -> list[str]:
    """The changes in short: `0 ADDED nodes n0`."""
    found = []
    for entry in open_record(path):
        if isinstance(entry, Change):
            name = msgspec.json.decode(entry.object)["metadata"]["name"]
            found.append(f"{entry.at:g} {entry.type} {entry.resource} {name}")
            assert SECRET.encode() not in bytes(entry.object)
    return found


def test_lines_of_the_simulator_are_read_with_their_times(tmp_path: Path) -> None:
    assert changes(simulator_lines(tmp_path / "lines.json")) == [
        "0 ADDED nodes n0",
        "1 ADDED pods a",
        "2 MODIFIED pods a",
        "10 DELETED pods a",
    ]


def test_a_trace_of_simkube_has_the_pods_of_its_owners(tmp_path: Path) -> None:
    assert changes(simkube(tmp_path / "trace.sktrace")) == [
        "0 ADDED pods web-1",
        "0 ADDED pods web-2",
        "10 ADDED pods web-3",
        "30 DELETED pods web-1",
        "30 DELETED pods web-2",
        "40 DELETED pods web-3",
    ]


def test_pods_without_a_lifecycle_leave_with_their_owner(tmp_path: Path) -> None:
    assert changes(simkube(tmp_path / "trace.sktrace", pod_lifecycles={}))[3:] == [
        f"100 DELETED pods web-{number}" for number in (1, 2, 3)
    ]


def test_a_snapshot_of_kai_has_everything_from_the_start(tmp_path: Path) -> None:
    assert changes(kai(tmp_path / "snapshot.zip")) == [
        "0 ADDED nodes n0",
        "0 ADDED queues.scheduling.run.ai team",
        "0 ADDED pods a",
        "0 ADDED pods b",
    ]


@pytest.mark.parametrize(("make", "flags"), [(simulator_lines, ()), (simkube, ("--nodes", "3")), (kai, ())])
def test_each_is_simulated(tmp_path: Path, make: Callable[[Path], Path], flags: tuple[str, ...]) -> None:
    parser, output = argparse.ArgumentParser(), tmp_path / "report.json"
    add_arguments(parser)
    path = make(tmp_path / "file")
    arguments = ["--quiet", "--record", str(path), "--output", str(output), *flags]
    assert simulate(parser.parse_args(arguments)) == 0
    pods = json.loads(output.read_bytes())["pods"]
    assert pods["placed"] + pods["existing"] == pods["total"]
    assert pods["placed"] > 0


# --- bad files ------------------------------------------------------------------------------------------------------


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        changes(path)
    return str(caught.value).removeprefix(f"{path}: ")


def test_a_line_cut_off_ends_the_record(tmp_path: Path) -> None:
    record = open_record(simulator_lines(tmp_path / "lines.json", lambda text: text[:-5]))
    assert len([entry for entry in record if isinstance(entry, Change)]) == 3
    assert record.is_cut


def test_a_wrong_line_is_named_with_its_number(tmp_path: Path) -> None:
    path = simulator_lines(tmp_path / "lines.json", lambda text: text.replace(b'"Update"', b'"Change"'))
    assert refusal(path).startswith("line 4: expected a line of kube-scheduler-simulator's recorder: ")


def test_an_object_that_cannot_be_read_is_named_with_its_line(tmp_path: Path) -> None:
    path = simulator_lines(tmp_path / "lines.json", lambda text: text.replace(b'"containers":[', b'"containers":[1,'))
    assert refusal(path).startswith("line 3: expected an object of pods: ")


def test_a_line_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = simulator_lines(tmp_path / "lines.json")
    monkeypatch.setattr("kscheduler.record.imports.simulator_lines.MAX_LINE_BYTES", 100)
    assert reader.MAX_LINE_BYTES > 100
    assert "line 1: longer than" in refusal(path)


def test_another_version_of_a_trace_is_named(tmp_path: Path) -> None:
    assert refusal(simkube(tmp_path / "t", version=3)) == "expected a trace of SimKube of version 2, got 3"


def test_a_trace_cut_off_is_refused(tmp_path: Path) -> None:
    path = simkube(tmp_path / "t")
    path.write_bytes(path.read_bytes()[:-20])
    assert refusal(path).startswith("expected a trace of SimKube, version 2: ")


def test_a_trace_of_very_many_pods_is_refused(tmp_path: Path) -> None:
    path = simkube(tmp_path / "t", events=[{"ts": 1, "applied_objs": [deployment(10_000_000)], "deleted_objs": []}])
    assert refusal(path) == "events[0]: expected at most 1,000,000 pods in a trace, got more"


@pytest.mark.parametrize("make", [simkube, kai])
def test_a_file_too_large_is_refused_before_it_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], Path]
) -> None:
    path = make(tmp_path / "file")
    for module in ("simkube", "kai"):
        monkeypatch.setattr(f"kscheduler.record.imports.{module}.MAX_BYTES", 10)
    assert "expected at most 256 MiB, got 0 MiB" in refusal(path)
    assert objects.MAX_BYTES == 256 << 20


def test_a_zip_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = kai(tmp_path / "a.zip", "other.json")
    assert refusal(path) == "expected snapshot.json in a snapshot of KAI-Scheduler, there is none"


def test_a_damaged_zip_file_is_refused(tmp_path: Path) -> None:
    path = kai(tmp_path / "a.zip")
    path.write_bytes(path.read_bytes()[:-30])
    assert refusal(path).startswith("expected a snapshot of KAI-Scheduler: ")


def test_a_zip_file_whose_content_is_damaged_is_refused(tmp_path: Path) -> None:
    path = kai(tmp_path / "a.zip")
    content = path.read_bytes()
    begin = content.index(b"snapshot.json") + len(b"snapshot.json")
    path.write_bytes(content[:begin] + b"\xff" * 20 + content[begin + 20 :])
    assert refusal(path).startswith("expected a snapshot of KAI-Scheduler: ")


@pytest.mark.parametrize("metadata", ["text", 5, ["list"], None])
def test_metadata_of_a_wrong_type_in_a_trace_counts_as_none(tmp_path: Path, metadata: object) -> None:
    odd = deployment(1) | {"metadata": metadata}
    odd["spec"]["template"]["metadata"] = metadata
    path = simkube(tmp_path / "t", events=[{"ts": 1, "applied_objs": [odd], "deleted_objs": [odd]}])
    assert changes(path) == ["0 ADDED pods pod-1", "0 DELETED pods pod-1"]


def test_a_time_without_a_zone_is_named_with_its_line(tmp_path: Path) -> None:
    path = simulator_lines(tmp_path / "l", lambda text: text.replace(b"2024-05-01T10:00:01.5Z", b"0001-01-01T00:00:00"))
    assert refusal(path).startswith("line 3: expected a line of kube-scheduler-simulator's recorder: ")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert refusal(path) == "cannot be read: expected a regular file, got a pipe"


def test_a_file_of_no_known_kind_is_refused_as_a_record(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("nodes: []\n")
    assert refusal(path) == "expected a file compressed with zstd, this is none"
