"""Repeats a request whose answer is overdue, and uses whichever answer comes first.

Behind a load balancer one of several servers may hang, or a connection may break without a sign: a request there would
wait for a minute, while a second request would be answered at once. Each repetition waits twice as long as the one
before, and a server that is known to be slow is given more time. It is only for requests that may arrive twice: reads,
which cost little, and writes that hold for one version of an object, so that at most one of them is carried out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kscheduler.client.concurrency import abandon
from kscheduler.clock import Clock
from kscheduler.errors import Unreachable

T = TypeVar("T")

OVERDUE_S = 2.0  # without an answer, before the first repeat
TIMES_USUAL = 4.0  # or so many times what the last answer of its kind took
MOST_REQUESTS = 4  # at once: after 2, 6 and 14 s


class RepeatedRequests:
    """Sends requests with repetitions, and remembers for each kind of request how long answers took."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._took_s: dict[str, float] = {}

    async def answer(
        self,
        kind: str,
        ask: Callable[[bool], Coroutine[Any, Any, T]],
        *,
        overdue_s: float = OVERDUE_S,
        give_up: Callable[[T], object] | None = None,
    ) -> T:
        """Return the first answer. `ask(True)` is a repetition, which should use a new connection.

        `give_up` is called with each further answer, to close it if necessary. Raises the error of an answer, or
        Unreachable if no request can be answered any more.
        """
        overdue_s = max(overdue_s, TIMES_USUAL * self._took_s.get(kind, 0.0))
        began = self._clock.now()
        requests: list[asyncio.Future[T]] = []
        answer: asyncio.Future[T] | None = None
        try:
            while True:
                requests.append(asyncio.ensure_future(ask(bool(requests))))
                wait_s = None if len(requests) == MOST_REQUESTS else overdue_s * 2.0 ** (len(requests) - 1)
                answer = await _first_answer(requests, wait_s)
                if answer is not None:
                    if answer is requests[0]:
                        self._took_s[kind] = self._clock.now() - began
                    return answer.result()
        finally:
            others = [request for request in requests if request is not answer]
            if others:
                try:
                    await abandon(give_up, *others)
                except asyncio.CancelledError:  # nobody takes the answer either
                    if answer is not None:
                        await abandon(give_up, answer)
                    raise


async def _first_answer(requests: list[asyncio.Future[T]], wait_s: float | None) -> asyncio.Future[T] | None:
    """Return a request that was answered, or any if none can be any more; None if `wait_s` seconds pass before."""
    loop = asyncio.get_running_loop()
    until_s = None if wait_s is None else loop.time() + wait_s
    while True:
        pending = [request for request in requests if not request.done()]
        for request in requests:
            if request.done() and not (pending and isinstance(request.exception(), Unreachable)):
                return request
        left_s = None if until_s is None else until_s - loop.time()
        if left_s is not None and left_s <= 0:
            return None
        await asyncio.wait(pending, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
