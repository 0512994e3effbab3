"""Measures what a scheduler's cache and informers cost: memory, seconds until synced, and stalls of the event loop.

    python -m perf.memory                                # real-looking pods: 10,000, 50,000 and 150,000 on 5,000 nodes
    python -m perf.memory --pods 50000 --like benchmark  # the small pods that benchmarks create
    python -m perf.memory --pods 50000 --like large      # pods of 10 kB, most of it managedFields
    python -m perf.memory --pods 10000 --types           # what kinds of Python objects use the memory

Lists of nodes and pods are written to files, page by page, as an apiserver would answer them. For each size a separate
process builds a Scheduler whose client reads these pages, decodes them as the real one does, and never has an event.
1,000 more pods are pending. Memory is that of the process: before the first list, afterwards, at its peak, and at its
peak once more when all watches have ended with 410 and everything was listed again in newer versions.
A stall is the CPU time from one turn of the event loop to the next.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from kscheduler.client.informer import PAGE_SIZE
from kscheduler.clock import SystemClock

NODES = 5_000
SIZES = (10_000, 50_000, 150_000)
PENDING = 1_000
WORKLOADS = 400  # distinct pod templates
NAMESPACES = 40
IMAGES_ON_NODE = 30
MIB = 1 << 20
PAGES = "{plural}-{limit}-{token}.json"  # the file of one page

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Result:
    """The measurements of one process."""

    pods: int
    before_mib: float  # after building the scheduler, before any list
    after_mib: float  # after everything was listed and garbage was collected
    peak_mib: float
    relist_mib: float  # the peak until everything was listed again
    seconds: float  # until everything is listed
    cpu_s: float
    stall_ms: float  # the longest stall
    collector_ms: float  # the garbage collector's share of the seconds

    def bytes_a_pod(self, without: Result) -> float:
        """`without`: the same nodes and no bound pods."""
        return (self.after_mib - without.after_mib) * MIB / self.pods if self.pods else 0.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.memory", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--pods", type=int, action="append", help="bound pods, instead of 10,000, 50,000 and 150,000")
    parser.add_argument("--like", choices=list(LIKE), default="real", help="how much a pod says")
    parser.add_argument("--types", action="store_true", help="also show which types and lines hold the memory")
    parser.add_argument("--listed", type=Path, help=argparse.SUPPRESS)  # we are the process that measures
    options = parser.parse_args(argv)
    if options.listed:
        result = asyncio.run(measure(options.listed, options.pods[0], options.types))
        print(json.dumps(asdict(result)))
        return 0
    print(f"{options.nodes:,} nodes, pods like {options.like}")
    print(
        f"{'pods':>8}  {'before':>8}  {'after':>8}  {'peak MiB':>8}  {'relist':>8}  {'bytes/pod':>9}  {'s':>6}  "
        f"{'cpu s':>6}  {'stall ms':>8}  {'gc ms':>6}"
    )
    without: Result | None = None
    for pods in (0, *(options.pods or SIZES)):
        with tempfile.TemporaryDirectory() as directory:
            write_cluster(Path(directory), options.nodes, pods, options.like)
            result = in_a_process(Path(directory), pods, options.types)
        without = without or result
        print(
            f"{result.pods:>8,}  {result.before_mib:8.1f}  {result.after_mib:8.1f}  {result.peak_mib:8.1f}  "
            f"{result.relist_mib:8.1f}  {result.bytes_a_pod(without):9,.0f}  {result.seconds:6.2f}  "
            f"{result.cpu_s:6.2f}  {result.stall_ms:8.1f}  {result.collector_ms:6.0f}",
            flush=True,
        )
    return 0


def in_a_process(directory: Path, pods: int, types: bool) -> Result:
    command = [sys.executable, "-m", "perf.memory", "--listed", str(directory), "--pods", str(pods)]
    done = subprocess.run([*command, *(["--types"] if types else [])], check=True, stdout=subprocess.PIPE, text=True)
    *shown, last = done.stdout.strip().splitlines()
    print("\n".join(shown)) if shown else None
    known = {field.name for field in fields(Result)}
    return Result(**{name: value for name, value in json.loads(last).items() if name in known})


# --- the measured process -----------------------------------------------------------------------------------------


async def measure(directory: Path, pods: int, types: bool) -> Result:
    import kscheduler.client.kube  # a real client's imports count, though its place is taken  # noqa: F401
    from kscheduler.command.memory import Collections
    from kscheduler.config.load import default_config
    from kscheduler.observability.metrics import Metrics
    from kscheduler.scheduler import Scheduler

    client = PagesClient(directory)
    scheduler = Scheduler(
        client,  # type: ignore[arg-type]
        default_config(),
        clock=SystemClock(),
        rng=random.Random(0),
        metrics=Metrics(),
        stopwatch=time.perf_counter,
    )
    collections = Collections()
    collections.start()
    if types:
        tracemalloc.start()
    collector = Collector()
    before = resident_mib()
    stalls = Stalls()
    watching = asyncio.create_task(stalls.watch())
    start, cpu = time.perf_counter(), time.process_time()
    observing = asyncio.create_task(scheduler.observe())
    await collections.while_listing(lambda: scheduler.is_synced)
    await scheduler.wait_for_sync()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    took = collector.seconds
    longest_s = stalls.longest_s
    gc.collect()
    after, peak = resident_mib(), peak_mib()
    await client.expire({informer.resource.plural for informer in scheduler.informers})
    for task in (watching, observing):
        task.cancel()
    await asyncio.gather(watching, observing, return_exceptions=True)
    collections.stop()
    gc.collect()
    if types:
        show_types()
    assert scheduler.cache.sizes()["pods"] == pods, scheduler.cache.sizes()
    return Result(pods, before, after, peak, peak_mib(), seconds, cpu, 1000 * longest_s, 1000 * took)


class PagesClient:
    """A client that answers lists from files, and whose watches report nothing until they have expired."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._expired = asyncio.Event()
        self._ended: set[str] = set()  # kinds whose watch has ended
        self._listed_again: dict[str, asyncio.Event] = defaultdict(asyncio.Event)  # kind -> it is watched again

    async def expire(self, kinds: set[str]) -> None:
        """End all watches with 410, and return once these kinds were listed again, each object in a newer version."""
        self._expired.set()
        for kind in kinds:
            await self._listed_again[kind].wait()

    async def list_page(self, resource: Any, *, limit: int = 500, continue_token: str = "", **_: object) -> Any:
        from kscheduler.client.wire import decode_page

        file = self._directory / PAGES.format(plural=resource.plural, limit=limit, token=continue_token or "0")
        empty = b'{"metadata":{"resourceVersion":"1"},"items":[]}'
        await asyncio.sleep(0)
        text = file.read_bytes() if file.exists() else empty
        if self._expired.is_set():
            text = text.replace(b'"resourceVersion":"', b'"resourceVersion":"9')
        return decode_page(text, resource)

    async def watch(self, resource: Any, **_: object) -> AsyncIterator[list[Any]]:
        from kscheduler.errors import Gone

        if resource.plural not in self._ended:
            await self._expired.wait()
            self._ended.add(resource.plural)
            raise Gone("too old resource version", status=410)
        self._listed_again[resource.plural].set()
        await asyncio.Event().wait()
        yield []


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Stalls:
    def __init__(self) -> None:
        self.longest_s = 0.0

    async def watch(self) -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(0)
            now = time.process_time()
            self.longest_s = max(self.longest_s, now - last)
            last = now


class Collector:
    """Adds up the time that Python's garbage collector takes."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._started = 0.0
        gc.callbacks.append(self._tell)

    def _tell(self, phase: str, info: object) -> None:
        if phase == "start":
            self._started = time.perf_counter()
        else:
            self.seconds += time.perf_counter() - self._started


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / MIB


def show_types() -> None:
    """The lines that allocated most of what is alive, and the collector's objects by type."""
    for found in tracemalloc.take_snapshot().statistics("lineno")[:16]:
        line = found.traceback[0]
        print(
            f"    {found.size / MIB:8.2f} MiB {found.count:9,}  {'/'.join(line.filename.split('/')[-2:])}:{line.lineno}"
        )
    tracked = Counter(type(each).__name__ for each in gc.get_objects())
    print("    tracked by the collector:", ", ".join(f"{name} {count:,}" for name, count in tracked.most_common(8)))


# --- the cluster, as an apiserver writes it -----------------------------------------------------------------------


def write_cluster(directory: Path, nodes: int, pods: int, like: str) -> None:
    make_node, make_pod = LIKE[like]
    write_pages(directory, "nodes", "NodeList", (make_node(i) for i in range(nodes)))
    everything = (make_pod(i, f"node-{i % nodes:05}" if i < pods else "") for i in range(pods + PENDING))
    write_pages(directory, "pods", "PodList", everything)


def write_pages(directory: Path, plural: str, kind: str, documents: Iterator[dict[str, object]]) -> None:
    """Pages as informers ask for them; the first is 0."""
    items: list[bytes] = []
    token = 0
    pending = next(documents, None)
    while True:
        while pending is not None and len(items) < PAGE_SIZE:
            items.append(json.dumps(pending, separators=(",", ":")).encode())
            pending = next(documents, None)
        following = "" if pending is None else str(token + 1)
        head = json.dumps(
            {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "9", "continue": following}}
        )
        name = PAGES.format(plural=plural, limit=PAGE_SIZE, token=token)
        (directory / name).write_bytes(head[:-1].encode() + b',"items":[' + b",".join(items) + b"]}")
        if not following:
            return
        items, token = [], token + 1


def real_pod(number: int, node: str) -> dict[str, Any]:
    """About 4.5 kB: a pod of a Deployment as a cluster has it, with two containers and its service account's token."""
    rng = random.Random(number)
    workload = number % WORKLOADS
    app, namespace = f"service-{workload}", f"team-{workload % NAMESPACES}"
    hashed = f"{workload * 2654435761 % 2**32:010x}"
    name = f"{app}-{hashed}-{rng.randrange(36**5):05x}"
    token = f"kube-api-access-{rng.randrange(36**5):05x}"
    started = f"2026-11-{1 + number % 28:02}T{number // 28 % 24:02}:{number // 700 % 60:02}:{number % 60:02}Z"
    mounts = [
        {"name": "config", "mountPath": "/etc/app"},
        {"name": token, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
    ]
    labels = {
        "app.kubernetes.io/name": app,
        "app.kubernetes.io/instance": f"{app}-prod",
        "app.kubernetes.io/version": f"1.{workload % 9}.0",
        "team": namespace,
        "pod-template-hash": hashed,
    }
    managed: dict[str, Any] = {
        f"f:{field}": {".": {}, "f:type": {}, "f:status": {}, "f:lastTransitionTime": {}}
        for field in ("metadata", "spec", "status", "containers", "volumes", "conditions")
    }
    pod: dict[str, Any] = {
        "metadata": {
            "name": name,
            "generateName": f"{app}-{hashed}-",
            "namespace": namespace,
            "uid": _uid(rng),
            "resourceVersion": str(100_000 + number),
            "generation": 1,
            "creationTimestamp": started,
            "labels": labels,
            "annotations": {
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "9090",
                "checksum/config": f"{workload:064x}",
            },
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"{app}-{hashed}",
                    "uid": _uid(random.Random(-workload - 1)),
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {
                    "manager": manager,
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": started,
                    "fieldsType": "FieldsV1",
                    "fieldsV1": managed,
                }
                for manager in ("kube-controller-manager", "kubelet")
            ],
        },
        "spec": {
            "volumes": [
                {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}},
                {"name": "scratch", "emptyDir": {}},
                {
                    "name": token,
                    "projected": {
                        "sources": [
                            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                        ],
                        "defaultMode": 420,
                    },
                },
            ],
            "containers": [
                {
                    "name": container,
                    "image": f"registry.example.com/{namespace}/{container}:1.{workload % 9}.0",
                    "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                    "env": [{"name": f"SETTING_{n}", "value": f"value of setting {n}"} for n in range(6)],
                    "resources": {
                        "requests": {"cpu": f"{50 * (1 + workload % 6)}m", "memory": f"{64 * (1 + workload % 8)}Mi"},
                        "limits": {"memory": f"{128 * (1 + workload % 8)}Mi"},
                    },
                    "volumeMounts": mounts,
                    "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "IfNotPresent",
                }
                for container in (app, "proxy")
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": app,
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
    if node:
        pod["spec"]["nodeName"] = node
        pod["status"] = {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": started}
                for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "hostIP": f"10.0.{number % 250}.7",
            "podIP": f"10.{number % 200}.{number % 250}.9",
            "startTime": started,
            "containerStatuses": [
                {
                    "name": container,
                    "state": {"running": {"startedAt": started}},
                    "ready": True,
                    "restartCount": 0,
                    "image": f"registry.example.com/{namespace}/{container}:1.{workload % 9}.0",
                    "imageID": f"registry.example.com/{namespace}/{container}@sha256:{workload:064x}",
                    "containerID": f"containerd://{rng.getrandbits(256):064x}",
                    "allocatedResources": {
                        "cpu": f"{50 * (1 + workload % 6)}m",
                        "memory": f"{64 * (1 + workload % 8)}Mi",
                    },
                    "resources": {
                        "requests": {"cpu": f"{50 * (1 + workload % 6)}m", "memory": f"{64 * (1 + workload % 8)}Mi"},
                        "limits": {"memory": f"{128 * (1 + workload % 8)}Mi"},
                    },
                }
                for container in (app, "proxy")
            ],
            "qosClass": "Burstable",
        }
    return pod


def large_pod(number: int, node: str) -> dict[str, Any]:
    """About 10 kB: a real pod with as many managed fields as in a cluster with server-side apply."""
    pod = real_pod(number, node)
    known: dict[str, Any] = {".": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}}
    fields = {f'k:{{"type":"Condition{each}"}}': known for each in range(20)}
    pod["metadata"]["managedFields"][0]["fieldsV1"]["f:status"] = {"f:conditions": fields}
    return pod


def small_pod(number: int, node: str) -> dict[str, Any]:
    """About 700 bytes: what kube-scheduler's own benchmark creates."""
    rng = random.Random(number)
    pod: dict[str, Any] = {
        "metadata": {
            "name": f"pod-{number:06}",
            "namespace": "default",
            "uid": _uid(rng),
            "resourceVersion": str(100_000 + number),
            "creationTimestamp": f"2026-11-01T00:{number // 6000 % 60:02}:{number // 100 % 60:02}Z",
        },
        "spec": {
            "containers": [
                {
                    "name": "pause",
                    "image": "registry.k8s.io/pause:3.10",
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}},
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
    if node:
        pod["spec"]["nodeName"] = node
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}
        pod["status"]["conditions"] = [scheduled]
    return pod


def real_node(number: int) -> dict[str, Any]:
    """About 8 kB, most of it images."""
    node = small_node(number)
    rng = random.Random(number)
    node["metadata"]["labels"] |= {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m7.2xlarge",
        "topology.kubernetes.io/region": "region-1",
    }
    node["metadata"]["annotations"] = {
        "node.alpha.kubernetes.io/ttl": "300",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        "csi.volume.kubernetes.io/nodeid": json.dumps({"csi.example.com": f"i-{rng.getrandbits(64):016x}"}),
    }
    node["status"]["images"] = [
        {
            "names": [
                f"registry.example.com/team-{image % NAMESPACES}/service-{image}@sha256:{image:064x}",
                f"registry.example.com/team-{image % NAMESPACES}/service-{image}:1.{image % 9}.0",
            ],
            "sizeBytes": 10_000_000 + image,
        }
        for image in sorted(rng.sample(range(WORKLOADS), IMAGES_ON_NODE))
    ]
    node["status"]["conditions"] = [
        {
            "type": kind,
            "status": status,
            "lastHeartbeatTime": f"2026-11-20T00:{number % 60:02}:00Z",
            "lastTransitionTime": "2026-11-01T00:00:00Z",
            "reason": f"Kubelet{kind}",
            "message": f"kubelet says {status} of {kind}",
        }
        for kind, status in (
            ("MemoryPressure", "False"),
            ("DiskPressure", "False"),
            ("PIDPressure", "False"),
            ("Ready", "True"),
        )
    ]
    node["status"]["nodeInfo"] = {"kubeletVersion": "v1.36.3", "osImage": "Linux", "machineID": _uid(rng)}
    return node


def small_node(number: int) -> dict[str, Any]:
    """About 500 bytes: what kube-scheduler's own benchmark creates."""
    name = f"node-{number:05}"
    room = {"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    return {
        "metadata": {
            "name": name,
            "uid": _uid(random.Random(number)),
            "resourceVersion": str(number + 1),
            "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"},
        },
        "spec": {},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _uid(rng: random.Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


# --like: how nodes and pods are made
LIKE = {"real": (real_node, real_pod), "large": (real_node, large_pod), "benchmark": (small_node, small_pod)}


if __name__ == "__main__":
    sys.exit(main())
