"""Fills a cache with a case's cluster the long way round: the end is the same, so decisions must be, too.

Nodes first look like others and are then brought up to date, pods are first on other nodes, pending pods are assumed
and forgotten, and pods are decided about meanwhile. Images are not touched: which node reported one first matters.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from kscheduler.api.decode import convert_object
from kscheduler.api.defaults import node_with_defaults, with_defaults
from kscheduler.api.objects import Node, Pod
from kscheduler.cache.cache import Cache
from kscheduler.config.releases import DEFAULT_RELEASE, Release, release_of
from kscheduler.snapshot.pod_info import PodInfo
from tests.parity.case import Case, Object
from tests.support.checks import check_cache

DETOURS = 0.3  # of nodes and of pods
ASKED = 4  # pods decided about on the way


def read_pod(document: Object, release: Release = DEFAULT_RELEASE) -> PodInfo:
    """The pod as the watch handlers of a release have it."""
    pod = convert_object(document, Pod)
    stored = with_defaults(pod, completes_pod_level_requests=release.completes_pod_level_requests)
    return PodInfo(stored, release.sums_resizes_apart, release.counts_node_resources)


def read_node(document: Object) -> Node:
    return node_with_defaults(convert_object(document, Node))


def fill(cache: Cache, case: Case, decide: Callable[[Object], object]) -> None:
    """`decide` is asked about pods on the way, so that what is remembered between decisions is there to go stale."""
    rng = random.Random(case.seed)
    release = release_of(case.release).with_gates(dict.fromkeys(case.more_gates, True))
    nodes, pods = case.cluster.get("nodes", []), case.cluster.get("pods", [])
    names = [node["metadata"]["name"] for node in nodes] or ["elsewhere"]

    # 1. The way round.
    for node in nodes:
        cache.set_node(read_node(_dressed_as(node, rng.choice(nodes)) if rng.random() < DETOURS else node))
    for pod in pods:
        cache.set_pod(read_pod(_moved(pod, rng.choice(names)) if rng.random() < DETOURS else pod, release))
    assumed = [pod for pod in case.pending if rng.random() < DETOURS]
    for pod in assumed:
        cache.assume(read_pod(pod, release), rng.choice(names))
    for pod in case.pending[:ASKED]:
        decide(pod)

    # 2. The end.
    for pod in assumed:
        cache.forget(pod["metadata"]["uid"])
    for pod in pods:
        cache.set_pod(read_pod(pod, release))
    for node in nodes:
        cache.set_node(read_node(node))
    check_cache(cache)


def _dressed_as(node: Object, other: Object) -> Object:
    """Another node's labels, taints and amounts under this one's name."""
    status = {**other.get("status", {}), "images": node.get("status", {}).get("images", [])}
    metadata = {**other["metadata"], "name": node["metadata"]["name"]}
    return {**node, "metadata": metadata, "spec": other.get("spec", {}), "status": status}


def _moved(pod: Object, node_name: str) -> Object:
    return {**pod, "spec": {**pod["spec"], "nodeName": node_name}}
