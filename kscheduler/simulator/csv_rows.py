"""Reads the rows of a CSV file with a header. Errors name the file, line, column and value.

Empty lines, and lines that begin with #, are left out.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kscheduler.counted import counted
from kscheduler.errors import ConfigError
from kscheduler.input.input_files import open_input

MAX_LINE = 1 << 20  # characters; a file without line ends is no table, and may be larger than the memory
SHOWN_HEADER = 200  # characters of a wrong header

NumberT = TypeVar("NumberT", int, float)

# Three thousand years; simulating much more would not end. Unix times in milliseconds are above this since 1973.
LATEST_S = 1e11


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a CSV file; `where` is `file:line`, for error messages."""

    where: str
    fields: dict[str, str]

    def text(self, column: str) -> str:
        """Return the value in a column. Raises ConfigError if it is empty."""
        value = self.fields[column].strip()
        if not value:
            raise ConfigError(f"{self.where}: column {column}: expected a value, got nothing")
        return value

    def optional_text(self, column: str) -> str:
        return self.fields.get(column, "").strip()

    def count(self, column: str) -> int:
        """Return the value in a column as an integer.

        Raises ConfigError unless it is a whole number of zero or more.
        """
        return self._number(column, int, "a whole number of zero or more")

    def seconds(self, column: str) -> float:
        """Return the value in a column as a float. Raises ConfigError unless it is a number from zero to LATEST_S."""
        value = self._number(column, float, "seconds, a number of zero or more")
        if value > LATEST_S:
            raise self.wrong(column, f"seconds, at most {LATEST_S:g}; milliseconds have to be divided by 1000")
        return value

    def _number(self, column: str, parse: Callable[[str], NumberT], expected: str) -> NumberT:
        try:
            value = parse(self.fields[column].strip())
        except ValueError:
            value = parse("-1")
        if not 0 <= value < float("inf"):
            raise self.wrong(column, expected)
        return value

    def wrong(self, column: str, expected: str) -> ConfigError:
        return ConfigError(f'{self.where}: column {column}: expected {expected}, got "{self.fields[column]}"')


def read_rows(path: str, columns: Sequence[str], together: Mapping[str, str]) -> Iterator[Row]:
    """Yield the rows of a file.

    `together`: columns that the file may leave out, either all of them or none -> the value of each row in that case.
    Raises ConfigError if the file is unreadable or lacks one of the columns.
    """
    try:
        with io.TextIOWrapper(open_input(path), encoding="utf-8-sig", newline="") as file:
            yield from _rows(path, csv.reader(_lines(path, file), strict=True), columns, together)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error


def _lines(path: str, file: io.TextIOWrapper) -> Iterator[str]:
    """Yield the lines of a file. Raises ConfigError for one that is longer than MAX_LINE, or no UTF-8 text."""
    number = 0
    try:
        while line := file.readline(MAX_LINE):
            number += 1
            if len(line) == MAX_LINE and not line.endswith("\n"):
                raise ConfigError(
                    f"{path}:{number}: expected a line of CSV, got more than {MAX_LINE:,} characters in one"
                )
            yield line
    except UnicodeDecodeError as error:  # of a piece of the file that begins behind the lines read so far
        number += 1 + error.object.count(b"\n", 0, error.start)
        byte = error.object[error.start]
        raise ConfigError(f"{path}:{number}: expected UTF-8 text, got the byte 0x{byte:02x}") from error


def _rows(path: str, reader: Iterator[list[str]], columns: Sequence[str], together: Mapping[str, str]) -> Iterator[Row]:
    rows = (row for row in reader if row and not row[0].startswith("#"))

    def where() -> str:
        return f"{path}:{max(reader.line_num, 1)}"  # type: ignore[attr-defined]

    try:
        header = [name.strip() for name in next(rows, [])]
        absent = {} if any(column in header for column in together) else together
        missing = [column for column in (*columns, *together) if column not in header and column not in absent]
        if missing:
            found = ", ".join(header) or "nothing"
            if len(found) > SHOWN_HEADER:
                found = f"{found[:SHOWN_HEADER]}..."
            raise ConfigError(f"{where()}: missing column {', '.join(missing)}; the header has {found}")
        repeated = [name for name in (*columns, *together) if header.count(name) > 1]
        if repeated:
            raise ConfigError(
                f"{where()}: expected one column {repeated[0]}, the header has {header.count(repeated[0])}"
            )
        for row in rows:
            if len(row) != len(header):
                wanted = counted(len(header), "field")
                raise ConfigError(f"{where()}: expected {wanted} as in the header, got {len(row)}")
            yield Row(where(), {**absent, **dict(zip(header, row, strict=True))})
    except csv.Error as error:
        raise ConfigError(f"{where()}: not CSV: {error}") from error
