"""Runs the commands of a block on a page, and compares what they print with what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

from tests.plugins.documents import run


def commands(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a block, each with the lines below it."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line, []))
        else:
            found[-1][1].append(line)
    return found


def printed_by(command: str, folder: Path) -> list[str]:
    """The lines that a command prints, and after them its error message; progress is left out."""
    # The brace stands on a line of its own, since a comment may end the command.
    printed = run(f"$ {{ {command.removeprefix('$ ')}\n$ }} 2>stderr.txt", folder)
    errors = [line for line in (folder / "stderr.txt").read_text().splitlines() if ": error: " in line]
    return [line.rstrip() for line in (*printed.splitlines(), *errors)]


def check(shown: list[str], printed: list[str], command: str) -> None:
    """Compare the shown lines with the printed ones.

    A line `...` stands for any number of lines, and `…` in a line for what is another each time.
    """
    rest = printed
    for index, line in enumerate(shown):
        if line == "...":
            continue
        wanted = re.compile(".+".join(map(re.escape, line.rstrip().split("…"))))
        if index > 0 and shown[index - 1] == "...":
            found = next((number for number, each in enumerate(rest) if wanted.fullmatch(each)), None)
            assert found is not None, f"{command}: {line!r} is not printed:\n" + "\n".join(printed)
            rest = rest[found:]
        assert rest, f"{command}: expected {line!r}, got nothing"
        assert wanted.fullmatch(rest[0]), f"{command}: expected {line!r}, got\n" + "\n".join(rest)
        rest = rest[1:]
    assert not shown or shown[-1] == "..." or rest == [], f"{command} prints more: {rest}"
