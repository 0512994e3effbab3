"""The case tables of scheduler-plugins' own tests of CapacityScheduling, as data.

A program reads them out of the source in the cache of Go modules (`upstream/tables.go`), without compiling it. What it
finds is kept in the cache directory of the control plane's builds; nothing of upstream's is in this repository.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from kscheduler.api.elastic_quotas import ElasticQuota, ElasticQuotaSpec
from kscheduler.api.objects import ObjectMeta, QuantityMap
from kscheduler.testing import NodeBuilder, PodBuilder, make_node, make_pod
from kscheduler.testing.controlplane.binaries import cache_directory
from kscheduler.testing.controlplane.faults import HarnessError, MissingTool

READER = Path(__file__).with_name("upstream") / "tables.go"
MODULE = "sigs.k8s.io/scheduler-plugins"
VERSION = "v0.33.5"
PACKAGE = "pkg/capacityscheduling"
GPU = "nvidia.com/gpu"

Case = dict[str, Any]
Amounts = dict[str, int]  # resource name -> cpu in thousandths, others in units
_FIELDS = {"MilliCPU": "cpu", "Memory": "memory", "EphemeralStorage": "ephemeral-storage", "AllowedPodNumber": "pods"}
_NAMES = {"UpperBoundOfMax": (1 << 63) - 1, "LowerBoundOfMin": 0}


def upstream_tables() -> dict[str, list[Case]]:
    """Return the cases by the name of upstream's test function."""
    digest = hashlib.sha256(READER.read_bytes()).hexdigest()[:16]
    kept = cache_directory() / f"quota-tables-{VERSION}-{digest}.json"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        source = json.loads(_go("mod", "download", "-json", f"{MODULE}@{VERSION}"))["Dir"]
        scratch = kept.with_suffix(f".{os.getpid()}")
        scratch.write_text(_go("run", str(READER), str(Path(source) / PACKAGE)))
        scratch.rename(kept)
    tables: dict[str, list[Case]] = json.loads(kept.read_text())
    return tables


def _go(*arguments: str) -> str:
    go = shutil.which("go")
    if go is None:
        raise MissingTool("'go' is not on PATH: reading upstream's tables needs it")
    environment = {**os.environ, "GOFLAGS": "-mod=mod"}
    done = subprocess.run([go, *arguments], env=environment, cwd="/", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HarnessError(f"go {' '.join(arguments)} failed with exit code {done.returncode}:\n{done.stderr[-4000:]}")
    return done.stdout


# --- what stands in a case ---


def amounts_of(resource: Case | None) -> Amounts:
    """Return the amounts of a framework.Resource; the resources that it does not name are absent."""
    amounts: Amounts = {}
    for field, value in (resource or {}).items():
        if field == "ScalarResources":
            amounts.update(value)
        else:
            amounts[_FIELDS[field]] = _NAMES[value["name"]] if isinstance(value, dict) else value
    return amounts


def quantities(amounts: Amounts) -> QuantityMap:
    return {name: f"{amount}m" if name == "cpu" else amount for name, amount in amounts.items()}


def quota_of(info: Case) -> ElasticQuota:
    """Return the quota that an ElasticQuotaInfo was made from."""
    least, most = info.get("Min"), info.get("Max")
    spec = ElasticQuotaSpec(
        None if least is None else quantities(amounts_of(least)), None if most is None else quantities(amounts_of(most))
    )
    return ElasticQuota(ObjectMeta(name="quota", namespace=info["Namespace"]), spec)


def quota_object(call: Case) -> ElasticQuota:
    """Return what upstream's makeEQ(namespace, name, max, min) makes."""
    namespace, name, most, least = call["args"]
    return ElasticQuota(ObjectMeta(name=name, namespace=namespace), ElasticQuotaSpec(_list(least), _list(most)))


def _list(call: Case | None) -> QuantityMap | None:
    if call is None:
        return None
    cpu, memory = call["args"]
    return quantities({"cpu": cpu, "memory": memory})


def names_of(pods: Case) -> set[str]:
    """Return the uids in a set of pods."""
    return set(pods.get("args", ()))


def status_code(name: Case) -> str:
    return str(name["name"]).removeprefix("framework.")


def pod_of(call: Case) -> PodBuilder:
    """Return the pod that a case makes by makePod, or step by step."""
    if call["call"] == "makePodWithStatus":
        made, phase = call["args"]
        return pod_of(made).phase(phase["name"].removeprefix("v1.Pod"))
    if call["call"] == "makePod":
        name, namespace, memory, cpu, gpu, priority, uid, node = call["args"]
        return (
            make_pod(name, namespace)
            .uid(uid)
            .req(cpu=f"{cpu}m", memory=memory, **{GPU: gpu})
            .priority(_number(priority))
            .node(node)
        )
    steps = _steps(call)
    stated = dict(steps)
    pod = make_pod(*stated["Name"], *stated.get("Namespace", [""])).uid(*stated["UID"])
    for step, args in steps:
        if step == "Priority":
            pod = pod.priority(_number(args[0]))
        elif step == "PreemptionPolicy":
            pod = pod.preemption_policy(args[0]["name"].removeprefix("v1.Preempt"))
        elif step == "NominatedNodeName":
            pod = pod.nominated_node(args[0])
        elif step == "Node":
            pod = pod.node(args[0])
        elif step == "Terminating":
            pod = pod.terminating()
        elif step not in ("Name", "Namespace", "UID", "Obj", "st.MakePod"):
            raise HarnessError(f"a case makes a pod by a step that is not known: {step}")
    return pod


def node_of(call: Case) -> NodeBuilder:
    stated = dict(_steps(call))
    (capacity,) = stated["Capacity"]
    return make_node(*stated["Name"]).capacity(
        **{name.removeprefix("v1.Resource").lower(): amount for name, amount in capacity.items()}
    )


def _steps(call: Case) -> list[tuple[str, list[Any]]]:
    """Return the steps by which something is built, the first first."""
    steps = []
    while call:
        steps.append((call["call"], call["args"]))
        call = call.get("on", {})
    return steps[::-1]


def _number(value: Any) -> int:
    return int(value["args"][0] if isinstance(value, dict) else value)
