"""Writes bindings on keep-alive connections without creating a task, a coroutine or a future for each.

Each binding waits for a token of the rate limit and a slot (the permission for one more concurrent request), is checked
once more and sent; its answer is passed on. Behind a proxy, or while the credentials are read again, a binding cannot
be sent in this way and is refused.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from typing import Final
from urllib.parse import quote

from kscheduler.client import protobuf
from kscheduler.client.protocol import Binding, BindRequest
from kscheduler.client.ratelimit import Priority, RateLimiter, WaitingRequests
from kscheduler.client.slots import Slots
from kscheduler.client.transport import Sent, Transport
from kscheduler.client.write_permission import NOT_BOUND, not_leading
from kscheduler.clock import Clock
from kscheduler.errors import NodeGone

_BIND: Final = Priority.BIND  # which costs more for each binding
_PLAIN = re.compile(r"[A-Za-z0-9._~-]*").fullmatch  # what needs no percent-encoding: all names the API admits


class BindingWriter:
    """Writes bindings over HTTP by callbacks; implements `client.protocol.DirectBinds`."""

    def __init__(
        self,
        transport: Transport,
        limiter: RateLimiter,
        slots: Slots,
        clock: Clock,
        *,
        accept: str,
        timeout_s: float,
    ) -> None:
        self._transport = transport
        self._limiter = limiter
        self._slots = slots
        self.limit = slots.limit
        self._clock = clock
        self._accept = accept
        self._timeout_s = timeout_s
        self._waiting: deque[BindRequest] = deque()
        self._tokens = 0  # taken for bindings that wait
        self._for_tokens = WaitingRequests(_BIND, self._tokens_came)
        self._asked_at: deque[float] = deque()  # when each of the tokens that are still to come was asked for
        slots.call_when_free(self._waiting, self._pump)

    def write(self, request: BindRequest) -> bool:
        transport = self._transport
        # As `Transport.sends`, without its call.
        if not transport.is_direct or self._clock.now() >= transport.credentials.fresh_until:
            return False
        self._waiting.append(request)
        self._pump()
        return True

    def refuse_to(self, node: str) -> None:
        waiting = self._waiting
        refused = [request for request in waiting if request.binding.node == node]
        if not refused:
            return
        kept = [request for request in waiting if request.binding.node != node]
        waiting.clear()
        waiting.extend(kept)
        loop = asyncio.get_running_loop()
        for request in refused:
            loop.call_soon(request.on_answer, NodeGone(f'node "{node}" was deleted before the pod was bound to it'))

    def _pump(self) -> None:
        """Send waiting bindings while there is a rate-limit token and a slot for each."""
        waiting = self._waiting
        while waiting:
            request = waiting[0]
            if not request.may_write():
                asyncio.get_running_loop().call_soon(request.on_answer, not_leading(NOT_BOUND))
                waiting.popleft()
                continue
            # 1. Is there a token? It is kept until there is a slot as well.
            if not self._tokens:
                if not self._limiter.try_acquire():
                    self._wait_for_tokens()
                    return
                self._tokens = 1
            # 2. Is there a slot?
            slot = self._slots.begin(_BIND)
            if slot is None:
                return
            self._tokens -= 1
            # 3. Then it goes.
            binding = request.binding
            sent = _SentBinding(
                slots=self._slots,
                slot=slot,
                path=binding_path(binding),
                on_answer=request.on_answer,
                request=request,
            )
            slot.on_overdue = sent.is_overdue
            body = protobuf.encode_binding(binding)
            self._transport.send(sent, body, protobuf.CONTENT_TYPE, self._accept, self._timeout_s)
            waiting.popleft()

    def _wait_for_tokens(self) -> None:
        more = min(len(self._waiting), self.limit.value) - len(self._asked_at)
        if more > 0:
            self._asked_at.extend([self._clock.now()] * more)
            self._limiter.want(self._for_tokens, more)

    def _tokens_came(self, count: int) -> None:
        self._tokens += count
        now, transport = self._clock.now(), self._transport
        for _ in range(count):
            transport.observer.observe_rate_limiter("POST", transport.host, now - self._asked_at.popleft())
        self._pump()


class _SentBinding(Sent, kw_only=True):
    request: BindRequest

    def refusal(self) -> Exception | None:
        return None if self.request.may_write() else not_leading(NOT_BOUND)

    def is_overdue(self) -> None:
        self.distrust()
        self.request.may_give_up(self.give_up)
        self.request.on_overdue()


def binding_path(binding: Binding) -> str:
    namespace, name = binding.namespace, binding.name
    if not (_PLAIN(namespace) and _PLAIN(name)):
        namespace, name = quote(namespace, safe=""), quote(name, safe="")
    return f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
