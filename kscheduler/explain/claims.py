"""Explains why a pod with claims is pending: which request of which claim fails on which nodes.

It is computed from the devices as they are when somebody asks, and costs nothing before.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import islice

from msgspec.structs import replace

from kscheduler.api.devices import ResourceClaim
from kscheduler.api.labels import NodeTerm, compile_node_selector_term
from kscheduler.api.objects import Pod
from kscheduler.cel.selectors import selectors_for
from kscheduler.config.releases import Release
from kscheduler.devices.shortfall import Shortfall, ShortfallFinder
from kscheduler.errors import DecodeError
from kscheduler.explain.claim_list import EXTENDED, Document, claims_document, list_claims
from kscheduler.framework.plugins.dynamicresources.claims import NotReady, check_requests, find_claims
from kscheduler.framework.plugins.dynamicresources.extended_resources import is_backable, new_claim, requests_for
from kscheduler.snapshot.devices import Devices
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo

EXAMPLES = 3  # nodes named for each reason
MAX_FINDINGS = 50
# What one answer may take; nodes that are left then are not looked at.
MAX_NODES = 5_000
MAX_SECONDS = 0.1
ELSEWHERE = "allocated elsewhere"
MESSAGES = {  # reason of a finding -> description for users, before its detail
    "pool": "the resource pool is incomplete or invalid",
    "no device": "the node has too few devices",
    "selector": "too few devices match",
    "capacity": "too few devices have the requested capacity",
    "taint": "devices have taints that the request does not tolerate",
    "in use": "the devices that match are in use",
    "shared": "what the devices share is used up",
    "together": "there are too few devices for all requests together",
    "given up": "there are too many combinations of devices to look at",
    "constraint": "the devices do not meet",
    "error": "error",
    ELSEWHERE: "the claim is allocated on other nodes",
}


class ClaimExplainer:
    """Lists the claims of pods, and says what the claims of pending pods lack. `stopwatch` returns seconds."""

    def __init__(self, devices: Devices, release: Release, stopwatch: Callable[[], float]) -> None:
        self._devices = devices
        self._release = release
        self._stopwatch = stopwatch
        self._selectors = selectors_for(release)

    def explain(self, pod: Pod, nodes: Iterable[NodeInfo] | None) -> Document | None:
        """Return claims and findings as a JSON document, or None for a pod that needs no devices.

        `nodes`: those on which the claims are tried; None for a pod that is not pending.
        """
        extended = self._extended(pod) if nodes is not None else []
        listed = list_claims(pod, self._devices)
        if not listed and not extended:
            return None
        document = claims_document(listed)
        if nodes is None:
            return document
        try:
            claims = find_claims(pod, self._devices)
        except NotReady as missing:
            return document | {"waitsFor": str(missing)}
        for claim in claims:
            status = None if claim.status.allocation else check_requests(claim, self._devices)
            if status is not None:
                return document | {"waitsFor": status.message}
        review = _Review(pod, claims, extended, self._devices, self._finder())
        end = self._stopwatch() + MAX_SECONDS
        for node in islice(nodes, MAX_NODES):
            if self._stopwatch() >= end:
                break
            review.look_at(node)
        return document | review.document()

    # --- what they lack ---

    def _finder(self) -> ShortfallFinder:
        devices = self._devices
        return ShortfallFinder(self._release, devices.allocated, devices.classes, devices.slices, self._selectors)

    def _extended(self, pod: Pod) -> list[str]:
        """Return the extended resources of the pod for which the scheduler may have to make a claim."""
        if not self._devices.resources:
            return []
        scalars = PodInfo(pod, self._release.sums_resizes_apart).resources.total.scalars
        names = [name for name, amount in scalars.items() if amount and is_backable(name)]
        return names if any(self._devices.class_of_resource(name) is not None for name in names) else []


class _Review:
    """Collects what is missing on which nodes, for one pod."""

    def __init__(
        self,
        pod: Pod,
        claims: list[ResourceClaim],
        extended: list[str],
        devices: Devices,
        finder: ShortfallFinder,
    ) -> None:
        self._pod = pod
        self._devices = devices
        self._finder = finder
        self._extended = extended
        self._unallocated = [claim for claim in claims if claim.status.allocation is None]
        self._allocated = [(claim, _nodes_of(claim)) for claim in claims if claim.status.allocation is not None]
        self._special: dict[tuple[str, ...], ResourceClaim] = {}  # resources that a node lacks -> claim for them
        self._nodes = 0
        self._satisfied = 0
        self._found: dict[tuple[str, str, str, str], list[str]] = {}  # claim, request, reason, detail -> nodes

    def look_at(self, node: NodeInfo) -> None:
        self._nodes += 1
        elsewhere = next((claim for claim, terms in self._allocated if not _matches(terms, node)), None)
        if elsewhere is not None:
            self._add((elsewhere.key, "", ELSEWHERE, ""), node)
            return
        special = self._special_on(node)
        claims = self._unallocated if special is None else [*self._unallocated, special]
        shortfalls = self._finder.on_node(node.node, claims) if claims else []
        for each in shortfalls:
            self._add(self._key(each, special), node)
        self._satisfied += not shortfalls

    def _key(self, found: Shortfall, special: ResourceClaim | None) -> tuple[str, str, str, str]:
        name = EXTENDED if special is not None and found.claim == special.key else found.claim
        return name, found.request, found.cause.value, found.detail

    def _add(self, key: tuple[str, str, str, str], node: NodeInfo) -> None:
        self._found.setdefault(key, []).append(node.name)

    def _special_on(self, node: NodeInfo) -> ResourceClaim | None:
        """Return the claim for the extended resources that the node lacks; None if it lacks none."""
        own = node.allocatable.resources.scalars
        lacking = [name for name in self._extended if not own.get(name) and self._devices.class_of_resource(name)]
        if not lacking:
            return None
        key = tuple(lacking)
        if key not in self._special:
            claim = new_claim(self._pod, random.Random(0))
            requests, _ = requests_for(self._pod, lacking, self._devices)
            devices = replace(claim.spec.devices, requests=requests)
            self._special[key] = replace(claim, spec=replace(claim.spec, devices=devices))
        return self._special[key]

    def document(self) -> Document:
        ordered = sorted(self._found.items(), key=lambda item: -len(item[1]))
        return {
            "nodes": self._nodes,
            "satisfied": self._satisfied,
            "findings": [
                {
                    "claim": claim,
                    "request": request,
                    "reason": reason,
                    "detail": detail,
                    "message": MESSAGES[reason] + (f": {detail}" if detail else ""),
                    "nodes": len(nodes),
                    "examples": nodes[:EXAMPLES],
                }
                for (claim, request, reason, detail), nodes in ordered[:MAX_FINDINGS]
            ],
            "findingsLeftOut": max(len(ordered) - MAX_FINDINGS, 0),
        }


def _nodes_of(claim: ResourceClaim) -> list[NodeTerm] | None:
    """Return the terms for the nodes on which an allocated claim can be used; None for all nodes."""
    allocation = claim.status.allocation
    if allocation is None or allocation.node_selector is None:
        return None
    try:
        return [
            compile_node_selector_term(term, "nodeSelector") for term in allocation.node_selector.node_selector_terms
        ]
    except DecodeError:
        return []  # it can be used nowhere


def _matches(terms: list[NodeTerm] | None, node: NodeInfo) -> bool:
    return terms is None or any(term.matches(node.labels, node.name) for term in terms)
