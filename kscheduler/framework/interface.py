"""The extension points, as kube-scheduler names and orders them.

A plugin is any object with a `name` and the methods of the points it extends: having `filter` makes it a Filter plugin.
Pods and nodes passed to it are shared and must not be changed. A plugin returns None for success, or a Status.

Filter and Score have two forms. The *per-node* form is the definition: one pod, one node. The *table form* answers for
all nodes in one call and must agree with it: in-tree plugins have both, and tests compare them. A plugin may have only
the per-node form; the framework then calls it once for each node. In the table form nodes are columns: one array for
each property, and each node has a *row*, its index in all of them.
"""

from __future__ import annotations

import random
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Hashable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from kscheduler._fast import Scores, Verdicts
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.errors import InternalError
from kscheduler.framework.claim_writes import ClaimWrites
from kscheduler.framework.class_draft import ClassDraft
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.demands import Demands
from kscheduler.framework.dry_runs import VictimGroups
from kscheduler.framework.events import ClusterEvent, Registration
from kscheduler.framework.evictions import Endings, Evictions
from kscheduler.framework.extender_verdict import Proposal
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.status import Status
from kscheduler.framework.stopwatch import stands_still
from kscheduler.framework.telemetry import Telemetry
from kscheduler.framework.tie_bits import TieBits
from kscheduler.snapshot.devices import Devices
from kscheduler.snapshot.disruption_budgets import DisruptionBudgets
from kscheduler.snapshot.namespaces import Namespaces
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.owners import Owners
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.volumes import Volumes

if TYPE_CHECKING:
    from kscheduler.quotas.elastic import ElasticQuotas
    from kscheduler.quotas.share_queues import ShareQueues

MIN_NODE_SCORE = 0
MAX_NODE_SCORE = 100


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """The names of the only nodes to filter; None means all nodes."""

    node_names: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """The node to which PostFilter nominates the pod: "" clears the nomination, None leaves it unchanged."""

    nominated_node_name: str | None = None


class Plugin(Protocol):
    @property
    def name(self) -> str: ...


@runtime_checkable
class PreEnqueuePlugin(Plugin, Protocol):
    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Return None or success if the pod may enter the active or backoff queue; any other status gates it.

        A plugin may state about which pods it need not be asked. `gates_by_spec = True`: its answer follows from the
        spec alone, which pods of one template share. `may_gate`: a container of the uids that it may gate.
        `gates_with`: the name of a field of the spec; pods where it is empty are not gated.
        """
        ...


@runtime_checkable
class QueueSortPlugin(Plugin, Protocol):
    def sort_key(self, priority: int, timestamp: float) -> tuple[float, ...]:
        """Return a key: pods are popped in ascending order of their keys.

        `timestamp`: when the pod was queued, in seconds.
        """
        ...


@runtime_checkable
class EnqueueExtensions(Plugin, Protocol):
    def events_to_register(self) -> Sequence[ClusterEvent | Registration]:
        """Return the events, with optional queueing hints, that may make a pod schedulable that the plugin rejected."""
        ...


@runtime_checkable
class PreFilterPlugin(Plugin, Protocol):
    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        """Prepare the plugin's Filter; called once a cycle. SKIP leaves the plugin's Filter out of the cycle.

        UNSCHEDULABLE_AND_UNRESOLVABLE ends the cycle at once; UNSCHEDULABLE ends it after the other PreFilters.
        """
        ...


@runtime_checkable
class PreFilterExtensions(Plugin, Protocol):
    """Updates the plugin's values in the cycle state when a pod is added to or removed from a copy of a node.

    Called if the plugin's PreFilter did not skip. `node` already has the pods after the move. The values that PreFilter
    wrote must have a method `clone`; see `CycleState`.
    """

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        """Update the cycle state as if `other` were added to the node. `pod` is the pod that is being scheduled."""
        ...

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        """Update the cycle state as if `other` were removed from the node. `pod` is the pod that is being scheduled."""
        ...


@runtime_checkable
class FilterPlugin(Plugin, Protocol):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Return None if the pod can run on the node. A rejection excludes the node; an ERROR ends the pod's cycle.

        Read the pods on the node from `node` only: it may be a copy with other pods, on which preemption tries
        something.
        """
        ...


@runtime_checkable
class TableFilterPlugin(FilterPlugin, Protocol):
    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        """Reject rows (nodes) in `verdicts` under `code`, each with a reason number (detail) that `explain` takes."""
        ...

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        """Return the status for a reason number (detail) that `filter_table` wrote."""
        ...


@runtime_checkable
class SearchingFilterPlugin(TableFilterPlugin, Protocol):
    """A slow filter in table form, which should stop once enough feasible nodes are found."""

    def filter_until(
        self,
        state: CycleState,
        pod: PodInfo,
        table: NodeTable,
        verdicts: Verdicts,
        code: int,
        start: int,
        enough: int,
    ) -> None:
        """Filter the feasible rows (nodes) from row `start` on, wrapping around, until `enough` of them passed.

        The remaining rows stay feasible, unfiltered.
        """
        ...


@runtime_checkable
class DemandingFilterPlugin(TableFilterPlugin, Protocol):
    """A table filter that can state its requirements as numbers, so that preemption's dry runs need not call it."""

    def demands(self, state: CycleState, pod: PodInfo) -> Demands | None:
        """Return the requirements of `filter` on a node in this cycle as numbers; None if that is not possible."""
        ...


@runtime_checkable
class PostFilterPlugin(Plugin, Protocol):
    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]
    ) -> tuple[PostFilterResult | None, Status | None]:
        """Try to make room when no node fits. SUCCESS, ERROR and UNSCHEDULABLE_AND_UNRESOLVABLE end the chain.

        `statuses`: node name -> status. An ERROR is logged and shown on the pod, which stays rejected by its filters.
        """
        ...


# Yields proposed victims, is sent those that extenders agree to, or an ERROR, and returns PostFilter's answer.
PostFilterSteps = Generator[Proposal, Proposal | Status, tuple[PostFilterResult | None, Status | None]]


@runtime_checkable
class ProposingPlugin(PostFilterPlugin, Protocol):
    """A PostFilter plugin that evicts pods, and first lets extenders choose among the victims it proposes."""

    def propose(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> PostFilterSteps:
        """Propose to the extenders the victims that `post_filter` would choose, and evict those of a node they accept.

        This is a generator, which is sent the extenders' answer. The cluster may have changed by then.
        """
        ...


@runtime_checkable
class RepeatingPlugin(PostFilterPlugin, Protocol):
    """A PostFilter plugin that can tell when its latest answer holds for equal pods, too, in an unchanged cluster."""

    def repetition(self, pod: PodInfo) -> Callable[[PodInfo], bool] | None:
        """Return how to repeat the answer that the plugin has just given for this pod; None if it may not be repeated.

        The function is called for pods equal in signature, priority and preemptionPolicy, while no node, no pod on a
        node and no nomination has changed. It returns whether the answer holds, and then has had all effects of a
        call of `post_filter`.
        """
        ...


@runtime_checkable
class PreScorePlugin(Plugin, Protocol):
    def pre_score(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Prepare the plugin's Score; called once if at least two nodes fit. SKIP leaves its Score out of the cycle."""
        ...


@runtime_checkable
class ScorePlugin(Plugin, Protocol):
    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        """Return the node's score. After `normalize_score`, if there is one, it must lie in 0..100."""
        ...


@runtime_checkable
class TableScorePlugin(ScorePlugin, Protocol):
    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        """Write the raw score of every feasible row (node) to `scores`."""
        ...


@runtime_checkable
class TableNormalizeScore(TableScorePlugin, Protocol):
    def normalize_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        """Normalise the raw scores of all feasible rows (nodes) to 0..100 in place."""
        ...


@runtime_checkable
class NormalizeScore(Plugin, Protocol):
    def normalize_score(self, state: CycleState, pod: PodInfo, scores: dict[str, int]) -> Status | None:
        """Normalise the raw scores (node name -> score) of all feasible nodes to 0..100 in place."""
        ...


# --- for the compiled lane: see `compiled_lane` ---


@runtime_checkable
class SigningPlugin(Plugin, Protocol):
    """A plugin that can state what it reads of a pod; pods with equal signatures by all plugins are decided equally."""

    def sign_pod(self, pod: PodInfo) -> Hashable | None:
        """Return what PreFilter, Filter, PreScore and Score read of the pod; None: the general lane decides the pod.

        The signature must follow from the pod's spec (but not from the names of volumes), namespace, labels and owners,
        or from what the plugin adds to these (`signatures.FarSightedPlugin`). A plugin with an attribute
        `signs_metadata = False` states that its signature and its statements in `compile_class` follow from the spec
        alone. (The general lane calls plugins for each pod; the compiled lane asks them once for pods with equal
        signatures.)
        """
        ...


@runtime_checkable
class CompilingPlugin(SigningPlugin, Protocol):
    """A plugin that can state, in a form for kernels, how it decides about all pods with an equal signature.

    A signature is what plugins read in a pod; see `SigningPlugin`.
    """

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        """Add to the draft how the plugin filters and scores pods like this one. Returns False if that is not possible.

        A draft is a pod class under construction, by which kernels decide. Called again when a source (a part of the
        cluster's state) changes that the plugin has named with `draft.depends_on`.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PreparedClaims:
    """How the claims of a pod are decided on at present."""

    key: Hashable  # all plugins decide equally about pods with equal signatures and equal keys
    row: int = -1  # the only row (node) that the claims allow; -1: what the plugin states with the key decides


@runtime_checkable
class ClaimingPlugin(CompilingPlugin, Protocol):
    """A plugin that decides about pods with ResourceClaims by these claims, which signatures of pods leave out."""

    def concerns(self, pod: PodInfo) -> bool:
        """Return whether claims, or extended resources that classes back, decide about the pod."""
        ...

    def prepare_claims(self, pod: PodInfo) -> PreparedClaims | None:
        """Look at the claims of a pod that the plugin concerns, right before the pod may be placed by kernels.

        None: the pod must be decided plugin by plugin. If it is placed, `reserve` is called next, without PreFilter
        and Filter.
        """
        ...

    def awaits_allocation(self, pod: PodInfo) -> bool:
        """Return whether the pod's claims are there, and the allocation of one of them is in flight."""
        ...

    def release_claims(self, shared: CycleState, pods: Sequence[PodInfo], *, has_placed: bool) -> Status | None:
        """Take claims back for a gang that could not be placed; see DynamicResources."""
        ...

    def compile_claims(self, draft: ClassDraft, key: Hashable) -> None:
        """Add to the draft how the plugin filters and scores pods for which `prepare_claims` returned this key."""
        ...


@runtime_checkable
class CompletingPlugin(Plugin, Protocol):
    """A plugin by whose decision a pod counts for more on its node than it requests."""

    completes_pods: bool  # False: it never does

    def assumed(self, state: CycleState, pod: PodInfo, node_name: str) -> PodInfo:
        """Return the pod as it counts on the node found for it, before Reserve; the pod itself if as before."""
        ...


@runtime_checkable
class FollowingPlugin(Plugin, Protocol):
    """A plugin that depends on something besides nodes and pods, which may change at any time except during a cycle."""

    def follow(self) -> int:
        """Read what has changed, before many pods are decided at once.

        Returns a number that grows when earlier answers of the plugin's `compile_class` become invalid.
        """
        ...


@runtime_checkable
class LimitingPlugin(Plugin, Protocol):
    """A CompilingPlugin by which each placed pod leaves less to later ones, wherever it is, such as one of quotas."""

    def admitted(self, profile: str, pods: Sequence[PodInfo]) -> int:
        """Return how many of the leading pods may be placed at once, i.e. each of them if those before it are.

        Only the pods of the profile are to be limited; the others are there because they may count. The next pod is
        decided plugin by plugin. Must not raise.
        """
        ...


@runtime_checkable
class HandingOverPlugin(Plugin, Protocol):
    """A plugin that may hand a pod over to the plugins of another profile, which then decide about it."""

    def hand_over(self, pod: PodInfo) -> str:
        """Return the scheduler name of the profile that decides about the pod, "" for the pod's own.

        Called once a cycle.
        """
        ...


@runtime_checkable
class ReservePlugin(Plugin, Protocol):
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Reserve what the pod needs on the node, on which it has just been assumed.

        If a plugin fails, `unreserve` of all runs in reverse order.
        """
        ...

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Undo `reserve`. Must be idempotent and not fail; it is called even if `reserve` was not."""
        ...


@runtime_checkable
class SelectivePlugin(Plugin, Protocol):
    """A plugin at Reserve, Permit, PreBind or PostBind that has nothing to do there for most pods."""

    def concerns(self, pod: PodInfo) -> bool:
        """Return False if the plugin's Reserve, Permit, PreBind and PostBind do nothing for the pod.

        The answer must depend on the pod's spec alone, because it is kept for all pods of a batch with the same spec. A
        plugin may state `concerned_by`: names of fields of PodInfo; a pod where all are empty is not asked about.
        """
        ...


@runtime_checkable
class DirectBindPlugin(Plugin, Protocol):
    """A Bind plugin that writes the default binding; the scheduler may write it without calling the plugin."""

    writes_default_binding: bool


@runtime_checkable
class PermitPlugin(Plugin, Protocol):
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        """Return a status that allows, rejects or WAITs, and for WAIT the timeout in seconds (capped at 15 minutes)."""
        ...


@runtime_checkable
class PreBindPlugin(Plugin, Protocol):
    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Return success if `pre_bind` will have work to do, SKIP if not."""
        ...

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Do the work that must precede the binding, such as provisioning a volume."""
        ...


@runtime_checkable
class BindPlugin(Plugin, Protocol):
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Write the binding. SKIP passes the pod to the next Bind plugin."""
        ...


@runtime_checkable
class PostBindPlugin(Plugin, Protocol):
    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Inform the plugin that the pod is bound."""
        ...


class WhatIf(Protocol):
    """A copy of one node, to try which pods must be removed for a pod that needs room there.

    Valid until the next cycle.

    The cluster does not change. `add` and `remove` return None, or an ERROR if a plugin could not update its state.
    """

    @property
    def state(self) -> CycleState:
        """The copy of the cycle state in which the plugins' PreFilterExtensions follow the moves."""
        ...

    @property
    def pods(self) -> Mapping[str, PodInfo]:
        """The pods on the copy of the node, by uid."""
        ...

    def remove(self, pod: PodInfo) -> Status | None: ...

    def add(self, pod: PodInfo) -> Status | None: ...

    def remove_elsewhere(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Let the plugins' state follow that a pod leaves another node, which itself stays as it is."""
        ...

    def add_elsewhere(self, pod: PodInfo, node: NodeInfo) -> Status | None: ...

    def fits(self) -> Status | None:
        """Return None if the pod fits on the copy, or else the first rejection by a Filter plugin, or an ERROR.

        If pods of at least the pod's priority are nominated to the node, filters run twice: with them there, and
        without.
        """
        ...


class ProfileHandle(Protocol):
    """The services that a profile offers its own plugins."""

    def what_if(self, state: CycleState, pod: PodInfo, node_name: str) -> WhatIf:
        """Return a copy of the node for trials; `state` is that of the pod's cycle, after PreFilter.

        Raises KeyError if there is no such node.
        """
        ...

    def pre_filter_on_trial(self, state: CycleState, pod: PodInfo) -> frozenset[str] | Status | None:
        """Run PreFilter for a pod that is not the one of the current cycle, so that `what_if` can be asked about it.

        Returns the names of the only nodes that it may go to, None for all, or why there are none.
        """
        ...

    def demands(self, state: CycleState, pod: PodInfo) -> Sequence[tuple[DemandingFilterPlugin, Demands]] | None:
        """Return each filter active in the cycle, in order, with its requirements on a node as numbers.

        None if one of them cannot state its requirements so.
        """
        ...


class PermitWait(Protocol):
    """A pod that waits on Permit and stays assumed on its node. Any plugin may allow or reject it, in any cycle."""

    @property
    def pod(self) -> PodInfo: ...

    @property
    def pending_plugins(self) -> list[str]:
        """The names of the Permit plugins whose allowance the pod still waits for; each of them has a time limit."""
        ...

    def allow(self, plugin: str) -> None:
        """Allow the pod on behalf of one plugin. It is bound once all plugins it waits for have allowed it."""
        ...

    def reject(self, plugin: str, message: str) -> None:
        """Send the pod back to the queue, with this message, as rejected by the plugin."""
        ...


class PermitWaits(Protocol):
    """All pods that wait on Permit; a pod is among them once all its Permit plugins have been called."""

    def get(self, uid: str) -> PermitWait | None: ...

    def __iter__(self) -> Iterator[PermitWait]:
        """Iterate over the waiting pods, the longest waiting first; they may be allowed or rejected meanwhile."""
        ...


class NoPermitWaits:
    def get(self, uid: str) -> PermitWait | None:
        return None

    def __iter__(self) -> Iterator[PermitWait]:
        return iter(())


async def _without_limit(seconds: float, work: Coroutine[Any, Any, Any]) -> Any:
    return await work


async def _do_not_sleep(seconds: float) -> None:
    pass


async def _bind_nothing(pod: PodInfo, node_name: str) -> None:
    raise InternalError(f"pod {pod.key} was to be bound to {node_name} where no scheduler is")


def _retry_nothing(pod: PodInfo, seconds: float) -> None:
    pass


async def _patch_no_volume(name: str, resource_version: str, patch: dict[str, object]) -> PersistentVolume:
    raise InternalError(f"persistent volume {name} was to be patched where no apiserver is")


async def _patch_no_claim(
    namespace: str, name: str, resource_version: str, patch: dict[str, object]
) -> PersistentVolumeClaim:
    raise InternalError(f"claim {namespace}/{name} was to be patched where no apiserver is")


@dataclass(frozen=True, slots=True)
class Handle:
    """The services that the scheduler offers its plugins, as kube-scheduler's Handle does."""

    table: NodeTable
    rng: random.Random
    bind: Callable[[PodInfo, str], Awaitable[None]] = _bind_nothing  # (pod, node name); raises the APIError family
    namespaces: Namespaces = field(default_factory=Namespaces)  # for namespace selectors of affinity terms
    owners: Owners = field(default_factory=Owners)  # for pods that state no spread constraints
    stopwatch: Callable[[], float] = stands_still  # seconds, to measure plugins; never for decisions
    within: Callable[[float, Coroutine[Any, Any, Any]], Awaitable[Any]] = _without_limit  # (limit in seconds, work)
    volumes: Volumes = field(default_factory=Volumes)  # claims, volumes, classes, drivers, capacities, attachments
    # Merge patches of an object in the given resource version; raise the APIError family, Conflict if it has changed.
    patch_volume: Callable[[str, str, dict[str, object]], Awaitable[PersistentVolume]] = _patch_no_volume
    patch_claim: Callable[[str, str, str, dict[str, object]], Awaitable[PersistentVolumeClaim]] = _patch_no_claim
    devices: Devices = field(default_factory=Devices)  # resource claims, slices, device classes, what is allocated
    claims: ClaimWrites = field(default_factory=ClaimWrites)  # writes of DynamicResources
    sleep: Callable[[float], Awaitable[None]] = _do_not_sleep  # so many seconds, which are virtual in a simulation
    profiles: Mapping[str, ProfileHandle] = field(default_factory=dict)  # by scheduler name, once all plugins are built
    nominations: Nominations = field(default_factory=Nominations)
    waiting_pods: PermitWaits = field(default_factory=NoPermitWaits)
    budgets: DisruptionBudgets = field(default_factory=DisruptionBudgets)  # PodDisruptionBudgets, for preemption
    elastic_quotas: ElasticQuotas | None = None  # and what each namespace uses; None: no profile keeps quotas
    share_queues: ShareQueues | None = None  # queues with shares, and what each uses; None: no profile has the plugin
    evictions: Evictions = field(default_factory=Evictions)  # writes and waits for preemption
    endings: Endings = field(default_factory=Endings)  # evictions of all profiles, under way or finished
    victim_groups: VictimGroups | None = None  # pods that are not evicted one without the other; None if there are none
    telemetry: Telemetry = field(default_factory=Telemetry)  # live metrics, and policies over them
    # Try a pod that is rejected in this cycle again in so many seconds, without regard to backoff; 0: after the cycle,
    # but not sooner than 0.1 s after it was tried because of this.
    retry: Callable[[PodInfo, float], None] = _retry_nothing
    release: Release = DEFAULT_RELEASE  # of Kubernetes, whose kube-scheduler is emulated
    ties: TieBits = field(init=False, repr=False)  # for choosing among equal nodes; from `rng`

    def __post_init__(self) -> None:
        object.__setattr__(self, "ties", TieBits(self.rng))


# Configuration name of an extension point -> the method that makes a plugin extend it, in order of a cycle.
EXTENSION_POINTS: dict[str, str] = {
    "preEnqueue": "pre_enqueue",
    "queueSort": "sort_key",
    "preFilter": "pre_filter",
    "filter": "filter",
    "postFilter": "post_filter",
    "preScore": "pre_score",
    "score": "score",
    "reserve": "reserve",
    "permit": "permit",
    "preBind": "pre_bind",
    "bind": "bind",
    "postBind": "post_bind",
}


def extension_points(plugin: object) -> frozenset[str]:
    """Return the extension points of a plugin (an object or its class)."""
    return frozenset(point for point, method in EXTENSION_POINTS.items() if hasattr(plugin, method))
