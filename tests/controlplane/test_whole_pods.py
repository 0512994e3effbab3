"""What a wasm guest reads of a pod is, byte by byte, what the apiserver says of it to clients that speak protobuf."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec

from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workspace import Workspace
from tests.wasm.extension.encoding.samples import POD
from tests.wasm.extension.kit import module

ACCEPT = {"Content-Type": "application/json", "Accept": "application/vnd.kubernetes.protobuf"}
ENVELOPE = b"k8s\0"
MANAGED_FIELDS = 17  # of metadata: who wrote what, which kube-scheduler shows nobody either

# Rejects each node with `<size> <FNV-1a>` of the pod, eight hexadecimal digits each.
DIGEST = module(
    "pod",
    "reason",
    globals_="""
      (func $write (param $at i32) (param $value i32) (local $i i32) (local $digit i32)
        (loop $next
          (local.set $digit (i32.and (i32.shr_u (local.get $value) (i32.const 28)) (i32.const 15)))
          (i32.store8 (i32.add (local.get $at) (local.get $i)) (i32.add (local.get $digit)
            (select (i32.const 87) (i32.const 48) (i32.gt_u (local.get $digit) (i32.const 9)))))
          (local.set $value (i32.shl (local.get $value) (i32.const 4)))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br_if $next (i32.lt_u (local.get $i) (i32.const 8)))))""",
    filter="""
      (local $size i32) (local $i i32) (local $hash i32)
      (local.set $size (call $pod (i32.const 1024) (i32.const 130000)))
      (local.set $hash (i32.const 0x811c9dc5))
      (loop $next
        (local.set $hash (i32.mul (i32.const 0x01000193)
          (i32.xor (local.get $hash) (i32.load8_u offset=1024 (local.get $i)))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $next (i32.lt_u (local.get $i) (local.get $size))))
      (call $write (i32.const 16) (local.get $size))
      (i32.store8 (i32.const 24) (i32.const 32))
      (call $write (i32.const 25) (local.get $hash))
      (call $reason (i32.const 16) (i32.const 17))
      (i32.const 2)""",
)


def fields(message: bytes) -> list[tuple[int, bytes, bytes]]:
    """(number, all of the field, what is in it) of a protobuf message."""
    found, at = [], 0
    while at < len(message):
        start = at
        tag, at = _varint(message, at)
        value, at = _varint(message, at)
        content = b""
        if tag & 7 == 2:
            content, at = message[at : at + value], at + value
        found.append((tag >> 3, message[start:at], content))
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _delimited(tag: int, content: bytes) -> bytes:
    size, length = len(content), b""
    while size >= 0x80:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([tag]) + length + bytes([size]) + content


def create(workspace: Workspace, pod: dict[str, Any]) -> bytes:
    """Create a pod; as protobuf has it, without managed fields."""
    path = f"/api/v1/namespaces/{workspace.namespace}/pods"
    answer = workspace.api._send("POST", path, msgspec.json.encode(pod), ACCEPT)
    assert answer.startswith(ENVELOPE)
    (raw,) = (content for number, _, content in fields(answer[4:]) if number == 2)
    (_, _, metadata), *others = fields(raw)
    kept = b"".join(field for number, field, _ in fields(metadata) if number != MANAGED_FIELDS)
    assert len(kept) < len(metadata)
    return _delimited(0x0A, kept) + b"".join(field for _, field, _ in others)


def digest(pod: bytes) -> str:
    value = 0x811C9DC5
    for byte in pod:
        value = (value ^ byte) * 0x01000193 & 0xFFFF_FFFF
    return f"{len(pod):08x} {value:08x}"


def pod_of(name: str) -> dict[str, Any]:
    """With environment, probes, hooks, volumes of several kinds: more than any decision reads."""
    pod = copy.deepcopy(POD)
    spec = pod["spec"]
    spec["schedulerName"] = "ours"
    del spec["priority"]  # which admission sets
    pod.update(apiVersion="v1", kind="Pod", status={})
    pod["metadata"] = {
        "name": name,
        "labels": pod["metadata"]["labels"],
        "annotations": {"team": "shop"},
        "finalizers": ["example.com/hold"],
    }
    return pod


def test_a_guest_sees_pods_as_the_apiserver_has_them_from_the_list_as_from_the_watch(
    workspace: Workspace, tmp_path: Path
) -> None:
    workspace.create_node("node-0", labels={"disk": "ssd", "zone": "a"})
    guest = tmp_path / "guest.wasm"
    guest.write_bytes(DIGEST)
    claims = f"/api/v1/namespaces/{workspace.namespace}/persistentvolumeclaims"
    workspace.api.create(claims, {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data-web"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "none"},
    })  # fmt: skip
    listed = create(workspace, pod_of("listed"))
    plugins = {
        "multiPoint": {"enabled": [{"name": "Digest"}], "disabled": [{"name": "VolumeBinding"}, {"name": "VolumeZone"}]}
    }
    args = {"guestURL": guest.as_uri(), "deadline": "1s"}
    profile = {
        "schedulerName": "ours",
        "plugins": plugins,
        "pluginConfig": [{"name": "Digest", "args": args}],
    }
    scheduler = KScheduler(workspace.control_plane, configuration={"profiles": [profile]}, name="ours")
    watched = create(workspace, pod_of("watched"))
    for name, pod in (("listed", listed), ("watched", watched)):
        eventually(lambda name=name, pod=pod: digest(pod) in reported(workspace, name), f"{name} is {digest(pod)}")  # type: ignore[misc]
    for recorded in (b"/healthz", b"kube-root-ca.crt", b"status.podIP", b"example.com/hold"):
        assert recorded in listed
        assert recorded in watched
    assert "Traceback" not in scheduler.process.log_text()
    for name in ("listed", "watched"):
        patch = {"metadata": {"finalizers": None}}
        path = f"/api/v1/namespaces/{workspace.namespace}/pods/{name}"
        workspace.api.patch(path, patch, content_type="application/merge-patch+json")


def reported(workspace: Workspace, pod: str) -> str:
    """All that Events say of the pod."""
    events = workspace.api.list_all(f"/apis/events.k8s.io/v1/namespaces/{workspace.namespace}/events")
    return "\n".join(event.get("note", "") for event in events if event["regarding"]["name"] == pod)
