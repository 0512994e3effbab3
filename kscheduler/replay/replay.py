"""Decides again what a record of a running scheduler says was decided, and compares.

Each input is handed to the same parts in the same order, so with the recorded configuration every decision is equal.
After a difference the replay goes on from the recorded decision: each decision is compared for the same past.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kscheduler.api.objects import Node
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.record.entries import Change, Decided, Decision, Readable, Request, Resumed, Start, Synced, Woken
from kscheduler.record.kept_fields import encoded
from kscheduler.record.reader import RecordReader
from kscheduler.record.recorder import part_of
from kscheduler.replay.replayed import ReplayedScheduler
from kscheduler.scheduler import Options
from kscheduler.wasm.plugins import GuestPlugins

KEPT = 1_000  # differences that are kept; the others are counted

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Difference:
    """A decision that is another one in the replay. None: no such attempt was made there."""

    at_s: float  # since the record's start
    recorded: Decision | None
    replayed: Decision | None

    @property
    def kind(self) -> str:
        """What differs, in words."""
        was, now = self.recorded, self.replayed
        if was is None or now is None:
            return "tried only in the record" if was is not None else "tried only in the replay"
        if was.node and now.node:
            return "another node" if was.node != now.node else "the same node, found otherwise"
        if was.node:
            return "placed only in the record"
        if now.node:
            return "placed only in the replay"
        if (was.nominated, was.victims) != (now.nominated, now.victims):
            return "another preemption"
        return "rejected for other reasons"


@dataclass(slots=True)
class Replay:
    """What came of a replay."""

    decisions: int = 0  # in the record
    equal: int = 0
    requests: int = 0  # of tasks: to bind, to preempt, to wait
    equal_requests: int = 0
    kinds: dict[str, int] = field(default_factory=dict)  # kind of difference -> number
    differences: list[Difference] = field(default_factory=list)  # the first KEPT
    is_cut: bool = False  # the record has no end

    @property
    def is_equal(self) -> bool:
        return self.decisions == self.equal and not self.kinds and self.requests == self.equal_requests

    def add(self, difference: Difference) -> None:
        self.kinds[difference.kind] = self.kinds.get(difference.kind, 0) + 1
        if len(self.differences) < KEPT:
            self.differences.append(difference)


class RecordedInputs:
    """The inputs of a scheduler in a record, of all its files. Can be iterated once."""

    def __init__(self, path: Path) -> None:
        """Open the first file. Raises ConfigError if it does not begin with the start of a scheduler."""
        self.path = path
        self.is_cut = False
        self._reader = RecordReader(path)
        self.header = self._reader.header
        self._entries = iter(self._reader)
        first = next(self._entries, None)
        if not isinstance(first, Start):
            raise ConfigError(
                f"{path}: expected a record of `kscheduler run --record`, from its first file on, got "
                + ("a later file of one" if self.header.part > 1 else "one of objects only: simulate --record plays it")
            )
        self.start = first

    def __iter__(self) -> Iterator[Readable]:
        """Yield the inputs. Raises ConfigError for a damaged file."""
        yield from self._entries
        self.is_cut = self._reader.is_cut
        number = self.header.part
        while not self.is_cut and (following := self._following(number)) is not None:
            number += 1
            yield from following
            self.is_cut = following.is_cut

    def _following(self, number: int) -> _Continuation | None:
        """Return the file after this one, if it continues this record."""
        path = part_of(self.path if self.header.part == 1 else self._base(), number + 1)
        if not path.exists():
            return None
        following = _Continuation(RecordReader(path))
        return following if following.continues(self.header.started) else None

    def _base(self) -> Path:
        """Return the name of the file with number 1."""
        return self.path.with_suffix("").with_suffix(self.path.suffix)


class _Continuation:
    """A file that continues a record: it repeats all objects, and goes on with inputs."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader
        self._entries = iter(reader)
        self._first = next(self._entries, None)

    @property
    def is_cut(self) -> bool:
        return self._reader.is_cut

    def continues(self, started: float) -> bool:
        """Return True if the file is part of the record with this start, and not the first file of another one."""
        return self._reader.header.started == started and not isinstance(self._first, Start)

    def __iter__(self) -> Iterator[Readable]:
        has_begun = isinstance(self._first, Synced)
        for entry in self._entries:
            if has_begun:
                yield entry
            has_begun = has_begun or isinstance(entry, Synced)


async def replay(
    inputs: RecordedInputs,
    config: SchedulerConfig,
    *,
    guests: GuestPlugins | None = None,
    is_same: bool = True,
    nodes: Sequence[Node] = (),
    progress: Callable[[Replay], object] = bool,
) -> Replay:
    """Replay a record. Raises ConfigError if it cannot be read.

    `is_same`: the configuration is the recorded one, so that pods are decided in the recorded batches; else one by one.
    `nodes` are added to the cluster before the first decision.
    """
    start = inputs.start
    options = Options(
        first_on_tie=start.first_on_tie,
        max_in_unschedulable_s=start.max_in_unschedulable,
        assumed_pod_ttl_s=start.assumed_pod_ttl,
        compiled_lane=start.compiled_lane,
        guests=guests,
    )
    scheduler = ReplayedScheduler(config, start, options)
    found = Replay()
    added = list(nodes)
    try:
        for entry in inputs:
            if isinstance(entry, (Start, Synced)):
                continue
            if added and isinstance(entry, Woken):
                for node in added:
                    await scheduler.apply(Change(entry.at, "nodes", "ADDED", encoded(node)))
                added.clear()
            if isinstance(entry, Decided):
                await _decide(scheduler, entry, found, one_by_one=not is_same)
                progress(found)
            else:
                await scheduler.apply(entry)
                _match(scheduler, entry.requests if isinstance(entry, Resumed) else (), found)
    finally:
        scheduler.close()
    found.is_cut = inputs.is_cut
    return found


async def _decide(scheduler: ReplayedScheduler, entry: Decided, found: Replay, *, one_by_one: bool) -> None:
    recorded = entry.decisions
    made: list[Decision] = []
    if one_by_one:
        # Each sees what the record has decided before.
        for each in recorded:
            await scheduler.apply(Decided(entry.at, 1))
            taken = scheduler.take_decisions()
            made += taken
            mine = next((one for one in taken if one.uid == each.uid), None)
            if mine is None or _differ(each, mine):
                scheduler.correct(each, mine)
    else:
        await scheduler.apply(entry)
        made += scheduler.take_decisions()
    _compare(scheduler, entry, made, found, corrects=not one_by_one)
    _match(scheduler, entry.requests, found)


def _compare(
    scheduler: ReplayedScheduler, entry: Decided, made: Sequence[Decision], found: Replay, *, corrects: bool
) -> None:
    """Compare the decisions of one batch in order; those of a pod that was tried at another place by its uid."""
    by_uid = {each.uid: each for each in made}
    found.decisions += len(entry.decisions)
    for place, recorded in enumerate(entry.decisions):
        mine = made[place] if place < len(made) and made[place].uid == recorded.uid else by_uid.get(recorded.uid)
        by_uid.pop(recorded.uid, None)
        if mine is not None and _encode(mine) == _encode(recorded):
            found.equal += 1
            continue
        found.add(Difference(entry.at, recorded, mine))
        if corrects and (mine is None or _differ(recorded, mine)):
            scheduler.correct(recorded, mine)
    for mine in by_uid.values():
        found.add(Difference(entry.at, None, mine))


def _differ(recorded: Decision, mine: Decision) -> bool:
    """Return True if the decisions have different consequences."""
    return (recorded.node, recorded.nominated, recorded.victims, recorded.plugins, recorded.pending) != (
        mine.node,
        mine.nominated,
        mine.victims,
        mine.plugins,
        mine.pending,
    )


def _match(scheduler: ReplayedScheduler, recorded: Sequence[Request], found: Replay) -> None:
    made = scheduler.match_requests(recorded)
    wanted = [(each.verb, each.subject) for each in recorded]
    found.requests += max(len(wanted), len(made))
    found.equal_requests += sum(one == other for one, other in zip(wanted, made, strict=False))
