"""The forms of a policy on a real control plane: ratios are taken within a round."""

from __future__ import annotations

from dataclasses import replace

from perf.wasm_control_plane import RealResult, costs, speeds, table
from tests.support.skips import package

package("wasmtime")

SOME = RealResult("label", "native", 500, 10, 1000.0, 200.0, 0.0)


def test_ratios_are_taken_within_a_round_and_an_extenders_cpu_counts() -> None:
    other = replace(SOME, form="http", pods_per_s=500.0, cpu_us_per_pod=300.0, extender_us_per_pod=100.0)
    rounds = [[SOME, other], [replace(SOME, pods_per_s=250.0), other]]
    assert speeds(rounds, "label", "http") == [0.5, 2.0]
    assert costs(rounds, "label", "http") == [0.5, 0.5]
    assert speeds(rounds, "packing", "http") == []
    assert "http" in table(rounds)
