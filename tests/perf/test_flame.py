"""A flame graph is an SVG document in which every frame is as wide as it was often seen."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf.flame import boxes, draw, kind_of, main, tree
from perf.profile_stacks import Stacks

SVG = "{http://www.w3.org/2000/svg}"
KERNEL = "score (kscheduler/_fast/scoring.pyx)"
STACKS: Stacks = {("loop", "a<b>&\"c'"): 3, ("loop", KERNEL): 1}


def groups(document: str) -> dict[str, ElementTree.Element]:
    """Name of a frame -> its group."""
    found = ElementTree.fromstring(document).iter(f"{SVG}g")
    return {group.attrib["data-name"]: group for group in found}


def test_frames_are_as_wide_as_their_share() -> None:
    drawn = groups(draw(STACKS, "title"))
    assert {name: float(group.attrib["data-w"]) for name, group in drawn.items()} == {
        "all": 1.0,
        "loop": 1.0,
        "a<b>&\"c'": 0.75,
        KERNEL: 0.25,
    }


def test_pointer_shows_name_count_and_share() -> None:
    title = groups(draw(STACKS, "title"))[KERNEL].find(f"{SVG}title")
    assert title is not None
    assert title.text == f"{KERNEL}: 1 samples, 25.00%"


def test_names_are_cut_to_the_width_of_their_frames() -> None:
    text = groups(draw({("f" * 500,): 1}, "title"))["f" * 500].find(f"{SVG}text")
    assert text is not None
    assert text.text is not None
    assert text.text.endswith("…")


def test_frames_too_narrow_to_be_seen_are_not_drawn() -> None:
    assert "rare" not in groups(draw({("often",): 1_000_000, ("rare",): 1}, "title"))


def test_no_sample_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected at least one sample, got none"):
        draw({}, "title")


@given(st.dictionaries(st.lists(st.sampled_from("abcd"), min_size=1, max_size=6).map(tuple), st.integers(1, 50)))
def test_callees_lie_within_their_caller_and_beside_each_other(stacks: dict[tuple[str, ...], int]) -> None:
    if not stacks:
        return
    by_depth: dict[int, list[tuple[float, float]]] = {}
    for box in boxes(tree(stacks)):
        by_depth.setdefault(box.depth, []).append((box.x, box.x + box.width))
    for depth, spans in by_depth.items():
        spans.sort()
        assert all(end <= start + 1e-9 for (_, end), (start, _) in pairwise(spans))
        if depth:
            callers = by_depth[depth - 1]
            assert all(any(a - 1e-9 <= x and y <= b + 1e-9 for a, b in callers) for x, y in spans)


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (KERNEL, "kernels"),
        ("run (kscheduler/scheduler.py)", "kscheduler"),
        ("bind (kscheduler/simulator/cluster.py)", "simulation, measuring"),
        ("now (perf/decisions.py)", "simulation, measuring"),
        ("malloc (libc.so.6)", "others"),
    ],
)
def test_colours_tell_kinds_of_frames_apart(frame: str, kind: str) -> None:
    assert kind_of(frame) == kind


def test_folded_file_becomes_an_svg_file(tmp_path: Path) -> None:
    source, target = tmp_path / "stacks.txt", tmp_path / "flame.svg"
    source.write_text("main (a.py:1);f (a.py:2) 3\n")
    assert main([str(source), str(target)]) == 0
    assert set(groups(target.read_text())) == {"all", "main (a.py)", "f (a.py)"}


def test_wrong_number_of_paths_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["one"]) == 2
    assert "usage" in capsys.readouterr().err
