"""Decodes JSON from the apiserver to typed objects; an object that cannot be decoded does not affect the others.

null means absent, as in Go: an object with a null that its type does not allow is decoded again without the nulls.
Valid JSON may still have meaningless values (`cpu: abc`, `operator: Foo`); `check_pod` finds them at once, rather than
in the middle of a scheduling cycle.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import msgspec

from kscheduler.api.labels import (
    REQUIRED_PATH,
    compile_label_selector,
    compile_node_selector_term,
    compile_preferred_terms,
)
from kscheduler.api.objects import APIStruct, NodeAffinity, Pod
from kscheduler.api.pod_affinity import compile_pod_affinity
from kscheduler.api.resources import pod_resources
from kscheduler.counted import counted
from kscheduler.errors import DecodeError
from kscheduler.input import decoding

T = TypeVar("T")
OnBad = Callable[[str, str], None]  # ("namespace/name" of an object that cannot be read, what is wrong with it)

UNNAMED = "(no name)"
_SHOWN = 80
_VALIDATION = re.compile(r"(?s)(.*?)(?: - at (?:key in )?`\$\.?(.*)`)?")  # msgspec's text: what, and where
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]|\[(\.\.\.)\]")
_UNKNOWN = object()
_encode = msgspec.json.Encoder().encode


class StatusDetails(APIStruct, frozen=True):
    retry_after_seconds: int = 0


class APIStatus(APIStruct, frozen=True):
    """A metav1.Status, with which the apiserver reports a failure."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class DecodedList(msgspec.Struct, Generic[T], frozen=True):
    items: list[T]
    resource_version: str
    continue_token: str  # "" on the last page


class DecodedEvent(msgspec.Struct, Generic[T], frozen=True):
    """A line of a watch. `object` is None for BOOKMARK and ERROR, and for an object that cannot be decoded."""

    type: str
    object: T | None
    resource_version: str
    error: APIStatus | None


class ListMeta(APIStruct, frozen=True):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class _RawList(APIStruct, frozen=True):
    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class _RawEvent(APIStruct, frozen=True):
    type: str
    object: msgspec.Raw


class _Identity(APIStruct, frozen=True):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Identified(APIStruct, frozen=True):
    metadata: _Identity = _Identity()


@functools.cache
def decoder(kind: Any) -> Callable[[decoding.Raw], Any]:
    """Return the function that decodes a kind and raises only DecodeError; it is created once per kind."""
    return decoding.json_decoder(kind)


# --- single objects ---------------------------------------------------------------------------------------------


def decode_object(raw: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Decode one object. Raises DecodeError, naming the object, the field, what was expected and what was found.

    A byte that is not UTF-8 is refused wherever it occurs. An apiserver writes none, so the object was damaged on its
    way, and in a key such as `nodeName` it would make the field look absent.
    """
    try:
        decoding.check_utf8(bytes(raw))
        item: T = decoder(cast(Any, kind))(raw)
        return item
    except DecodeError:
        return _decode_slowly(raw, kind)


def _decode_slowly(raw: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Decode as Go does: without nulls, and with U+FFFD for half of a surrogate pair. Raises DecodeError."""
    try:
        decoding.check_utf8(bytes(raw))
        document = without_nulls(decoding.decode_document(raw))
        sound = _encode(document)
    except (DecodeError, RecursionError) as error:
        size = counted(len(bytes(raw)), "byte")
        raise DecodeError(f"{UNNAMED}: expected JSON, got {size} of what is none: {error}") from error
    try:
        item: T = decoder(cast(Any, kind))(sound)
        return item
    except DecodeError as error:
        raise DecodeError(f"{key_of(document)}: {explain(error, document)}") from error


def convert_object(document: object, kind: type[T]) -> T:
    """Convert an object that was parsed from JSON or YAML into dicts and lists.

    Raises DecodeError as `decode_object` does.
    """
    try:
        document = without_nulls(document)
        return decoding.convert(document, kind)
    except (DecodeError, RecursionError) as error:
        raise DecodeError(f"{key_of(document)}: {explain(error, document)}") from error


def without_nulls(document: object) -> object:
    """Return a document without the fields that are null."""
    if isinstance(document, dict):
        return {key: without_nulls(value) for key, value in document.items() if value is not None}
    if isinstance(document, list):
        return [without_nulls(value) for value in document]
    return document


def key_of(document: object) -> str:
    """Return `namespace/name`, or `name`, of a document that may have any structure."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict):
        return UNNAMED
    name, namespace = metadata.get("name"), metadata.get("namespace")
    return f"{namespace}/{name}" if name and namespace else str(name or UNNAMED)


def explain(error: Exception, document: object) -> str:
    """Return an error such as `spec.priority: expected int, got "high"`; msgspec's own message lacks the value.

    A list or mapping is not shown: it could be a whole container, with the values of its environment variables.
    """
    match = _VALIDATION.fullmatch(str(error))
    what, path = (match.group(1), match.group(2) or "") if match else (str(error), "")
    what = what.replace("`", "")
    value = _value_at(document, path)
    if (value is not _UNKNOWN and ", got " in what) and not (isinstance(value, (dict, list)) and value):
        what = f"{what.partition(', got ')[0]}, got {_cut(msgspec.json.encode(value, enc_hook=repr).decode())}"
    what = what[:1].lower() + what[1:]
    return f"{path}: {what}" if path else what


def _value_at(document: object, path: str) -> object:
    """Return the value at msgspec's path; _UNKNOWN if the path does not identify it (`labels[...]`)."""
    for name, index, anything in _STEP.findall(path):
        try:
            if anything:
                return _UNKNOWN
            document = document[int(index)] if index else document[name]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return _UNKNOWN
    return document


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


# --- lists and watches ------------------------------------------------------------------------------------------


def decode_list(raw: bytes, kind: type[T], on_bad: OnBad) -> DecodedList[T]:
    """Decode a page of a list, leaving out objects that cannot be decoded. Raises DecodeError if it is not a list."""
    page = decode_object(raw, _RawList)
    items = [item for part in page.items or () if (item := decode_or_report(part, kind, on_bad)) is not None]
    return DecodedList(items, page.metadata.resource_version, page.metadata.continue_token)


def decode_watch_line(raw: bytes, kind: type[T], on_bad: OnBad) -> DecodedEvent[T]:
    """Decode a line of a watch. Raises DecodeError if it is not a watch event."""
    event = decode_object(raw, _RawEvent)
    if event.type == "ERROR":
        return DecodedEvent(event.type, None, "", decode_object(event.object, APIStatus))
    if event.type == "BOOKMARK":
        return DecodedEvent(event.type, None, _identity(event.object).resource_version, None)
    item = decode_or_report(event.object, kind, on_bad)
    metadata: Any = getattr(item, "metadata", None) or _identity(event.object)
    return DecodedEvent(event.type, item, metadata.resource_version, None)


def decode_or_report(raw: msgspec.Raw, kind: type[T], on_bad: OnBad) -> T | None:
    """Decode one object of a list or watch; if it cannot be decoded, call `on_bad` and return None."""
    try:
        return decode_object(raw, kind)
    except DecodeError as error:
        key, _, what = str(error).partition(": ")
        on_bad(key, what)
        return None


def _identity(raw: msgspec.Raw) -> _Identity:
    """Return those parts of an object's metadata that can be decoded."""
    try:
        return decode_object(raw, _Identified).metadata
    except DecodeError:
        return _Identity()


# --- sense ------------------------------------------------------------------------------------------------------


def check_pod(pod: Pod) -> None:
    """Raise DecodeError, with the field's path, for a value of the pod that scheduling could not interpret."""
    pod_resources(pod)
    compile_preferred_terms(pod)
    if pod.spec.affinity is not None:
        _check_required_terms(pod.spec.affinity.node_affinity)
        if (fault := compile_pod_affinity(pod).fault) is not None:
            raise DecodeError(str(fault))
    for i, constraint in enumerate(pod.spec.topology_spread_constraints or ()):
        compile_label_selector(constraint.label_selector, f"spec.topologySpreadConstraints[{i}].labelSelector")


def _check_required_terms(affinity: NodeAffinity | None) -> None:
    """Check each required node affinity term; in scheduling, malformed ones would be ignored."""
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    for i, term in enumerate(required.node_selector_terms if required else ()):
        compile_node_selector_term(term, f"{REQUIRED_PATH}.nodeSelectorTerms[{i}]")
