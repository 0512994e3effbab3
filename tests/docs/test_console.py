"""What the pages show was run: each block of commands prints what stands below it, or says why it is not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.assembly import ROOT, TAKEN
from tests.docs.console import check, commands, printed_by
from tests.docs.pages import NOT_RUN, ON_CLUSTER, Block, blocks, own_pages

OWN = own_pages()
TAKEN_TEXTS = {source: (ROOT / source).read_text(encoding="utf-8") for source in TAKEN}
# Documents that are taken in and whose commands another test runs.
RUN_ELSEWHERE = {
    "plugins/README.md": "tests/plugins/test_plugins.py",
    "plugins/gpu_model/README.md": "tests/plugins/test_gpu_model.py",
    "plugins/sdk/README.md": "tests/wasm/batch/test_shown_guests.py",
    "plugins/sdk/c/README.md": "tests/plugins/test_plugins.py",
}
# Those whose commands are run here, of the site and of the repository.
ALL = {**OWN, **{source: text for source, text in TAKEN_TEXTS.items() if source not in RUN_ELSEWHERE}}
# Pages with blocks that another test runs on a control plane.
ON_CLUSTERS = {
    "SIMULATION.md": "tests/controlplane/test_simulation_guide.py",
    "operations/observe.md": "tests/controlplane/test_first_trial.py",
    "start/beside.md": "tests/controlplane/test_first_trial.py",
    "start/replace.md": "tests/controlplane/test_replacement.py",
}


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


def test_a_comment_behind_a_command_is_not_run(tmp_path: Path) -> None:
    assert printed_by("$ echo a      # for a", tmp_path) == ["a"]
    assert printed_by("$ echo 'a  # b'", tmp_path) == ["a  # b"]


def test_a_line_that_is_not_printed_is_found() -> None:
    check(["a", "...", "c"], ["a", "b", "c"], "$ x")
    check(["a … c"], ["a b c"], "$ x")
    for shown in (["a", "c"], ["b", "..."], ["a", "...", "d"], ["a", "b"]):
        with pytest.raises(AssertionError):
            check(shown, ["a", "b", "c"], "$ x")
