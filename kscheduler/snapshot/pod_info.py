"""A pod with the values that every decision reads, computed once.

Building a PodInfo parses the pod's quantities: a malformed pod fails here, with the path of the field, and nowhere
later.
"""

from __future__ import annotations

from typing import NamedTuple

from kscheduler._fast import MAX_ENTRIES
from kscheduler.api.objects import Container, Pod, PodSpec, Volume
from kscheduler.api.pod_affinity import NO_TERMS, HeldTerm, PodAffinityTerms, compile_pod_affinity
from kscheduler.api.resources import PodResources, depends_on_status, is_resize_infeasible, pod_resources
from kscheduler.errors import DecodeError

NATIVE_RESOURCES = 3  # cpu, memory, ephemeral-storage


class HostPort(NamedTuple):
    protocol: str
    port: int
    ip: str  # "" and "0.0.0.0" both mean every address; stored as "0.0.0.0"


EVERY_ADDRESS = "0.0.0.0"


class PodInfo:
    """A pod as cache, queue and plugins hold it. Treat as immutable: it is shared. Only the cache calls `bound_as`.

    Raises DecodeError, naming field and value, for quantities that cannot be read. `sums_resizes_apart` and
    `counts_claims`, for a pod that has a node: see `api.resources.pod_resources`.
    """

    __slots__ = (
        "_affinity",
        "_held_terms",
        "host_ports",
        "pod",
        "priority",
        "resources",
        "signature",
        "states_affinity",
        "uid",
        "uses_storage",
    )

    def __init__(self, pod: Pod, sums_resizes_apart: bool = False, counts_claims: bool = False) -> None:
        self.pod = pod
        self.uid = pod.metadata.uid
        self.priority = pod.spec.priority or 0
        # Pods of one template share the parts that its values are computed from (api/sharing.py).
        spec, status = pod.spec, pod.status
        known = _templates.get(id(spec.containers))
        if (
            known is not None
            and known[0].containers is spec.containers
            and known[0].init_containers is spec.init_containers
            and known[0].volumes is spec.volumes
            and known[0].overhead is spec.overhead
            and known[0].resources is spec.resources
            and not (status.container_statuses or status.init_container_statuses or status.resources)
            and not (sums_resizes_apart and status.conditions and is_resize_infeasible(pod))
            and not (counts_claims and status.node_allocatable_resource_claim_statuses)
        ):
            values = known[1]
        else:
            values = _values_of(pod, sums_resizes_apart, counts_claims)
        self.resources: PodResources = values[0]
        self.host_ports: tuple[HostPort, ...] = values[1]
        # Does it name claims or disks? Most pods name only what the kubelet makes: tokens, ConfigMaps and the like.
        self.uses_storage: bool = values[2]
        self.signature: object | None = None  # decides the pod class; set by the framework
        # Compiled when first asked for; most pods have none.
        self.states_affinity = pod.spec.affinity is not None  # else it has no terms
        self._affinity: PodAffinityTerms | None = None if self.states_affinity else NO_TERMS
        self._held_terms: tuple[tuple[HeldTerm, int], ...] | None = None if self.states_affinity else ()

    def bound_as(self, pod: Pod) -> bool:
        """Take the pod's version that has its node, if it has the very parts from which all values here are computed.

        Returns False, and changes nothing, if any of them is another object. For a pod whose cycles have ended.
        """
        old_meta, meta, old, spec, status = self.pod.metadata, pod.metadata, self.pod.spec, pod.spec, pod.status
        if (
            meta.labels is not old_meta.labels
            or meta.deletion_timestamp is not old_meta.deletion_timestamp
            or spec.containers is not old.containers
            or spec.init_containers is not old.init_containers
            or spec.volumes is not old.volumes
            or spec.overhead is not old.overhead
            or spec.resources is not old.resources
            or spec.affinity is not old.affinity
            or (spec.priority or 0) != self.priority
            or status.container_statuses
            or status.init_container_statuses
            or status.resources
            or status.node_allocatable_resource_claim_statuses
            is not self.pod.status.node_allocatable_resource_claim_statuses
            # Before a kubelet has reported anything, PodScheduled is the only condition.
            or (status.conditions and len(status.conditions) > 1 and is_resize_infeasible(pod))
        ):
            return False
        self.pod = pod
        return True

    def copy_bound_as(self, pod: Pod) -> PodInfo | None:
        """Return a copy of this that has taken the version as `bound_as` does; None where that returns False."""
        copy = PodInfo.__new__(PodInfo)
        copy.pod, copy.uid, copy.priority, copy.resources = self.pod, self.uid, self.priority, self.resources
        copy.host_ports, copy.uses_storage, copy.signature = self.host_ports, self.uses_storage, self.signature
        copy.states_affinity, copy._affinity, copy._held_terms = self.states_affinity, self._affinity, self._held_terms
        return copy if copy.bound_as(pod) else None

    @property
    def key(self) -> str:
        """The pod's namespace/name, built on each access: stored, it would take a tenth of a PodInfo's memory."""
        return self.pod.key

    @property
    def affinity(self) -> PodAffinityTerms:
        """The pod's compiled (anti-)affinity terms; malformed ones are left out and reported in `fault`."""
        if self._affinity is None:
            self._affinity = compile_pod_affinity(self.pod)
        return self._affinity

    @property
    def held_terms(self) -> tuple[tuple[HeldTerm, int], ...]:
        """The affinity terms that later pods are matched against, each with how often the pod states it."""
        if self._held_terms is None:
            self._held_terms = self.affinity.held_counts
        return self._held_terms

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"


_Values = tuple[PodResources, tuple[HostPort, ...], bool]  # requests, host ports, whether storage is used

# id of the containers -> the spec of a pod that has them, which keeps the id from meaning others, and its values.
_templates: dict[int, tuple[PodSpec, _Values]] = {}
_MOST_TEMPLATES = 1_024


def _values_of(pod: Pod, sums_resizes_apart: bool, counts_claims: bool) -> _Values:
    """Return the values that follow from a pod's template, kept for the template's next pod. Raises DecodeError."""
    resources = pod_resources(pod, sums_resizes_apart=sums_resizes_apart, counts_claims=counts_claims)
    if len(resources.total.scalars) + NATIVE_RESOURCES > MAX_ENTRIES:
        raise DecodeError(
            f"pod {pod.key}: expected requests for at most {MAX_ENTRIES - NATIVE_RESOURCES} extended resources, "
            f"got {len(resources.total.scalars)}"
        )
    spec = pod.spec
    values = resources, host_ports(pod), any(map(is_storage, spec.volumes or ()))
    if not (depends_on_status(pod) or (counts_claims and pod.status.node_allocatable_resource_claim_statuses)):
        if len(_templates) >= _MOST_TEMPLATES:
            _templates.clear()
        _templates[id(spec.containers)] = spec, values
    return values


def is_storage(volume: Volume) -> bool:
    """Return True for a volume that the volume plugins consider: a claim or a disk."""
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or is_disk(volume)
        or volume.azure_disk is not None
        or volume.cinder is not None
        or volume.portworx_volume is not None
    )


def is_disk(volume: Volume) -> bool:
    """Return True for a volume of the four in-tree disk types that pods cannot always share."""
    return not (
        volume.gce_persistent_disk is None
        and volume.aws_elastic_block_store is None
        and volume.iscsi is None
        and volume.rbd is None
    )


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Return the host ports that a pod takes on its node: those of containers and of restartable init containers."""
    found: list[HostPort] = []
    for container in pod.spec.containers:
        if container.ports:
            found += _ports_of(container)
    for container in pod.spec.init_containers or ():
        if container.ports and container.restart_policy == "Always":
            found += _ports_of(container)
    return tuple(found)


def _ports_of(container: Container) -> list[HostPort]:
    return [
        HostPort(port.protocol or "TCP", port.host_port, port.host_ip or EVERY_ADDRESS)
        for port in container.ports or ()
        if port.host_port > 0
    ]
