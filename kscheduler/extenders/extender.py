"""Implements one extender: which pods it is interested in, the requests to it, and the checks of its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from kscheduler.api.documents import NodeDocument, PodDocument
from kscheduler.api.objects import Container, Pod
from kscheduler.config.types import Extender as ExtenderConfig
from kscheduler.errors import DecodeError, PluginError
from kscheduler.extenders import wire
from kscheduler.extenders.wire import FilterAnswer, Victims
from kscheduler.input.redaction import SecretURL
from kscheduler.observability.measurements import Measurements

T = TypeVar("T")

MAX_PRIORITY = 10  # the highest score of an extender; the plugins' go up to 100
MAX_SHARE = 1 << 53  # limit of one extender's weighted score, so that a node's total fits into 64 bits


class Endpoint(Protocol):
    """Sends requests to an extender. Its methods raise PluginError and nothing else."""

    @property
    def url(self) -> SecretURL: ...

    async def ask(self, verb: str, question: bytes) -> bytes:
        """POST JSON to the extender's URL plus "/" and `verb`; return the body of the answer."""
        ...

    async def close(self) -> None: ...


class Extender:
    """Calls one extender. Its methods raise PluginError only, with the extender's URL or its own error text."""

    def __init__(
        self, config: ExtenderConfig, endpoint: Endpoint, observer: Measurements, stopwatch: Callable[[], float]
    ) -> None:
        self._config = config
        self.name = config.url_prefix.shown  # the configured URL with secrets redacted
        self._is_secret = self.name != config.url_prefix.reveal()
        self.is_ignorable = config.ignorable  # may pods be scheduled without this extender when it fails?
        self.filters = bool(config.filter_verb)
        self.prioritizes = bool(config.prioritize_verb)
        self.preempts = bool(config.preempt_verb)
        self.binds = bool(config.bind_verb)
        self.decides = self.filters or self.prioritizes or self.preempts  # is it called before a node is chosen?
        self.knows_nodes = config.node_cache_capable  # then it has a node cache and is sent names only
        self._endpoint = endpoint
        self._observer = observer
        self._stopwatch = stopwatch
        self._managed = frozenset(resource.name for resource in config.managed_resources)

    def is_interested(self, pod: Pod) -> bool:
        """Return True if some container requests a resource that the extender manages, or if it manages none in
        particular.
        """
        if not self._managed:
            return True
        containers = [*pod.spec.containers, *(pod.spec.init_containers or ())]
        return any(_asks_for(container, self._managed) for container in containers)

    async def filter(
        self, pod: PodDocument, names: Sequence[str], nodes: Mapping[str, NodeDocument] | None
    ) -> FilterAnswer:
        """Return which of the named nodes pass the extender.

        `nodes`: name -> node object, sent instead of names; None if the extender is nodeCacheCapable.
        """
        asked = frozenset(names)

        def read(body: bytes) -> FilterAnswer:
            answer = wire.read_filter(body, by_name=self.knows_nodes)
            if self._is_secret:
                answer = FilterAnswer(answer.nodes, self._hidden(answer.failed), self._hidden(answer.unresolvable))
            for name in answer.nodes:
                if name not in asked:
                    raise PluginError(
                        f'extender "{self.name}" claims a filtered node "{name}" '
                        "which is not found in the input node list"
                    )
            return answer

        return await self._ask("filter", self._config.filter_verb, wire.node_question(pod, names, nodes), read)

    async def prioritize(
        self, pod: PodDocument, names: Sequence[str], nodes: Mapping[str, NodeDocument] | None
    ) -> dict[str, int]:
        """Return node name -> weighted score to add to the node's total, for names that were sent.

        Scores outside 0..10 count as they are, as in kube-scheduler, except that PluginError is raised for one so large
        that totals could overflow.
        """
        asked = frozenset(names)
        factor = self._config.weight * (100 // MAX_PRIORITY)

        def read(body: bytes) -> dict[str, int]:
            scores = wire.read_priorities(body)
            for name, score in scores.items():
                if abs(score * factor) > MAX_SHARE:
                    raise DecodeError(f"expected scores of 0 to {MAX_PRIORITY}, got {score} for node {name}")
            return {name: score * factor for name, score in scores.items() if name in asked}

        return await self._ask("prioritize", self._config.prioritize_verb, wire.node_question(pod, names, nodes), read)

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        question = wire.binding_question(namespace, name, uid, node)
        await self._ask("bind", self._config.bind_verb, question, wire.read_binding)

    async def preempt(
        self,
        pod: PodDocument,
        victims: Mapping[str, Victims],
        documents: Mapping[str, PodDocument] | None,
        pods_on: Callable[[str], Collection[str] | None],
    ) -> dict[str, Victims]:
        """Return node name -> victims that the extender accepts.

        `documents`: pod uid -> victim's object; None if the extender is nodeCacheCapable. `pods_on`: node name -> uids
        of the pods on it, None for an unknown node.
        """

        def read(body: bytes) -> dict[str, Victims]:
            answer = wire.read_preemption(body)
            for node, found in answer.items():
                there = pods_on(node)
                if there is None:
                    raise PluginError(f'nodeinfo not found for node name "{node}"')
                for uid in found.uids:
                    if uid not in there:
                        raise PluginError(
                            f"extender: {self.name} claims to preempt pod (UID: &{{{uid}}}) on node: {node}, "
                            "but the pod is not found on that node"
                        )
            return answer

        question = wire.preemption_question(pod, victims, documents)
        return await self._ask("preempt", self._config.preempt_verb, question, read)

    def _hidden(self, reasons: Mapping[str, str]) -> dict[str, str]:
        """Redact secrets of the extender's URL in its reasons, since these appear in conditions and Events."""
        return {node: self._config.url_prefix.hide_in(why) for node, why in reasons.items()}

    async def close(self) -> None:
        await self._endpoint.close()

    async def _ask(self, kind: str, verb: str, question: bytes, read: Callable[[bytes], T]) -> T:
        started = self._stopwatch()
        result = "error"
        try:
            answer = read(await self._endpoint.ask(verb, question))
            result = "success"
            return answer
        except DecodeError as error:
            url = self._endpoint.url
            raise PluginError(f"extender at URL {url.shown}/{verb}: {url.hide_in(str(error))}") from None
        except PluginError as error:  # an extender's error text may repeat secrets of the URL
            raise PluginError(self._endpoint.url.hide_in(str(error))) from None
        except asyncio.CancelledError:
            result = "canceled"
            raise
        finally:
            self._observer.extender_asked(self.name, kind, result, self._stopwatch() - started)


def _asks_for(container: Container, names: Collection[str]) -> bool:
    resources = container.resources
    if resources is None:
        return False
    return any(name in names for amounts in (resources.requests, resources.limits) for name in amounts or ())
