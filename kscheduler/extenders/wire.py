"""Encodes requests to extenders and decodes their answers: JSON with the field names of kube-scheduler's Go types.

Requests are written exactly as kube-scheduler writes them. Answers are read as Go reads them: keys match in any case,
unknown ones are ignored, null means absent, also in place of a whole answer, and what follows the first JSON value is
not read. A value of an unexpected type raises DecodeError with its key.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from kscheduler.api.documents import NodeDocument, PodDocument
from kscheduler.errors import DecodeError, PluginError
from kscheduler.input.decoding import json_decoder

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_decode_object = json_decoder(dict[str, msgspec.Raw] | None, as_go=True)
_find_first = json.JSONDecoder().raw_decode
_NULL = b"null"
KEPT = "surrogateescape"  # what is no UTF-8 stays as it is


class FilterAnswer(NamedTuple):
    """An extender's answer to a filter request. `nodes`: the names that passed, in the extender's order."""

    nodes: list[str]
    failed: dict[str, str]  # node name -> reason
    unresolvable: dict[str, str]  # node name -> reason that no preemption can resolve


class Victims(NamedTuple):
    """The pods that preemption would evict from one node, and how many of them violate a PodDisruptionBudget."""

    uids: list[str]
    pdb_violations: int


class _Named(msgspec.Struct, frozen=True):
    name: str | None = None


class _Node(msgspec.Struct, frozen=True):
    metadata: _Named | None = None


class _NodeList(msgspec.Struct, frozen=True):
    items: list[_Node | None] | None = None


# --- questions ---------------------------------------------------------------------------------------------------


def node_question(pod: PodDocument, names: Sequence[str], documents: Mapping[str, NodeDocument] | None) -> bytes:
    """Encode ExtenderArgs, for filter and prioritize. `documents`: name -> node; None to send names only."""
    nodes: Any = None
    if documents is not None:
        nodes = {"metadata": {}, "items": [documents[name] for name in names if name in documents]}
    return _encode({"Pod": pod, "Nodes": nodes, "NodeNames": list(names) if documents is None else None})


def binding_question(namespace: str, name: str, uid: str, node: str) -> bytes:
    """Encode ExtenderBindingArgs."""
    return _encode({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node})


def preemption_question(
    pod: PodDocument, victims: Mapping[str, Victims], documents: Mapping[str, PodDocument] | None
) -> bytes:
    """Encode ExtenderPreemptionArgs. `victims`: by node name. `documents`: pod uid -> pod; None to send uids only."""

    def pods(uids: Sequence[str]) -> Sequence[Any]:
        if documents is None:
            return [{"UID": uid} for uid in uids]
        return [documents[uid] for uid in uids if uid in documents]

    by_node = {
        node: {"Pods": pods(found.uids), "NumPDBViolations": found.pdb_violations} for node, found in victims.items()
    }
    whole, meta = (None, by_node) if documents is None else (by_node, None)
    return _encode({"Pod": pod, "NodeNameToVictims": whole, "NodeNameToMetaVictims": meta})


# --- answers -----------------------------------------------------------------------------------------------------


def read_filter(body: bytes, *, by_name: bool) -> FilterAnswer:
    """Decode an ExtenderFilterResult. Raises DecodeError, or PluginError with the Error text that the extender sent.

    If `by_name` (the request had only names), NodeNames counts if present; otherwise Nodes counts. With neither, no
    node passes.
    """
    fields = _fields(body, "ExtenderFilterResult")
    _refuse_error(fields)
    names: list[str | None] | None = _field(fields, "NodeNames", list[str | None]) if by_name else None
    if names is None:
        listed = _field(fields, "Nodes", _NodeList)
        nodes = (listed.items or ()) if listed is not None else ()
        names = [node.metadata.name if node and node.metadata else None for node in nodes]
    passed = [name or "" for name in names]
    return FilterAnswer(passed, _reasons(fields, "FailedNodes"), _reasons(fields, "FailedAndUnresolvableNodes"))


def _reasons(fields: Mapping[str, msgspec.Raw], name: str) -> dict[str, str]:
    """Return node name -> reason; "" for null."""
    found = _field(fields, name, dict[str, str | None]) or {}
    return {node: why or "" for node, why in found.items()}


def read_priorities(body: bytes) -> dict[str, int]:
    """Decode a HostPriorityList: node name -> score, summed if a node is listed twice. Raises DecodeError."""
    scores: dict[str, int] = {}
    kind = list[dict[str, msgspec.Raw] | None] | None
    entries = _first_of(body, lambda text: _convert(text, kind, "HostPriorityList"))
    for entry in entries or ():
        fields = _lowered(entry or {})  # null leaves Go's zero HostPriority as it is
        host = _field(fields, "Host", str) or ""
        scores[host] = scores.get(host, 0) + (_field(fields, "Score", int) or 0)
    return scores


def read_binding(body: bytes) -> None:
    """Decode an ExtenderBindingResult.

    Raises DecodeError, or PluginError with the Error text that the extender sent.
    """
    _refuse_error(_fields(body, "ExtenderBindingResult"))


def read_preemption(body: bytes) -> dict[str, Victims]:
    """Decode an ExtenderPreemptionResult: node name -> victims. Raises DecodeError."""
    fields = _fields(body, "ExtenderPreemptionResult")
    nodes = _field(fields, "NodeNameToMetaVictims", dict[str, dict[str, msgspec.Raw] | None]) or {}
    found: dict[str, Victims] = {}
    for node, entry in nodes.items():
        victims = _lowered(entry or {})
        pods = _field(victims, "Pods", list[dict[str, msgspec.Raw]]) or []
        uids = [_field(_lowered(pod), "UID", str) or "" for pod in pods]
        found[node] = Victims(uids, _field(victims, "NumPDBViolations", int) or 0)
    return found


def _refuse_error(fields: Mapping[str, msgspec.Raw]) -> None:
    error = _field(fields, "Error", str)
    if error:
        raise PluginError(error)


def _fields(body: bytes, kind: str) -> dict[str, msgspec.Raw]:
    """Decode a JSON object and convert its keys to lower case. Raises DecodeError that names `kind`."""
    try:
        return _lowered(_first_of(body, _decode_object) or {})
    except DecodeError as error:
        raise DecodeError(f"expected an {kind} as JSON, got {_shown(body)}: {error}") from error


def _first_of(body: bytes, decode: Callable[[bytes], T]) -> T:
    """Decode an answer, or its first JSON value if more follows. Raises DecodeError."""
    try:
        return decode(body)
    except DecodeError:
        first = _first_value(body)
        if len(first) == len(body):
            raise
        return decode(first)


def _first_value(body: bytes) -> bytes:
    """Return the first JSON value of a text; the text if it does not begin with one."""
    try:
        text = body.decode(errors=KEPT).lstrip()
        _, end = _find_first(text)
    except (ValueError, RecursionError):
        return body
    return text[:end].encode(errors=KEPT)


def _lowered(fields: Mapping[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    return {key.lower(): value for key, value in fields.items()}


def _field(fields: Mapping[str, msgspec.Raw], name: str, kind: type[T]) -> T | None:
    raw = fields.get(name.lower())
    return None if raw is None or bytes(raw) == _NULL else _convert(bytes(raw), kind, name)


@functools.cache
def _decoder(kind: Any) -> Callable[[bytes], Any]:
    return json_decoder(kind, as_go=True)


def _convert(body: bytes, kind: Any, name: str) -> Any:
    try:
        return _decoder(kind)(body)
    except DecodeError as error:
        raise DecodeError(f"{name}: {error}, got {_shown(body)}") from error


def _shown(body: bytes) -> str:
    text = body[:80].decode(errors="replace")
    return f"{text!r}…" if len(body) > len(text) else repr(text)
