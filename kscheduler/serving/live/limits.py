"""Limits of requests and open streams, by address and in total, so that clients cost a bounded share of everything."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kscheduler.counted import counted
from kscheduler.serving.live.access import Refused

MOST_ADDRESSES = 1_024  # remembered; of others the one not seen for longest is forgotten
MOST_STREAMS = 100
STREAMS_OF_ADDRESS = 40  # several users may share one, behind a port-forward
BUSY_S = 10  # when to try again where all streams are taken


class TokenBucket:
    """Allows `burst` requests at once, and `rate` a second on the whole."""

    __slots__ = ("_burst", "_left", "_rate", "_then")

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._left = float(burst)
        self._then = 0.0

    def take(self, now: float) -> bool:
        """Take one request; False if none is left."""
        self._left = min(self._burst, self._left + (now - self._then) * self._rate)
        self._then = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class RequestLimit:
    """Limits requests by address and in total, and those that the scheduler itself has to answer once more."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._by_address: OrderedDict[str, TokenBucket] = OrderedDict()
        self._total = TokenBucket(200.0, 400)
        self._questions = TokenBucket(10.0, 20)

    def check(self, address: str) -> None:
        """Count a request. Raises Refused (429) for one too many."""
        bucket = self._by_address.pop(address, None)
        if bucket is None:
            bucket = TokenBucket(30.0, 120)
            if len(self._by_address) >= MOST_ADDRESSES:
                self._by_address.popitem(last=False)
        self._by_address[address] = bucket
        if not bucket.take(self._now()):
            raise Refused(429, "Too many requests came from this address.", retry_s=1)
        if not self._total.take(self._now()):
            raise Refused(429, "Too many requests came in all.", retry_s=1)

    def check_question(self) -> None:
        """Count a question that runs on the scheduler's loop. Raises Refused (429) for one too many."""
        if not self._questions.take(self._now()):
            raise Refused(429, "Too many questions about pods and nodes came in all.", retry_s=1)


class StreamSlots:
    """The streams that may be open at the same time."""

    def __init__(self, most: int = MOST_STREAMS, of_address: int = STREAMS_OF_ADDRESS) -> None:
        self._most = most
        self._of_address = of_address
        self._taken: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._taken.total()

    @contextmanager
    def take(self, address: str) -> Iterator[None]:
        """Hold a slot. Raises Refused: 503 if all are taken, 429 if the address has as many as it may have."""
        if len(self) >= self._most:
            watch = counted(self._most, "viewer watches", "viewers watch")
            raise Refused(503, f"{watch} already, and no more are served.", retry_s=BUSY_S)
        if self._taken[address] >= self._of_address:
            watch = counted(self._of_address, "viewer at this address watches", "viewers at this address watch")
            words = f"{watch} already, and no more are served."
            raise Refused(429, words, retry_s=BUSY_S)
        self._taken[address] += 1
        try:
            yield
        finally:
            self._taken[address] -= 1
            if not self._taken[address]:
                del self._taken[address]
