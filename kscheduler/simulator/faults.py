"""Injects faults between the scheduler and a simulated apiserver, repeatably.

A `Fault` describes what goes wrong, with which requests, and how often. `Faults` holds them in the order they were
added; for each request the first fault that applies is used. All randomness comes from the seed.
"""

from __future__ import annotations

import enum
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kscheduler.errors import APIError, Conflict, Forbidden, Gone, NotFound, TooManyRequests, Unreachable


class Verb(enum.Enum):
    """The kinds of request that a fault can affect; DELIVER is the delivery of a batch of events by an open watch."""

    LIST = "list"
    WATCH = "watch"
    DELIVER = "deliver"
    GET_POD = "get pod"
    GET_AGGREGATED = "get aggregated"
    BIND = "bind"
    DELETE_POD = "delete pod"
    PATCH_STATUS = "patch status"
    ANNOTATE_POD = "annotate pod"
    PATCH_VOLUME = "patch volume"
    PATCH_CLAIM = "patch claim"
    PATCH_POLICY = "patch policy"
    PATCH_QUOTA = "patch quota"
    PATCH_QUEUE = "patch queue"
    PATCH_CONDITION = "patch condition"
    PATCH_GROUP = "patch group"
    GET_RESOURCE_CLAIM = "get resource claim"
    CREATE_RESOURCE_CLAIM = "create resource claim"
    PATCH_RESOURCE_CLAIM = "patch resource claim"
    PATCH_RESOURCE_CLAIM_STATUS = "patch resource claim's status"
    RELEASE_RESOURCE_CLAIM = "release resource claim"
    DELETE_RESOURCE_CLAIM = "delete resource claim"
    CREATE_EVENT = "create event"
    PATCH_EVENT = "patch event"
    GET_LEASE = "get lease"
    CREATE_LEASE = "create lease"
    UPDATE_LEASE = "update lease"


class FaultKind(enum.Enum):
    # Apply to any request, which is not carried out.
    BAD_REQUEST = "400"
    UNAUTHORIZED = "401"
    FORBIDDEN = "403"
    CONFLICT = "409"
    NOT_FOUND = "404"
    GONE = "410"
    TOO_MANY_REQUESTS = "429"
    SERVER_ERROR = "500"
    FAILED_WEBHOOK = "500 for want of an admission webhook"
    UNAVAILABLE = "503"
    UNREADABLE = "an answer that cannot be read"
    NO_SUCH_PATH = "404 of a server without that path"
    TIMEOUT = "no answer"  # the request fails after delay_s
    # Apply to writes.
    LOST_ANSWER = "answer lost"  # the write is carried out, but fails for the client
    SLOW = "slow"  # the write is carried out delay_s later
    # Apply to LIST.
    STALE_LIST = "stale list"  # the list is that of `changes` changes ago
    # Apply to DELIVER.
    CUT = "watch cut"
    SILENT = "watch silent"  # no event is delivered for delay_s, then the connection breaks
    DUPLICATE = "events twice"
    DELAYED = "events late"  # the events are delivered delay_s later


# Fault -> the error that answers the request: exception, HTTP status, reason.
_REFUSALS: dict[FaultKind, tuple[type[APIError], int, str]] = {
    FaultKind.BAD_REQUEST: (APIError, 400, "BadRequest"),
    FaultKind.UNAUTHORIZED: (Forbidden, 401, "Unauthorized"),
    FaultKind.FORBIDDEN: (Forbidden, 403, "Forbidden"),
    FaultKind.CONFLICT: (Conflict, 409, "Conflict"),
    FaultKind.NOT_FOUND: (NotFound, 404, "NotFound"),
    FaultKind.GONE: (Gone, 410, "Expired"),
    FaultKind.TOO_MANY_REQUESTS: (TooManyRequests, 429, "TooManyRequests"),
    FaultKind.SERVER_ERROR: (APIError, 500, "InternalError"),
    FaultKind.FAILED_WEBHOOK: (APIError, 500, "InternalError"),
    FaultKind.UNAVAILABLE: (APIError, 503, "ServiceUnavailable"),
    FaultKind.UNREADABLE: (APIError, 0, ""),
    FaultKind.NO_SUCH_PATH: (NotFound, 404, ""),
    FaultKind.TIMEOUT: (Unreachable, 0, ""),
}
_WATCH_ONLY = {FaultKind.CUT, FaultKind.SILENT, FaultKind.DUPLICATE, FaultKind.DELAYED}


@dataclass(frozen=True, slots=True)
class Fault:
    """Describes a fault and the requests that it affects.

    `matches`, if given, restricts the fault to some requests; its argument is what the request is about: a Binding,
    Pod, Event, Lease, or key, and None for list and watch.
    """

    kind: FaultKind
    verbs: frozenset[Verb]
    resource: str = ""  # plural name such as "pods"; "": any
    count: int | None = None  # the fault happens at most this often; None: no limit
    skip: int = 0  # the first so many matching requests are not affected
    probability: float = 1.0
    delay_s: float = 0.0
    retry_after_s: float | None = None
    changes: int = 10
    matches: Callable[[object], bool] | None = None

    def __post_init__(self) -> None:
        if self.kind in _WATCH_ONLY and self.verbs != {Verb.DELIVER}:
            raise ValueError(f"{self.kind.name} happens to an open watch: verbs must be DELIVER, not {self.verbs}")


class Faults:
    """Holds the faults to inject into one client's requests, and counts how often each has happened."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self.any = False  # True if any fault was added, even if it cannot happen any more
        self._faults: list[Fault] = []
        self._seen: Counter[int] = Counter()  # index into _faults -> matching requests so far
        self._struck: Counter[int] = Counter()  # index into _faults -> how often the fault happened

    def add(
        self,
        kind: FaultKind,
        verbs: Verb | Iterable[Verb],
        *,
        resource: str = "",
        count: int | None = None,
        skip: int = 0,
        probability: float = 1.0,
        delay_s: float = 0.0,
        retry_after_s: float | None = None,
        changes: int = 10,
        matches: Callable[[object], bool] | None = None,
    ) -> Fault:
        chosen = frozenset([verbs]) if isinstance(verbs, Verb) else frozenset(verbs)
        fault = Fault(kind, chosen, resource, count, skip, probability, delay_s, retry_after_s, changes, matches)
        self._faults.append(fault)
        self.any = True
        return fault

    def clear(self) -> None:
        self._faults.clear()
        self.any = False
        self._seen.clear()
        self._struck.clear()

    def struck(self, kind: FaultKind) -> int:
        """Return how often faults of this kind have happened."""
        return sum(count for index, count in self._struck.items() if self._faults[index].kind is kind)

    def draw(self, verb: Verb, resource: str, subject: object = None) -> Fault | None:
        """Return the fault to inject into this request, and count it; None if no fault applies."""
        for index, fault in enumerate(self._faults):
            if verb in fault.verbs and fault.resource in ("", resource) and self._strikes(index, fault, subject):
                return fault
        return None

    def _strikes(self, index: int, fault: Fault, subject: object) -> bool:
        if fault.matches is not None and not fault.matches(subject):
            return False
        self._seen[index] += 1
        if self._seen[index] <= fault.skip:
            return False
        if fault.count is not None and self._struck[index] >= fault.count:
            return False
        if fault.probability < 1.0 and self._random.random() >= fault.probability:
            return False
        self._struck[index] += 1
        return True


def refusal(fault: Fault, verb: Verb) -> APIError | None:
    """Return the error that a fault answers a request with; None if the fault does not make the request fail."""
    if fault.kind not in _REFUSALS:
        return None
    error, status, reason = _REFUSALS[fault.kind]
    message = f"injected fault: {fault.kind.value} for {verb.value}"
    if fault.kind is FaultKind.FAILED_WEBHOOK:  # the apiserver's words, which say that nothing was carried out
        message = f'Internal error occurred: failed calling webhook "example.com": {message}'
    return error(message, status=status, reason=reason, retry_after_s=fault.retry_after_s)
