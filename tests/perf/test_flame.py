"""A flame graph is an SVG document in which every frame is as wide as it was often seen."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from perf.flame import boxes, draw, main, tree
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


def test_folded_file_becomes_an_svg_file(tmp_path: Path) -> None:
    source, target = tmp_path / "stacks.txt", tmp_path / "flame.svg"
    source.write_text("main (a.py:1);f (a.py:2) 3\n")
    assert main([str(source), str(target)]) == 0
    assert set(groups(target.read_text())) == {"all", "main (a.py)", "f (a.py)"}
