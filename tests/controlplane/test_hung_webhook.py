"""An admission webhook for bindings that takes connections and never answers, on a real apiserver.

The apiserver gives it up after the longest time that a webhook may be given. Until then nobody knows of the binding.
"""

from __future__ import annotations

import base64
import http.server
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kscheduler.testing.controlplane import verify
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workspace import Workspace

pytestmark = pytest.mark.slow

LONGEST_S = 30  # timeoutSeconds of a webhook
PATH = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
HELD, FREE = "held", "free"


class Hanging(http.server.ThreadingHTTPServer):
    """Reads requests over TLS, and answers none of them."""

    daemon_threads = True

    def __init__(self) -> None:
        self.is_over = threading.Event()
        super().__init__(("127.0.0.1", 0), _NoAnswer)


class _NoAnswer(http.server.BaseHTTPRequestHandler):
    server: Hanging

    def do_POST(self) -> None:
        self.close_connection = True
        self.server.is_over.wait()


@pytest.fixture
def webhook(workspace: Workspace) -> Iterator[str]:
    """Its configuration's path: it holds up the bindings of pods whose names begin with HELD."""
    authority = workspace.control_plane.authority
    pair = authority.server("hung")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.public, pair.key)
    with Hanging() as hanging:
        hanging.socket = tls.wrap_socket(hanging.socket, server_side=True)
        threading.Thread(target=hanging.serve_forever, daemon=True).start()
        client_config = {
            "url": f"https://127.0.0.1:{hanging.server_address[1]}/",
            "caBundle": base64.b64encode(authority.path.read_bytes()).decode(),
        }
        document: dict[str, Any] = {
            "metadata": {"name": "hung"},
            "webhooks": [
                {
                    "name": "hung.example.com",
                    "clientConfig": client_config,
                    "rules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "resources": ["pods/binding"],
                            "operations": ["CREATE"],
                        }
                    ],
                    "matchConditions": [{"name": "held", "expression": f"request.name.startsWith('{HELD}')"}],
                    "failurePolicy": "Fail",
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "timeoutSeconds": LONGEST_S,
                }
            ],
        }
        workspace.api.create(PATH, document)
        try:
            yield f"{PATH}/hung"
        finally:
            workspace.api.delete(PATH)
            hanging.is_over.set()
            hanging.shutdown()


def message(workspace: Workspace, name: str) -> str:
    conditions = workspace.pod(name)["status"].get("conditions", [])
    return next((str(each.get("message", "")) for each in conditions if each["type"] == "PodScheduled"), "")


def test_pods_whose_bindings_a_webhook_holds_up_say_so_stop_no_others_and_are_bound_once_it_is_gone(
    workspace: Workspace, webhook: str
) -> None:
    held = [f"{HELD}-{index}" for index in range(3)]
    workspace.create_nodes(2)
    KScheduler(workspace.control_plane)
    for name in held:
        workspace.create_pod(name)
    for index in range(20):
        workspace.create_pod(f"{FREE}-{index}")
    eventually(lambda: len(workspace.bindings()) == 20, "the other pods are bound")
    eventually(
        lambda: all("failed calling webhook" in message(workspace, name) for name in held),
        "the pods name the webhook",
        state=lambda: [message(workspace, name) for name in held],
    )
    assert not set(held) & set(workspace.bindings())
    workspace.api.delete(webhook)
    eventually(lambda: set(held) <= set(workspace.bindings()), "they are bound")
    eventually(lambda: not verify(workspace.api, workspace.namespace).problems, "each bound once, with its Event")
