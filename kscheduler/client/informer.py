"""A local copy of one kind of object, kept true by list and watch, and a handler told of every difference.

The rules: the handler hears of each object in the order add, update..., delete, always about the version it heard
of last, whatever was missed in between. A complete list decides what exists; a watch continues from its version,
and from its own last version after a break. 410 means list again. Nothing the handler, one bad object or the
apiserver does ends an informer; only cancellation does. What the objects mean is not known here.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from kscheduler.api.decode import UNNAMED
from kscheduler.client.backoff import Backoff
from kscheduler.client.protocol import Client, EventType, Resource, WatchEvent
from kscheduler.clock import Clock
from kscheduler.errors import APIError, DecodeError, Forbidden, Gone, NotFound
from kscheduler.metrics import Counter

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


class Handler(Protocol[T_contra]):
    """Called synchronously, in order. An exception is logged with the object's key, and the next call is made."""

    def on_add(self, obj: T_contra) -> None: ...

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """`old` is what the handler was told last about this object."""
        ...

    def on_delete(self, obj: T_contra) -> None:
        """`obj` is what the handler was told last about this object."""
        ...


class InformerObserver(Protocol):
    """Counts what an informer reads."""

    def listed(self, resource: str, reason: str) -> None:
        """A list was read to its end. `reason`: start, expired (the version to watch from is too old) or error."""
        ...

    def watch_events(self, resource: str, kind: str) -> Counter:
        """What to count the events of a watch with, by their type in capitals; asked for once."""
        ...


class NoInformerObserver:
    """Counts nothing."""

    def listed(self, resource: str, reason: str) -> None:
        pass

    def watch_events(self, resource: str, kind: str) -> Counter:
        return Counter()


class VersionWentBack(APIError):
    """The apiserver told of a state older than one it told of before: restored from a backup, or a stale replica."""


class UnreadableChange(APIError):
    """A watch brought a change that cannot be read: only a list can tell what is now."""


class Informer(Generic[T]):
    """`run` it as a task; `synced` is set once the first list is complete, and `store` may be read at any time."""

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
        observer: InformerObserver | None = None,
    ) -> None:
        """`keep` may slim an object before it is stored and handed on; None drops it, as if it did not exist. What
        it raises DecodeError for is left as it was read last.

        `may_be_unknown`: while the apiserver does not know the kind at all, there are no objects of it.
        """
        self.resource = resource
        self.store: dict[str, T] = {}  # key ("namespace/name", or "name") -> the version the handler knows
        self.synced = asyncio.Event()
        self.last_error: APIError | None = None  # None while list and watch work
        self.resource_version = ""  # of the last change seen; "" asks for a list
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
        self._observer: InformerObserver = observer or NoInformerObserver()
        self._list_reason = "start"
        self._event_counts = {kind: self._observer.watch_events(resource.plural, kind.value) for kind in EventType}

    async def run(self) -> None:
        """List, watch, and start over, until cancelled."""
        while True:
            try:
                if not self.resource_version:
                    await self._list()
                await self._watch()
            except (Gone, VersionWentBack) as error:
                self.resource_version = ""
                self._list_reason = "expired"
                await self._failed(error, at_once=self._backoff.failures == 0)
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
        """Every page in turn; what is in none of them has been deleted."""
        start = self._clock.now()
        seen: set[str] | None = set() if self.store else None  # None: what is stored will be of this list
        unread: set[str] = set()
        token = ""
        while True:
            page = await self._client.list_page(
                self.resource, field_selector=self._field_selector, limit=self._page_size, continue_token=token
            )
            await self._put_all(page.items, seen, unread)
            unread.update(key for key in page.unread if key != UNNAMED)
            token = page.continue_token
            if not token:
                break
            await asyncio.sleep(0)  # thousands of pages are handled: let others run
        if seen is not None:
            for key in [key for key in self.store if key not in seen and key not in unread]:
                self._remove(key)
        self._unread = unread
        self.resource_version = page.resource_version
        log.info(
            "list complete",
            extra={
                "resource": self.resource.plural,
                "objects": len(self.store),
                "seconds": round(self._clock.now() - start, 3),
                "resource_version": page.resource_version,
            },
        )
        self._observer.listed(self.resource.plural, self._list_reason)
        # What makes the next one necessary says so; else it is an answer that could not be followed.
        self._list_reason = "error"
        # Not yet a success: a list that works and a watch that is refused must not take turns without a pause.
        self.last_error = None
        self.synced.set()

    async def _put_all(self, objects: Iterable[T], seen: set[str] | None, unread: set[str]) -> None:
        """A page, a little at a time: the lease and the bindings must not wait for a big one."""
        now = self._clock.now
        end = now() + SLICE_S
        for obj in objects:
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

    def _kind_unknown(self) -> None:
        """The list is empty, and complete; it is asked for again."""
        self.resource_version = ""
        for key in list(self.store):
            self._remove(key)
        self.synced.set()

    # --- watch --------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """One watch, until the server ends it. Raises what broke it."""
        start = self._clock.now()
        heard = False
        stream = self._client.watch(
            self.resource,
            resource_version=self.resource_version,
            field_selector=self._field_selector,
            timeout_s=self._rng.uniform(*self._watch_timeout_s),
        )
        try:
            async for events in stream:
                if not heard:
                    heard = True
                    self._worked()
                for event in events:
                    self._apply(event)
        finally:
            await _close(stream)
            if self._clock.now() - start >= SHORT_WATCH_S:
                self._worked()
        if not heard and self._clock.now() - start < SHORT_WATCH_S:
            raise APIError(f"watch of {self.resource.plural}: ended at once, without an event")

    def _apply(self, event: WatchEvent[T]) -> None:
        self._event_counts[event.type].inc()
        version = event.resource_version
        if version and _older(version, self.resource_version):
            if event.type is EventType.BOOKMARK:
                return
            raise VersionWentBack(
                f"watch of {self.resource.plural}: version {version} came after {self.resource_version}; listing again"
            )
        obj, unread = event.object, event.unread
        if obj is not None:
            if event.type is EventType.DELETED:
                self._remove(_key(obj))
            else:
                try:
                    self._put(_key(obj), obj)
                except DecodeError:
                    unread = _key(obj)
        if unread and unread not in self._unread:
            raise UnreadableChange(
                f"watch of {self.resource.plural}: a change of {unread} cannot be read; listing again"
            )
        if version:
            self.resource_version = version

    # --- store and handler --------------------------------------------------------------------------------------

    def _put(self, key: str, obj: T) -> None:
        """Raises DecodeError, with what is stored as it was, if `keep` does."""
        if self._keep is not None:
            kept = self._slim(key, obj)
            if kept is None:
                self._remove(key)
                return
            obj = kept
        old = self.store.get(key)
        if old is None:
            self._add(key, obj)
            return
        was, now = _metadata(old), _metadata(obj)
        if was.uid != now.uid:  # deleted and made anew while we did not look
            self._remove(key)
            self._add(key, obj)
        elif was.resource_version != now.resource_version:
            self.store[key] = obj
            self._call(key, self._handler.on_update, old, obj)

    def _slim(self, key: str, obj: T) -> T | None:
        assert self._keep is not None
        try:
            return self._keep(obj)
        except DecodeError:
            raise
        except Exception:
            log.exception("object not slimmed", extra={"resource": self.resource.plural, "object": key})
            return obj

    def _add(self, key: str, obj: T) -> None:
        self.store[key] = obj
        self._call(key, self._handler.on_add, obj)

    def _remove(self, key: str) -> None:
        old = self.store.pop(key, None)
        if old is not None:
            self._call(key, self._handler.on_delete, old)

    def _call(self, key: str, function: Callable[..., None], *args: T) -> None:
        try:
            function(*args)
        except Exception:
            log.exception("event handler failed", extra={"resource": self.resource.plural, "object": key})

    # --- failures -----------------------------------------------------------------------------------------------

    def _worked(self) -> None:
        if self._backoff.failures:
            log.info(
                "list and watch work again",
                extra={"resource": self.resource.plural, "failures": self._backoff.failures},
            )
        self._backoff.reset()
        self.last_error = None

    async def _failed(self, error: APIError, *, at_once: bool = False) -> None:
        """Log the first failure of a streak and each new kind of failure in it; wait before the next try."""
        is_new = type(error) is not type(self.last_error)
        self.last_error = error
        delay_s = self._backoff.next_s(error.retry_after_s)
        extra = {
            "resource": self.resource.plural,
            "error": str(error),
            "failures": self._backoff.failures,
            "retry_s": 0.0 if at_once else round(delay_s, 3),
        }
        if isinstance(error, Forbidden):
            extra["needs"] = f"list and watch on {self.resource.plural} in {self.resource.group_version}"
            log.log(logging.ERROR if is_new else logging.DEBUG, "not allowed to list and watch", extra=extra)
        elif isinstance(error, NotFound) and self._may_be_unknown:
            log.log(logging.INFO if is_new else logging.DEBUG, "no such kind, looking for it again", extra=extra)
        elif isinstance(error, Gone):
            log.log(logging.INFO if is_new else logging.DEBUG, "watch version too old, listing again", extra=extra)
        else:
            log.log(logging.WARNING if is_new else logging.DEBUG, "list or watch failed", extra=extra)
        await asyncio.sleep(0.0 if at_once else delay_s)


def _key(obj: Any) -> str:
    key: str = obj.key
    return key


def _metadata(obj: Any) -> Any:
    return obj.metadata


def _older(version: str, than: str) -> bool:
    """Versions are opaque except that the apiserver's are numbers that grow; other ones are not judged."""
    if len(version) == len(than):  # nearly always, and digits of one length compare as text
        return version < than and version.isdecimal() and than.isdecimal()
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


async def _close(stream: Any) -> None:
    """Finish an async generator now, not when the garbage collector finds it."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()
