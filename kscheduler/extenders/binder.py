"""Binds pods through extenders with a bindVerb, in place of the Bind plugins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from kscheduler.client.binder import Binder
from kscheduler.client.protocol import Binding
from kscheduler.client.write_permission import NOT_BOUND
from kscheduler.errors import APIError, PluginError
from kscheduler.extenders.extender import Extender
from kscheduler.framework.extender_verdict import EXTENDER
from kscheduler.framework.status import SKIP, Status, error_status
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)


class ExtenderBinder:
    """Binds pods through `extenders`, which all have a bindVerb. `on_change` is called before each request."""

    def __init__(self, extenders: Sequence[Extender], binder: Binder, on_change: Callable[[], None]) -> None:
        self._extenders = extenders
        self._binder = binder
        self._on_change = on_change
        self._asked = 0

    def __len__(self) -> int:
        """Return how many pods have a bind request to an extender in flight."""
        return self._asked

    async def bind(self, pod: PodInfo, node_name: str) -> Status | None:
        """Let the first interested extender bind the pod: return None on success, or an error status.

        Return SKIP if no extender is interested, or if all interested ones failed and are ignorable.
        """
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
                log.warning("extender failed to bind and is skipped", extra=fields)
        return SKIP

    async def _bind(self, extender: Extender, binding: Binding) -> None:
        """Send a bind request.

        Raises PluginError if the pod was not bound, APIError if the outcome is unknown or this replica is not the
        leader.
        """
        self._binder.permission.check(NOT_BOUND)
        self._asked += 1
        self._on_change()
        try:
            await extender.bind(binding.namespace, binding.name, binding.uid, binding.node)
        except PluginError:
            # The extender may have bound the pod and its answer was lost: then the pod's resources are taken.
            if not await self._binder.is_bound_as_asked(binding):
                raise
        finally:
            self._asked -= 1
