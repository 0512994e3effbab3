"""Durations and timestamps, to the nanosecond."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Callable

from kscheduler.cel.faults import EvaluationError, no_such_overload
from kscheduler.cel.functions import Function, method
from kscheduler.cel.gofmt import format_plain
from kscheduler.cel.types import DURATION, INT, STRING, TIMESTAMP
from kscheduler.cel.values import MAX_INT64, MIN_INT64, Opaque, Value

SECOND = 1_000_000_000
_MIN_SECONDS, _MAX_SECONDS = -62_135_596_800, 253_402_300_799
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()


class Duration(Opaque):
    """A span of time."""

    __slots__ = ("nanoseconds",)
    cel_type = DURATION
    go_type = "types.Duration"

    def __init__(self, nanoseconds: int) -> None:
        if not MIN_INT64 <= nanoseconds <= MAX_INT64:
            raise EvaluationError("integer overflow")
        self.nanoseconds = nanoseconds

    def same(self, other: Value) -> bool:
        return isinstance(other, Duration) and self.nanoseconds == other.nanoseconds

    def compare(self, other: Duration) -> int:
        return (self.nanoseconds > other.nanoseconds) - (self.nanoseconds < other.nanoseconds)

    def plus(self, other: Value) -> Duration | Timestamp:
        if isinstance(other, Duration):
            return Duration(self.nanoseconds + other.nanoseconds)
        if isinstance(other, Timestamp):
            return other.plus(self)
        raise no_such_overload()

    def minus(self, other: Value) -> Duration:
        if not isinstance(other, Duration):
            raise no_such_overload()
        return Duration(self.nanoseconds - other.nanoseconds)

    def negated(self) -> Duration:
        return Duration(-self.nanoseconds)

    def __str__(self) -> str:
        seconds, rest = divmod(abs(self.nanoseconds), SECOND)
        return ("-" if self.nanoseconds < 0 else "") + format_plain(seconds + rest / 1e9) + "s"

    def __eq__(self, other: object) -> bool:
        return self.same(other)

    def __hash__(self) -> int:
        return hash(self.nanoseconds)


class Timestamp(Opaque):
    """A point in time, with the offset from UTC that it is printed in."""

    __slots__ = ("nanoseconds", "offset")
    cel_type = TIMESTAMP
    go_type = "types.Timestamp"

    def __init__(self, nanoseconds: int, offset: int = 0) -> None:
        if not _MIN_SECONDS <= nanoseconds // SECOND <= _MAX_SECONDS:
            raise EvaluationError("timestamp overflow")
        self.nanoseconds = nanoseconds  # since 1970
        self.offset = offset  # seconds

    def same(self, other: Value) -> bool:
        return isinstance(other, Timestamp) and self.nanoseconds == other.nanoseconds

    def compare(self, other: Timestamp) -> int:
        return (self.nanoseconds > other.nanoseconds) - (self.nanoseconds < other.nanoseconds)

    def plus(self, other: Value) -> Timestamp:
        if not isinstance(other, Duration):
            raise no_such_overload()
        return Timestamp(self.nanoseconds + other.nanoseconds, self.offset)

    def minus(self, other: Value) -> Duration | Timestamp:
        if isinstance(other, Duration):
            return Timestamp(self.nanoseconds - other.nanoseconds, self.offset)
        if isinstance(other, Timestamp):
            return Duration(self.nanoseconds - other.nanoseconds)
        raise no_such_overload()

    def local(self, offset: int) -> tuple[datetime.date, int]:
        """Return the day and the second of the day at an offset from UTC."""
        days, second = divmod(self.nanoseconds // SECOND + offset, 86_400)
        ordinal = min(max(days + _EPOCH_DAY, 1), datetime.date.max.toordinal())
        return datetime.date.fromordinal(ordinal), second

    def __str__(self) -> str:
        day, second = self.local(self.offset)
        fraction = f".{self.nanoseconds % SECOND:09d}".rstrip("0").rstrip(".")
        sign = "-" if self.offset < 0 else "+"
        hours, minutes = divmod(abs(self.offset) // 60, 60)
        zone = "Z" if self.offset == 0 else f"{sign}{hours:02d}:{minutes:02d}"
        clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        return f"{day.isoformat()}T{clock}{fraction}{zone}"

    def __eq__(self, other: object) -> bool:
        return self.same(other)

    def __hash__(self) -> int:
        return hash(self.nanoseconds)


# --- parsing --------------------------------------------------------------------------------------------------------

_UNITS = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_SPAN = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_INSTANT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))",
    re.ASCII,
)
_MAX_DIGITS = 30


def parse_duration(text: str) -> Duration | None:
    """Return a duration such as "1h2.5s", or None if the text is none."""
    negative, body = text.startswith("-"), text[1:] if text[:1] in ("-", "+") else text
    if body == "0":
        return Duration(0)
    total, position = 0, 0
    while position < len(body):
        match = _SPAN.match(body, position)
        if match is None or not (match[1] or match[2]) or len(match[1]) > _MAX_DIGITS:
            return None
        unit = _UNITS[match[3]]
        fraction = (match[2] or "")[:_MAX_DIGITS]
        total += int(match[1] or 0) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)
        position = match.end()
    total = -total if negative else total
    if not body or not MIN_INT64 <= total <= MAX_INT64:
        return None
    return Duration(total)


def parse_timestamp(text: str) -> Timestamp | None:
    """Return a timestamp of RFC 3339, or None if the text is none. Raises EvaluationError if it is out of range."""
    match = _INSTANT.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[group]) for group in range(1, 7))
    offset_hours, offset_minutes = int(match[9] or 0), int(match[10] or 0)
    if hour > 23 or minute > 59 or second > 59 or offset_hours > 24 or offset_minutes > 60:
        return None
    days = _days(year, month, day)
    if days is None:
        return None
    offset = (offset_hours * 3600 + offset_minutes * 60) * (-1 if match[8] == "-" else 1)
    nanoseconds = int((match[7] or "0")[:9].ljust(9, "0"))
    return Timestamp((days * 86_400 + hour * 3600 + minute * 60 + second - offset) * SECOND + nanoseconds, offset)


def _days(year: int, month: int, day: int) -> int | None:
    """Return the days since 1970, or None if there is no such day. The year 0 is one, though Python has none."""
    try:
        if year == 0:
            return datetime.date(400, month, day).toordinal() - _EPOCH_DAY - 146_097
        return datetime.date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        return None


# --- functions ------------------------------------------------------------------------------------------------------


def _offset(timestamp: Timestamp, zone: str) -> int:
    """Return the offset of a time zone from UTC at a time, in seconds."""
    hours, colon, minutes = zone.partition(":")
    if not colon:
        return _named_offset(timestamp, zone)
    for part in (hours, minutes):
        if re.fullmatch(r"[+-]?[0-9]+", part, re.ASCII) is None or len(part) > 9:
            raise EvaluationError(f'strconv.Atoi: parsing "{part}": invalid syntax')
    offset = int(hours) * 60 + (-int(minutes) if zone.startswith("-") else int(minutes))
    return offset * 60


def _named_offset(timestamp: Timestamp, zone: str) -> int:
    if zone in ("", "UTC"):
        return 0
    try:
        if zone == "Local":
            return 0
        moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(
            seconds=timestamp.nanoseconds // SECOND
        )
        found = moment.astimezone(zoneinfo.ZoneInfo(zone)).utcoffset()
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OverflowError, OSError):
        raise EvaluationError(f"unknown time zone {zone}") from None
    return int(found.total_seconds()) if found is not None else 0


_Reader = Callable[[Timestamp, int], int]


def _getter(read: _Reader) -> Callable[..., int]:
    def get(timestamp: Timestamp, zone: str = "UTC") -> int:
        return read(timestamp, _offset(timestamp, zone))

    return get


def _timestamp_function(name: str, suffix: str, read: _Reader, per_unit: int | None = None) -> Function:
    get = _getter(read)
    overloads = [
        method(f"timestamp_to_{suffix}", (TIMESTAMP,), INT, get),
        method(f"timestamp_to_{suffix}_with_tz", (TIMESTAMP, STRING), INT, get),
    ]
    if per_unit is not None:
        overloads.append(method(f"duration_to_{suffix}", (DURATION,), INT, _whole(per_unit)))
    return Function(name, tuple(overloads))


def _whole(unit: int) -> Callable[[Duration], int]:
    def count(duration: Duration) -> int:
        units = abs(duration.nanoseconds) // unit
        return units if duration.nanoseconds >= 0 else -units

    return count


FUNCTIONS = (
    _timestamp_function("getFullYear", "year", lambda time, offset: time.local(offset)[0].year),
    _timestamp_function("getMonth", "month", lambda time, offset: time.local(offset)[0].month - 1),
    _timestamp_function(
        "getDayOfYear", "day_of_year", lambda time, offset: time.local(offset)[0].timetuple().tm_yday - 1
    ),
    _timestamp_function("getDayOfMonth", "day_of_month", lambda time, offset: time.local(offset)[0].day - 1),
    _timestamp_function("getDate", "day_of_month_1_based", lambda time, offset: time.local(offset)[0].day),
    _timestamp_function("getDayOfWeek", "day_of_week", lambda time, offset: time.local(offset)[0].isoweekday() % 7),
    _timestamp_function("getHours", "hours", lambda time, offset: time.local(offset)[1] // 3600, 3600 * SECOND),
    _timestamp_function("getMinutes", "minutes", lambda time, offset: time.local(offset)[1] // 60 % 60, 60 * SECOND),
    _timestamp_function("getSeconds", "seconds", lambda time, offset: time.local(offset)[1] % 60, SECOND),
    _timestamp_function(
        "getMilliseconds", "milliseconds", lambda time, _offset: time.nanoseconds % SECOND // 1_000_000, 1_000_000
    ),
)
