"""Checks that the indexes of the cache and the node table agree with the objects they hold.

Each raises InternalError at the first difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TypeVar

from kscheduler._fast import DomainTally
from kscheduler.cache.cache import Cache
from kscheduler.errors import InternalError
from kscheduler.framework.plugins.nodevolumelimits.attached import AttachedVolumes
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_counters import GroupCounters, PodGroup, RowCounter
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.pod_labels import label_key
from kscheduler.snapshot.volume_users import VolumeUsers

G = TypeVar("G", bound=PodGroup)


def check_cache(cache: Cache) -> None:
    """Check that pods, nodes and columns agree."""
    check_table(cache.table)
    placed = {uid: info.name for info in cache.table for uid in info.pods}
    placed.update({uid: name for name, pods in cache._homeless.items() for uid in pods})
    believed = {uid: state.node_name for uid, state in cache._pods.items()}
    if placed != believed:
        wrong = sorted(set(placed.items()) ^ set(believed.items()))[:3]
        raise InternalError(f"pods on nodes differ from pods in the cache, first at {wrong}")
    if cache._assumed != sum(state.assumed for state in cache._pods.values()):
        raise InternalError(f"{cache._assumed} assumed pods counted, which is not how many there are")


def check_table(table: NodeTable) -> None:
    """Check that columns and indexes agree with the objects."""
    for info in table:
        if table.row_of(info.name) != info.row:
            raise InternalError(f"node {info.name}: row {info.row}, but the index says {table.row_of(info.name)}")
        _check_row(table, info)
    _check_counters(table)
    priorities = Counter(pod.priority for info in table for pod in info.pods.values())
    if table._by_priority != priorities:
        raise InternalError(f"priorities counted {table._by_priority}, the pods have {priorities}")
    check_volume_users(table.volume_users, ((info.row, pod) for info in table for pod in info.pods.values()))


def _check_row(table: NodeTable, info: NodeInfo) -> None:
    expected: dict[int, int] = {}
    for pod in info.pods.values():
        for column, amount in table.resources.entries(pod.resources.total):
            expected[column] = expected.get(column, 0) + amount
    for column, name in enumerate(table.resources.names):
        found = table.columns.requested(info.row, column)
        if found != expected.get(column, 0):
            raise InternalError(
                f"node {info.name}: {name} requested {found}, its pods sum to {expected.get(column, 0)}"
            )
    counted = table.columns.pod_count(info.row)
    if counted != len(info.pods):
        raise InternalError(f"node {info.name}: {counted} pods counted, {len(info.pods)} kept")


def _check_counters(table: NodeTable) -> None:
    by_labels: dict[Hashable, dict[int, int]] = {}
    by_terms: dict[Hashable, dict[int, int]] = {}
    for info in table:
        for pod in info.pods.values():
            rows = by_labels.setdefault(label_key(pod.pod), {})
            rows[info.row] = rows.get(info.row, 0) + 1
            for term, count in pod.held_terms:
                rows = by_terms.setdefault(term, {})
                rows[info.row] = rows.get(info.row, 0) + count
    check_groups(table.counters.by_labels, by_labels, table.static_generation)
    check_groups(table.counters.by_terms, by_terms, table.static_generation)


def check_groups(groups: GroupCounters[G], expected: dict[Hashable, dict[int, int]], nodes: int) -> None:
    """Check that groups equal `expected` (key -> row -> count) and counters their groups.

    `nodes`: the table's static generation.
    """
    found = {key: group.rows for key, group in groups._groups.items()}
    if found != expected:
        wrong = next(key for key in {**found, **expected} if found.get(key) != expected.get(key))
        raise InternalError(f"pods of {wrong}: rows {found.get(wrong)} counted, its pods are on {expected.get(wrong)}")
    indexed = {(token, group) for token, under in groups._index.items() for group in under}
    if indexed != {(token, group) for group in groups for token in group.found_by}:
        raise InternalError("the index of pods by token does not say what the groups say")
    for question, counter in groups._kept.items():
        sums: dict[int, int] = {}
        for group in counter.groups:
            for row, count in group.rows.items():
                sums[row] = sums.get(row, 0) + count * group.counted_by[counter]
        counted = {row: value for row, value in enumerate(counter.values) if value}
        if counted != {row: value for row, value in sums.items() if value} or counter.total != sum(sums.values()):
            raise InternalError(f"counter {question}: {counted} counted, its pods sum to {sums}")
        _check_tallies(counter, nodes)


def _check_tallies(counter: RowCounter, nodes: int) -> None:
    """Check that the valid tallies equal newly built ones."""
    for way, kept in counter._tallies.items():
        if kept.nodes != nodes or not kept.tally.is_good:
            continue  # it is not read before it is built again
        fresh = DomainTally()
        kept.build(fresh)
        found, expected = _sums_of(kept.tally), _sums_of(fresh)
        if found != expected:
            raise InternalError(f"sums by {way}: {found} kept, built again they are {expected}")


def _sums_of(tally: DomainTally) -> tuple[int, int, int, list[int | None]]:
    return tally.present, tally.occupied, tally.minimum, [tally.sum_of(row) for row in range(tally.rows)]


def check_volume_users(users: VolumeUsers, pods: Iterable[tuple[int, PodInfo]]) -> None:
    """Check that the index holds what `pods`, (row, pod), use."""
    expected = VolumeUsers()
    for row, pod in pods:
        expected.add(row, pod)
    for noun, found, wanted in (
        ("claims", users._claims, expected._claims),
        ("disks", users._mounts, expected._mounts),
        ("pods with volumes", _uids(users._pods), _uids(expected._pods)),
    ):
        if found != wanted:
            raise InternalError(f"{noun} in use: expected {wanted}, found {found}")


def _uids(pods: dict[int, dict[str, PodInfo]]) -> dict[int, set[str]]:
    return {row: set(by_uid) for row, by_uid in pods.items()}


def check_attached(attached: AttachedVolumes) -> None:
    """Check that every kept row equals a new count."""
    attached.refresh()
    fresh = AttachedVolumes(attached._table, attached._volumes)
    fresh.refresh()
    for noun in ("_rows", "_by_free", "_drivers", "_with_driver", "faulty", "with_csi_node"):
        found, expected = getattr(attached, noun), getattr(fresh, noun)
        if found != expected:
            raise InternalError(f"attached volumes: {noun}: expected {expected}, found {found}")
    for noun in ("_by_volume", "_readers"):
        found, expected = vars(getattr(attached, noun)), vars(getattr(fresh, noun))
        if found != expected:
            raise InternalError(f"attached volumes: {noun}: expected {expected}, found {found}")
