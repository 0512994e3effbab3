"""One extender: which pods it has a say in, and what its answers mean."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kscheduler.api.objects import Container, Pod
from kscheduler.config.types import Extender as ExtenderConfig
from kscheduler.errors import DecodeError, PluginError
from kscheduler.extenders import wire
from kscheduler.extenders.documents import NodeDocument
from kscheduler.extenders.webhook import Webhook
from kscheduler.extenders.wire import Document, FilterAnswer, Victims

NAME = "Extender"  # stands for all extenders where a plugin's name is wanted: statuses, the queue, metrics
MAX_PRIORITY = 10  # an extender's scores go from 0 to this; a node's from 0 to 100
MAX_SHARE = 1 << 53  # of an extender in a node's total, which has 64 bits


class Extender:
    """Everything it raises is a PluginError that names its URL."""

    def __init__(self, config: ExtenderConfig, webhook: Webhook) -> None:
        self._config = config
        self._webhook = webhook
        self._managed = frozenset(resource.name for resource in config.managed_resources)

    @property
    def name(self) -> str:
        """Its URL, as configured."""
        return self._config.url_prefix

    @property
    def is_ignorable(self) -> bool:
        """May pods be placed without it when it fails?"""
        return self._config.ignorable

    @property
    def filters(self) -> bool:
        return bool(self._config.filter_verb)

    @property
    def prioritizes(self) -> bool:
        return bool(self._config.prioritize_verb)

    @property
    def preempts(self) -> bool:
        return bool(self._config.preempt_verb)

    @property
    def binds(self) -> bool:
        return bool(self._config.bind_verb)

    @property
    def knows_nodes(self) -> bool:
        """Does it keep nodes itself, so that names are enough?"""
        return self._config.node_cache_capable

    def is_interested(self, pod: Pod) -> bool:
        """Does a container of the pod ask for a resource that the extender manages? All pods do if it names none."""
        if not self._managed:
            return True
        containers = [*pod.spec.containers, *(pod.spec.init_containers or ())]
        return any(_asks_for(container, self._managed) for container in containers)

    async def filter(
        self, pod: Document, names: Sequence[str], nodes: Mapping[str, NodeDocument] | None
    ) -> FilterAnswer:
        """Which of the named nodes are left. `nodes`: name -> node, unless it `knows_nodes`."""
        body = await self._webhook.ask(self._config.filter_verb, wire.node_question(pod, names, nodes))
        try:
            answer = wire.read_filter(body, by_name=self.knows_nodes)
        except DecodeError as error:
            raise self._wrong(self._config.filter_verb, error) from error
        asked = set(names)
        for name in answer.nodes:
            if name not in asked:
                raise PluginError(
                    f'extender "{self.name}" claims a filtered node "{name}" which is not found in the input node list'
                )
        return answer

    async def prioritize(
        self, pod: Document, names: Sequence[str], nodes: Mapping[str, NodeDocument] | None
    ) -> dict[str, int]:
        """Node name -> what to add to the node's total; names it was not asked about are left out.

        Scores beyond 0..10 count as they are, as in kube-scheduler, unless totals could overflow by them.
        """
        body = await self._webhook.ask(self._config.prioritize_verb, wire.node_question(pod, names, nodes))
        try:
            scores = wire.read_priorities(body)
        except DecodeError as error:
            raise self._wrong(self._config.prioritize_verb, error) from error
        asked = set(names)
        factor = self._config.weight * (100 // MAX_PRIORITY)
        for name, score in scores.items():
            if abs(score * factor) > MAX_SHARE:
                raise PluginError(
                    f"extender at URL {self._webhook.url}/{self._config.prioritize_verb}: expected scores of "
                    f"0 to {MAX_PRIORITY}, got {score} for node {name}"
                )
        return {name: score * factor for name, score in scores.items() if name in asked}

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        body = await self._webhook.ask(self._config.bind_verb, wire.binding_question(namespace, name, uid, node))
        try:
            wire.read_binding(body)
        except DecodeError as error:
            raise self._wrong(self._config.bind_verb, error) from error

    async def preempt(
        self,
        pod: Document,
        victims: Mapping[str, Victims],
        documents: Mapping[str, Document] | None,
        pods_of: Mapping[str, Collection[str]],
    ) -> dict[str, Victims]:
        """Node name -> victims, of those proposed, as the extender would have it.

        `documents`: pod uid -> victim, unless it `knows_nodes`. `pods_of`: node name -> uids of the pods there.
        """
        question = wire.preemption_question(pod, victims, documents)
        body = await self._webhook.ask(self._config.preempt_verb, question)
        try:
            answer = wire.read_preemption(body)
        except DecodeError as error:
            raise self._wrong(self._config.preempt_verb, error) from error
        for node, found in answer.items():
            if node not in pods_of:
                raise PluginError(f'extender "{self.name}" claims to preempt on node "{node}", which is not known')
            for uid in found.uids:
                if uid not in pods_of[node]:
                    raise PluginError(
                        f"extender: {self.name} claims to preempt pod (UID: {uid}) on node: {node}, "
                        "but the pod is not found on that node"
                    )
        return answer

    async def close(self) -> None:
        await self._webhook.close()

    def _wrong(self, verb: str, error: DecodeError) -> PluginError:
        return PluginError(f"extender at URL {self._webhook.url}/{verb}: {error}")


def _asks_for(container: Container, names: Collection[str]) -> bool:
    resources = container.resources
    if resources is None:
        return False
    return any(name in names for amounts in (resources.requests, resources.limits) for name in amounts or ())
