"""Exports the load of nodes without kubelets to Prometheus: a base load set by the test, plus the bound pods' requests.

    with LoadExporter(control_plane.credentials) as exporter:
        exporter.base = {"node-0": 0.8, "node-1": 0.1}  # shares of a node's CPU
        Prometheus(control_plane, [exporter.address])

Bound pods are followed by a watch, so that placements show in the next sample, as they would in production.
The exported value of single nodes can be made wrong (`Fault`). The same loads are also served as metrics.k8s.io and
custom.metrics.k8s.io over TLS, for an apiserver that is configured to proxy these APIs to this server.
"""

from __future__ import annotations

import asyncio
import enum
import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping

from aiohttp import web

from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.certificates import KeyPair
from kscheduler.testing.controlplane.kubeconfig import Credentials
from kscheduler.testing.controlplane.mirror import Mirror
from kscheduler.testing.controlplane.patience import eventually

NODE_CORES = 4.0
STALE_S = 60.0  # age of the samples of a stale node; a query of Prometheus still returns them
SERIES = "node_cpu_share"


class Fault(enum.Enum):
    """The ways in which a node's exported value can be wrong."""

    NAN = "nan"
    NEGATIVE = "negative"
    STALE = "stale"  # a sample with a timestamp of a minute ago
    DUPLICATE = "duplicate"  # two series with contradicting values
    ABSENT = "absent"


class LoadExporter:
    """An HTTP server on loopback, which runs in a thread from `__enter__` to `__exit__`."""

    def __init__(
        self, credentials: Credentials, *, cores: float = NODE_CORES, used: float = 1.0, tls: KeyPair | None = None
    ) -> None:
        """Create an exporter. `cores`: each node's CPUs; `used`: the share of their requests that pods really use.

        `tls`: if given, the metrics APIs are served with this certificate.
        """
        self.base: Mapping[str, float] = {}  # node -> share of its CPU that is used by other things than pods
        self.faults: Mapping[str, Fault] = {}  # node -> how its line is wrong
        self._cores = cores
        self._used = used
        self._tls = tls
        self._pods = Mirror(credentials, "/api/v1/pods", threading.Condition())
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="load-exporter", daemon=True)
        self._serving = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None  # of the thread
        self._ending: asyncio.Event | None = None
        self._ports: list[int] = []

    def __enter__(self) -> LoadExporter:
        self._pods.__enter__()
        self._thread.start()
        eventually(self._serving.is_set, "the load exporter serves")
        return self

    def __exit__(self, *error: object) -> None:
        if self._loop is not None and self._ending is not None:
            self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        self._pods.__exit__(*error)

    @property
    def address(self) -> str:
        """The address (host:port) that Prometheus scrapes."""
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def tls_port(self) -> int:
        """The port on which the metrics APIs are served over TLS."""
        return self._ports[1]

    def shares(self) -> dict[str, float]:
        """Return node -> share of its CPU that is in use now, even if a wrong value is exported."""
        asked: defaultdict[str, float] = defaultdict(float)  # node -> cores
        for pod in self._pods.objects():
            if node := pod["spec"].get("nodeName"):
                asked[node] += _cores(pod)
        return {node: base + self._used * asked[node] / self._cores for node, base in self.base.items()}

    def text(self) -> str:
        """Return the page that Prometheus scrapes."""
        lines = [f"# TYPE {SERIES} gauge"]
        for node, share in self.shares().items():
            lines += _lines(node, share, self.faults.get(node))
        return "\n".join(lines) + "\n"

    # --- serving ---

    async def _serve(self) -> None:
        application = web.Application()
        application.router.add_get("/metrics", self._metrics)
        for version in ("metrics.k8s.io/v1beta1", "custom.metrics.k8s.io/v1beta2"):
            application.router.add_get(f"/apis/{version}", _discovery)
        application.router.add_get("/apis/metrics.k8s.io/v1beta1/nodes", self._node_metrics)
        application.router.add_get(f"/apis/custom.metrics.k8s.io/v1beta2/nodes/*/{SERIES}", self._custom_metrics)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        if self._tls is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(self._tls.public, self._tls.key)
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        self._ports = [address[1] for address in runner.addresses]
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        self._serving.set()
        await self._ending.wait()
        await _hang_up(runner)

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(text=self.text(), content_type="text/plain")

    async def _node_metrics(self, request: web.Request) -> web.Response:
        items = [
            {
                "metadata": {"name": node},
                "timestamp": _now(),
                "window": "1s",
                "usage": {"cpu": f"{round(1000 * share * self._cores)}m", "memory": "1Gi"},
            }
            for node, share in self.shares().items()
        ]
        return web.json_response({"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "items": items})

    async def _custom_metrics(self, request: web.Request) -> web.Response:
        items = [
            {
                "describedObject": {"kind": "Node", "name": node, "apiVersion": "/v1"},
                "metric": {"name": SERIES},
                "timestamp": _now(),
                "value": f"{round(1000 * share)}m",
            }
            for node, share in self.shares().items()
        ]
        version = "custom.metrics.k8s.io/v1beta2"
        return web.json_response({"kind": "MetricValueList", "apiVersion": version, "metadata": {}, "items": items})


async def _hang_up(runner: web.AppRunner) -> None:
    """Close connections at once, without a TLS shutdown, for which the server would wait: the apiserver never answers
    it.
    """
    for connection in runner.server.connections if runner.server is not None else ():
        if isinstance(connection.transport, asyncio.Transport):
            connection.transport.abort()
    await runner.cleanup()
    await asyncio.sleep(0)  # connections close in the next turn of the loop


async def _discovery(request: web.Request) -> web.Response:
    """Answer the discovery request by which the apiserver checks that an aggregated API is available."""
    version = request.path.removeprefix("/apis/")
    return web.json_response({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": []})


def _lines(node: str, share: float, fault: Fault | None) -> Iterator[str]:
    series = f'{SERIES}{{node="{node}"}}'
    if fault is None:
        yield f"{series} {share:.6f}"
    elif fault is Fault.NAN:
        yield f"{series} NaN"
    elif fault is Fault.NEGATIVE:
        yield f"{series} -{share + 1:.6f}"
    elif fault is Fault.STALE:
        yield f"{series} {share:.6f} {round(1000 * (time.time() - STALE_S))}"
    elif fault is Fault.DUPLICATE:
        yield f"{series} {share:.6f}"
        yield f'{SERIES}{{node="{node}",replica="2"}} {share / 2:.6f}'


def _cores(pod: Object) -> float:
    asked = 0.0
    for container in pod["spec"]["containers"]:
        text = str(container.get("resources", {}).get("requests", {}).get("cpu", "0"))
        asked += float(text[:-1]) / 1000 if text.endswith("m") else float(text)
    return asked


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
