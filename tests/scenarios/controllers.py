"""Controllers for the scenarios of this package: a pod with an owner is created again when it is gone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import count

from msgspec.structs import replace

from kscheduler.api.objects import ObjectMeta, Pod, PodStatus
from kscheduler.client.kinds import PODS
from tests.support.world import World

CREATES_AFTER_S = 1.0


@dataclass
class Controllers:
    """Begin with `run`. Each pod gets a name of its own, as those of a ReplicaSet do."""

    world: World
    created: int = 0  # pods in place of others
    _is_running: bool = True
    _numbers: count[int] = field(default_factory=count)

    def run(self) -> None:
        self.world.cluster.store(PODS).subscribe(self._look)

    def stop(self) -> None:
        """Create no further pods."""
        self._is_running = False

    def _look(self, before: Pod | None, after: Pod | None) -> None:
        if self._is_running and before is not None and after is None and before.metadata.owner_references:
            asyncio.get_running_loop().call_later(CREATES_AFTER_S, self._create, before)

    def _create(self, old: Pod) -> None:
        self.created += 1
        meta = old.metadata
        metadata = ObjectMeta(
            name=f"{meta.name.split('.')[0]}.{next(self._numbers)}",
            namespace=meta.namespace,
            labels=meta.labels,
            owner_references=meta.owner_references,
        )
        self.world.cluster.create_pod(Pod(metadata, replace(old.spec, node_name=""), PodStatus()))
