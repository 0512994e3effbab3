"""The comparison of ways to write a policy: all forms make the same decisions, and its sums are right."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from perf.wasm_policies import FORMS, LABEL_POLICY, Form, MissingTool, Result, extender, goals, ratios, run, table
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


def test_ratios_are_taken_within_a_round_and_above_one_is_cheaper() -> None:
    rounds = [
        [replace(SOME, cpu_us_per_pod=base), replace(SOME, form="batch-c", cpu_us_per_pod=40)] for base in (20, 44)
    ]
    assert ratios(rounds, LABEL_POLICY, "batch-c") == [0.5, 1.1]
    assert ratios(rounds, LABEL_POLICY, "absent") == []
    assert goals(rounds[:1]) == ["a pure guest, of native: 0.500 (0.500 .. 0.500), goal 0.9: NOT met"]
    assert "batch-c" in table(rounds)
