"""What a pod counts for in an ElasticQuota is not quite what it takes on a node."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import Container, Pod, ResourceRequirements
from kscheduler.errors import DecodeError
from kscheduler.quotas.pod_requests import requested_amounts
from kscheduler.testing import make_pod

GPU = "nvidia.com/gpu"


def pod(containers: list[dict[str, str]], init: list[dict[str, str]] = [], **spec: object) -> Pod:  # noqa: B006
    made = make_pod("p").obj()
    return replace(
        made,
        spec=replace(
            made.spec,
            containers=[
                Container(name="c", resources=ResourceRequirements(requests=dict(each))) for each in containers
            ],
            init_containers=[
                Container(name="i", restart_policy="Always", resources=ResourceRequirements(requests=dict(each)))
                for each in init
            ],
            **spec,
        ),
    )


def test_containers_are_added_up_and_init_containers_are_not_even_those_that_keep_running() -> None:
    amounts = requested_amounts(pod([{"cpu": "1"}, {"cpu": "500m", GPU: "1"}], [{"cpu": "2", "memory": "1Gi"}] * 2))
    assert amounts == {"cpu": 2000, "memory": 1 << 30, "ephemeral-storage": 0, "pods": 0, GPU: 1}


def test_overhead_is_added_at_the_end() -> None:
    assert requested_amounts(pod([{"cpu": "1"}], [{"cpu": "2"}], overhead={"cpu": "250m"}))["cpu"] == 2250


def test_a_resource_of_which_a_container_requests_zero_is_named() -> None:
    assert GPU in requested_amounts(pod([{GPU: "0"}]))
    assert GPU not in requested_amounts(pod([{}], [{GPU: "0"}]))


def test_a_bad_amount_is_named_with_its_field() -> None:
    with pytest.raises(DecodeError, match=r"spec\.initContainers\[0\]\.resources\.requests\[cpu\]: expected"):
        requested_amounts(pod([{}], [{"cpu": "x"}]))
