"""Signatures of pods: the plugins of a profile decide equally about pods with equal signatures.

A signature is what PreFilter, Filter, PreScore and Score read in a pod, as with kube-scheduler's SignPlugin: pods with
equal signatures get equal decisions in an unchanged cluster. Signatures are interned, so that they compare by identity;
and since most pods are copies of some template, plugins are asked once for all pods with equal JSON.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar, final, runtime_checkable

import msgspec

from kscheduler.api.objects import Pod, Volume

if TYPE_CHECKING:
    from kscheduler.framework.interface import SigningPlugin
    from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

P = TypeVar("P")

# Limit of all kept signatures and of the pods' JSON by which they are found: when they exceed it, all are dropped.
MAX_BYTES = 32 << 20
PER_SIGNATURE = 1_024  # approximate bytes of a signature, without the JSON by which it is found
MAX_TEMPLATES = 1_024  # whose signatures are found without encoding a pod

_encode = msgspec.json.Encoder().encode


@runtime_checkable
class FarSightedPlugin(Protocol):
    """A plugin whose signature depends on more than a pod's spec, namespace, labels and owners: on annotations, say."""

    def look_beyond(self, pod: PodInfo) -> bytes:
        """Return bytes for what else the signature depends on: equal only if the plugin's signatures are.

        Must not raise.
        """
        ...


@final
@dataclass(slots=True, eq=False)
class SpecSignature:
    """The part of a signature (what plugins read in a pod) that follows from the spec alone.

    Pods that differ only in labels or owners share it.
    """

    profile: str
    fragments: tuple[Hashable, ...]


@final
@dataclass(slots=True, eq=False)
class Signature:
    """What the plugins of one profile read in a pod: pods with equal signatures are decided equally.

    `spec` is None if the pod must be decided plugin by plugin. `made_by` is the mark of its signer, not the signer:
    pods hold their signatures, and the cache and the queue hold pods where garbage collection does not look (gc=False),
    so a scheduler that its pods led back to would never be freed.
    """

    made_by: object = field(repr=False)
    profile: str
    spec: SpecSignature | None
    fragments: tuple[Hashable, ...] = ()  # from plugins that read more than the spec
    claims: Hashable = None  # of a pod with claims, right before it is placed: what its plugin returned about them


class Signer:
    """Computes the signatures of pods, i.e. what a profile's plugins read in them, for all profiles.

    `plugins`: profile -> plugins, or None if one of them cannot state what it reads.
    """

    def __init__(self, plugins: Mapping[str, Sequence[SigningPlugin] | None]) -> None:
        self.mark = object()  # by which its signatures are known
        self._plugins = {name: None if asked is None else split(asked) for name, asked in plugins.items()}
        self._far_sighted = {  # profile -> plugins that read more of a pod than `_Look` holds
            name: [plugin for plugin in asked or () if isinstance(plugin, FarSightedPlugin)]
            for name, asked in plugins.items()
        }
        self._unsigned = {profile: Signature(self.mark, profile, None) for profile in plugins}
        self._signatures: dict[Hashable, Signature] = {}  # (spec signature, fragments) -> the one signature
        self._specs: dict[Hashable, SpecSignature] = {}  # (profile, fragments) -> the one spec signature
        self._by_look: dict[bytes, Signature] = {}
        self._by_spec: dict[bytes, SpecSignature] = {}
        self._bytes = 0  # approximate size of these
        # id of a spec -> a pod that has it, which keeps the id from meaning another spec, and the pod's signature.
        self._by_template: dict[int, tuple[Pod, Signature]] = {}

    def sign(self, pod: PodInfo) -> Signature:
        """Return the pod's signature (what the plugins of its profile read in it), and store it in the pod.

        Raises KeyError for a pod of no profile.
        """
        signed = pod.signature
        if isinstance(signed, Signature) and signed.made_by is self.mark:
            return signed
        # Pods of one template share its parts (api/sharing.py): then there is nothing to encode.
        this = pod.pod
        template, found = self._by_template.get(id(this.spec), (None, None))
        if (
            found is not None
            and template is not None
            and template.spec is this.spec
            and (
                (status := this.status) is template.status
                or not (
                    status.nominated_node_name
                    or status.container_statuses
                    or status.resources
                    or status.allocated_resources
                )
            )
            and template.metadata.labels is this.metadata.labels
            and template.metadata.owner_references is this.metadata.owner_references
            and template.metadata.namespace == this.metadata.namespace
        ):
            pod.signature = found
            return found
        look = self._look(pod)
        if look is None:
            pod.signature = found = self._ask(pod, None)
            return found
        known = self._by_look.get(look.whole)
        found = known or self._ask(pod, look.spec)
        if known is None:
            self._make_room(len(look.whole))
            self._by_look[look.whole] = found
        if not self._far_sighted[pod.pod.spec.scheduler_name]:
            if len(self._by_template) >= MAX_TEMPLATES:
                self._by_template.clear()
            self._by_template[id(pod.pod.spec)] = pod.pod, found
        pod.signature = found
        return found

    def _look(self, pod: PodInfo) -> _Look | None:
        look = _look(pod.pod)
        for plugin in self._far_sighted[pod.pod.spec.scheduler_name]:
            if look is not None and (beyond := plugin.look_beyond(pod)):
                look = _Look(look.whole + beyond, look.spec)
        return look

    def _ask(self, pod: PodInfo, spec_look: bytes | None) -> Signature:
        profile = pod.pod.spec.scheduler_name
        plugins = self._plugins[profile]
        unsigned = self._unsigned[profile]
        # A nominated pod is unsigned: its nominated node comes first.
        if plugins is None or pod.pod.status.nominated_node_name:
            return unsigned
        by_spec, others = plugins
        spec = self._ask_of_spec(pod, by_spec, spec_look)
        fragments = None if spec is None else _fragments(others, pod)
        if fragments is None:
            return unsigned
        key = (spec, fragments)
        found = self._signatures.get(key)
        if found is None:
            self._make_room(PER_SIGNATURE)
            found = self._signatures[key] = Signature(self.mark, profile, spec, fragments)
        return found

    def _ask_of_spec(
        self, pod: PodInfo, plugins: Sequence[SigningPlugin], spec_look: bytes | None
    ) -> SpecSignature | None:
        found = None if spec_look is None else self._by_spec.get(spec_look)
        if found is not None:
            return found
        fragments = _fragments(plugins, pod)
        if fragments is None:
            return None
        key = (pod.pod.spec.scheduler_name, fragments)
        found = self._specs.get(key)
        if found is None:
            self._make_room(PER_SIGNATURE)
            found = self._specs[key] = SpecSignature(*key)
        if spec_look is not None:
            self._make_room(len(spec_look))
            self._by_spec[spec_look] = found
        return found

    def _make_room(self, needed: int) -> None:
        """Drop all kept signatures if they would exceed MAX_BYTES.

        Those stored in pods stay valid; later pods get new ones.
        """
        if self._bytes + needed > MAX_BYTES:
            for kept in (self._by_look, self._by_spec, self._signatures, self._specs):
                kept.clear()
            self._bytes = 0
        self._bytes += needed


def split(plugins: Sequence[P]) -> tuple[list[P], list[P]]:
    """Return the plugins whose signature reads only a pod's spec, and the others."""
    others = [plugin for plugin in plugins if getattr(plugin, "signs_metadata", True)]
    return [plugin for plugin in plugins if plugin not in others], others


class _Look(msgspec.Struct, frozen=True, gc=False):
    """The JSON of everything in a pod that plugins may sign, by which pods with equal signatures are found."""

    whole: bytes
    spec: bytes


def _look(pod: Pod) -> _Look | None:
    """Return the pod's JSON as a key for its signature; None if it is too long or lacks something plugins read."""
    spec, metadata, status = pod.spec, pod.metadata, pod.status
    if status.nominated_node_name or status.container_statuses or status.resources or status.allocated_resources:
        return None
    if spec.volumes:
        if any(volume != Volume(name=volume.name) for volume in spec.volumes):
            return None
        spec = msgspec.structs.replace(spec, volumes=None)  # their names are each pod's own
    written = _encode(spec)
    look = written + _encode((metadata.namespace, metadata.labels, metadata.owner_references))
    return _Look(look, written) if len(look) <= MAX_BYTES // 1_024 else None


def _fragments(plugins: Sequence[SigningPlugin], pod: PodInfo) -> tuple[Hashable, ...] | None:
    """Return what these plugins read of the pod (their signatures); None if one of them cannot state it."""
    found = []
    for plugin in plugins:
        fragment = _fragment(plugin, pod)
        if fragment is None:
            return None
        found.append(fragment)
    return tuple(found)


def _fragment(plugin: SigningPlugin, pod: PodInfo) -> Hashable | None:
    """Return what a plugin reads of the pod (its signature); None if it cannot state that or raises (logged)."""
    try:
        fragment = plugin.sign_pod(pod)
        hash(fragment)
    except Exception as error:
        log.error(
            "plugin could not sign a pod",
            extra={"pod": pod.key, "plugin": plugin.name, "err": f"{type(error).__name__}: {error}"},
        )
        return None
    return fragment
