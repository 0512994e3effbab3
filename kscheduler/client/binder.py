"""Writes bindings until the answer is certain.

A binding whose answer was lost may have been carried out. Giving up its room then could overcommit the node, and
trying another node could bind twice; so the same binding is written again until the apiserver gives a definite answer.
The uid precondition and the rule that a bound pod cannot be bound make the repetition harmless.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from kscheduler.client.protocol import Binding, Client
from kscheduler.errors import APIError, Conflict, NotFound, NotLeading, TooManyRequests, Unreachable

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


class Binder:
    """Binds through a client. Cancelling a bind leaves its outcome open: only a program that exits does that.

    `may_bind` is asked before each write. It turns false by time alone when a lease runs out, so that a process that
    stood still does not bind beside its successor when it wakes.
    """

    def __init__(self, client: Client, rng: random.Random) -> None:
        self._client = client
        self._rng = rng
        self.may_bind: Callable[[], bool] = lambda: True

    async def bind(self, binding: Binding, *, met: APIError | None = None) -> None:
        """Returns when the pod is bound to that node; raises an APIError when it certainly is not.

        `met`: what a first try that was made elsewhere ended with, and which `may_change`.
        """
        pause_s = FIRST_PAUSE_S
        in_doubt = False  # an earlier try may have been carried out
        error = met
        while True:
            if error is None:
                error = await self._try(binding, in_doubt)
            if error is None:
                return
            in_doubt = in_doubt or not isinstance(error, TooManyRequests)
            wait_s = error.retry_after_s or pause_s * self._rng.uniform(0.5, 1.5)
            log.warning(
                "binding is written again",
                extra={"pod": f"{binding.namespace}/{binding.name}", "node": binding.node, "err": str(error)},
            )
            await asyncio.sleep(wait_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
            error = None

    async def _try(self, binding: Binding, in_doubt: bool) -> APIError | None:
        """None when it is bound; an error that decides nothing; raises one that does."""
        if not self.may_bind():
            raise not_leading()
        try:
            await self._client.bind(binding)
        except (Conflict, NotFound) as error:
            if in_doubt and await self.is_bound_as_asked(binding):
                return None
            raise error
        except APIError as error:
            if not may_change(error):
                raise
            return error
        return None

    async def is_bound_as_asked(self, binding: Binding) -> bool:
        """Ask until there is an answer; raises what the apiserver says if it refuses to tell."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                pod = await self._client.get_pod(binding.namespace, binding.name)
                return pod.metadata.uid == binding.uid and pod.spec.node_name == binding.node
            except NotFound:
                return False
            except APIError as error:
                if not may_change(error):
                    raise
            await asyncio.sleep(pause_s * self._rng.uniform(0.5, 1.5))
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)


def not_leading() -> NotLeading:
    return NotLeading("not bound: this replica does not hold the lease")


def may_change(error: APIError) -> bool:
    """Is it worth asking again: no answer, a server's fault, or a plea to slow down?"""
    return isinstance(error, (Unreachable, TooManyRequests)) or error.status >= 500
