"""The arithmetic of `perf.start`; it needs a control plane to run."""

from __future__ import annotations

import json

import pytest

from perf.start import FIRST_BINDING, KUBE_SCHEDULER, THIS, Start, bound_pods, stages, table


def logged(at_s: float, message: str, **fields: str) -> str:
    return json.dumps({"ts": at_s, "v": 0, "msg": message, **fields})


def test_stages_end_at_their_lines_and_later_lists_count_for_none() -> None:
    log = "\n".join(
        [
            "a warning of a library",
            logged(100.5, "emulating a release of Kubernetes"),
            logged(100.75, "list complete", resource="nodes"),
            logged(101.0, "list complete", resource="pods"),
            logged(101.25, "list complete", resource="nodes"),
            logged(101.5, "became leader"),
            logged(101.75, "scheduling starts"),
        ]
    )
    assert stages(log, 100.0) == {
        "imports, configuration, version": 0.5,
        "first lists": 1.0,
        "Lease": 1.5,
        "the rest before decisions": 1.75,
    }


def test_starts_are_compared_within_a_round() -> None:
    turns = (THIS, 1.0), (KUBE_SCHEDULER, 2.0), (KUBE_SCHEDULER, 4.0), (THIS, 1.0), (THIS, 3.0), (KUBE_SCHEDULER, 3.0)
    starts = [Start(what, {"first lists": seconds / 2, FIRST_BINDING: seconds}, 1.0) for what, seconds in turns]
    text = table(starts, [THIS, KUBE_SCHEDULER])
    assert "this: 1.00 s to the first binding, 1.00 s of CPU (first lists 0.50; first binding 0.50)" in text
    assert "0.50 (0.25 .. 1.00)" in text


@pytest.mark.parametrize(("count", "sizes"), [(0, []), (3, [3]), (5, [5]), (12, [5, 5, 2])])
def test_bound_pods_are_dealt_out_among_the_nodes(count: int, sizes: list[int]) -> None:
    batches = list(bound_pods(count, 5))
    assert [batch.count for batch in batches] == sizes
    assert all(batch.templates[0]["spec"]["nodeName"] == "node-{index}" for batch in batches)
