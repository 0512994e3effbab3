"""What a running scheduler answers about its record: which parts there are. Defines the JSON of `GET /record`."""

from __future__ import annotations

from typing import Annotated

import msgspec

STARTED = "Record-Started"  # header of the answer with a part: `Listing.started`, of the record that it belongs to

_Number = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
_Time = Annotated[float, msgspec.Meta(ge=0, le=253_402_300_799)]  # up to the year 9999, so that it can be printed


class Part(msgspec.Struct, frozen=True):
    """One file of the record."""

    number: _Number
    bytes: int  # that can be downloaded now
    complete: bool  # nothing will be added to it


class Listing(msgspec.Struct, frozen=True):
    """The record of a running scheduler."""

    version: str  # of the scheduler
    started: _Time  # Unix time in seconds, as in the header of each part: distinguishes records
    first: _Number  # number of the first part, which may have been removed
    parts: tuple[Part, ...]  # that are kept, in ascending order
    failure: str = ""  # why the record has ended early; "": it goes on
