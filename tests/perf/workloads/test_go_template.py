"""Actions of Go templates: what they come to."""

from __future__ import annotations

import re

import pytest

from perf.workloads.go_template import BadTemplate, GoTemplate


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


def test_parameters_are_named_like_index_and_count() -> None:
    template = GoTemplate("{{.resource}}-{{Mod .Index .classes}}", {"resource": "example.com/gpu", "classes": 5})
    assert template.render(7, 20) == "example.com/gpu-2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{range $i := 3}}{{$i}},{{end}}", "0,1,2,"),
        ("{{range $i := .size}}a{{end}}{{range $i := .size}}b{{end}}", "aabb"),
        ("{{range $i := 2}}{{range $n := AddInt $i 1}}{{$i}}{{$n}} {{end}}{{end}}", "00 10 11 "),
        ("{{range $i := 0}}never{{end}}", ""),
    ],
)
def test_a_range_repeats_what_is_in_it(text: str, expected: str) -> None:
    template = GoTemplate(text, {"size": 2})
    assert template.has_actions
    assert template.render(0, 1) == expected


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{{range $i := 3}}a", "a range that does not end"),
        ("a{{end}}", "there is no range that it ends"),
        ("{{$i}}", "'$i' is not known, expected one of .Count, .Index"),
        ("{{range $i := 2}}{{end}}{{$i}}", "'$i' is not known"),
        ("{{.devices}}", "'.devices' is not known"),
        ("{{if .Index}}a{{end}}", "'if' is not known"),
        ("{{AddInt .name 1}}", "expected a number, got 'gpu'"),
        ("{{range $i := 100000}}{{end}}", "expected at most 10000 times, got 100000"),
        ("{{.Index", "an action that does not end"),
    ],
)
def test_faults_are_named(text: str, fault: str) -> None:
    with pytest.raises(BadTemplate, match=re.escape(fault)):
        GoTemplate(text, {"name": "gpu"}).render(0, 1)
