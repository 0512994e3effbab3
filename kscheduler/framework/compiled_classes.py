"""Finds a pod's class, i.e. the pods that every plugin of a profile decides equally at present.

A pod's signature is everything that some plugin reads in it, labels and images included. Many signatures share a class,
since the plugins' current answers about them are equal; and with it they share the kernels' cached results by row
(node). The class of a signature is kept until something changes on which the plugins' answers depend.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace

from kscheduler._fast import Placer, PodClass, PodRequest
from kscheduler.errors import InternalError
from kscheduler.framework.class_compiler import Evaluations
from kscheduler.framework.class_draft import ClassDraft, Source
from kscheduler.framework.interface import FollowingPlugin, Handle
from kscheduler.framework.joined_terms import Joined
from kscheduler.framework.runtime import Framework
from kscheduler.framework.signatures import Signature, Signer, SpecSignature
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

# The size of each of two generations of signatures: one that is not used while the young one fills up is dropped.
MAX_SIGNATURES = 8_192
MAX_WITH_CLAIMS = 256  # signatures of pods together with what is known of their claims
MAX_BEGUN = 512  # drafts for specs, which drafts for signatures are copied from
FAULT_HOLDS = 256  # pods of a signature left to the general lane after a plugin raised, before it is asked again


@dataclass(slots=True, eq=False)
class CompiledClass:
    """A pod class, i.e. pods that the plugins of one profile decide equally, with its terms and evaluation counters.

    Terms are the class's constraints on pods in topology domains: spreading, pod affinity.
    """

    profile: str
    key: Hashable
    pod_class: PodClass
    evaluations: Evaluations
    terms: Joined | None
    asks: bool  # a guest (wasm plugin) is asked before each placement, and may fail
    ends_run: bool  # a pod must be reserved before the next one is placed
    counted: PodRequest | None  # what a pod is counted with, if that is not what it needs room for
    bytes: int
    users: int = 0  # number of signatures


@dataclass(slots=True, eq=False)
class _Known:
    """What a profile's plugins last answered for pods of one signature: the pod class, and how long that holds.

    A signature is everything that the plugins read in a pod.
    """

    compiled: CompiledClass | None  # None: the general lane decides
    sources: frozenset[Source]
    checked: int  # the latest epoch in which the answer held
    holds_for: int | None  # look-ups until the plugins are asked again, if one raised; None: until a source changes

    def is_used_up(self) -> bool:
        """Count a look-up. Returns True if a plugin had raised, and the plugins should now be asked again."""
        if self.holds_for is None:
            return False
        self.holds_for -= 1
        return self.holds_for < 0


class CompiledClasses:
    def __init__(
        self,
        profiles: Mapping[str, Framework],
        handle: Handle,
        placer: Placer,
        max_bytes: int,
        observer: Measurements,
        stopwatch: Callable[[], float],
    ) -> None:
        self._profiles = profiles
        self._observer = observer
        self._stopwatch = stopwatch
        self.unused: set[PodClass] = set()  # of which no pod was placed since plugins were asked; the caller clears it
        self._table = handle.table
        self._placer = placer
        self._max_bytes = max_bytes
        self._bytes = 0  # approximate size of all classes, without row caches
        self._signer = self._new_signer()
        self.sign = (
            self._signer.sign
        )  # computes a pod's signature (all that plugins read in it), until the next `forget`
        counters = handle.table.counters
        # The parts of the cluster's state that plugins' answers may depend on: each counts its changes.
        self._images, self._owners, self._namespaces = handle.table.images, handle.owners, handle.namespaces
        self._terms, self._label_keys_of_terms = counters.by_terms, counters.label_keys_of_terms
        self._node_changes, self._devices = handle.table.node_changes, handle.devices
        self._following = _following(profiles)
        self._versions: tuple[int, ...] = (-1,) * len(Source)  # by source, when they were last read
        self._epoch = 0
        self._changed = [0] * len(Source)  # source -> the epoch of its latest change
        self._sampling: set[str] = set()  # profiles whose searches do not examine all nodes
        self._young: dict[Signature, _Known] = {}
        self._old: dict[Signature, _Known] = {}
        # (the draft, whether all plugins could state it, the epoch in which they were asked)
        self._begun: dict[SpecSignature, tuple[ClassDraft, bool, int]] = {}
        self._with_claims: dict[tuple[Signature, Hashable], Signature] = {}
        self._classes: dict[Hashable, CompiledClass] = {}
        self._by_class: dict[PodClass, CompiledClass] = {}
        self.evaluations: dict[PodClass, Evaluations] = {}  # of each class here
        self.counted: dict[PodClass, PodRequest] = {}  # what pods of some classes are counted with instead
        self.only_row = -1  # the row (node) that the claims of the pod found last are bound to; -1: none
        # Signature -> class, where the class is valid now and can be placed in batches.
        self.ready: dict[object, PodClass] = {}
        # Class -> what its pods need room for beside nominated pods, if that alone decides how they yield. Valid now.
        self.room_asked: dict[PodClass, PodRequest | None] = {}
        self._find_sampling()

    def of(self, pod_class: PodClass) -> CompiledClass:
        return self._by_class[pod_class]

    @property
    def epoch(self) -> int:
        """The number of the latest `refresh` that found a change."""
        return self._epoch

    # --- what is valid now ---

    def refresh(self) -> None:
        """Find which sources (parts of the cluster's state) have changed, and limit memory.

        Classes that are found after this call are valid until the next one.
        """
        if len(self._young) >= MAX_SIGNATURES or self._bytes > self._max_bytes:
            self._grow_old()
        terms = self._terms
        versions = (  # in the order of `Source`; written out, since this is done for each batch, be it of one pod
            self._table.static_generation,
            self._images.generation,
            self._owners.generation,
            self._namespaces.generation,
            terms.last_id,
            terms.vanished,
            len(self._label_keys_of_terms),
            self._node_changes.count,
            sum([plugin.follow() for plugin in self._following]) if self._following else 0,
            self._devices.resources_generation,
        )
        if versions == self._versions:
            return
        self._epoch += 1
        for source, (old, new) in enumerate(zip(self._versions, versions, strict=True)):
            if old != new:
                self._changed[source] = self._epoch
        if self._changed[Source.NODES] == self._epoch:
            self._find_sampling()
        self._versions = versions
        self.ready.clear()
        self.room_asked.clear()

    def forget(self) -> None:
        """Drop all pod classes and pods' signatures: a plugin was replaced, and may now sign and decide differently."""
        for known in (*self._young.values(), *self._old.values()):
            self._give_up(known)
        for kept in (self._young, self._old, self._begun, self._with_claims, self.ready, self.room_asked):
            kept.clear()
        self._signer = self._new_signer()  # so that pods that have a signature get a new one
        self.sign = self._signer.sign

    def _new_signer(self) -> Signer:
        return Signer({name: framework.class_compiler.plugins for name, framework in self._profiles.items()})

    def _holds(self, sources: Iterable[Source], epoch: int) -> bool:
        """Return True if none of these sources has changed since the epoch, i.e. the `refresh` of this number."""
        return all(self._changed[source] <= epoch for source in sources)

    def _find_sampling(self) -> None:
        self._sampling = {name for name, framework in self._profiles.items() if not framework.algorithm.looks_at_all()}

    # --- looking up ---

    def find(self, pod: PodInfo) -> CompiledClass | None:
        """Return the pod's class, valid until the next `refresh`; None if the pod must be decided plugin by plugin.

        Then `only_row` says whether the pod's claims allow one row (node) only.
        """
        self.only_row = -1
        if pod.pod.spec.scheduler_name not in self._profiles:
            return None
        signature = pod.signature
        if not isinstance(signature, Signature) or signature.made_by is not self._signer.mark:
            signature = self._signer.sign(pod)
        if signature.spec is None or signature.profile in self._sampling:
            return None
        if pod.pod.spec.resource_claims or pod.resources.total.scalars:
            with_claims = self._sign_claims(signature, pod)
            if with_claims is None:
                return None
            signature = with_claims
        pod_class = self.ready.get(signature)
        if pod_class is not None:
            return self._by_class[pod_class]
        known = self._recall(signature)
        if known is None or known.is_used_up() or not self._holds(known.sources, known.checked):
            known = self._ask(signature, pod, known)
        known.checked = self._epoch
        compiled = known.compiled
        if compiled is not None and compiled.terms is None and not (pod.states_affinity and pod.held_terms):
            self.ready[signature] = compiled.pod_class
        return compiled

    def _sign_claims(self, signature: Signature, pod: PodInfo) -> Signature | None:
        """Return the signature of a pod with claims as these are now; None if the pod must be decided by plugins."""
        plugin = self._profiles[signature.profile].class_compiler.claiming
        if plugin is None:
            return signature
        try:
            if not pod.pod.spec.resource_claims and not plugin.concerns(pod):
                return signature
            prepared = plugin.prepare_claims(pod)
        except Exception as error:
            log.error("plugin could not prepare claims", extra={"pod": pod.key, "err": repr(error)})
            return None
        if prepared is None:
            return None
        self.only_row = prepared.row
        key = signature, prepared.key
        found = self._with_claims.get(key)
        if found is None:
            if len(self._with_claims) >= MAX_WITH_CLAIMS:
                self._with_claims.clear()
            found = self._with_claims[key] = replace(signature, claims=prepared.key)
        return found

    def _recall(self, signature: Signature) -> _Known | None:
        known = self._young.get(signature)
        if known is None:
            known = self._old.pop(signature, None)
            if known is not None:
                self._young[signature] = known
        return known

    def _ask(self, signature: Signature, pod: PodInfo, before: _Known | None) -> _Known:
        """Ask the profile's plugins how they decide about pods with this signature, and keep the answer.

        A signature is everything that the plugins read in a pod. If the answer equals that of an existing pod class,
        that class is used.
        """
        started = self._stopwatch()
        compiler = self._profiles[signature.profile].class_compiler
        draft, can = self._begin(signature, pod)
        compiled = None
        if can and compiler.compile_rest(draft, pod):
            if signature.claims is not None:
                compiler.compile_claims(draft, signature.claims)
            evaluations = compiler.evaluations(draft)
            compiled = self._class_of((signature.profile, evaluations, draft.key), draft, signature, evaluations)
        holds_for = FAULT_HOLDS if draft.has_failed else None
        known = _Known(compiled, frozenset(draft.sources), self._epoch, holds_for)
        if compiled is not None:
            compiled.users += 1
            self.unused.add(compiled.pod_class)
        if before is not None:
            self._give_up(before, "expired" if compiled is not None else "pod_not_batchable")
        self._young[signature] = known
        self._observer.results_stored(signature.profile, self._stopwatch() - started)
        return known

    def _begin(self, signature: Signature, pod: PodInfo) -> tuple[ClassDraft, bool]:
        """Return a draft, i.e. a pod class under construction, with what the plugins that read only the spec answered.

        It is a copy of the one that is kept for pods with equal specs. The second value is False if one of these
        plugins cannot state for kernels how it decides.
        """
        if signature.spec is None:
            raise InternalError(f"pod {pod.key} was to be in a class, but is not signed")
        draft, can, asked = self._begun.get(signature.spec, (None, False, 0))
        if draft is None or not self._holds(draft.sources, asked):
            draft, can = self._profiles[signature.profile].class_compiler.compile_spec(pod)
            if len(self._begun) >= min(MAX_BEGUN, self._max_bytes // draft.bytes):
                self._begun.clear()
            if not draft.has_failed:
                self._begun[signature.spec] = draft, can, self._epoch
        return draft.copy(), can

    def _class_of(
        self, key: Hashable, draft: ClassDraft, signature: Signature, evaluations: Evaluations
    ) -> CompiledClass | None:
        found = self._classes.get(key)
        if found is not None:
            return found
        try:
            made = draft.make()
        except (ValueError, OverflowError) as error:
            log.debug("pods cannot form a pod class of the compiled lane", extra={"look": signature, "err": str(error)})
            return None
        found = CompiledClass(
            signature.profile,
            key,
            made,
            evaluations,
            draft.terms,
            draft.asks,
            draft.ends_run or draft.counted is not None,
            draft.counted,
            draft.bytes,
        )
        if draft.counted is not None:
            self.counted[made] = draft.counted
        self._classes[key] = self._by_class[made] = found
        self.evaluations[made] = evaluations
        self._bytes += found.bytes
        return found

    # --- bounds ---

    def _grow_old(self) -> None:
        for known in self._old.values():
            self._give_up(known)
        self._old, self._young = self._young, {}
        self.ready.clear()
        self.room_asked.clear()

    def _give_up(self, known: _Known, reason: str = "expired") -> None:
        compiled = known.compiled
        if compiled is None:
            return
        compiled.users -= 1
        if compiled.users == 0:
            del self._classes[compiled.key], self._by_class[compiled.pod_class], self.evaluations[compiled.pod_class]
            self.counted.pop(compiled.pod_class, None)
            self.unused.discard(compiled.pod_class)
            self._bytes -= compiled.bytes
            self._placer.drop(compiled.pod_class)
            self._observer.batch_flushed(compiled.profile, reason)


def _following(profiles: Mapping[str, Framework]) -> list[FollowingPlugin]:
    plugins = [plugin for framework in profiles.values() for plugin in framework.class_compiler.plugins or ()]
    return [plugin for plugin in plugins if isinstance(plugin, FollowingPlugin)]
