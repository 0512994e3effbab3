"""A wasm plugin by URL that traps, on a real control plane: quarantined, reported, and mended without a restart."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workspace import Workspace
from tests.wasm.hostile_guests import TRAP, batch_guest, extension_guest, scores

PLUGIN, OURS = "GpuPolicy", "with-guest"
FAIL, IGNORE = "fail", "ignore"
WEIGHT = 100  # of the plugin, so that the node it prefers wins

Versions = tuple[bytes, bytes]  # one that traps when it is called, and one that is mended


def batch_versions() -> Versions:
    """The mended one prefers the last of three nodes."""
    return batch_guest(before={"ks_call": TRAP}), batch_guest(scores(0, 0, 100))


def extension_versions() -> Versions:
    """The mended one takes every node."""
    return extension_guest(TRAP, "filter"), extension_guest("", "filter")


class Server:
    """Serves one file, which may change."""

    def __init__(self) -> None:
        self.guest = b""
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = served.guest
                self.send_response(200)
                self.send_header("Content-Type", "application/wasm")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *parts: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/policy.wasm"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


class Scene:
    """A scheduler with two profiles, one of which has the guest, and three nodes."""

    def __init__(self, workspace: Workspace, server: Server, policy: str) -> None:
        self.workspace = workspace
        workspace.create_nodes(3)
        args = {"guestURL": server.url, "failurePolicy": policy, "reloadInterval": "500ms", "deadline": "500ms"}
        profile = {
            "schedulerName": OURS,
            "plugins": {"multiPoint": {"enabled": [{"name": PLUGIN, "weight": WEIGHT}]}},
            "pluginConfig": [{"name": PLUGIN, "args": args}],
        }
        configuration = {"profiles": [profile, {"schedulerName": "default-scheduler"}]}
        self.scheduler = KScheduler(workspace.control_plane, configuration=configuration, name="wasm")
        self._events_before = {event["metadata"]["uid"] for event in self._all_events()}

    def _all_events(self) -> list[Object]:
        return self.workspace.api.list_all("/apis/events.k8s.io/v1/events")

    def notes(self, reason: str, regarding: str) -> list[str]:
        """Notes of Events of this scheduler about the object of that name."""
        return [
            event.get("note", "")
            for event in self._all_events()
            if event["metadata"]["uid"] not in self._events_before
            and (event["reason"], event["regarding"]["name"]) == (reason, regarding)
        ]

    def blames_the_guest(self, pod: str) -> bool:
        """Whether an Event says that the guest is why the pod is not scheduled."""
        reported = self.notes("FailedScheduling", pod)
        return any("unreachable" in note or "quarantined after repeated faults" in note for note in reported)

    def metric(self, name: str, **labels: str) -> float:
        """A sample that has these labels among its own; 0 without one."""
        total = 0.0
        for line in self.scheduler.get("/metrics").splitlines():
            found = re.fullmatch(rf"{name}\{{(?P<labels>.*)\}} (?P<value>\S+)", line)
            if found and labels.items() <= dict(re.findall(r'(\w+)="([^"]*)"', found["labels"])).items():
                total += float(found["value"])
        return total

    def message(self, pod: str) -> str:
        conditions = self.workspace.pod(pod)["status"].get("conditions", [])
        return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")

    def bound(self, *pods: str) -> bool:
        return set(pods) <= set(self.workspace.bindings())

    def check_quarantine(self) -> None:
        """An Event and the metrics say so."""
        eventually(lambda: self.notes("PluginQuarantined", PLUGIN.lower()), "an Event reports the quarantine")
        (note, *_) = self.notes("PluginQuarantined", PLUGIN.lower())
        assert note.startswith(f"plugin {PLUGIN}: ")
        assert "unreachable" in note
        assert self.metric("kscheduler_wasm_faults_total", plugin=PLUGIN, kind="trap") >= 3

    def check_mended(self) -> None:
        """The new version is there, in the same process."""
        eventually(lambda: self.metric("kscheduler_wasm_guest_reloads_total", result="replaced") == 1, "it is replaced")
        eventually(lambda: self.notes("PluginReplaced", PLUGIN.lower()), "an Event reports the new version")
        eventually(lambda: self.metric("kscheduler_wasm_quarantined", plugin=PLUGIN) == 0, "the quarantine is over")
        assert self.scheduler.process.is_running


@pytest.mark.parametrize("versions", [batch_versions, extension_versions], ids=["batch", "extension"])
def test_pods_of_a_quarantined_guest_wait_and_are_bound_when_it_is_mended(
    versions: Callable[[], Versions], workspace: Workspace, server: Server
) -> None:
    server.guest, mended = versions()
    scene = Scene(workspace, server, FAIL)
    pods = [workspace.create_pod(f"waits-{number}", scheduler_name=OURS) for number in range(4)]
    other = workspace.create_pod("other")
    # 1. No other pods are concerned, and its own pods' conditions say why.
    eventually(lambda: scene.bound(other), "a pod of another profile is bound")
    scene.check_quarantine()
    eventually(lambda: all(scene.message(pod) for pod in pods), "the pods have conditions")
    eventually(lambda: all(map(scene.blames_the_guest, pods)), "Events of the pods say why they wait")
    assert not scene.bound(*pods)
    # 2. A version that is no better is refused.
    server.guest += b"\x00\x04\x03new"  # a custom section, so that it is another one
    eventually(lambda: scene.notes("PluginVersionRefused", PLUGIN.lower()), "the bad version is refused")
    assert not any(scene.bound(pod) for pod in pods)
    # 3. A good one is used.
    server.guest = mended
    scene.check_mended()
    eventually(lambda: scene.bound(*pods), "the pods that waited are bound")
    if versions is batch_versions:
        assert {workspace.bindings()[pod] for pod in pods} == {"node-2"}


@pytest.mark.parametrize("versions", [batch_versions, extension_versions], ids=["batch", "extension"])
def test_pods_do_without_a_quarantined_guest_that_may_be_ignored(
    versions: Callable[[], Versions], workspace: Workspace, server: Server
) -> None:
    server.guest, mended = versions()
    scene = Scene(workspace, server, IGNORE)
    pods = [workspace.create_pod(f"pod-{number}", scheduler_name=OURS) for number in range(6)]
    eventually(lambda: scene.bound(*pods), "the pods are bound without it")
    scene.check_quarantine()
    assert not any(scene.notes("FailedScheduling", pod) for pod in pods)
    server.guest = mended
    scene.check_mended()
    faults = scene.metric("kscheduler_wasm_faults_total", plugin=PLUGIN)
    later = [workspace.create_pod(f"later-{number}", scheduler_name=OURS) for number in range(3)]
    eventually(lambda: scene.bound(*later), "pods are bound with it")
    assert scene.metric("kscheduler_wasm_faults_total", plugin=PLUGIN) == faults
