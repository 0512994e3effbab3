"""What the pages show was run: each block of commands prints what stands below it, or says why it is not run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.assembly import ROOT, TAKEN
from tests.docs.pages import NOT_RUN, ON_CLUSTER, Block, blocks, own_pages
from tests.plugins.documents import run

OWN = own_pages()
TAKEN_TEXTS = {source: (ROOT / source).read_text(encoding="utf-8") for source in TAKEN}
# Documents that are taken in and whose commands another test runs.
RUN_ELSEWHERE = {
    "plugins/README.md": "tests/plugins/test_plugins.py",
    "plugins/sdk/README.md": "tests/wasm/batch/test_shown_guests.py",
    "plugins/sdk/c/README.md": "tests/plugins/test_plugins.py",
}
# Those whose commands are run here, of the site and of the repository.
ALL = {**OWN, **{source: text for source, text in TAKEN_TEXTS.items() if source not in RUN_ELSEWHERE}}
# Pages with blocks that another test runs on a control plane.
ON_CLUSTERS = {"start/replace.md": "tests/controlplane/test_replacement.py"}


def runnable(page: str) -> list[Block]:
    return [block for block in blocks(ALL[page]) if block.language == "console" and not block.options]


@pytest.mark.parametrize("page", sorted(ALL))
def test_a_block_that_is_not_run_says_why(page: str) -> None:
    for block in blocks(ALL[page]):
        if block.language == "console" and block.options:
            on_cluster = block.options == ON_CLUSTER and page in ON_CLUSTERS
            assert on_cluster or NOT_RUN.match(block.options), block.options
        if block.language == "console":
            assert block.text.startswith("$ "), block.text


@pytest.mark.parametrize("source", RUN_ELSEWHERE)
def test_the_blocks_of_some_taken_documents_are_run_elsewhere(source: str) -> None:
    assert "blocks(" in (ROOT / RUN_ELSEWHERE[source]).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(page for page in ALL if runnable(page)))
def test_the_commands_of_a_page_print_what_it_shows(page: str, tmp_path: Path) -> None:
    for block in blocks(ALL[page]):
        if block.file:
            (tmp_path / block.file).write_text(block.text)
        elif block in runnable(page):
            for command, shown in commands(block.text):
                check(shown, printed_by(command, tmp_path), command)


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
    printed = run(f"$ {{ {command.removeprefix('$ ')}; }} 2>stderr.txt", folder)
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


def test_a_line_that_is_not_printed_is_found() -> None:
    check(["a", "...", "c"], ["a", "b", "c"], "$ x")
    check(["a … c"], ["a b c"], "$ x")
    for shown in (["a", "c"], ["b", "..."], ["a", "...", "d"], ["a", "b"]):
        with pytest.raises(AssertionError):
            check(shown, ["a", "b", "c"], "$ x")
