"""JSON from the apiserver to our structs: pages of a list, lines of a watch. One bad object never spoils the rest.

The fast path decodes a whole page or line at once into its final type. Only when that fails is it taken apart, to
find the object at fault, log it with its key, and keep the others and the resource version.
"""

from __future__ import annotations

import functools
import logging
from typing import Any, Generic, TypeVar, cast

import msgspec

from kscheduler.api.objects import ObjectMeta
from kscheduler.client.protocol import EventType, Page, Resource, WatchEvent
from kscheduler.errors import DecodeError

log = logging.getLogger(__name__)
T = TypeVar("T")


class _ListMeta(msgspec.Struct, gc=False):
    resourceVersion: str = ""  # noqa: N815 (names of the wire here and below)
    remainingItemCount: int | None = None  # noqa: N815
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct, Generic[T], gc=False):
    metadata: _ListMeta
    items: list[T] | None = None


class _Line(msgspec.Struct, Generic[T], gc=False):
    type: EventType
    object: T


class _RawLine(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _Metadata(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""  # noqa: N815


class _Identity(msgspec.Struct, gc=False):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}".lstrip("/")


class _HasMetadata(msgspec.Struct, gc=False):
    metadata: ObjectMeta


class WatchError(Exception):
    """An ERROR event; holds the JSON of its metav1.Status."""

    def __init__(self, status: bytes) -> None:
        super().__init__("the server ended the watch with an error")
        self.status = status


@functools.cache
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)


_decode_raw_line = msgspec.json.Decoder(_RawLine).decode
_decode_identity = msgspec.json.Decoder(_Identity).decode
_decode_metadata = msgspec.json.Decoder(_HasMetadata).decode


def decode_page(raw: bytes, resource: Resource[T]) -> Page[T]:
    """A List; objects that cannot be read are logged and left out. Raises DecodeError when it is no list at all."""
    try:
        page = _decoder(_List[resource.type]).decode(raw)  # type: ignore[name-defined]
        items = page.items or []
    except msgspec.MsgspecError:
        try:
            page = _decoder(_List[msgspec.Raw]).decode(raw)
        except msgspec.MsgspecError as error:
            raise DecodeError(f"list of {resource.plural}: {error}") from error
        items = [item for part in page.items or () if (item := _decode_object(part, resource)) is not None]
    return Page(items, page.metadata.resourceVersion, page.metadata.continue_)


def _decode_object(raw: msgspec.Raw, resource: Resource[T]) -> T | None:
    try:
        item: T = _decoder(cast(Any, resource.type)).decode(raw)
        return item
    except msgspec.MsgspecError as error:
        _log_bad(resource, _identity(raw), error)
        return None


class LineDecoder(Generic[T]):
    """Decodes the lines of one watch."""

    def __init__(self, resource: Resource[T]) -> None:
        self._resource = resource
        self._decode = _decoder(_Line[resource.type]).decode  # type: ignore[name-defined]

    def __call__(self, raw: bytes) -> WatchEvent[T] | None:
        """One event; None when not even its type can be read (logged). Raises WatchError for an ERROR event."""
        try:
            line = self._decode(raw)
        except msgspec.MsgspecError as error:
            return self._decode_slowly(raw, error)
        version = line.object.metadata.resource_version
        return WatchEvent(line.type, None if line.type is EventType.BOOKMARK else line.object, version)

    def _decode_slowly(self, raw: bytes, error: msgspec.MsgspecError) -> WatchEvent[T] | None:
        try:
            line = _decode_raw_line(raw)
            if line.type == "ERROR":
                raise WatchError(bytes(line.object))
            event_type = EventType(line.type)
        except (msgspec.MsgspecError, ValueError):
            log.warning(
                "watch line cannot be read",
                extra={"resource": self._resource.plural, "error": str(error), "line": _cut(raw)},
            )
            return None
        identity = _identity(line.object)
        if event_type is EventType.BOOKMARK:  # an empty object but for its version: "containers": null
            return WatchEvent(event_type, None, identity.metadata.resourceVersion)
        _log_bad(self._resource, identity, error)
        if event_type is EventType.DELETED and identity.metadata.name:
            return WatchEvent(event_type, self._metadata_only(line.object), identity.metadata.resourceVersion)
        return WatchEvent(event_type, None, identity.metadata.resourceVersion)

    def _metadata_only(self, raw: msgspec.Raw) -> T | None:
        """Enough of a deleted object to know which one went."""
        try:
            metadata = _decode_metadata(raw).metadata
        except msgspec.MsgspecError:
            return None
        return self._resource.type(metadata=metadata)  # type: ignore[call-arg]


def _identity(raw: msgspec.Raw) -> _Identity:
    try:
        return _decode_identity(raw)
    except msgspec.MsgspecError:
        return _Identity()


def _log_bad(resource: Resource[Any], identity: _Identity, error: Exception) -> None:
    log.warning(
        "object skipped, it cannot be read",
        extra={"kind": resource.kind, "object": identity.key or "(no name)", "error": str(error)},
    )


def _cut(raw: bytes) -> str:
    return raw[:200].decode(errors="replace")
