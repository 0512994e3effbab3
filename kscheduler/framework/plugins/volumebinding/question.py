"""What a pod's volumes require of a node, prepared once a cycle, and the result for single nodes.

The result for a node is a Plan: the reasons why it is rejected, or the volumes that the claims would get there. It
depends on the node's labels; on its name, if a provisioner has already been asked to make a volume for some node; and
on the in-tree plugins that are migrated to CSI on the node.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import NamedTuple

from kscheduler.api.quantity import milli_to_units
from kscheduler.api.storage import SELECTED_NODE, PersistentVolume, PersistentVolumeClaim, class_of
from kscheduler.framework.csi_migration import NotTranslatable
from kscheduler.framework.plugins.volumebinding.accessible_nodes import (
    EVERYWHERE,
    AccessibleNodes,
    AccessibleNodesMemo,
    Labels,
)
from kscheduler.framework.plugins.volumebinding.claims import PodClaims
from kscheduler.framework.plugins.volumebinding.matching import requested_milli, size_milli
from kscheduler.framework.plugins.volumebinding.migration import (
    in_tree_plugin,
    is_migrated,
    migrated_affinity,
)
from kscheduler.framework.plugins.volumebinding.obstacles import BIND_CONFLICT, NODE_CONFLICT, VOLUME_MISSING
from kscheduler.framework.plugins.volumebinding.provisioning import Offer, Offers
from kscheduler.framework.plugins.volumebinding.volume_index import Choice, VolumeIndex
from kscheduler.snapshot.volumes import Volumes

NOTHING: frozenset[str] = frozenset()


class Plan(NamedTuple):
    """The result for a pod's volumes on a node: why it is rejected, or which claims are bound or provisioned there.

    `obstacles` are bit flags of reasons, 0 for none; `bindings` and `provisions` are valid only without obstacles.
    """

    obstacles: int
    bindings: Sequence[tuple[PersistentVolumeClaim, PersistentVolume]] = ()
    provisions: Sequence[PersistentVolumeClaim] = ()


class CapacityUse(NamedTuple):
    """How much of a StorageClass's capacity a pod's claims request on a node, both in bytes."""

    requested: int
    capacity: int


NO_USE = CapacityUse(0, 0)


class BoundVolume:
    """A volume that one of the pod's claims is bound to, with the nodes that can access it."""

    def __init__(self, volume: PersistentVolume, memo: AccessibleNodesMemo, volumes: Volumes) -> None:
        self.accessible = memo.of(volume)
        self._volumes = volumes
        self._plugin = in_tree_plugin(volume)
        self._migrated = self.accessible
        self._fault: NotTranslatable | None = None
        if not self._plugin:
            return
        try:
            affinity = migrated_affinity(volume)
        except NotTranslatable as error:
            self._fault = NotTranslatable(f"could not translate pv: {error}")
        else:
            self._migrated = EVERYWHERE if affinity is None else memo.compile(affinity)

    @property
    def depends_on_migration(self) -> bool:
        return self._fault is not None or self._migrated is not self.accessible

    def is_accessible_from(self, labels: Labels, node_name: str) -> bool:
        """Return True if a node with these labels can access the volume. Raises NotTranslatable."""
        if not self.depends_on_migration or not is_migrated(self._plugin, self._volumes.csi_node(node_name)):
            return self.accessible.matches(labels)
        if self._fault is not None:
            raise self._fault
        return self._migrated.matches(labels)


class Question:
    """What a pod's claims require of a node: judges each node.

    Raises DecodeError for a claim whose request cannot be read.
    """

    def __init__(
        self, claims: PodClaims, volumes: Volumes, memo: AccessibleNodesMemo, volume_index: VolumeIndex, offers: Offers
    ) -> None:
        self.claims = claims
        self._bound = [_bound_volume(claim, volumes, memo) for claim in claims.bound]
        # Claims for which a provisioner has been asked to make a volume, and those whose volume is yet to be chosen.
        self._started = [claim for claim in claims.delayed if _selected_node(claim) is not None]
        self.started_nodes = frozenset(_selected_node(claim) or "" for claim in self._started)
        open_claims = [claim for claim in claims.delayed if _selected_node(claim) is None]
        # The smallest claim chooses first, so that none takes a volume that another needs more.
        open_claims.sort(key=requested_milli)
        self._choices = [Choice(claim, volume_index, memo) for claim in open_claims]
        self._offer_of = {claim.key: offers.for_claim(claim) for claim in claims.delayed}

    # --- one node ---

    def obstacles(self, labels: Labels, node_name: str) -> int:
        """Return why the pod's volumes reject a node, as bit flags; 0 if they do not. Raises NotTranslatable."""
        if self._started or len(self._choices) > 1:
            return self.plan(labels, node_name).obstacles
        # The common case, computed for very many nodes: at most one claim whose volume is yet to be chosen.
        bound = self._bound_obstacle(labels, node_name) if self._bound else 0
        for choice in self._choices:
            if choice.best(labels, NOTHING) is None:
                return bound | self._offer_of[choice.claim.key].obstacle(labels)
        return bound

    def plan(self, labels: Labels, node_name: str) -> Plan:
        """Return which claims would be bound and provisioned on a node, or why not. Raises NotTranslatable."""
        # 1. Volumes that are bound must be accessible.
        bound = self._bound_obstacle(labels, node_name)
        # 2. A volume that is being made for a node is of no use to others.
        if self.started_nodes - {node_name}:
            return Plan(bound | BIND_CONFLICT)
        # 3. Other claims take existing volumes, or have one made.
        bindings, provisions = self._chosen(labels)
        return Plan(bound | self._provision_obstacle(provisions, labels), bindings, provisions)

    def capacity_use(self, labels: Labels) -> Mapping[str, CapacityUse]:
        """Return StorageClass -> the use of its capacity by the pod's claims, on a node that accepts its volumes.

        Of existing volumes, if the pod gets any; else of the capacities from which its volumes will be provisioned, as
        far as they are known.
        """
        bindings, provisions = self._chosen(labels)
        uses: dict[str, CapacityUse] = {}
        for claim, volume in bindings:
            before = uses.get(volume.spec.storage_class_name, NO_USE)
            requested, capacity = milli_to_units(requested_milli(claim)), milli_to_units(size_milli(volume) or 0)
            uses[volume.spec.storage_class_name] = CapacityUse(before.requested + requested, before.capacity + capacity)
        for claim in provisions if not bindings else ():
            offer = self._offer_of[claim.key]
            free = offer.capacity(labels)
            if free is not None:
                name = claim.spec.storage_class_name or class_of(claim)
                # The capacity is that of the last claim: all claims of the class are provisioned from one, as a rule.
                uses[name] = CapacityUse(uses.get(name, NO_USE).requested + offer.size, free)
        return uses

    @property
    def sole_choice(self) -> Choice | None:
        """The choice of the pod's only claim without a volume, if there are volumes to choose from; else None."""
        if len(self._choices) != 1 or self._started or self._choices[0].is_empty:
            return None
        return self._choices[0]

    @property
    def sole_offer(self) -> Offer | None:
        """The offer for the pod's only claim without a volume, if there is no volume to choose from; else None."""
        if len(self.claims.delayed) != 1 or any(not choice.is_empty for choice in self._choices):
            return None
        return self._offer_of[self.claims.delayed[0].key]

    @property
    def may_use_capacity(self) -> bool:
        """True if `capacity_use` may return anything for some node."""
        return any(not choice.is_empty for choice in self._choices) or any(
            offer.capacities is not None for offer in self._offer_of.values()
        )

    def _chosen(
        self, labels: Labels
    ) -> tuple[list[tuple[PersistentVolumeClaim, PersistentVolume]], list[PersistentVolumeClaim]]:
        """Return (claims with the existing volumes that they would get on a node, claims to be provisioned)."""
        bindings: list[tuple[PersistentVolumeClaim, PersistentVolume]] = []
        provisions = list(self._started)
        taken: set[str] = set()
        for choice in self._choices:
            volume = choice.best(labels, taken)
            if volume is None:
                provisions.append(choice.claim)
            else:
                taken.add(volume.metadata.name)
                bindings.append((choice.claim, volume))
        return bindings, provisions

    def _bound_obstacle(self, labels: Labels, node_name: str) -> int:
        """Return the reason flag of the first bound volume that is missing or not accessible from the node; else 0."""
        for volume in self._bound:
            if volume is None:
                return VOLUME_MISSING
            if not volume.is_accessible_from(labels, node_name):
                return NODE_CONFLICT
        return 0

    def _provision_obstacle(self, provisions: Sequence[PersistentVolumeClaim], labels: Labels) -> int:
        for claim in provisions:
            if obstacle := self._offer_of[claim.key].obstacle(labels):
                return obstacle
        return 0

    # --- which nodes have an answer of their own ---

    @property
    def single_nodes(self) -> frozenset[str] | None:
        """Return the hostnames of the nodes that may get a result of their own; None: every node may.

        All other nodes get the result of their node class (nodes with equal labels except the hostname, and equal
        taints).
        """
        if any(volume is not None and volume.depends_on_migration for volume in self._bound):
            return None
        if any(offer.reads_hostname for offer in self._offer_of.values()):
            return None
        hosts: set[str] = set()
        for found in (
            *(_hosts(accessible) for accessible in self._bound_accessible()),
            *(choice.hosts for choice in self._choices),
        ):
            if found is None:
                return None
            hosts |= found
        return frozenset(hosts)

    @property
    def sure_hosts(self) -> Collection[str]:
        """Return hostnames, among `single_nodes`, of nodes that the pod's volumes certainly accept."""
        if self._bound or self._started or len(self._choices) != 1:
            return ()
        return self._choices[0].sure_hosts

    @property
    def narrowest(self) -> tuple[str, frozenset[str]] | None:
        """Return (label, values) such that a node without one of these values conflicts with a bound volume.

        That conflict is then the only reason. None if the pod's volumes do not reject nodes in so simple a way.
        """
        if self.claims.delayed or any(volume is None or volume.depends_on_migration for volume in self._bound):
            return None
        needs = [accessible.needs for accessible in self._bound_accessible() if accessible.needs is not None]
        return min(needs, key=lambda need: len(need[1]), default=None)

    @property
    def key(self) -> Hashable | None:
        """Return a key that is equal for pods whose volumes give equal results for all nodes of a node class.

        None: no other pod's volumes do. A node class has the nodes with equal labels and taints.
        """
        if any(not choice.is_empty for choice in self._choices):
            return None
        offers: list[Offer] = [self._offer_of[claim.key] for claim in self._started]
        offers += [self._offer_of[choice.claim.key] for choice in self._choices]
        bound = tuple(volume and volume.accessible for volume in self._bound)
        return bound, bool(self._started), tuple(offer.key for offer in offers)

    def _bound_accessible(self) -> list[AccessibleNodes]:
        return [volume.accessible for volume in self._bound if volume is not None]


def _selected_node(claim: PersistentVolumeClaim) -> str | None:
    return (claim.metadata.annotations or {}).get(SELECTED_NODE)


def _bound_volume(claim: PersistentVolumeClaim, volumes: Volumes, memo: AccessibleNodesMemo) -> BoundVolume | None:
    volume = volumes.volume(claim.spec.volume_name)
    return None if volume is None else BoundVolume(volume, memo, volumes)


def _hosts(accessible: AccessibleNodes) -> frozenset[str] | None:
    """Return the hostnames of the nodes that this affinity may treat unlike others with equal labels and taints.

    None if that may be any node.
    """
    if accessible.hosts is not None:
        return accessible.hosts
    return None if accessible.reads_hostname else frozenset()
