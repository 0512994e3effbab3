"""The entries of a record, one JSON object a line, and what the lines together mean.

1. A `Header`.  2. A `Change` of type ADDED for every object that is there.  3. `Synced`.  4. The changes that follow,
in the order in which the watches reported them.  5. `End`, unless the recorder was killed.

Between them stands a `Mark` wherever what was written so far became readable. It has the digest of all lines before
it, so that a reader can tell a record that was changed, or damaged, from one that was cut off. The lines are
compressed with zstd: `zstd -dc FILE` prints them.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

FORMAT: Final = 1  # of new records; a change that an older reader would misread makes it one more

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class Entry(msgspec.Struct, frozen=True, tag_field="entry", rename="camel", omit_defaults=True):
    """Base of the entries."""


class Header(Entry, frozen=True, tag="header"):
    """What the record is of. Each part of a record begins with one, and can be read without the other parts."""

    format: int
    version: str  # of the program that wrote it
    started: float  # Unix seconds, from which `at` counts
    part: int = 1
    configuration: str = ""  # KubeSchedulerConfiguration as YAML, without secrets; "": not known


class Change(Entry, frozen=True, tag="change"):
    """A new version of an object; of a deleted one the last version."""

    at: float  # seconds since the header's `started`
    resource: str  # plural
    type: ChangeType  # as watches name it
    object: msgspec.Raw


class Synced(Entry, frozen=True, tag="synced"):
    """What stands before it was there when recording began."""

    at: float


class Mark(Entry, frozen=True, tag="mark"):
    """The SHA-256 of all lines before this one, as hex."""

    digest: str


class End(Entry, frozen=True, tag="end"):
    """Nothing is missing."""

    at: float


AnyEntry = Header | Change | Synced | Mark | End
