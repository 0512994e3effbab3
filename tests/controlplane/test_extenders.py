"""One extender, asked by kube-scheduler and by kscheduler about the same pods: the same questions, the same outcome."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kscheduler.testing.controlplane import ControlPlane, KubeScheduler
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.scheduler_process import SchedulerProcess
from kscheduler.testing.controlplane.workspace import Workspace

GPU = "example.com/gpu"
# Pod name without its side -> the value of its label `answer`, which says what the extender is to answer.
ANSWERS = {"ssd": "ssd", "best": "any", "nothing": "tape", "broken": "error", "status": "500"}
PLACED = ("ssd", "best")
# A value with which the extender fails -> its answer, and the message in the pod's condition.
JSON_HEAD = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n"
UNKNOWN = b'{"Nodes": {"items": [{"metadata": {"name": "ghost"}}]}}'
BROKEN: dict[str, tuple[bytes, str]] = {
    "status": (
        b"HTTP/1.0 500 Internal Server Error\r\n\r\n",
        "failed filter with extender at URL {url}/filter, code 500",
    ),
    "unknown": (JSON_HEAD + b"\r\n" + UNKNOWN, 'claims a filtered node "ghost" which is not found'),
    "malformed": (JSON_HEAD + b"\r\n<html>", "{url}/filter: expected an ExtenderFilterResult as JSON"),
    "large": (JSON_HEAD + b"\r\n" + b" " * (10 << 20), "{url}/filter: expected an answer of at most"),
    "dies": (JSON_HEAD + b"Content-Length: 1000\r\n\r\n{", "extender at URL {url}/filter: "),
    "hangs": (b"", "{url}/filter: no answer within 2 s"),
}


class RecordingExtender:
    """Filters by the nodes' label `disk`, prefers node-3, binds; and writes down what it was asked."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.questions: list[tuple[str, dict[str, Any]]] = []  # (verb, question)
        self.release = threading.Event()  # ends the requests of pods labelled `wait` and `hangs`
        self.is_mended = False
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, found = answer(self.path.rpartition("/")[2], question)
                if isinstance(found, bytes):
                    with contextlib.suppress(OSError):  # nobody reads it to its end
                        self.wfile.write(found)
                    return
                body = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *parts: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/scheduler"

    def close(self) -> None:
        self.release.set()
        self.server.shutdown()
        self.server.server_close()

    def _answer(self, verb: str, question: dict[str, Any]) -> tuple[int, Any]:
        self.questions.append((verb, question))
        answers: dict[str, Callable[[dict[str, Any]], tuple[int, Any]]] = {
            "filter": self._filter,
            "prioritize": self._prioritize,
            "bind": self._bind,
        }
        return answers[verb](question)

    def _filter(self, question: dict[str, Any]) -> tuple[int, Any]:
        wanted = question["Pod"]["metadata"]["labels"]["answer"]
        if wanted == "wait":
            self.release.wait(60.0)
            wanted = "any"
        if wanted in BROKEN and self.is_mended:
            wanted = "any"
        if wanted in BROKEN:
            self.release.wait(60.0 if wanted == "hangs" else 0.0)
            return 0, BROKEN[wanted][0]
        if wanted == "500":
            return 500, {}
        if wanted == "error":
            return 200, {"Error": "the extender is out of order"}
        nodes = question["Nodes"]["items"]
        left = [node for node in nodes if wanted in ("any", node["metadata"]["labels"]["disk"])]
        failed = {node["metadata"]["name"]: f"no {wanted} here" for node in nodes if node not in left}
        return 200, {"Nodes": {"items": left}, "FailedNodes": failed}

    def _prioritize(self, question: dict[str, Any]) -> tuple[int, Any]:
        return 200, [{"Host": "node-3", "Score": 10}]

    def _bind(self, question: dict[str, Any]) -> tuple[int, Any]:
        name, namespace = question["PodName"], question["PodNamespace"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "uid": question["PodUID"]},
            "target": {"kind": "Node", "name": question["Node"]},
        }
        self._workspace.api.create(f"/api/v1/namespaces/{namespace}/pods/{name}/binding", binding)
        return 200, {}

    def asked_about(self, verb: str, pod: str) -> dict[str, Any]:
        """The first question of this kind about the pod."""
        for found, question in self.questions:
            if found == verb and question["Pod"]["metadata"]["name"] == pod:
                return question
        raise AssertionError(f"{verb} was not asked about {pod}")


@pytest.fixture
def extender(workspace: Workspace) -> Iterator[RecordingExtender]:
    made = RecordingExtender(workspace)
    yield made
    made.close()


def start(
    side: str, make: Callable[..., SchedulerProcess], control_plane: ControlPlane, url: str, timeout: str = "60s"
) -> SchedulerProcess:
    settings = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "bindVerb": "bind",
        "weight": 100,
        "httpTimeout": timeout,
        "managedResources": [{"name": GPU, "ignoredByScheduler": True}],
    }
    configuration = {"profiles": [{"schedulerName": side}], "extenders": [settings]}
    return make(control_plane, configuration=configuration, name=side)


def message(workspace: Workspace, pod: str) -> str:
    conditions = workspace.pod(pod)["status"].get("conditions", [])
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")


def shown_nodes(question: dict[str, Any]) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = sorted(question["Nodes"]["items"], key=lambda node: str(node["metadata"]["name"]))
    for node in nodes:
        node["metadata"].pop("managedFields", None)  # which say who wrote what, when
        node["metadata"].pop("resourceVersion")
    return nodes


def shown_pod(question: dict[str, Any]) -> dict[str, Any]:
    """Without what differs from pod to pod."""
    pod = question["Pod"]
    for part in ("schedulerName", "volumes"):
        pod["spec"].pop(part, None)
    for container in pod["spec"]["containers"]:
        container.pop("volumeMounts", None)
    metadata = {key: pod["metadata"].get(key) for key in ("labels", "namespace", "generation")}
    status = {key: value for key, value in pod["status"].items() if key != "conditions"}
    return {"spec": pod["spec"], "metadata": metadata, "status": status, "parts": set(pod)}


def test_both_schedulers_ask_the_same_questions_and_come_to_the_same_outcomes(
    workspace: Workspace, extender: RecordingExtender
) -> None:
    for index in range(4):
        workspace.create_node(f"node-{index}", labels={"disk": "ssd" if index in (1, 3) else "hdd"})
    outcomes: dict[str, dict[str, str]] = {}  # side -> pod -> node, or what its condition says
    makers: dict[str, Callable[..., SchedulerProcess]] = {"kube": KubeScheduler, "ours": KScheduler}
    for side, make in makers.items():
        scheduler = start(side, make, workspace.control_plane, extender.url)
        for name, wanted in ANSWERS.items():
            requests = {"cpu": "100m", "memory": "64Mi", GPU: "1"}
            workspace.create_pod(f"{side}-{name}", requests=requests, labels={"answer": wanted}, scheduler_name=side)
        workspace.create_pod(f"{side}-plain", scheduler_name=side)
        placed = [f"{side}-{name}" for name in (*PLACED, "plain")]
        refused = [f"{side}-{name}" for name in ANSWERS if name not in PLACED]
        eventually(lambda names=placed: set(names) <= set(workspace.bindings()), f"{side} binds")  # type: ignore[misc]
        eventually(lambda names=refused: all(message(workspace, name) for name in names), f"{side} says why")  # type: ignore[misc]
        scheduler.stop()
        bound = workspace.bindings()
        outcomes[side] = {name: bound.get(f"{side}-{name}", message(workspace, f"{side}-{name}")) for name in ANSWERS}

    # 1. What became of the pods.
    assert outcomes["ours"] == outcomes["kube"]
    assert (outcomes["ours"]["ssd"], outcomes["ours"]["best"]) == ("node-3", "node-3")
    assert outcomes["ours"]["nothing"].startswith("0/4 nodes are available: 4 no tape here.")
    assert outcomes["ours"]["broken"] == "the extender is out of order"
    # 2. What was asked.
    for name in ("ssd", "best", "nothing"):
        kube, ours = (extender.asked_about("filter", f"{side}-{name}") for side in makers)
        assert set(kube) == set(ours)
        assert shown_pod(ours) == shown_pod(kube)
        assert shown_nodes(ours) == shown_nodes(kube)
    # 3. Who was bound by it, and who was not its business.
    bindings = [question for verb, question in extender.questions if verb == "bind"]
    expected = [f"{side}-{name}" for side in makers for name in PLACED]
    assert sorted(question["PodName"] for question in bindings) == sorted(expected)
    assert {frozenset(question) for question in bindings} == {frozenset(("PodName", "PodNamespace", "PodUID", "Node"))}


def test_other_pods_are_bound_while_an_extender_hangs(workspace: Workspace, extender: RecordingExtender) -> None:
    workspace.create_nodes(2, labels={"disk": "ssd"})
    scheduler = start("ours", KScheduler, workspace.control_plane, extender.url)
    workspace.create_pod("held", requests={"cpu": "100m", GPU: "1"}, labels={"answer": "wait"}, scheduler_name="ours")
    eventually(lambda: extender.questions, "the extender is asked")
    workspace.create_pods(20, scheduler_name="ours")
    eventually(lambda: len(workspace.bindings()) == 20, "the others are bound")
    assert "held" not in workspace.bindings()
    extender.release.set()
    eventually(lambda: "held" in workspace.bindings(), "the extender's pod is bound, too")
    metrics = scheduler.get("/metrics")
    asked = f'kscheduler_extender_requests_total{{extender="{extender.url}",result="success",verb="filter"}}'
    assert f"{asked} 1" in metrics


@pytest.mark.slow
def test_each_way_to_fail_is_recorded_on_its_pod_which_is_bound_when_the_extender_is_mended(
    workspace: Workspace, extender: RecordingExtender
) -> None:
    workspace.create_nodes(4, labels={"disk": "ssd"})
    scheduler = start("ours", KScheduler, workspace.control_plane, extender.url, timeout="2s")
    requests = {"cpu": "100m", GPU: "1"}
    for wanted in BROKEN:
        workspace.create_pod(wanted, requests=requests, labels={"answer": wanted}, scheduler_name="ours")
    for wanted, (_, reported) in BROKEN.items():
        expected = reported.format(url=extender.url)
        eventually(lambda name=wanted, text=expected: text in message(workspace, name), f"{wanted}: {expected}")  # type: ignore[misc]
    assert not workspace.bindings()
    extender.is_mended = True
    extender.release.set()
    eventually(lambda: len(workspace.bindings()) == len(BROKEN), "all are bound")
    assert "Traceback" not in scheduler.process.log_text()
