"""The use of running pods, as the status of a quota has it."""

from __future__ import annotations

import pytest

from kscheduler.api.elastic_quotas import ElasticQuota, ElasticQuotaSpec
from kscheduler.api.objects import ObjectMeta, Pod
from kscheduler.errors import DecodeError
from kscheduler.quotas.running import RunningUse, parse_used, quantity_of
from kscheduler.testing import make_pod

QUOTA = ElasticQuota(ObjectMeta(name="q", namespace="a"), ElasticQuotaSpec({"cpu": "1"}, {"pods": "5"}))


def pod(name: str, phase: str = "Running", cpu: str = "1", **more: str) -> Pod:
    return make_pod(name, "a").req(cpu=cpu, **more).overhead(cpu="1").phase(phase).obj()


def test_only_running_pods_count_and_without_overhead() -> None:
    use = RunningUse()
    assert not use.put(pod("p", "Pending"))
    assert use.put(pod("p"))
    assert not use.put(pod("p"))
    assert use.put(pod("q", memory="0"))
    assert use.of(QUOTA) == {"cpu": 2000, "pods": 0, "memory": 0}
    assert use.put(pod("p", "Succeeded"))
    assert not use.put(pod("p", "Succeeded"))
    assert use.drop(pod("q"))
    assert not use.drop(pod("q"))
    assert use.of(QUOTA) == {"cpu": 0, "pods": 0}


def test_a_pod_that_is_resized_counts_for_its_new_size() -> None:
    use = RunningUse()
    use.put(pod("p"))
    assert use.put(pod("p", cpu="3"))
    assert use.of(QUOTA)["cpu"] == 3000


@pytest.mark.parametrize(
    ("resource", "amount", "text"), [("cpu", 1500, "1500m"), ("cpu", 2000, "2"), ("cpu", 0, "0"), ("memory", 7, "7")]
)
def test_amounts_are_written_as_the_api_does_and_read_back(resource: str, amount: int, text: str) -> None:
    assert quantity_of(resource, amount) == text
    assert parse_used({resource: text}) == {resource: amount}


def test_a_status_that_cannot_be_read_is_named() -> None:
    assert parse_used(None) == {}
    with pytest.raises(DecodeError, match=r"status\.used\[cpu\]: expected"):
        parse_used({"cpu": "x"})
