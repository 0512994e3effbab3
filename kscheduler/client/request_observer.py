"""The measurements of requests, for modules that receive them without sending requests themselves."""

from __future__ import annotations

from typing import Protocol


class RequestObserver(Protocol):
    """Receives the measurements of each request for the rest_client metrics."""

    def observe(
        self,
        verb: str,
        host: str,
        code: str,
        duration_s: float,
        sent_bytes: int | None = None,
        received_bytes: int | None = None,
    ) -> None:
        """Record one request: `verb` is the HTTP method, `code` the HTTP status, or "<error>" if there was no answer.

        `sent_bytes` and `received_bytes` are the sizes of the bodies. The first is None for a watch, whose size does
        not count; the second is None if there was no answer.
        """
        ...

    def observe_rate_limiter(self, verb: str, host: str, duration_s: float) -> None:
        """Record how many seconds a request waited for the client-side rate limit."""
        ...


class NoObserver:
    """A RequestObserver that ignores all measurements."""

    def observe(
        self,
        verb: str,
        host: str,
        code: str,
        duration_s: float,
        sent_bytes: int | None = None,
        received_bytes: int | None = None,
    ) -> None:
        pass

    def observe_rate_limiter(self, verb: str, host: str, duration_s: float) -> None:
        pass
