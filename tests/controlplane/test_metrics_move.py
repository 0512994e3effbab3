"""The metric families that only a whole process feeds move while a replica leads, calls a guest and routes pods."""

from __future__ import annotations

import json
import ssl
import urllib.request
from pathlib import Path

import yaml

from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.ports import free_port
from kscheduler.testing.controlplane.workspace import Workspace
from tests.support.moving_families import OF_A_PROCESS, moved
from tests.support.routing import review
from tests.wasm.hostile_guests import TRAP, batch_guest, scores

GUEST = "Policy"


def test_every_family_of_a_process_moves(workspace: Workspace, tmp_path: Path) -> None:
    workspace.create_nodes(3)
    guest = tmp_path / "policy.wasm"
    guest.write_bytes(batch_guest(before={"ks_call": TRAP}))
    port = free_port()
    routing = tmp_path / "routing.yaml"
    pair = workspace.control_plane.authority.server("routing")
    routing.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kscheduler.io/v1alpha1",
                "kind": "RoutingConfiguration",
                "bindAddress": "127.0.0.1",
                "port": port,
                "certFile": str(pair.public),
                "keyFile": str(pair.key),
                "rules": [{"name": "all", "schedulerName": "with-guest"}],
            }
        )
    )
    arguments = {"guestURL": f"file://{guest}", "failurePolicy": "ignore", "reloadInterval": "200ms"}
    profile = {
        "schedulerName": "with-guest",
        "plugins": {"multiPoint": {"enabled": [{"name": GUEST}]}},
        "pluginConfig": [{"name": GUEST, "args": arguments}],
    }
    # A burst of one request, so that the client's own limit makes others wait.
    scheduler = KScheduler(
        workspace.control_plane,
        name="moving",
        configuration={"profiles": [profile, {"schedulerName": "default-scheduler"}]},
        qps=20,
        burst=1,
        leader_elect=True,
        lease={"resourceName": "moving"},
        extra_flags=(f"--routing-config={routing}",),
    )
    found: set[str] = set()
    for number in range(6):
        workspace.create_pod(f"p{number}", scheduler_name="with-guest")
    _route(port, workspace.control_plane.authority.path)

    def missing() -> set[str]:
        found.update(moved("", scheduler.get("/metrics")))
        return set(OF_A_PROCESS) - found

    eventually(lambda: len(workspace.bindings()) == 6, "all pods are bound")
    missing()
    # A guest that traps is called and put under quarantine; one that works keeps its instance.
    guest.write_bytes(batch_guest(scores(0, 0, 100)))
    replaced = f'kscheduler_wasm_guest_reloads_total{{plugin="{GUEST}",result="replaced"}} 1'
    eventually(lambda: replaced in scheduler.get("/metrics"), "the mended guest is loaded")
    workspace.create_pod("later", scheduler_name="with-guest")
    eventually(lambda: not missing(), "every family moves")


def _route(port: int, authority: Path) -> None:
    """Ask the admission webhook about a new pod, as the apiserver does."""
    trusted = ssl.create_default_context(cafile=str(authority))
    request = urllib.request.Request(
        f"https://127.0.0.1:{port}/mutate",
        data=json.dumps(review()).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, context=trusted) as answer:
        assert json.load(answer)["response"]["allowed"]
