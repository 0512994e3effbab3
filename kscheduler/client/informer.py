"""A local copy of all objects of one kind, kept current by list and watch; a handler is called for each change.

The handler is called for each object in the order add, update..., delete, and always with the version that it received
last as the old one, even if changes were missed in between. A complete list decides which objects exist. A watch
continues from the list's version, and after a break from its own last version. A 410 leads to a new list. No error of
the handler, of one bad object or of the apiserver ends an informer; only cancellation does. The module does not
interpret the objects.

A watch on which nothing arrives may be dead without any sign of it. So a watch that has been silent for a while is
opened again from its version, for a few seconds only. If something was missed, it arrives at once; if nothing was, the
apiserver sends a bookmark and ends the watch in time. A watch that does neither is opened once more without delay, as a
load balancer may lead it to another server; if that one is silent, too, the watch is broken. The longer nothing has
changed, the longer the next such watch, up to a limit.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, Generic, Protocol, TypeVar

from kscheduler.api.decode import UNNAMED
from kscheduler.api.objects import NamespacedObject, ObjectMeta
from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.client.kinds import Resource
from kscheduler.client.outages import Outages
from kscheduler.client.protocol import Client, EventType, Page, PushesWatches, WatchEvent
from kscheduler.client.retry_pauses import Backoff, RetryPauses
from kscheduler.clock import Clock
from kscheduler.errors import APIError, DecodeError, Forbidden, Gone, NotFound, TooManyRequests, Unreachable
from kscheduler.observability.instruments import Counter
from kscheduler.observability.measurements import Measurements

log = logging.getLogger(__name__)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

# client-go draws a watch's length from here, so that the watches of a cluster do not all end at once.
WATCH_TIMEOUT_S = (300.0, 600.0)
# A watch that lasted longer, or brought something, is a success. One that a server ends at once is a failure.
SHORT_WATCH_S = 5.0
# How long the objects of a page may be handled before others get a turn.
SLICE_S = 0.001
PAGE_SIZE = 500  # client-go's
# Of a watch that is to show that it works. The apiserver sends a bookmark 2 s before the end of a watch, at its next
# tick of a second, and none to a watch that is shorter.
PROOF_S = 3.0
# What a watch may be late with its end.
PROOF_GRACE_S = 2.0
# The first that is so late is opened again: behind a load balancer, another server may answer.
PROOF_LATE_S = 0.5
# Up to so many objects, a list shows sooner than a watch that nothing was missed: in half a second, not in two.
SHORT_LIST = 10 * PAGE_SIZE
# A restarted apiserver refuses everything until its RBAC objects are loaded, and no other request's success says when.
MAX_FORBIDDEN_DELAY_S = 1.0
# Before the second list in a row that the age of a version asks for; twice as long before each further one,
RELIST_S = 0.5
# but no longer than makes lists a twentieth of the time, so that a short list is not waited for like a long one.
LONGEST_RELIST_S = 1.0
RELIST_TIMES_TOOK = 20.0
NEEDED_CREDENTIALS = "a token or certificate that has not expired; files are read again, the kubeconfig at start only"


class Handler(Protocol[T_contra]):
    """Receives the changes of one kind of object, in order. Exceptions are logged with the object's key."""

    def on_add(self, obj: T_contra) -> None: ...

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """Handle a changed object; `old` is the version that the handler received last."""
        ...

    def on_delete(self, obj: T_contra) -> None:
        """Handle a deleted object, given as the version that the handler received last."""
        ...


class KeepNewest(Generic[T]):
    """A handler that only keeps the newest version of each object, for kinds whose changes need no reaction."""

    def __init__(self, keep: Callable[[T], object], drop: Callable[[T], object]) -> None:
        self._keep = keep
        self._drop = drop

    def on_add(self, obj: T) -> None:
        self._keep(obj)

    def on_update(self, old: T, new: T) -> None:
        self._keep(new)

    def on_delete(self, obj: T) -> None:
        self._drop(obj)


class VersionWentBack(APIError):
    """The apiserver returned a state older than a previous one, as a restored backup or a stale replica does."""


class UnreadableChange(APIError):
    """A watch event could not be decoded, so that the current state must be listed."""


class Informer(Generic[T]):
    """A local copy of all objects of one kind. Run `run` as a task.

    `store` can be read at any time; the event `synced` is set once the first list is complete.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        handler: Handler[T],
        *,
        clock: Clock,
        rng: random.Random,
        field_selector: str = "",
        page_size: int = PAGE_SIZE,
        watch_timeout_s: tuple[float, float] = WATCH_TIMEOUT_S,
        keep: Callable[[T], T | None] | None = None,
        backoff: Backoff | None = None,
        may_be_unknown: bool = False,
        measurements: Measurements | None = None,
        pauses: RetryPauses | None = None,
        outages: Outages | None = None,
        silence_s: float = float("inf"),
        longest_proof_s: float = PROOF_S,
        store: dict[str, T] | None = None,
    ) -> None:
        """Create an empty informer; `run` fills it.

        `keep` may return a smaller object to store and hand on, or None to ignore the object as if it did not exist. If
        it raises DecodeError, the version read last stays in the store. `may_be_unknown`: an apiserver that does not
        know the kind counts as one without objects of it. `pauses` is shared by all users of an apiserver, `outages` by
        its informers. After `silence_s` seconds without an event the watch is opened again for as long, to check that
        it works; for twice as long each time that nothing has changed, up to `longest_proof_s`. `store` is an empty
        dict to fill, for others that read it as well.
        """
        self.resource = resource
        # key ("namespace/name", or "name") -> the version the handler knows
        self.store: dict[str, T] = {} if store is None else store
        self.synced = asyncio.Event()
        self.last_error: APIError | None = None  # None while list and watch work
        self.resource_version = ""  # of the last change seen; "" asks for a list
        self.changed_version = ""  # as of the last list or change: bookmarks leave it, as they bring nothing
        self._client = client
        self._handler = handler
        self._clock = clock
        self._rng = rng
        self._field_selector = field_selector
        self._page_size = page_size
        self._watch_timeout_s = watch_timeout_s
        self._keep = keep
        self._backoff = backoff or Backoff(rng)
        self._may_be_unknown = may_be_unknown
        # Keys of objects that the last list could not read either. What is stored of them is what was read last.
        self._unread: set[str] = set()
        self._measure = measurements
        self._list_reason = "start"
        self._is_expired_once = False  # the only failure since the last success is that of a watch's version
        self._relists = Backoff(rng, initial_s=RELIST_S)  # of watches that were refused for the age of their version
        self._list_took_s = 0.0  # the last complete one
        self._event_counts = {
            kind: Counter() if measurements is None else measurements.watch_events(resource.plural, kind.value)
            for kind in EventType
        }
        self._pauses = pauses or RetryPauses(random.Random(0))
        self._outages = outages or Outages(clock)
        self._silence_s = silence_s
        self._first_proof_s = self._proof_s = max(PROOF_S, silence_s)  # how long the next watch that is to show lasts
        self._longest_proof_s = max(longest_proof_s, self._first_proof_s)
        self._heard_at = clock.now()  # when list or watch brought something last, or began
        # The last watch went silent, or brought only bookmarks. A kind whose silence is borne for a while counts as
        # quiet until it changes: its first watch ends by itself, and leaves its connection to the next one.
        self._is_quiet = PROOF_S <= silence_s < float("inf")
        self._has_heard = False  # the watch that is open, or was last, has brought something
        self._has_changed = False  # and not only bookmarks
        self._is_late = False  # the last watch that was to show that it works did not end in time
        self._goal = ""  # the version that `reach` waits for, or ""
        self._goal_reached = asyncio.Event()
        self._fell_short = False  # a watch has ended before it brought that version
        self._is_interrupted = False  # the watch that is open is to be opened again
        self._interruption: asyncio.Future[None] | None = None  # done then; None while none is open

    # --- how far it is ------------------------------------------------------------------------------------------

    @property
    def seems_current(self) -> bool:
        """False if list or watch are known to fail, or if a silent watch has not shown in time that it works."""
        overdue_s = self._silence_s + self._longest_proof_s + PROOF_GRACE_S
        return self.synced.is_set() and self.last_error is None and self._clock.now() - self._heard_at <= overdue_s

    async def confirm(self) -> None:
        """Return once the store holds everything that the apiserver had accepted when this was called.

        This costs a quorum read of one object and a short list or watch. It has no timeout. Raises APIError when the
        apiserver cannot tell which version is the current one.
        """
        page = await self._client.list_page(self.resource, limit=1)
        await self.reach(page.resource_version)

    async def reach(self, version: str) -> None:
        """Return once the store holds all changes up to this resource version. Only one caller may wait at a time."""
        if self.synced.is_set() and not is_older(self.resource_version, version):
            return
        self._goal, self._fell_short = version, False
        self._goal_reached.clear()
        self._is_interrupted = True
        if self._interruption is not None and not self._interruption.done():
            self._interruption.set_result(None)
        try:
            await self._goal_reached.wait()
        finally:
            self._goal = ""

    def _advanced(self) -> None:
        if self._goal and not is_older(self.resource_version, self._goal):
            self._goal_reached.set()

    @property
    def _has_goal(self) -> bool:
        return bool(self._goal) and not self._goal_reached.is_set()

    # --- life ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """List, then watch, and start again whenever the watch ends, until cancelled."""
        try:
            await self._repeat()
        finally:
            self._outages.forget(self)

    async def _repeat(self) -> None:
        while True:
            try:
                if not self.resource_version or (
                    self._has_goal and (self._fell_short or len(self.store) <= SHORT_LIST)
                ):
                    await self._list()
                await self._watch()
            except (Gone, VersionWentBack) as error:
                self.resource_version = ""
                self._list_reason = "expired"
                await self._failed(error, after_s=self._relist_delay_s())
            except UnreadableChange as error:
                self.resource_version = ""
                await self._failed(error)
            except NotFound as error:
                if self._may_be_unknown:
                    self._kind_unknown()
                await self._failed(error)
            except APIError as error:
                await self._failed(error)

    # --- list ---------------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        """Read all pages of a list; an object of the store that is on none of them has been deleted."""
        start = self._heard_at = self._clock.now()
        self._is_interrupted = False  # a list that begins now brings all there is
        seen: set[str] | None = set() if self.store else None  # None: what is stored will be of this list
        unread: set[str] = set()
        page = await self._page("")
        while page.continue_token:
            # The apiserver writes the next page while the objects of this one are handled.
            following = asyncio.ensure_future(self._page(page.continue_token))
            try:
                await self._put_page(page, seen, unread)
                page = await following
            finally:
                await cancel_and_wait(following)
        await self._put_page(page, seen, unread)
        if seen is not None:
            for key in [key for key in self.store if key not in seen and key not in unread]:
                self._remove(key)
        self._unread = unread
        self._list_took_s = self._clock.now() - start
        self.resource_version = self.changed_version = page.resource_version
        log.info(
            "list complete",
            extra={
                "resource": self.resource.plural,
                "objects": len(self.store),
                "seconds": round(self._list_took_s, 3),
                "resource_version": page.resource_version,
            },
        )
        if self._measure is not None:
            self._measure.listed(self.resource.plural, self._list_reason)
        # What makes the next one necessary says so; else it is an answer that could not be followed.
        self._list_reason = "error"
        # Not yet a success: a list that works and a watch that is refused must not take turns without a pause.
        self.last_error = None
        self._heard_at = self._clock.now()
        self.synced.set()
        self._pauses.succeeded()
        self._advanced()

    async def _page(self, token: str) -> Page[T]:
        """Read one page of a list. Raises Gone for an expired continue token, but not for a 410 to the first page."""
        try:
            return await self._client.list_page(
                self.resource, field_selector=self._field_selector, limit=self._page_size, continue_token=token
            )
        except Gone as error:
            if token:
                raise
            raise APIError(str(error), status=error.status, reason=error.reason) from error

    async def _put_page(self, page: Page[T], seen: set[str] | None, unread: set[str]) -> None:
        """Store the objects of a page in small steps, so that a big page does not delay the Lease and the bindings."""
        now = self._clock.now
        end = now() + SLICE_S
        for obj in page.items:
            key = _key(obj)
            if seen is not None:
                seen.add(key)
            try:
                self._put(key, obj)
            except DecodeError:
                unread.add(key)
            if now() >= end:
                await asyncio.sleep(0)
                end = now() + SLICE_S
        unread.update(key for key in page.unread if key != UNNAMED)

    def _kind_unknown(self) -> None:
        """Empty the store because the apiserver does not know the kind; it is listed again later."""
        self.resource_version = ""
        for key in list(self.store):
            self._remove(key)
        self.synced.set()

    # --- watch --------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Watch until the server ends the watch or it has to be opened again. Raises the error that broke the watch."""
        self._is_interrupted = False
        has_to_show = self._has_goal or self._is_quiet
        if has_to_show:
            timeout_s = PROOF_S if self._has_goal else self._proof_s
            limit_s = timeout_s + (PROOF_GRACE_S if self._is_late else PROOF_LATE_S)
        else:
            timeout_s, limit_s = self._rng.uniform(*self._watch_timeout_s), self._silence_s
            self._proof_s = self._first_proof_s
        self._heard_at = self._clock.now()
        interruption = self._interruption = asyncio.get_running_loop().create_future()
        reading = asyncio.ensure_future(self._read(timeout_s))
        try:
            while (left_s := self._heard_at + limit_s - self._clock.now()) > 0 and not self._is_interrupted:
                timeout = None if left_s == float("inf") else left_s
                await asyncio.wait([reading, interruption], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                if reading.done():
                    reading.result()
                    self._is_late = False
                    self._fell_short = self._has_goal
                    if has_to_show:
                        self._proof_s = min(2.0 * self._proof_s, self._longest_proof_s)
                    return
        finally:
            self._interruption = None
            if not reading.done():
                await cancel_and_wait(reading)
            elif not reading.cancelled():
                reading.exception()  # asked for, in case that this is cancelled at the same time
        if has_to_show and not self._is_interrupted:
            self._fell_short = self._has_goal
            self._proof_s = self._first_proof_s
            if not self._is_late:
                self._is_late = True
                return
            self._is_late = False
            missing = "neither an event nor its end came"
            raise Unreachable(f"watch of {self.resource.plural}: {missing} in {limit_s:g} s", cause=missing)
        self._is_quiet = True

    async def _read(self, timeout_s: float) -> None:
        """Read all events of one watch request. Raises the error that broke it."""
        start = self._clock.now()
        self._has_heard = self._has_changed = False
        short_s = min(SHORT_WATCH_S, timeout_s / 2)
        try:
            await self._follow(timeout_s)
        except APIError:
            if self._clock.now() - start >= SHORT_WATCH_S:
                self._worked()
            raise
        if not self._has_heard and self._clock.now() - start < short_s:
            raise APIError(f"watch of {self.resource.plural}: ended at once, without an event")
        self._worked()

    async def _follow(self, timeout_s: float) -> None:
        """Receive the events of one watch until it ends: by calls, if the client can push them, else by its stream."""
        client, version, selector = self._client, self.resource_version, self._field_selector
        if isinstance(client, PushesWatches) and client.pushes:
            await client.push_watch(
                self.resource, self.receive, resource_version=version, field_selector=selector, timeout_s=timeout_s
            )
            return
        stream = client.watch(self.resource, resource_version=version, field_selector=selector, timeout_s=timeout_s)
        try:
            async for events in stream:
                self.receive(events)
        finally:
            await _close(stream)

    def receive(self, events: Sequence[WatchEvent[T]]) -> None:
        """Apply a batch of the watch that is open. Raises APIError if the watch cannot go on after it."""
        self._heard_at = self._clock.now()
        if not self._has_heard:
            self._has_heard = True
            self._is_late = False
            self._worked()
        if not self._has_changed and any(event.type is not _BOOKMARK for event in events):
            self._has_changed, self._is_quiet = True, False
        is_namespaced = self.resource.namespaced
        for event in events:
            self._event_counts[event.type].value += 1
            version, newest = event.resource_version, self.resource_version
            # As `is_older`, which need not be asked where versions have one length: digits then compare as text.
            is_surely_newer = version >= newest and len(version) == len(newest)
            if version and not is_surely_newer and is_older(version, newest):
                if event.type is _BOOKMARK:
                    continue
                raise VersionWentBack(
                    f"watch of {self.resource.plural}: version {version} came after {newest}; listing again"
                )
            obj: Any = event.object
            if event.is_kept or (obj is not None and self._keep is None):
                meta: ObjectMeta = obj.metadata
                key = f"{meta.namespace}/{meta.name}" if is_namespaced else meta.name
                if event.type is _DELETED:
                    self._remove(key)
                else:
                    self._store(key, obj)
            else:
                self._apply(event)
            if version:
                self.resource_version = version
        if len(events) > 1 or events[0].type is not _BOOKMARK:
            self.changed_version = self.resource_version
        if self._goal:
            self._advanced()

    def _apply(self, event: WatchEvent[T]) -> None:
        """Apply an event as it was decoded. Raises UnreadableChange for one that only a list can replace."""
        obj, unread = event.object, event.unread
        if obj is not None:
            metadata = _metadata(obj)
            # As `obj.key`, without its call for each event.
            key = f"{metadata.namespace}/{metadata.name}" if isinstance(obj, NamespacedObject) else _key(obj)
            if event.type is EventType.DELETED:
                self._remove(key)
            else:
                try:
                    self._put(key, obj)
                except DecodeError:
                    unread = key
        if unread and unread not in self._unread:
            raise UnreadableChange(
                f"watch of {self.resource.plural}: a change of {unread} cannot be read; listing again"
            )

    # --- store and handler --------------------------------------------------------------------------------------

    def _put(self, key: str, obj: T) -> None:
        """Store an object as `keep` returns it. Raises DecodeError, and changes nothing, if `keep` does."""
        if self._keep is not None:
            try:
                kept = self._keep(obj)
            except DecodeError:
                raise
            except Exception:
                self._log_whole(key)
                kept = obj
            if kept is None:
                self._remove(key)
                return
            obj = kept
        self._store(key, obj)

    def _log_whole(self, key: str) -> None:
        log.exception(
            "sharing the parts of an object failed; it is kept whole",
            extra={"resource": self.resource.plural, "object": key},
        )

    def _store(self, key: str, obj: T) -> None:
        """Store an object, and call the handler if it is new to it."""
        old: Any = self.store.get(key)
        new: Any = obj
        if old is not None:
            was, now = old.metadata, new.metadata
            if was.uid != now.uid:  # deleted and created again between two events
                self._remove(key)
                old = None
            elif was.resource_version == now.resource_version:
                return
        self.store[key] = obj
        try:
            if old is None:
                self._handler.on_add(obj)
            else:
                self._handler.on_update(old, obj)
        except Exception:
            self._log_fault(key)

    def _remove(self, key: str) -> None:
        old = self.store.pop(key, None)
        if old is not None:
            try:
                self._handler.on_delete(old)
            except Exception:
                self._log_fault(key)

    def _log_fault(self, key: str) -> None:
        log.exception("event handler failed", extra={"resource": self.resource.plural, "object": key})

    # --- failures -----------------------------------------------------------------------------------------------

    def _worked(self) -> None:
        if self._backoff.failures:
            is_logged_by_last = self._outages.hinders(self) and self._outages.kinds > 1
            was_refused = self._outages.rights.allows(self)
            log.log(
                logging.DEBUG if is_logged_by_last or was_refused or self._is_expired_once else logging.INFO,
                "list and watch work again",
                extra={"resource": self.resource.plural, "failures": self._backoff.failures},
            )
            self._leave_outage()
        self._is_expired_once = False
        self._backoff.reset()
        self._relists.reset()
        self.last_error = None
        self._pauses.succeeded()

    def _leave_outage(self) -> None:
        """Take part in an outage no longer; if it hindered several kinds and this was the last one, log its end."""
        over = self._outages.leave(self)
        if over is not None and over.kinds > 1:
            log.info("list and watch work again", extra={"kinds": over.kinds, "seconds": round(over.seconds, 3)})

    def _relist_delay_s(self) -> float:
        """Return the pause in seconds before the next list.

        The first has none, because the apiserver has just answered.
        """
        is_first = self._relists.failures == 0
        delay_s = min(self._relists.next_s(), max(LONGEST_RELIST_S, RELIST_TIMES_TOOK * self._list_took_s))
        return 0.0 if is_first else delay_s

    async def _failed(self, error: APIError, *, after_s: float | None = None) -> None:
        """Log the first of several failures in a row and each new kind of failure, then wait before the next try.

        What hinders all kinds is logged by the first of them. `after_s` is a delay in seconds that replaces the
        backoff.
        """
        last, self.last_error = self.last_error, error
        is_unknown = error.status == 401  # we are, to the apiserver: no right is missing
        cause = _common_cause(error)
        if cause:
            is_new = self._outages.is_news(self, self.resource.plural, cause)
        else:
            is_new = type(error) is not type(last) or bool(last is not None and _common_cause(last))
            self._leave_outage()
        delay_s = self._backoff.next_s(error.retry_after_s)
        self._is_expired_once = isinstance(error, Gone) and self._backoff.failures == 1
        if after_s is not None:
            delay_s = after_s
        at_least_s = error.retry_after_s or 0.0
        if isinstance(error, Forbidden) or (isinstance(error, NotFound) and not self._may_be_unknown):
            delay_s = max(min(delay_s, MAX_FORBIDDEN_DELAY_S), at_least_s)
        extra = {
            "resource": self.resource.plural,
            "err": str(error),
            "failures": self._backoff.failures,
            "retry_s": round(delay_s, 3),
        }
        if is_unknown:
            extra["needs"] = NEEDED_CREDENTIALS
            log.log(logging.ERROR if is_new else logging.DEBUG, "credentials are not accepted", extra=extra)
        elif isinstance(error, Forbidden):
            self._outages.rights.refused(self, self.resource, str(error))
            log.debug("not allowed to list and watch", extra=extra)
        elif isinstance(error, NotFound) and self._may_be_unknown:
            self._outages.rights.allows(self)  # rights are asked before what is served
            log.log(
                logging.INFO if is_new else logging.DEBUG,
                "kind not served by the apiserver; it is looked for again",
                extra=extra,
            )
        elif isinstance(error, Gone):
            # Each compaction of etcd may end all watches so, and the lists that follow are logged.
            is_unusual = self._backoff.failures == 2
            log.log(logging.INFO if is_unusual else logging.DEBUG, "watch version too old, listing again", extra=extra)
        else:
            log.log(logging.WARNING if is_new else logging.DEBUG, "list or watch failed", extra=extra)
        if isinstance(error, _ABOUT_THIS_KIND):
            await asyncio.sleep(delay_s)
        else:
            is_outage = isinstance(error, Unreachable) or (error.status or 0) >= 500
            await self._pauses.pause(delay_s, at_least_s=at_least_s, may_probe=is_outage)


# Another request's success says nothing about these; what follows the last two is a whole list.
_ABOUT_THIS_KIND = (Forbidden, NotFound, Gone, VersionWentBack)


def _common_cause(error: APIError) -> str:
    """Return what went wrong, if requests about any other kind would fail for the same cause; "" if not."""
    if error.status == 401:
        return "401"
    is_common = isinstance(error, Unreachable | TooManyRequests) or error.status >= 500
    return error.cause if is_common else ""


# Before Python 3.12, each look at a member of an Enum by its class costs several times as much as one at a global name.
_BOOKMARK: Final = EventType.BOOKMARK
_DELETED: Final = EventType.DELETED

_key: Callable[[Any], str] = attrgetter("key")
_metadata: Callable[[Any], Any] = attrgetter("metadata")


def is_older(version: str, than: str) -> bool:
    """Return True if `version` is a smaller number than `than`; a version that is not a number is never older."""
    if len(version) == len(than):  # nearly always, and digits of one length compare as text
        return version < than and version.isdecimal() and than.isdecimal()
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


async def _close(stream: Any) -> None:
    """Close an async generator now instead of at garbage collection."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()
