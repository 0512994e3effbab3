"""Defines the entries of a record, one JSON object per line, and their order.

1. A `Header`.  2. A `Change` of type ADDED for every object that exists.  3. `Synced`.  4. A `Change` for each change
after that, in the order in which the watches reported them.  5. `End`, unless the recorder was killed.

A `Mark` is written whenever the entries so far are flushed to the file. It has the digest of all lines before it, so
that a reader can distinguish a record that was modified or damaged from one that was cut off. The lines are compressed
with zstd: `zstd -dc FILE` prints them.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

FORMAT: Final = 1  # format number of new records; raised by each change that older readers would misread

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class Entry(msgspec.Struct, frozen=True, tag_field="entry", rename="camel", omit_defaults=True):
    """The base class of all entries."""


class Header(Entry, frozen=True, tag="header"):
    """Says where a record comes from.

    Each file of a record begins with a header, and can be read without the other files.
    """

    format: int
    version: str  # version of the program that wrote the record
    started: float  # Unix time in seconds; `at` of the entries counts from here
    part: int = 1
    configuration: str = ""  # KubeSchedulerConfiguration as YAML, without secrets; "": not known


class Change(Entry, frozen=True, tag="change"):
    """A new version of an object, or the last version of a deleted object."""

    at: float  # seconds since `Header.started`
    resource: str  # plural name, such as "pods"
    type: ChangeType  # the watch event's type
    object: msgspec.Raw


class Synced(Entry, frozen=True, tag="synced"):
    """Says that all objects that existed when recording began have been listed before this line."""

    at: float


class Mark(Entry, frozen=True, tag="mark"):
    """The SHA-256 digest of all lines before this one, in hexadecimal."""

    digest: str


class End(Entry, frozen=True, tag="end"):
    """Says that recording ended in an orderly way, so that nothing is missing."""

    at: float


AnyEntry = Header | Change | Synced | Mark | End
