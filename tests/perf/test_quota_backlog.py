"""A pod of a queue with shares, or of a namespace with a quota, costs few Python calls more than others."""

from __future__ import annotations

import pytest

from perf import quota_backlog
from perf.quota_backlog import Kind

# Measured are 67 to 73 without quotas, 86 to 100 with queues with shares and 74 to 82 with ElasticQuotas; before pods
# were counted together, queues took 211 and ElasticQuotas 112.
MOST = {Kind.PLAIN: 90, Kind.QUEUES: 125, Kind.QUOTAS: 105}

pytestmark = pytest.mark.usefixtures("batches_of_one_size")


@pytest.mark.parametrize("kind", Kind)
def test_a_pod_with_a_quota_costs_few_calls(kind: Kind) -> None:
    calls = quota_backlog.calls_a_pod(kind, nodes=50, pods=1_000)
    assert calls["cache/cache.py Cache.confirm"] >= 0.9
    assert sum(calls.values()) < MOST[kind], list(calls.items())[:40]


def test_the_command_prints_rates_and_ratios_and_the_functions(capsys: pytest.CaptureFixture[str]) -> None:
    options = {"--kinds": "queues", "--nodes": "5", "--pods": "60", "--rounds": "1", "--most": "3"}
    assert quota_backlog.main([part for option in options.items() for part in option]) == 0
    header, plain, queues, ratios, *functions = capsys.readouterr().out.splitlines()
    assert header.split() == ["taken", "in", "decided", "placed", "calls", "a", "pod"]
    assert [line.split()[0] for line in (plain, queues, ratios)] == ["plain", "queues", "of"]
    assert len(functions) == 3
