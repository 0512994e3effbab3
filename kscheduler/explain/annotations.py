"""Writes decisions as annotations to their pods, with kube-scheduler-simulator's keys, for tools that read them.

Off by default, since each is a write to the apiserver. A separate task writes them one at a time; if too many wait,
the oldest are dropped. A result equal to the pod's previous one is not written again, because each write updates the
pod and might requeue it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from kscheduler.errors import APIError, NotFound
from kscheduler.explain.details import FIRST_STATUS, NodeDetails
from kscheduler.explain.record import DecisionRecord

log = logging.getLogger(__name__)

PREFIX = "kube-scheduler-simulator.sigs.k8s.io/"
HISTORY = PREFIX + "result-history"
MAX_BYTES = 16 * 1024  # total size of a decision's annotations; the apiserver allows a pod 256 KiB
MAX_WAITING = 1_000
MAX_REMEMBERED = 10_000  # pods whose last result is remembered

Annotations = dict[str, str]


class Annotates(Protocol):
    async def annotate_pod(self, namespace: str, name: str, uid: str, annotations: Mapping[str, str]) -> None:
        """Set annotations of the pod with this name and uid."""
        ...


def annotations_of(records: Sequence[DecisionRecord], top_nodes: int, max_bytes: int = MAX_BYTES) -> Annotations:
    """Return annotations that describe a pod's latest decision, with earlier ones as history.

    `records`: newest first.
    """
    latest = _within(_results(records[0], top_nodes), max_bytes)
    complete = latest
    history: list[Annotations] = []
    for entry in (latest, *(_results(record, top_nodes) for record in records[1:])):
        history.insert(0, entry)
        longer = latest | {HISTORY: _text(history)}
        if _size(longer) > max_bytes:
            break
        complete = longer
    return complete


def _results(record: DecisionRecord, top_nodes: int) -> Annotations:
    found: dict[str, Any] = {}
    details, refusal = record.details, record.refusal
    if refusal is not None and refusal.pre_filter:
        found["prefilter-result-status"] = dict.fromkeys(refusal.plugins, refusal.pre_filter)
    if details is not None:
        found["filter-result"] = _filter_result(details, record.node, top_nodes)
        if details.best:
            best = details.best[:top_nodes]
            found["score-result"] = {node.node: {each.plugin: str(each.raw) for each in node.plugins} for node in best}
            found["finalscore-result"] = {
                node.node: {each.plugin: str(each.normalized * each.weight) for each in node.plugins} for node in best
            }
    if refusal is not None and refusal.nominated:
        found["postfilter-result"] = {refusal.nominated: {"DefaultPreemption": "preemption victim"}}
    annotations = {PREFIX + name: _text(value) for name, value in found.items()}
    if record.node:
        annotations[PREFIX + "selected-node"] = record.node
    return annotations


def _filter_result(details: NodeDetails, chosen: str, top_nodes: int) -> dict[str, dict[str, str]]:
    """Return node -> plugin -> filter result, for the best nodes and up to `top_nodes` rejected ones."""
    found = {}
    fit = [node.node for node in details.best[:top_nodes]] or ([chosen] if chosen else [])
    for node in fit:
        found[node] = dict.fromkeys(details.filters, "passed")
    left = top_nodes
    for node, number in details.verdicts():
        if left == 0:
            break
        if number >= FIRST_STATUS:
            status = details.statuses[number - FIRST_STATUS]
            found[node] = _until(details.filters, status.plugin) | {status.plugin: status.message}
            left -= 1
    return found


def _until(filters: Sequence[str], plugin: str) -> dict[str, str]:
    """Return plugin -> "passed" for each Filter plugin that ran before the rejecting `plugin`."""
    return dict.fromkeys(filters[: filters.index(plugin)] if plugin in filters else (), "passed")


def _within(annotations: Annotations, max_bytes: int) -> Annotations:
    """Return the annotations, with the largest removed until the rest fits into `max_bytes`."""
    kept = dict(annotations)
    while kept and _size(kept) > max_bytes:
        del kept[max(kept, key=lambda key: len(kept[key].encode()))]
    return kept


def _size(annotations: Annotations) -> int:
    return sum(len(key) + len(value.encode()) for key, value in annotations.items())


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


class AnnotationLane:
    """Writes annotations in the background, one pod at a time, without retries.

    Only the newest of each pod are kept.
    """

    def __init__(self, client: Annotates) -> None:
        self._client = client
        # Pod uid -> namespace/name, and what to write.
        self._waiting: OrderedDict[str, tuple[str, Annotations]] = OrderedDict()
        self._last: OrderedDict[str, int] = OrderedDict()  # pod uid -> hash of the result last queued
        self._work = asyncio.Event()

    def describe(self, records: Sequence[DecisionRecord], top_nodes: int) -> None:
        """Queue what describes the decisions of a pod, the newest first, as `write` does."""
        self.write(records[0].uid, records[0].key, annotations_of(records, top_nodes))

    def write(self, uid: str, key: str, annotations: Annotations) -> None:
        """Queue a pod's annotations for writing, unless they equal the pod's last ones. Never blocks."""
        result = hash(tuple((name, value) for name, value in annotations.items() if name != HISTORY))
        if not annotations or self._last.get(uid) == result:
            return
        self._last[uid] = result
        self._last.move_to_end(uid)
        if len(self._last) > MAX_REMEMBERED:
            self._last.popitem(last=False)
        self._waiting[uid] = (key, annotations)
        if len(self._waiting) > MAX_WAITING:
            self._waiting.popitem(last=False)
        self._work.set()

    async def run(self) -> None:
        while True:
            while self._waiting:
                uid, (key, annotations) = self._waiting.popitem(last=False)
                await self._write(uid, key, annotations)
            self._work.clear()
            await self._work.wait()

    async def _write(self, uid: str, key: str, annotations: Annotations) -> None:
        namespace, _, name = key.rpartition("/")
        try:
            await self._client.annotate_pod(namespace, name, uid, annotations)
        except NotFound:
            pass
        except APIError as error:
            log.warning("pod not annotated with its decision", extra={"pod": key, "err": str(error)})
