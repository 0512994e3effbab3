"""Builds a scenario from the command's options: nodes and pods from a number, a CSV trace, or Kubernetes manifests.

The workload file gives what the flags leave open, and defaults give the rest. Pods of a manifest that have a node
exist from the start; the others arrive as `--arrival` says, in the order of the file. A trace has its own times.
Storage, devices and claims for them, pod groups, policies over live metrics, quotas, and what says which pods belong
together (Namespaces, Services, ReplicaSets, disruption budgets) may be in the manifests of nodes or of pods; they exist
from the start.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from kscheduler.api.defaults import DEFAULT_NAMESPACE
from kscheduler.api.devices import DeviceObject
from kscheduler.api.elastic_quotas import ElasticQuota
from kscheduler.api.manifest import Manifests, load_manifests
from kscheduler.api.objects import APIObject, MetricPolicyObject, Node, Pod, PodDisruptionBudget, PolicyObject
from kscheduler.api.pod_groups import AnyPodGroup
from kscheduler.api.share_queues import ShareQueueObject
from kscheduler.api.storage import StorageObject
from kscheduler.client.kinds import NODES
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.simulator.claims_at_start import claims_at_start
from kscheduler.simulator.cluster import FINISHED
from kscheduler.simulator.options import SimulateArguments
from kscheduler.simulator.pod_limit import check_pods
from kscheduler.simulator.processes import parse_arrival, parse_duration
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.simulator.traces import GPU_NOTE, NODE_NOTE, Replay, read_arrivals, read_nodes
from kscheduler.simulator.usage import node_usage, pod_usage
from kscheduler.simulator.workload import (
    PodPlan,
    WorkloadSpec,
    default_workload,
    describe_nodes,
    generate_nodes,
    generate_pods,
    node_devices,
)
from kscheduler.simulator.workload_file import read_workload

NamedObject = StorageObject | DeviceObject | PolicyObject | ElasticQuota | ShareQueueObject | AnyPodGroup | APIObject
NamedT = TypeVar("NamedT", bound=NamedObject)

MAX_NODES = 1_000_000  # that are generated; each takes 2.5 KB of memory
MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")


class Sources:
    """Reads the files that arguments name. A subclass may keep what it has read for the next scenario."""

    def workload(self, path: str) -> WorkloadSpec:
        return read_workload(path)

    def manifests(self, path: str) -> Manifests:
        return load_manifests(path)

    def traced_nodes(self, path: str, gpu_resource: str) -> list[Node]:
        return read_nodes(path, gpu_resource)

    def traced_arrivals(self, path: str, replay: Replay) -> list[Arrival]:
        return read_arrivals(path, replay)


def with_nodes(recorded: Scenario, arguments: SimulateArguments) -> Scenario:
    """Return the scenario of a record that has no nodes with those of --nodes, and what else is in their file.

    Raises ConfigError if it has some, or for invalid input.
    """
    if arguments.nodes is None:
        return recorded
    if any(change.resource is NODES for change in recorded.changes):
        raise ConfigError("--record: expected no other source of nodes, pods and times, got --nodes")
    sources = Sources()
    nodes = _nodes(arguments, _spec(arguments, sources), sources)
    _check_names(nodes.nodes, ())  # pods of a record may be on nodes that are not there any more
    _check_usage(nodes.nodes, ())
    objects = _objects_of((nodes,), recorded.arrivals)
    return replace(
        objects,
        nodes=nodes.nodes,
        arrivals=recorded.arrivals,
        changes=recorded.changes,
        parameters=nodes.parameters | objects.parameters | recorded.parameters,
        notes=nodes.notes + objects.notes + recorded.notes,
    )


def build_scenario(arguments: SimulateArguments, sources: Sources | None = None) -> Scenario:
    """Build the scenario. Raises ConfigError, naming the flag or file, for unreadable or invalid input."""
    sources = sources or Sources()
    spec = _spec(arguments, sources)
    nodes, pods = _nodes(arguments, spec, sources), _pods(arguments, spec, sources)
    _check_names(nodes.nodes, pods.arrivals)
    _check_usage(nodes.nodes, pods.arrivals)
    objects = _objects_of((nodes, pods), pods.arrivals)
    parameters = nodes.parameters | pods.parameters | objects.parameters
    if arguments.workload is not None:
        parameters["workload"] = os.path.basename(arguments.workload)
    return replace(
        objects,
        nodes=nodes.nodes,
        arrivals=pods.arrivals,
        parameters={**parameters, "seed": str(spec.seed)},
        notes=[*dict.fromkeys(nodes.notes + pods.notes), *objects.notes],
        seed=spec.seed,
        metrics=spec.metrics,
    )


def _objects_of(parts: Sequence[Scenario], arrivals: Iterable[Arrival]) -> Scenario:
    """Return a scenario with all that the parts have besides nodes and pods. Raises ConfigError for invalid objects."""
    groups = _united_groups(*(part.groups for part in parts))
    objects = Scenario(
        notes=_notes_on_groups(groups),
        storage=_united(*(part.storage for part in parts)),
        policies=_united(*(part.policies for part in parts)),
        devices=claims_at_start(_united(*(part.devices for part in parts)), [each.pod for each in arrivals]),
        quotas=_united(*(part.quotas for part in parts)),
        pod_groups=_united(*(part.pod_groups for part in parts)),
        queues=_united(*(part.queues for part in parts)),
        groups=groups,
    )
    if objects.policies:
        _check_policies(objects.policies)
    if objects.quotas:
        _check_quotas(objects.quotas)
    if objects.queues:
        _check_queues(objects.queues)
    counts = {
        "storage": _counted(objects.storage),
        "devices": _counted(objects.devices),
        "policies": _counted(objects.policies),
        "quotas": _counted(objects.quotas),
        "queues": f"{len(objects.queues):,}" if objects.queues else "",
        "pod groups": f"{len(objects.pod_groups):,}" if objects.pod_groups else "",
        "other objects": _counted_kinds(kind for kind, _ in groups),
    }
    return replace(objects, parameters={name: count for name, count in counts.items() if count})


def _spec(arguments: SimulateArguments, sources: Sources) -> WorkloadSpec:
    """Return the workload of the workload file, or the default one, with the values of flags in place of its own."""
    spec = default_workload() if arguments.workload is None else sources.workload(arguments.workload)
    plan = spec.pods
    if arguments.arrival is not None:
        plan = replace(plan, arrival=parse_arrival(arguments.arrival, "--arrival"))
    if arguments.duration is not None:
        plan = replace(plan, duration=parse_duration(arguments.duration, "--duration"))
    return replace(spec, pods=plan, seed=spec.seed if arguments.seed is None else arguments.seed)


# --- nodes --------------------------------------------------------------------------------------------------------


def _nodes(arguments: SimulateArguments, spec: WorkloadSpec, sources: Sources) -> Scenario:
    """Return a scenario that has the nodes, and what is in their file, but no pods."""
    source = arguments.nodes
    count = spec.nodes.count if source is None else _count("--nodes", source)
    if count is not None:
        if count > MAX_NODES:
            flag = "--workload" if source is None else "--nodes"
            raise ConfigError(f"{flag}: expected at most {MAX_NODES:,} nodes, got {count:,}")
        plan = replace(spec.nodes, count=count)
        nodes = generate_nodes(plan, spec.seed)
        return Scenario(nodes, parameters=describe_nodes(plan), devices=node_devices(nodes, plan))
    assert source is not None
    if _is_csv(source):
        traced = sources.traced_nodes(source, arguments.gpu_resource)
        offered = (node.status.allocatable for node in traced)
        part = Scenario(traced, notes=[NODE_NOTE, *_gpu_note(offered, arguments.gpu_resource)])
    else:
        manifests = sources.manifests(source)
        skipped = 0 if arguments.pods == source else len(manifests.pods)
        part = replace(
            _besides(manifests),
            nodes=list(manifests.nodes),
            notes=_skipped(source, manifests, "pods", skipped),
        )
    if not part.nodes:
        raise ConfigError(f"--nodes: {source}: expected nodes, found none")
    return replace(part, parameters={"nodes": f"{len(part.nodes):,} from {os.path.basename(source)}"})


# --- pods ---------------------------------------------------------------------------------------------------------


def _pods(arguments: SimulateArguments, spec: WorkloadSpec, sources: Sources) -> Scenario:
    """Return a scenario that has the pods, and what is in their file, but no nodes."""
    source = arguments.pods
    count = spec.pods.count if source is None else _count("--pods", source)
    if count is not None:
        check_pods("--workload" if source is None else "--pods", count, arguments.max_pods)
        plan = replace(spec.pods, count=count)
        return generate_pods(plan, spec.seed)
    assert source is not None
    if _is_csv(source):
        return _traced(arguments, source, sources)
    return _listed(source, spec, sources, arguments)


def _traced(arguments: SimulateArguments, source: str, sources: Sources) -> Scenario:
    for flag, value in (("--arrival", arguments.arrival), ("--duration", arguments.duration)):
        if value is not None:
            raise ConfigError(f"{flag}: a trace brings its own times; {source} is one")
    replay = Replay(arguments.gpu_resource, arguments.speedup, arguments.arrivals_only, arguments.max_pods)
    arrivals = sources.traced_arrivals(source, replay)
    parameters = {"pods": f"{len(arrivals):,} from {os.path.basename(source)}"}
    if replay.speedup != 1:
        parameters["speedup"] = f"{replay.speedup:g}"
    if replay.arrivals_only:
        parameters["departures"] = "ignored"
    resources = (container.resources for each in arrivals for container in each.pod.spec.containers)
    asked = (None if each is None else each.requests for each in resources)
    return Scenario(arrivals=arrivals, parameters=parameters, notes=_gpu_note(asked, replay.gpu_resource))


def _gpu_note(amounts: Iterable[Collection[str] | None], gpu_resource: str) -> list[str]:
    """Return what is to be known about GPUs, if any of a trace's nodes or pods has some."""
    return [GPU_NOTE] if any(gpu_resource in (each or ()) for each in amounts) else []


def _listed(source: str, spec: WorkloadSpec, sources: Sources, arguments: SimulateArguments) -> Scenario:
    manifests = sources.manifests(source)
    check_pods(source, len(manifests.pods), arguments.max_pods)
    arrivals = _arriving(manifests.pods, spec.pods, spec.seed)
    return replace(
        _besides(manifests),
        arrivals=arrivals,
        parameters={
            "pods": f"{len(arrivals):,} from {os.path.basename(source)}",
            "arrival": spec.pods.arrival.text,
            "duration": spec.pods.duration.text,
        },
        notes=_skipped(source, manifests, "nodes", 0 if arguments.nodes == source else len(manifests.nodes)),
    )


def _besides(manifests: Manifests) -> Scenario:
    """Return a scenario with all that is in a file besides nodes and pods."""
    return Scenario(
        storage=list(manifests.storage),
        policies=list(manifests.policies),
        devices=list(manifests.devices),
        quotas=list(manifests.quotas),
        pod_groups=list(manifests.pod_groups),
        queues=list(manifests.queues),
        groups=list(manifests.groups),
    )


def _arriving(pods: Iterable[Pod], plan: PodPlan, seed: int) -> list[Arrival]:
    times, durations = plan.arrival.times(random.Random(f"{seed} arrivals")), random.Random(f"{seed} durations")
    unfinished = [pod for pod in pods if pod.status.phase not in FINISHED]
    bound = [Arrival(0.0, pod, plan.duration.draw(durations)) for pod in unfinished if pod.spec.node_name]
    waiting = [pod for pod in unfinished if not pod.spec.node_name]
    return bound + [
        Arrival(at_s, pod, plan.duration.draw(durations)) for at_s, pod in zip(times, waiting, strict=False)
    ]


# --- storage, devices, policies and quotas ------------------------------------------------------------------------


def _united(*parts: Iterable[NamedT]) -> list[NamedT]:
    """Merge lists of objects, dropping duplicates, since --nodes and --pods may name the same file.

    Raises ConfigError if two different objects have the same name.
    """
    found: dict[tuple[type, str], NamedT] = {}
    for part in parts:
        here: set[tuple[type, str]] = set()
        for item in part:
            kind = type(item)
            name = f"{DEFAULT_NAMESPACE}{item.key}" if item.key.startswith("/") else item.key
            key = (kind, name)
            if key in here or found.get(key, item) != item:
                raise ConfigError(f'{_kind(item)} "{name}": the name is used twice')
            here.add(key)
            found[key] = item
    return list(found.values())


def _united_groups(*parts: Iterable[tuple[str, APIObject]]) -> list[tuple[str, APIObject]]:
    """Merge lists of (kind, object) as `_united`; some kinds have one type."""
    by_kind: dict[str, list[list[APIObject]]] = {}
    for number, part in enumerate(parts):
        for kind, item in part:
            by_kind.setdefault(kind, [[] for _ in parts])[number].append(item)
    return [(kind, item) for kind, lists in by_kind.items() for item in _united(*lists)]


def _notes_on_groups(groups: Iterable[tuple[str, APIObject]]) -> list[str]:
    if not any(isinstance(item, PodDisruptionBudget) for _, item in groups):
        return []
    return ["PodDisruptionBudgets allow as many disruptions as they did when they were listed, all the time."]


def _counted(items: Iterable[StorageObject | DeviceObject | PolicyObject | ElasticQuota]) -> str:
    return _counted_kinds(_kind(item) for item in items)


def _counted_kinds(kinds: Iterable[str]) -> str:
    counts = Counter(kinds)
    return ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))


def _kind(item: NamedObject) -> str:
    return type(item).__name__.removesuffix("Object")


def _check_policies(policies: Iterable[PolicyObject]) -> None:
    """Raise ConfigError for a policy that is invalid by itself. Its metrics are checked later, by the scheduler."""
    from kscheduler.telemetry.policy_book import read_policy
    from kscheduler.telemetry.tas_policies import translate

    for item in policies:
        faults = read_policy(item.spec)[0] if isinstance(item, MetricPolicyObject) else translate(item.spec)[1]
        if faults:
            raise ConfigError(f'{_kind(item)} "{item.key}": {faults[0]}')


def _check_quotas(quotas: Iterable[ElasticQuota]) -> None:
    """Raise ConfigError for a quota with an amount that is malformed or negative."""
    from kscheduler.quotas.elastic import ElasticQuotas

    for quota in quotas:
        try:
            ElasticQuotas().set(quota)
        except DecodeError as error:
            raise ConfigError(f'ElasticQuota "{quota.key}": {error}') from error


def _check_queues(queues: Iterable[ShareQueueObject]) -> None:
    """Raise ConfigError for a malformed queue. Its place in the tree depends on the configuration, too."""
    from kscheduler.quotas.queue_tree import check_queue

    for queue in queues:
        try:
            check_queue(queue)
        except DecodeError as error:
            raise ConfigError(str(error)) from error


# --- files --------------------------------------------------------------------------------------------------------


def _count(flag: str, source: str) -> int | None:
    """Return how many objects to generate; None if the flag's value names a file. Raises ConfigError."""
    if _is_csv(source) or source.lower().endswith(MANIFEST_SUFFIXES):
        return None
    try:
        count = int(source.replace("_", ""))
    except ValueError:
        count = -1
    if count < 0:
        expected = "a whole number of zero or more, or a file named .csv, .yaml or .json"
        raise ConfigError(f'{flag}: expected {expected}, got "{source}"')
    return count


def _is_csv(source: str) -> bool:
    return source.lower().endswith(".csv")


def _skipped(source: str, manifests: Manifests, other: str, others: int) -> list[str]:
    """Return notes for the report on the kinds of objects in a file that the simulation ignores.

    [] if there are none.
    """
    left_out = dict(sorted(manifests.others_skipped.items()))
    if others:
        left_out[other] = others
    if not left_out:
        return []
    named = ", ".join(f"{count:,} {kind}" for kind, count in left_out.items())
    return [f"{os.path.basename(source)} also holds {named}, which this simulation does not use from there."]


def _check_names(nodes: Iterable[Node], arrivals: Iterable[Arrival]) -> None:
    known: set[str] = set()
    for node in nodes:
        if node.key in known:
            raise ConfigError(f'node "{node.key}": the name is used twice')
        known.add(node.key)
    seen: set[str] = set()
    for arrival in arrivals:
        pod = arrival.pod
        key = pod.key
        if key in seen:
            raise ConfigError(f'pod "{key}": the name is used twice')
        seen.add(key)
        if pod.spec.node_name and pod.spec.node_name not in known:
            raise ConfigError(f'pod "{pod.key}": spec.nodeName: "{pod.spec.node_name}" is none of the nodes')


def _check_usage(nodes: Iterable[Node], arrivals: Iterable[Arrival]) -> None:
    for node in nodes:
        node_usage(node)
    for arrival in arrivals:
        if arrival.pod.metadata.annotations:
            pod_usage(arrival.pod)
