"""A sweep runs as an Indexed Job on a real control plane, and its results are those of this machine.

The Job controller is kube-controller-manager's. The test plays the kubelet: it mounts the ConfigMaps, runs the
container's command as a process, reports its end, and serves its log where the apiserver asks for it.
"""

from __future__ import annotations

import base64
import http.server
import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kscheduler.sweep import sweep
from kscheduler.sweep.results import RESULTS, Results
from kscheduler.testing.controlplane.controllermanager import ControllerManager
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workspace import Workspace
from tests.sweep.grids import traced

INDEXES = 3
NODE = "kubelet-0"


class Kubelet:
    """Plays one node's kubelet for pods with one container and one volume of ConfigMaps."""

    def __init__(self, workspace: Workspace, directory: Path) -> None:
        self._workspace = workspace
        self._directory = directory
        self.logs: dict[str, bytes] = {}  # pod -> what it printed

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve logs as a kubelet does, and create the node that says where."""
        kubelet = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                _, kind, _, pod, *_ = self.path.partition("?")[0].split("/")
                content = kubelet.logs.get(pod) if kind == "containerLogs" else None
                self.send_response(404 if content is None else 200)
                self.send_header("Content-Type", "text/plain")
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        serving = self._workspace.control_plane.authority.server("kubelet")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(serving.public, serving.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            self._create_node(server.server_address[1])
            yield
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def run(self, pod: dict[str, Any]) -> None:
        """Bind the pod, run its container to its end, and report that."""
        api, name = self._workspace.api, pod["metadata"]["name"]
        path = f"/api/v1/namespaces/{self._workspace.namespace}/pods/{name}"
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        api.create(f"{path}/binding", {"metadata": {"name": name}, "target": target})
        (container,) = pod["spec"]["containers"]
        (volume,) = (each for each in pod["spec"]["volumes"] if "projected" in each)
        (mount,) = (each for each in container["volumeMounts"] if each["name"] == volume["name"])
        mounted = self._mounted(volume, self._directory / name)
        program, *arguments = [word.replace(mount["mountPath"], str(mounted)) for word in container["command"]]
        assert program == "kscheduler"
        done = subprocess.run(
            [sys.executable, "-m", "kscheduler", *arguments],
            env={**os.environ, **self._environment(pod, container)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        self.logs[name] = done.stdout
        ended = {"exitCode": done.returncode, "finishedAt": "2026-01-01T00:00:01Z", "startedAt": "2026-01-01T00:00:00Z"}
        status = {
            "phase": "Succeeded" if done.returncode == 0 else "Failed",
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "",
                    "ready": False,
                    "restartCount": 0,
                    "state": {"terminated": ended},
                }
            ],
        }
        api.patch(f"{path}/status", {"status": status})

    def _environment(self, pod: dict[str, Any], container: dict[str, Any]) -> dict[str, str]:
        """Return the container's variables; those of the Job controller come from the pod's labels."""
        found = {}
        for variable in container.get("env", ()):
            field = variable["valueFrom"]["fieldRef"]["fieldPath"]
            kind, _, key = field.removeprefix("metadata.").partition("[")
            found[variable["name"]] = pod["metadata"][kind][key.strip("']")]
        return found

    def _mounted(self, volume: dict[str, Any], directory: Path) -> Path:
        directory.mkdir()
        for source in volume["projected"]["sources"]:
            path = f"/api/v1/namespaces/{self._workspace.namespace}/configmaps/{source['configMap']['name']}"
            for name, content in self._workspace.api.get(path)["binaryData"].items():
                (directory / name).write_bytes(base64.b64decode(content))
        return directory

    def _create_node(self, port: int) -> None:
        api = self._workspace.api
        self._workspace.create_node(NODE)
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        api.patch(f"/api/v1/nodes/{NODE}/status", {"status": status})


def test_a_sweep_as_a_job_has_the_results_of_this_machine(workspace: Workspace, tmp_path: Path) -> None:
    control_plane, namespace = workspace.control_plane, workspace.namespace
    control_plane.service_account_token(namespace, "default")  # makes the account, as a controller would
    grid, out = tmp_path / "grid.yaml", tmp_path / "out"
    # JSON is YAML, too.
    grid.write_text(json.dumps(traced(tmp_path)))
    flags = ("--job-name", "trial", "-n", namespace, "--kubeconfig", str(control_plane.admin_kubeconfig))
    # 1. The Job and its ConfigMaps, created with a kubeconfig.
    printed = ran(
        str(grid), "--seeds", "1..4", "--jobs", str(INDEXES), "--on", "job", "--apply", "--out", str(out), *flags
    )
    assert f"created job.batch/trial in namespace {namespace}" in printed
    job_path = f"/apis/batch/v1/namespaces/{namespace}/jobs/trial"
    (config_map,) = (
        each
        for each in workspace.api.list_all(f"/api/v1/namespaces/{namespace}/configmaps")
        if each["metadata"]["name"].startswith("trial-")
    )
    assert config_map["metadata"]["ownerReferences"][0]["name"] == "trial"
    # 2. Its pods, made by the Job controller and run here.
    kubelet = Kubelet(workspace, tmp_path)
    with kubelet.serving():
        controllers = ControllerManager(control_plane, ["job-controller"])
        eventually(lambda: len(workspace.pods()) == INDEXES, "the Job controller has made the pods")
        for pod in workspace.pods():
            kubelet.run(pod)
        eventually(lambda: "Complete" in conditions(workspace.api.get(job_path)), "the Job is complete")
        assert workspace.api.get(job_path)["status"]["completedIndexes"] == f"0-{INDEXES - 1}"
        # 3. The results, from the pods' logs.
        printed = ran("collect", "--out", str(out), *flags)
        controllers.stop()
    assert "8 of 8 runs finished" in printed
    here = list(sweep(str(grid), seeds=range(1, 5)))
    with Results(str(out)) as results:
        assert list(results.by_key.values()) == here
    assert not any(result.error for result in here)
    assert (out / RESULTS).read_bytes().count(b"\n") == len(here)
    workspace.api.delete(job_path)


def ran(*flags: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kscheduler", "sweep", *flags], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def conditions(job: dict[str, Any]) -> list[str]:
    return [each["type"] for each in job["status"].get("conditions", ()) if each["status"] == "True"]
