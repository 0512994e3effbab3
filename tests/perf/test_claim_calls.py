"""A pod with a claim from a template costs a bounded number of Python calls."""

from __future__ import annotations

import pytest

from perf import claim_calls

# Measured are some 690, by how a burst is cut into batches; before claims with equal specs shared what is found out
# about them, and bindings followed PreBind without a task, it was 900.
MOST = 760


def test_a_pod_with_a_claim_costs_few_calls() -> None:
    calls = claim_calls.calls_a_pod(nodes=10, pods=60)
    assert calls["framework/plugins/dynamicresources/plugin.py DynamicResources.reserve"] == 1.0
    assert calls["framework/plugins/dynamicresources/binding.py ClaimBinding.bind"] >= 1.0
    assert sum(calls.values()) < MOST, list(calls.items())[:40]


def test_the_command_prints_the_sum_and_the_functions(capsys: pytest.CaptureFixture[str]) -> None:
    assert claim_calls.main(["--nodes", "2", "--pods", "5", "--most", "3"]) == 0
    first, *functions = capsys.readouterr().out.splitlines()
    assert first.endswith(" calls a pod")
    assert len(functions) == 3
