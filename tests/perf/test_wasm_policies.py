"""The comparison of ways to write a policy: all forms decide alike, and its sums are right."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from perf.wasm_policies import (
    FORMS,
    LABEL_POLICY,
    NUMBERS,
    Form,
    MissingTool,
    Result,
    extender,
    goals,
    prioritize,
    ratios,
    run,
    table,
)
from tests.support.skips import missing_tool, package

package("wasmtime")
package("ziglang")

SOME = Result(LABEL_POLICY, "native", 500, 10, 1000.0, 500.0, 20.0, 0, 99.0)
NODES, PODS = 120, 12


def forms(policy: str) -> list[Form]:
    return [form for form in FORMS if form.policy == policy]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["label", "packing"])
def test_all_forms_of_a_policy_place_pods_as_well(policy: str) -> None:
    """Default plugins have a say too; what the policy is for is what they must agree on."""
    found, missing = {}, []
    with extender() as (pid, port):
        for form in forms(policy):
            try:
                found[form.name] = asyncio.run(run(form, NODES, PODS, pid, port))
            except MissingTool as error:
                missing.append(str(error))
    native = found.pop("native").mean_score
    for name, result in found.items():
        tolerance = 8 if name.startswith("http") else 3  # extenders score in tens
        assert abs(result.mean_score - native) <= tolerance, name
        assert (result.guest_calls > 0) is name.startswith(("batch", "ext"))
    if missing:
        missing_tool("; ".join(missing))  # the other forms have passed


@pytest.mark.slow
def test_a_pure_guest_is_asked_once_for_all_pods_that_look_alike_and_one_that_reads_usage_once_a_pod() -> None:
    label, packing = (next(f for f in forms(policy) if f.name == "batch-c") for policy in ("label", "packing"))
    assert asyncio.run(run(label, NODES, PODS, 0, 0)).guest_calls == 1
    assert asyncio.run(run(packing, NODES, PODS, 0, 0)).guest_calls == PODS
    pure = next(form for form in forms("label") if form.name == "ext-pure")
    assert asyncio.run(run(pure, NODES, PODS, 0, 0)).guest_calls == 1


def test_an_extender_scores_the_nodes_it_is_sent_or_named() -> None:
    nodes = [{"metadata": {"name": f"n{i}", "labels": {"example.com/performance": str(i % NUMBERS)}}} for i in (7, 55)]
    whole: Mapping[str, Any] = {"Nodes": {"items": nodes}, "NodeNames": None}
    assert prioritize(whole) == prioritize({"NodeNames": ["n7", "n55"]})
    assert prioritize(whole) == [{"Host": "n7", "Score": 0}, {"Host": "n55", "Score": 5}]


def test_ratios_are_taken_within_a_round_and_above_one_is_cheaper() -> None:
    rounds = [
        [replace(SOME, cpu_us_per_pod=base), replace(SOME, form="batch-c", cpu_us_per_pod=40)] for base in (20, 44)
    ]
    assert ratios(rounds, LABEL_POLICY, "batch-c") == [0.5, 1.1]
    assert ratios(rounds, LABEL_POLICY, "absent") == []
    assert goals(rounds[:1]) == ["a pure guest, of native: 0.500 (0.500 .. 0.500), goal 0.9: NOT met"]
    assert "batch-c" in table(rounds)
