"""Bindings that an extender writes, in place of the Bind plugins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from kscheduler.client.binder import Binder
from kscheduler.client.protocol import Binding
from kscheduler.errors import APIError, NotLeading, PluginError
from kscheduler.extenders.extender import Extender
from kscheduler.framework.extender_verdict import EXTENDER
from kscheduler.framework.status import SKIP, Status, error_status
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)


class ExtenderBinder:
    """`extenders`: those that bind. `on_change` is called whenever one is asked."""

    def __init__(self, extenders: Sequence[Extender], binder: Binder, on_change: Callable[[], None]) -> None:
        self._extenders = extenders
        self._binder = binder
        self._on_change = on_change
        self._asked = 0

    def __len__(self) -> int:
        """Pods that an extender is about to bind."""
        return self._asked

    async def bind(self, pod: PodInfo, node_name: str) -> Status | None:
        """The first interested extender binds the pod. SKIP: none is interested, or all that are may be ignored."""
        metadata = pod.pod.metadata
        binding = Binding(metadata.namespace, metadata.name, metadata.uid, node_name)
        for extender in self._extenders:
            if not extender.is_interested(pod.pod):
                continue
            try:
                await self._bind(extender, binding)
                return None
            except APIError as error:
                return error_status(str(error), error).of(EXTENDER)
            except PluginError as error:
                if not extender.is_ignorable:
                    return error_status(str(error), error).of(EXTENDER)
                fields = {"extender": extender.name, "pod": pod.key, "err": str(error)}
                log.warning("extender did not bind and is left out", extra=fields)
        return SKIP

    async def _bind(self, extender: Extender, binding: Binding) -> None:
        """Raises PluginError if the pod is not bound, and an APIError if it may not be, or nobody can tell."""
        if not self._binder.may_bind():
            raise NotLeading("not bound: this replica does not hold the lease")
        self._asked += 1
        self._on_change()
        try:
            await extender.bind(*binding)
        except PluginError:
            # It may have bound the pod, and its answer was lost: then the room is taken.
            if not await self._binder.is_bound_as_asked(binding):
                raise
        finally:
            self._asked -= 1
