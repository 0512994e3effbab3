"""Decodes pages of a list and lines of a watch in one pass; one bad object does not affect the others.

The fast path decodes a whole page or line at once into its final type. Only if that fails does `api.decode` take it
apart to find the bad object, which is logged with its key; the others and the resource version are kept. A big page is
split into its objects, which is four times as fast as decoding, and each object is decoded when it is read, so that the
reader can let the event loop run in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from kscheduler.api.decode import (
    UNNAMED,
    APIStatus,
    DecodedEvent,
    ListMeta,
    OnBad,
    decode_list,
    decode_object,
    decode_or_report,
    decode_watch_line,
    decoder,
)
from kscheduler.api.objects import APIStruct, ObjectMeta
from kscheduler.client.foreign_bodies import kind_of_foreign
from kscheduler.client.kinds import Resource
from kscheduler.client.protocol import EventType, Page, WatchEvent, nothing
from kscheduler.client.watch_dedup import dedup_of
from kscheduler.errors import DecodeError
from kscheduler.input.decoding import check_utf8

log = logging.getLogger(__name__)
T = TypeVar("T")

_ADDED = b'{"type":"ADDED"'  # the order in which Go writes its fields; such a line repeats nothing
_TYPES = {each.value: each for each in EventType}
_BOOKMARK: Final = EventType.BOOKMARK  # which costs more at each event

# Decoding at once what is smaller takes a millisecond or less.
BIG_PAGE_BYTES = 512 << 10


class _List(msgspec.Struct, Generic[T], gc=False):
    metadata: ListMeta
    items: list[T] | None = None


class _Line(msgspec.Struct, Generic[T], gc=False):
    type: EventType
    object: T


class _Identified(APIStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class _IdentifiedLine(APIStruct, frozen=True):
    object: _Identified = _Identified()


class WatchError(Exception):
    """An ERROR event of a watch, with its metav1.Status."""

    def __init__(self, status: APIStatus) -> None:
        super().__init__(status.message)
        self.status = status


class Undecoded(Collection[T]):
    """The objects of a page, each decoded when it is read; an object that cannot be decoded is logged and skipped."""

    def __init__(self, items: list[msgspec.Raw], resource: Resource[T], on_bad: OnBad) -> None:
        self._items = items
        self._kind = resource.type
        self._on_bad = on_bad

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, item: object) -> bool:
        return item in list(self)

    def __iter__(self) -> Iterator[T]:
        decode: Callable[[msgspec.Raw], T] = decoder(cast(Any, self._kind))
        for raw in self._items:
            try:
                item: T | None = decode(raw)
            except DecodeError:
                item = decode_or_report(raw, self._kind, self._on_bad)
            if item is not None:
                yield item


def decode_page(raw: bytes, resource: Resource[T]) -> Page[T]:
    """Decode a List; objects that cannot be decoded are logged and left out.

    Raises DecodeError for bytes that are not a list or not UTF-8, which an apiserver always writes.
    """
    check_utf8(raw)
    unread: list[str] = []

    def on_bad(key: str, what: str) -> None:
        unread.append(key)
        _log_bad(resource, key, what)

    try:
        if len(raw) >= BIG_PAGE_BYTES:
            split = decoder(_List[msgspec.Raw])(raw)
            parts = Undecoded(split.items or [], resource, on_bad)
            return Page(parts, split.metadata.resource_version, split.metadata.continue_token, unread)
        page = decoder(_List[resource.type])(raw)  # type: ignore[name-defined]
        return Page(page.items or [], page.metadata.resource_version, page.metadata.continue_token)
    except DecodeError:
        found = decode_list(raw, resource.type, on_bad)
        return Page(found.items, found.resource_version, found.continue_token, unread)


class LineDecoder(Generic[T]):
    """Decodes the lines of one watch, in order.

    Of an event that changes nothing for the scheduler, only the resource version is returned.
    """

    def __init__(self, resource: Resource[T], on_bookmark: Callable[[], None] = nothing) -> None:
        """Create a decoder for a new watch. `on_bookmark` is called when lines end in a bookmark."""
        self._resource = resource
        self._on_bookmark = on_bookmark
        self._repeats = dedup_of(resource.type)
        self._decode = decoder(_Line[resource.type])  # type: ignore[name-defined]
        self._read_line = resource.read_line
        self._has_warned = False  # of a line that cannot be read: a proxy's page in place of events has many

    def __call__(self, raw: bytes) -> WatchEvent[T]:
        """Decode one event; an object that cannot be decoded is logged. Raises WatchError for an ERROR event."""
        events: list[WatchEvent[T]] = []
        self.pass_on(events.extend, (raw,))
        return events[0] if events else self._decode_line(raw)  # a line without a byte is none of a watch

    def pass_on(self, receive: Callable[[Sequence[WatchEvent[T]]], None], lines: Iterable[bytes]) -> None:
        """Call `receive` once with the events of these lines, up to an ERROR event, for which WatchError is raised.

        Empty lines are skipped. `receive` is not called without an event.
        """
        events: list[WatchEvent[T]] = []
        ended: WatchError | None = None
        repeats, read_line = self._repeats, self._read_line
        try:
            for raw in filter(None, lines):
                if not raw.isascii() and (damaged := self._damaged(raw)) is not None:
                    events.append(damaged)
                elif repeats is not None and not raw.startswith(_ADDED) and (version := repeats.version_if_repeat(raw)):
                    events.append(WatchEvent(EventType.MODIFIED, None, version))
                elif read_line is not None and (read := read_line(raw)) is not None:
                    kind, obj = read
                    version = obj.metadata.resource_version  # type: ignore[attr-defined]
                    events.append(WatchEvent(_TYPES[kind], obj, version, is_kept=True))
                else:
                    events.append(self._decode_line(raw))
        except WatchError as error:
            ended = error
        if events:
            if events[-1].type is _BOOKMARK:
                self._on_bookmark()
            receive(events)
        if ended is not None:
            raise ended

    def _damaged(self, raw: bytes) -> WatchEvent[T] | None:
        """Return the event of a line that is no UTF-8: it may look sound, and is not to be compared, let alone kept."""
        try:
            check_utf8(raw)
        except DecodeError as error:
            return self._unreadable(raw, error)
        return None

    def _decode_line(self, raw: bytes) -> WatchEvent[T]:
        try:
            line = self._decode(raw)
        except DecodeError:
            return self._decode_slowly(raw)
        version = line.object.metadata.resource_version
        return WatchEvent(line.type, None if line.type is EventType.BOOKMARK else line.object, version)

    def _decode_slowly(self, raw: bytes) -> WatchEvent[T]:
        """Decode what the fast path cannot: an ERROR, a bookmark, a bad object or an invalid event.

        A bookmark's empty pod has `"containers": null`.
        """
        unread = ""

        def on_bad(key: str, what: str) -> None:
            nonlocal unread
            unread = key
            _log_bad(self._resource, key, what)

        try:
            event = decode_watch_line(raw, self._resource.type, on_bad)
            if event.error is not None:
                raise WatchError(event.error)
            event_type = EventType(event.type)
        except (DecodeError, ValueError) as error:
            return self._unreadable(raw, error)
        if event_type is EventType.DELETED and event.object is None:
            return self._deleted(raw, event, unread)
        return WatchEvent(event_type, event.object, event.resource_version, unread)

    def _unreadable(self, raw: bytes, error: Exception) -> WatchEvent[T]:
        """Return an event without an object for a line of which not even the object's name could be decoded.

        The first one of a watch is a warning.
        """
        kind = kind_of_foreign(raw)
        reason = f"expected JSON, got {kind}" if kind else str(error)[:500]
        level = logging.DEBUG
        if not self._has_warned and raw.strip():
            level, self._has_warned = logging.WARNING, True
        log.log(level, "watch line cannot be read", extra={"resource": self._resource.plural, "err": reason})
        return WatchEvent(EventType.MODIFIED, None, "", UNNAMED)

    def _deleted(self, raw: bytes, event: DecodedEvent[T], unread: str) -> WatchEvent[T]:
        """Return a DELETED event for a bad object, with those fields that identify it."""
        try:
            metadata = decode_object(raw, _IdentifiedLine).object.metadata
        except DecodeError:
            return WatchEvent(EventType.DELETED, None, event.resource_version, unread)
        remains = self._resource.type(metadata=metadata)  # type: ignore[call-arg]
        return WatchEvent(EventType.DELETED, remains, event.resource_version)


def _log_bad(resource: Resource[Any], key: str, what: str) -> None:
    log.warning("object skipped, it cannot be read", extra={"kind": resource.kind, "object": key, "err": what})
