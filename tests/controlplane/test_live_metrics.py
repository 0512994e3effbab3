"""Pods are placed by what a real Prometheus says of nodes, and go on being placed when it dies, freezes or lies.

An exporter of the tests' own says how loaded nodes are, Prometheus scrapes it, and kscheduler asks Prometheus.
"""

from __future__ import annotations

import itertools
import json
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from kscheduler.testing.controlplane import Kwok
from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.kwok import ANNOTATION
from kscheduler.testing.controlplane.load_exporter import SERIES, Fault, LoadExporter
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.prometheus import Prometheus
from kscheduler.testing.controlplane.workspace import Workspace
from tests.controlplane.explain_reader import may_explain

MAX_AGE_S = 10  # of samples, in tests that wait until they are too old; in all others they never are
AGING = {"maxAge": f"{MAX_AGE_S}s"}
RECENT_S = 2
IDLE, BUSY = 0.05, 0.9
CLOSED, OPEN = 0, 2  # of a breaker
WEIGHT = 100  # of the policy, so that no other plugin outvotes it
SOURCE: Object = {
    "name": "source",
    "interval": "300ms",
    "timeout": "2s",
    "breaker": {"failures": 2, "openFor": "1s"},
}
# Prometheus hands out a value for five minutes after its sample was taken, as if it were of now.
RECENT = f"{SERIES} and timestamp({SERIES}) > time() - {RECENT_S}"


def configuration(source: Object, metric: Object, **rule: object) -> dict[str, Any]:
    """One policy for all pods: the less of a node's CPU is used the better, from 0 to 1."""
    score = {
        "metric": "cpu",
        "goal": "Minimize",
        "range": {"min": 0, "max": 1},
        "freshness": {"maxAge": "1h"},
        "selfLoad": {"resource": "cpu"},
        **rule,
    }
    args = {
        "sources": [{**SOURCE, **source}],
        "metrics": [{"name": "cpu", "source": "source", "clamp": {"min": 0}, **metric}],
        "defaultPolicy": "load",
        "policies": [{"name": "load", "score": [score]}],
    }
    profile = {
        "plugins": {"multiPoint": {"enabled": [{"name": "MetricPolicy", "weight": WEIGHT}]}},
        "pluginConfig": [{"name": "MetricPolicy", "args": args}],
    }
    return {"profiles": [profile]}


class Scene:
    """Nodes with loads, and a scheduler that goes by them."""

    def __init__(self, workspace: Workspace, exporter: LoadExporter) -> None:
        self.workspace = workspace
        self.exporter = exporter
        self.scheduler: KScheduler | None = None
        self._numbers = itertools.count()

    def create_nodes(self, **base: float) -> None:
        """Nodes with an idle kubelet of KWOK, and what else uses their CPU, as a share of it."""
        self.exporter.base = base
        for name in base:
            self.workspace.create_node(name, annotations=ANNOTATION)

    def start(self, document: dict[str, Any]) -> KScheduler:
        self.scheduler = KScheduler(self.workspace.control_plane, name="live", configuration=document)
        return self.scheduler

    def place(self, count: int) -> dict[str, int]:
        """Create pods and wait until they are bound. Node -> how many of them it got."""
        names = {self.workspace.create_pod(f"pod-{next(self._numbers)}") for _ in range(count)}
        eventually(lambda: names <= set(self.workspace.bindings()), f"{count} pods are bound")
        bound = [node for pod, node in self.workspace.bindings().items() if pod in names]
        return {node: bound.count(node) for node in sorted(set(bound))}

    def wait_for_pods_on(self, *nodes: str) -> None:
        """Create pods one by one until one goes there: what metrics say is used for decisions a moment later."""
        eventually(lambda: set(self.place(1)) <= set(nodes), f"pods go to {', '.join(nodes)}")

    def metric(self, name: str, **labels: str) -> float:
        """A sample of the scheduler's own metrics that has these labels; 0 without one."""
        assert self.scheduler is not None
        total = 0.0
        for line in self.scheduler.get("/metrics").splitlines():
            found = re.fullmatch(rf"{name}\{{(?P<labels>.*)\}} (?P<value>\S+)", line)
            if found and labels.items() <= dict(re.findall(r'(\w+)="([^"]*)"', found["labels"])).items():
                total += float(found["value"])
        return total

    def nodes(self, state: str) -> float:
        return self.metric("kscheduler_metric_nodes", metric="cpu", state=state)

    def wait_for_fresh(self, count: int) -> None:
        eventually(lambda: self.nodes("fresh") == count, f"values of {count} nodes are fresh")

    @property
    def log(self) -> str:
        assert self.scheduler is not None
        return self.scheduler.process.log_text()


@pytest.fixture
def scene(workspace: Workspace) -> Iterator[Scene]:
    Kwok(workspace.control_plane)
    with LoadExporter(workspace.control_plane.credentials) as exporter:
        yield Scene(workspace, exporter)


@pytest.fixture
def prometheus(scene: Scene) -> Iterator[Prometheus]:
    started = Prometheus(scene.workspace.control_plane, [scene.exporter.address])
    yield started
    started.close()


def start(scene: Scene, prometheus: Prometheus, query: str = SERIES, **rule: object) -> KScheduler:
    return scene.start(configuration({"prometheus": {"url": prometheus.url}}, {"query": query}, **rule))


def test_pods_go_to_the_idle_nodes_whichever_those_are_now(scene: Scene, prometheus: Prometheus) -> None:
    scene.create_nodes(a=IDLE, b=BUSY, c=IDLE, d=BUSY)
    start(scene, prometheus)
    scene.wait_for_fresh(4)
    assert scene.place(8) == {"a": 4, "c": 4}
    # What pods use is in the samples by now, so only the other loads have to turn over.
    scene.exporter.base = {"a": BUSY, "b": IDLE, "c": BUSY, "d": IDLE}
    scene.wait_for_pods_on("b", "d")
    assert set(scene.place(8)) == {"b", "d"}
    assert scene.metric("kscheduler_metric_source_breaker_state", source="source") == CLOSED
    assert scene.metric("kscheduler_metric_source_requests_total", result="error") == 0
    assert scene.metric("kscheduler_metric_policy_fallbacks_total") == 0


@pytest.mark.parametrize("fault", ["killed", "frozen"])
def test_without_prometheus_pods_are_placed_as_without_metrics_until_it_is_back(
    scene: Scene, prometheus: Prometheus, fault: str
) -> None:
    """Killed it refuses connections; frozen it accepts them and never answers."""
    scene.create_nodes(a=IDLE, b=BUSY)
    start(scene, prometheus, freshness=AGING)
    scene.wait_for_fresh(2)
    assert scene.place(4) == {"a": 4}
    # 1. It fails: the last values count until they are too old, and then none does.
    prometheus.kill() if fault == "killed" else prometheus.freeze()
    placed = scene.place(2)
    assert placed == {"a": 2} or scene.nodes("fresh") < 2, "on a slow machine they may be too old already"
    eventually(lambda: scene.nodes("stale") == 2, "its values are too old")
    # Both nodes have neutral points now, and the other one has fewer pods.
    scene.wait_for_pods_on("b")
    assert scene.place(4) == {"b": 4}
    assert scene.metric("kscheduler_metric_policy_fallbacks_total", policy="load", fallback="neutral") > 0
    eventually(lambda: scene.metric("kscheduler_metric_source_breaker_state") == OPEN, "it is left alone")
    assert scene.metric("kscheduler_metric_source_consecutive_failures") >= 2
    assert scene.metric("kscheduler_metric_sample_age_seconds", metric="cpu") > MAX_AGE_S
    # 2. It is back: nobody has to do anything.
    prometheus.start() if fault == "killed" else prometheus.thaw()
    scene.wait_for_fresh(2)
    scene.wait_for_pods_on("a")
    assert scene.place(4) == {"a": 4}
    assert scene.metric("kscheduler_metric_source_breaker_state") == CLOSED
    assert scene.metric("kscheduler_metric_source_consecutive_failures") == 0
    assert scene.log.count("metric source is left alone") == 1
    assert scene.log.count("metric source answers again") == 1


def test_a_prometheus_that_comes_later_is_found(scene: Scene, prometheus: Prometheus) -> None:
    prometheus.kill()
    scene.create_nodes(a=BUSY, b=IDLE)
    start(scene, prometheus)
    assert scene.place(4) == {"a": 2, "b": 2}
    assert scene.nodes("absent") == 2
    prometheus.start()
    scene.wait_for_fresh(2)
    scene.wait_for_pods_on("b")
    assert scene.place(4) == {"b": 4}


@pytest.mark.parametrize("fault", [Fault.NAN, Fault.STALE, Fault.DUPLICATE, Fault.ABSENT])
def test_a_node_whose_series_is_spoiled_counts_as_not_measured_until_it_is_mended(
    scene: Scene, prometheus: Prometheus, fault: Fault
) -> None:
    """A node that seems idle is not trusted: it gets neutral points, which a node with little load exceeds."""
    scene.create_nodes(liar=IDLE, honest=0.3)
    start(scene, prometheus, RECENT, freshness=AGING)
    scene.wait_for_fresh(2)
    assert scene.place(2) == {"liar": 2}
    scene.exporter.faults = {"liar": fault}
    scene.wait_for_fresh(1)
    scene.wait_for_pods_on("honest")
    assert scene.place(2) == {"honest": 2}
    assert scene.metric("kscheduler_metric_policy_fallbacks_total", fallback="neutral") > 0
    if fault in (Fault.NAN, Fault.DUPLICATE):
        assert scene.metric("kscheduler_metric_samples_refused_total", reason=fault.value) > 0
        assert scene.log.count("samples of a metric are refused") == 1
    assert scene.metric("kscheduler_metric_source_breaker_state") == CLOSED, "the other nodes are still measured"
    scene.exporter.faults = {}
    scene.wait_for_fresh(2)
    scene.wait_for_pods_on("liar")
    assert scene.place(2) == {"liar": 2}


def test_a_node_without_a_value_may_be_left_out(scene: Scene, prometheus: Prometheus) -> None:
    scene.create_nodes(liar=IDLE, honest=BUSY)
    scene.exporter.faults = {"liar": Fault.NAN}
    start(scene, prometheus, fallback="Exclude")
    scene.wait_for_fresh(1)
    assert scene.place(3) == {"honest": 3}
    assert scene.metric("kscheduler_metric_policy_fallbacks_total", fallback="exclude") > 0


def test_a_negative_load_counts_as_none_and_does_not_draw_all_pods(scene: Scene, prometheus: Prometheus) -> None:
    """It is clamped, so that what pods add to it counts from the first on."""
    scene.create_nodes(liar=BUSY, honest=0.0)
    scene.exporter.faults = {"liar": Fault.NEGATIVE}
    start(scene, prometheus)
    scene.wait_for_fresh(2)
    assert scene.place(8) == {"honest": 4, "liar": 4}


def test_a_series_that_ends_for_all_nodes_is_logged_and_pods_are_placed_nevertheless(
    scene: Scene, prometheus: Prometheus
) -> None:
    scene.create_nodes(a=IDLE, b=BUSY)
    start(scene, prometheus, freshness=AGING)
    scene.wait_for_fresh(2)
    scene.exporter.faults = dict.fromkeys("ab", Fault.ABSENT)
    scene.wait_for_fresh(0)
    scene.wait_for_pods_on("b")
    eventually(lambda: "metric is not answered" in scene.log, "the log says so")
    scene.exporter.faults = {}
    scene.wait_for_fresh(2)
    eventually(lambda: "metric is answered again" in scene.log, "the log says so")
    scene.wait_for_pods_on("a")
    assert scene.place(2) == {"a": 2}


# --- a change of leader ---


def test_a_new_leader_gives_nodes_the_points_that_the_old_one_gave_them(scene: Scene, prometheus: Prometheus) -> None:
    """Six pods between two samples, and SIGTERM. The probes request nothing, so they leave nothing to remember."""
    workspace = scene.workspace
    scene.create_nodes(a=0.1, b=0.2)
    source = {"prometheus": {"url": prometheus.url}, "interval": "1h"}
    document = configuration(source, {"query": SERIES}, freshness={"maxAge": "1h"})
    token = may_explain(workspace, "reader")
    numbers = itertools.count()

    def start(name: str) -> KScheduler:
        """A replica that has its only sample."""
        lease = {"leaseDuration": "3600s", "renewDeadline": "2400s", "retryPeriod": "1s"}
        scene.scheduler = KScheduler(
            workspace.control_plane, name=name, configuration=document, leader_elect=True, lease=lease
        )
        scene.wait_for_fresh(2)
        return scene.scheduler

    def explained(replica: KScheduler) -> dict[str, int]:
        """What the policy gives each node for a pod that asks for nothing; not all pods' details are kept."""
        probe = workspace.create_pod(f"probe-{next(numbers)}", requests={})
        eventually(lambda: probe in workspace.bindings(), f"{probe} is bound")
        found = json.loads(replica.get(f"/debug/kscheduler/explain?pod={workspace.namespace}/{probe}", token))
        nodes = found["decisions"][0]["bestNodes"]
        return {
            node["node"]: score["raw"]
            for node in nodes
            for score in node["plugins"]
            if score["plugin"] == "MetricPolicy"
        }

    def points(replica: KScheduler) -> dict[str, int]:
        found: list[dict[str, int]] = [{}]

        def is_explained() -> bool:
            found.append(explained(replica))
            return bool(found[-1])

        eventually(is_explained, "the details of a decision are kept")
        return found[-1]

    eventually(lambda: prometheus.ask(SERIES) == {"a": 0.1, "b": 0.2}, "both nodes are measured")
    old = start("old")
    eventually(lambda: "scheduling starts" in old.process.log_text(), "the first replica leads")
    new = start("new")
    assert scene.place(6)["a"] >= 4
    before = points(old)
    old.process.signal(signal.SIGTERM)
    assert old.process.wait() == 0
    eventually(lambda: "scheduling starts" in new.process.log_text(), "the standby leads")
    assert points(new) == before
    assert before["a"] <= 80, "the pods count"


# --- through the apiserver ---


@pytest.fixture
def aggregated(workspace: Workspace) -> Iterator[Scene]:
    """The apiserver asks the exporter for metrics.k8s.io and custom.metrics.k8s.io.

    The Service is an external name, since nothing here gives Services addresses, and a loopback address is not allowed
    as an endpoint.
    """
    Kwok(workspace.control_plane)
    tls = workspace.control_plane.authority.server("metrics")
    with LoadExporter(workspace.control_plane.credentials, tls=tls) as exporter:
        api = workspace.api
        service = {"metadata": {"name": "metrics"}, "spec": {"type": "ExternalName", "externalName": "localhost"}}
        api.create(f"/api/v1/namespaces/{workspace.namespace}/services", service)
        names = [_register(workspace, exporter, *each) for each in (("metrics.k8s.io", "v1beta1"), (CUSTOM, "v1beta2"))]
        try:
            yield Scene(workspace, exporter)
        finally:
            for name in names:
                api.delete(f"{API_SERVICES}/{name}")


API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
CUSTOM = "custom.metrics.k8s.io"


def _register(workspace: Workspace, exporter: LoadExporter, group: str, version: str) -> str:
    name = f"{version}.{group}"
    spec = {
        "group": group,
        "version": version,
        "service": {"namespace": workspace.namespace, "name": "metrics", "port": exporter.tls_port},
        "insecureSkipTLSVerify": True,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
    }
    workspace.api.create(API_SERVICES, {"metadata": {"name": name}, "spec": spec})

    def is_available() -> bool:
        conditions = workspace.api.get(f"{API_SERVICES}/{name}").get("status", {}).get("conditions", [])
        return any((each["type"], each["status"]) == ("Available", "True") for each in conditions)

    eventually(is_available, f"{name} is available")
    return name


@pytest.mark.parametrize(
    ("source", "metric"),
    [({"resourceMetrics": {}}, {"resource": "cpu"}), ({"customMetrics": {}}, {"metric": SERIES})],
    ids=["metrics.k8s.io", CUSTOM],
)
def test_metrics_are_read_through_the_apiserver(aggregated: Scene, source: Object, metric: Object) -> None:
    aggregated.create_nodes(a=BUSY, b=IDLE)
    aggregated.start(configuration(source, metric))
    aggregated.wait_for_fresh(2)
    assert aggregated.place(4) == {"b": 4}
