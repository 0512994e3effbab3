"""Collects the claims of a simulation's pods with the devices that they had, for its report.

A pod that ends is listed when it ends, since its claims are released then; the others are listed at the end of the run,
and for those that wait then, which request of which claim fails on how many nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kscheduler.api.devices import AllocationResult, ResourceClaim
from kscheduler.api.objects import Pod
from kscheduler.client.kinds import DEVICE_CLASSES, DEVICE_TAINT_RULES, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from kscheduler.config.releases import Release
from kscheduler.errors import DecodeError
from kscheduler.explain.claim_list import claims_document, list_claims
from kscheduler.framework.plugins.dynamicresources.claims import NotReady, find_claims
from kscheduler.framework.stopwatch import stands_still
from kscheduler.simulator.cluster import Cluster
from kscheduler.snapshot.devices import Devices
from kscheduler.snapshot.node_table import NodeTable

MAX_PODS = 10_000  # listed in a report; so many take about 4 MB of its JSON form
MAX_EXPLAINED = 20  # waiting pods whose claims are tried on nodes, and on how many nodes at most, evenly chosen
MAX_NODES = 100


class ClaimsOfPod(msgspec.Struct, frozen=True):
    pod: str  # namespace/name
    claims: dict[str, Any]  # as `kscheduler explain --output json` has them


class PodClaims(msgspec.Struct, frozen=True):
    """The pods that have claims.

    First those that wait at the end, in the order of the queue, then those with a node, then those that ended before.
    """

    pods: list[ClaimsOfPod]
    left_out: int  # pods that would have made the report too large


class ClaimBook:
    """Follows the claims of one simulated cluster's pods. The simulation reports each pod that ends."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known = _ClaimsOfCluster(cluster)
        self._ended: dict[str, ClaimsOfPod] = {}  # pod uid -> its claims when it ended
        self._left_out = 0

    def note_end(self, pod: Pod) -> None:
        """List the claims of a pod that has ended or was deleted; its first end counts."""
        if pod.metadata.uid in self._ended:
            return
        listed = list_claims(pod, self._known)
        if not listed:
            return
        if len(self._ended) >= MAX_PODS:
            self._left_out += 1
            return
        self._ended[pod.metadata.uid] = ClaimsOfPod(pod.key, claims_document(listed))

    def close(self, release: Release) -> PodClaims | None:
        """Return the claims of all pods at the end of the run; None if there were none, and no classes of devices."""
        if not (self._ended or self._known.claims or self._cluster.store(DEVICE_CLASSES).objects):
            return None
        from kscheduler.explain.claims import ClaimExplainer

        there = [pod for pod in self._cluster.pods.values() if pod.metadata.uid not in self._ended]
        waiting = sorted((pod for pod in there if not pod.spec.node_name), key=lambda pod: -(pod.spec.priority or 0))
        # The stopwatch stands still, since equal runs have equal reports: MAX_NODES bounds the time.
        explainer = ClaimExplainer(self._devices(release), release, stands_still)
        nodes = self._nodes()
        found: list[ClaimsOfPod] = []
        explained = 0
        for pod in [*waiting, *(pod for pod in there if pod.spec.node_name)]:
            is_tried = not pod.spec.node_name and explained < MAX_EXPLAINED
            document = explainer.explain(pod, nodes if is_tried else None)
            if document is not None:
                explained += is_tried
                found.append(ClaimsOfPod(pod.key, document))
        found += self._ended.values()
        return PodClaims(found[:MAX_PODS], self._left_out + len(found[MAX_PODS:]))

    def _devices(self, release: Release) -> Devices:
        devices = Devices(release)
        for claim in self._objects(RESOURCE_CLAIMS):
            devices.set_claim(claim)
        for device_class in self._objects(DEVICE_CLASSES):
            devices.set_class(device_class)
        for resource_slice in self._objects(RESOURCE_SLICES):
            devices.set_slice(resource_slice)
        for rule in self._objects(DEVICE_TAINT_RULES):
            devices.set_taint_rule(rule)
        return devices

    def _objects(self, resource: Resource[Any]) -> list[Any]:
        return list(self._cluster.store(resource).objects.values())

    def _nodes(self) -> NodeTable:
        nodes = list(self._cluster.nodes.values())
        count = min(len(nodes), MAX_NODES)
        table = NodeTable()
        for place in range(count):
            try:
                table.set_node(nodes[place * len(nodes) // count])
            except DecodeError:
                continue  # the scheduler does not use it either
        return table


def awaited_claim(cluster: Cluster, pod: Pod) -> str:
    """Return which claim the pod needs before a scheduler tries it, in kube-scheduler's words; "" if none is missing.

    Such pods have no PodScheduled condition.
    """
    try:
        find_claims(pod, _ClaimsOfCluster(cluster))
    except NotReady as missing:
        return str(missing)
    return ""


class _ClaimsOfCluster:
    """The claims as the apiserver has them; nothing is in flight for it."""

    accepts_groups = True

    def __init__(self, cluster: Cluster) -> None:
        self.claims: Mapping[str, ResourceClaim] = cluster.store(RESOURCE_CLAIMS).objects

    def special_claim(self, pod: Pod) -> ResourceClaim | None:
        made = pod.status.extended_resource_claim_status
        return None if made is None else self.claims.get(f"{pod.metadata.namespace}/{made.resource_claim_name}")

    def pending_allocation(self, _uid: str) -> AllocationResult | None:
        return None
