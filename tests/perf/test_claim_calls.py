"""A pod that gets a device costs a bounded number of Python calls."""

from __future__ import annotations

import pytest

from perf import claim_calls
from perf.claim_calls import Load

# Measured are some 400 for a claim from a template, 380 for one that pods share, 390 for an extended resource or
# selectors, 510 for alternatives, 440 for partitions, 470 for two equal devices, 570 for shares of two devices and 480
# for all ten devices of a node, by how a burst is cut into batches. In racks 500 and 690, with what is found out once
# about the devices of each; and 1,740 if a rack of ten nodes changes for each tenth pod, on 200 nodes as on 20.
MOST = {
    Load.TEMPLATE: 455,
    Load.SHARED: 455,
    Load.EXTENDED: 440,
    Load.SELECTING: 455,
    Load.ALTERNATIVES: 570,
    Load.MATCHING: 540,
    Load.PARTITIONS: 510,
    Load.SHARES: 640,
    Load.ALL: 550,
    Load.RACKS: 580,
    Load.MATCHING_IN_RACKS: 790,
    Load.CHANGING_RACKS: 2000,
}


pytestmark = pytest.mark.usefixtures("batches_of_one_size")


@pytest.mark.parametrize("load", Load)
def test_a_pod_with_a_claim_costs_few_calls(load: Load) -> None:
    calls = claim_calls.calls_a_pod(nodes=80 if load is Load.ALL else 20, pods=60, load=load)
    assert calls["framework/plugins/dynamicresources/plugin.py DynamicResources.reserve"] >= 1.0
    assert calls["framework/plugins/dynamicresources/binding.py ClaimBinding.bind"] >= 1.0
    assert sum(calls.values()) < MOST[load], list(calls.items())[:40]


def test_pods_for_which_there_are_too_few_devices_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected devices for 10 \+ 41 pods, got 50 on 10 nodes"):
        claim_calls.calls_a_pod(nodes=10, pods=41, load=Load.PARTITIONS)


def test_the_command_prints_the_sum_and_the_functions(capsys: pytest.CaptureFixture[str]) -> None:
    assert claim_calls.main(["--nodes", "2", "--pods", "5", "--most", "3"]) == 0
    first, *functions = capsys.readouterr().out.splitlines()
    assert first.endswith(" calls a pod")
    assert len(functions) == 3
