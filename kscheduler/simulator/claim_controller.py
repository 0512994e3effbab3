"""Makes and releases ResourceClaims in a simulated cluster, as kube-controller-manager's controller for them does.

A pod with entries that name a ResourceClaimTemplate gets a claim for each, named in its status; if its PodGroup has an
equal entry, and the cluster the feature gate for that, the claim is the group's. When a pod has ended or is deleted,
the claims that are reserved for it are released, and those for a group when that is deleted; one that is reserved for
nobody any more is deallocated, and one that was made for the pod or group goes with it. A claim that is deleted while
it is reserved for nobody loses the finalizer that a scheduler gave it. Changes are processed after they are made, at
the same instant of virtual time. Not modelled: claims of pods that were bound without a scheduler.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from kscheduler.api.devices import (
    FINALIZER,
    POD_CLAIM_NAME,
    ClaimMeta,
    ResourceClaim,
    ResourceClaimTemplate,
)
from kscheduler.api.objects import OwnerReference, Pod, PodResourceClaim, PodResourceClaimStatus
from kscheduler.api.pod_groups import PodGroup, PodGroupResourceClaimStatus
from kscheduler.client.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from kscheduler.client.pod_group_kinds import pod_groups
from kscheduler.config.releases import DEFAULT_RELEASE, RELEASE_1_37
from kscheduler.simulator.cluster import FINISHED, Cluster
from kscheduler.simulator.controller import Controller, take_first


class ClaimController(Controller):
    """Follows the pods of one simulated cluster, from the first claim or template on. Costs nothing without these."""

    def __init__(self, cluster: Cluster, defer: Callable[[Callable[[], None]], object]) -> None:
        super().__init__(defer)
        self._cluster = cluster
        self._follows_pods = False
        self._pods_due: dict[str, None] = {}  # keys of pods that may need claims, in order of change: an ordered set
        self._ended: dict[str, None] = {}  # uids of pods that need none any more, likewise
        self._deleted: dict[str, None] = {}  # keys of claims that are being deleted and not reserved, likewise
        # (kind, key) of a missing template or group -> keys of the pods that name it
        self._awaited: dict[tuple[type, str], dict[str, None]] = {}
        self._used: dict[str, dict[str, None]] = {}  # uid of a pod -> keys of claims reserved or made for it
        self._claims: dict[str, ResourceClaim] = cluster.store(RESOURCE_CLAIMS).objects
        self._templates: dict[str, ResourceClaimTemplate] = cluster.store(RESOURCE_CLAIM_TEMPLATES).objects
        groups = cluster.store(pod_groups(DEFAULT_RELEASE))  # of whatever version the cluster has
        self._groups: dict[str, PodGroup] = groups.objects
        if cluster.has_group_claims:
            groups.subscribe(self._group_changed)
        cluster.store(RESOURCE_CLAIMS).subscribe(self._claim_changed)
        cluster.store(RESOURCE_CLAIM_TEMPLATES).subscribe(self._template_changed)

    # --- what changed ---------------------------------------------------------------------------------------------

    def _claim_changed(self, before: ResourceClaim | None, after: ResourceClaim | None) -> None:
        if before is not None:
            for uid in _users(before):
                self._used[uid].pop(before.key, None)
                if not self._used[uid]:
                    del self._used[uid]
        if after is not None:
            for uid in _users(after):
                self._used.setdefault(uid, {})[after.key] = None
            if after.metadata.deletion_timestamp is not None and not after.status.reserved_for:
                self._deleted[after.key] = None
                self._call()
        self._follow_pods()
        if before is None and after is not None:
            self._adopt(after)

    def _adopt(self, claim: ResourceClaim) -> None:
        """Give the pod of a claim that something else made for it another look, such as one of a record."""
        owner = _owner(claim)
        key = "" if owner is None else f"{claim.metadata.namespace}/{owner.name}"
        if key in self._cluster.pods:
            self._pods_due[key] = None
            self._call()

    def _template_changed(self, before: ResourceClaimTemplate | None, after: ResourceClaimTemplate | None) -> None:
        self._follow_pods()
        if after is not None:
            self._comes(ResourceClaimTemplate, after.key)

    def _group_changed(self, before: PodGroup | None, after: PodGroup | None) -> None:
        if after is not None:
            self._comes(PodGroup, after.key)
        elif before is not None and before.metadata.uid in self._used:
            self._ended[before.metadata.uid] = None
            self._call()

    def _comes(self, kind: type, key: str) -> None:
        """Give the pods that wait for this object another look."""
        self._pods_due.update(self._awaited.pop((kind, key), {}))
        self._call()

    def _follow_pods(self) -> None:
        if self._follows_pods:
            return
        self._follows_pods = True
        self._cluster.store(PODS).subscribe(self._pod_changed)
        for pod in self._cluster.pods.values():
            self._pod_changed(None, pod)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        assert pod is not None
        if after is None or after.status.phase in FINISHED:
            if pod.metadata.uid in self._used:
                self._ended[pod.metadata.uid] = None
                self._call()
        elif before is None and pod.spec.resource_claims:
            self._pods_due[pod.key] = None
            self._call()

    def _process_one(self) -> bool:
        """Release the claims of a pod that has ended, or make those of a new one, or let one go that is deleted."""
        if self._ended:
            self._release(take_first(self._ended))
        elif self._deleted:
            self._let_go(take_first(self._deleted))
        elif self._pods_due:
            self._make_claims(take_first(self._pods_due))
        else:
            return False
        return True

    # --- what follows ---------------------------------------------------------------------------------------------

    def _make_claims(self, pod_key: str) -> None:
        pod = self._cluster.pods.get(pod_key)
        if pod is None or pod.status.phase in FINISHED:
            return
        stated = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses or ()}
        made = dict(stated)
        for entry in pod.spec.resource_claims or ():
            if entry.resource_claim_template_name is None:
                continue
            name = self._claim_of(pod, entry, stated.get(entry.name))
            if name is not None:
                made[entry.name] = name
        if made != stated:
            statuses = [PodResourceClaimStatus(*each) for each in made.items()]
            self._cluster.update_pod(replace(pod, status=replace(pod.status, resource_claim_statuses=statuses)))

    def _claim_of(self, pod: Pod, entry: PodResourceClaim, stated: str | None) -> str | None:
        """Return the name of the claim for an entry of the pod's spec, made now if there is none.

        `stated`: its name in the pod's status. Returns None if there is no template to make it from.
        """
        namespace = pod.metadata.namespace
        if stated is not None and f"{namespace}/{stated}" in self._claims:
            return stated
        owner = self._owner_of(pod, entry)
        if owner is None:
            return None
        for key in self._used.get(owner.metadata.uid, ()):
            claim = self._claims[key]
            if (claim.metadata.annotations or {}).get(POD_CLAIM_NAME) == entry.name and _is_made_for(claim, owner):
                return claim.metadata.name
        key = f"{namespace}/{entry.resource_claim_template_name}"
        template = self._templates.get(key)
        if template is None:
            self._awaited.setdefault((ResourceClaimTemplate, key), {})[pod.key] = None
            return None
        made: ResourceClaim = self._cluster.create_object(_claim(owner, entry, template))
        if isinstance(owner, PodGroup):
            shown = [*(owner.status.resource_claim_statuses or ())]
            shown.append(PodGroupResourceClaimStatus(entry.name, made.metadata.name))
            self._cluster.update_object(replace(owner, status=replace(owner.status, resource_claim_statuses=shown)))
        return made.metadata.name

    def _owner_of(self, pod: Pod, entry: PodResourceClaim) -> Pod | PodGroup | None:
        """Return for whom the claim of an entry of the pod's spec is made; None while the pod's group is missing."""
        group_ref = pod.spec.scheduling_group
        if not self._cluster.has_group_claims or group_ref is None or not group_ref.pod_group_name:
            return pod
        key = f"{pod.metadata.namespace}/{group_ref.pod_group_name}"
        group = self._groups.get(key)
        if group is None:
            self._awaited.setdefault((PodGroup, key), {})[pod.key] = None
            return None
        wanted = entry.name, entry.resource_claim_template_name
        for each in group.spec.resource_claims or ():
            if (each.name, each.resource_claim_template_name) == wanted:
                return group
        return pod

    def _release(self, uid: str) -> None:
        for key in list(self._used.get(uid, ())):
            claim = self._claims[key]
            reserved = [each for each in claim.status.reserved_for or () if each.uid != uid]
            changed = replace(claim, status=replace(claim.status, reserved_for=reserved or None))
            if not reserved:
                changed = _deallocated(changed)
            if changed != claim:
                self._cluster.update_object(changed)
            owner = _owner(claim)
            if owner is not None and owner.uid == uid and key in self._claims:
                self._cluster.delete_claim(key)

    def _let_go(self, key: str) -> None:
        claim = self._claims.get(key)
        if claim is None or claim.metadata.deletion_timestamp is None or claim.status.reserved_for:
            return
        if FINALIZER in (claim.metadata.finalizers or ()):
            self._cluster.update_object(_deallocated(claim))


def _deallocated(claim: ResourceClaim) -> ResourceClaim:
    """Return a claim without its allocation, and without the finalizer that a scheduler gave it with that."""
    kept = [each for each in claim.metadata.finalizers or () if each != FINALIZER]
    metadata = replace(claim.metadata, finalizers=kept or None)
    return replace(claim, metadata=metadata, status=replace(claim.status, allocation=None, devices=None))


def _users(claim: ResourceClaim) -> set[str]:
    """Return the uids of the pods that the claim is reserved for, and of the one that it was made for."""
    owner = _owner(claim)
    reserved = {each.uid for each in claim.status.reserved_for or ()}
    return reserved if owner is None else reserved | {owner.uid}


def _owner(claim: ResourceClaim) -> OwnerReference | None:
    """Return the pod that the claim was made for; None for a claim that somebody made by name."""
    return next((each for each in claim.metadata.owner_references or () if each.controller), None)


def _is_made_for(claim: ResourceClaim, user: Pod | PodGroup) -> bool:
    owner = _owner(claim)
    return owner is not None and owner.uid == user.metadata.uid


def _claim(owner: Pod | PodGroup, entry: PodResourceClaim, template: ResourceClaimTemplate) -> ResourceClaim:
    meta, spec, of = template.spec.metadata, template.spec.spec, owner.metadata
    api, kind = ("v1", "Pod") if isinstance(owner, Pod) else (pod_groups(RELEASE_1_37).group_version, "PodGroup")
    return ResourceClaim(
        ClaimMeta(
            generate_name=f"{of.name}-{entry.name}-",
            namespace=of.namespace,
            labels=meta.labels,
            annotations={**(meta.annotations or {}), POD_CLAIM_NAME: entry.name},
            owner_references=[OwnerReference(api, kind, of.name, of.uid, controller=True)],
        ),
        spec,
    )
