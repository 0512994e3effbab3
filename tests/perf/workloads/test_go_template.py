"""Actions of Go templates: what they come to."""

from __future__ import annotations

import pytest

from perf.workloads.go_template import GoTemplate


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("pod-{{.Index}}", "pod-7"),
        ("{{ .Index }} of {{- .Count -}}", "7 of 20"),
        ("80{{ Mod .Index 5 }}", "802"),
        ("{{DivideInt 30000 .Count}}Mi", "1500Mi"),
        ("{{DivideFloat .Index 2}}", "3.5"),
        ("{{AddInt .Index 1 2}}", "10"),
        ("{{SubtractInt .Index (MultiplyInt 2 3)}}", "1"),
        ("{{Mod (SubtractInt 0 .Index) 5}}", "-2"),
        ("{a: {b: c}}", "{a: {b: c}}"),
    ],
)
def test_actions_are_carried_out(text: str, expected: str) -> None:
    assert GoTemplate(text).render(7, 20) == expected
