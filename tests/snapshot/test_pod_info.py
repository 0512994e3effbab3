"""What is worked out of a pod, once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import ContainerPort, NodeAllocatableResourceClaimStatus, Pod, PodCondition, RawQuantity
from kscheduler.errors import DecodeError
from kscheduler.snapshot.pod_info import HostPort, PodInfo, host_ports
from kscheduler.testing import make_pod


def test_a_pod_is_known_by_key_uid_and_priority() -> None:
    info = PodInfo(make_pod("p", "shop").priority(7).obj())
    assert (info.key, info.uid, info.priority) == ("shop/p", "uid-shop-p", 7)
    assert PodInfo(Pod()).priority == 0
    assert repr(info) == "PodInfo(shop/p)"


def test_a_malformed_quantity_is_found_here_with_field_and_value() -> None:
    with pytest.raises(DecodeError, match=r'spec.containers\[1\].resources.requests\[memory\].*"1 Gi"'):
        PodInfo(make_pod("p").req(cpu="1").container(memory="1 Gi").obj())


def test_a_pod_may_ask_for_a_thousand_extended_resources_and_no_more() -> None:
    many: dict[str, RawQuantity] = {f"example.com/r{index}": 1 for index in range(1021)}
    assert len(PodInfo(make_pod("p").req(**many).obj()).resources.total.scalars) == 1021
    many["example.com/one-more"] = 1
    with pytest.raises(DecodeError, match="pod default/p: expected requests for at most"):
        PodInfo(make_pod("p").req(**many).obj())


def test_an_infeasible_resize_is_seen_in_a_pod_whose_template_is_known() -> None:
    pod = make_pod("p").req(cpu="1").obj()
    resizing = replace(pod, status=replace(pod.status, conditions=[PodCondition("PodResizePending", "", "Infeasible")]))
    for seen in ((pod, resizing, pod), (resizing, pod, resizing)):
        requested = [PodInfo(each, sums_resizes_apart=True).resources.total.cpu_milli for each in seen]
        assert requested == [0 if each is resizing else 1000 for each in seen]
    assert PodInfo(resizing).resources.total.cpu_milli == 1000


def test_a_pod_is_confirmed_as_bound_unless_its_resize_is_infeasible() -> None:
    pod = make_pod("p").node("n").req(cpu="1").obj()
    scheduled = PodCondition("PodScheduled", "True")
    bound = replace(pod, status=replace(pod.status, conditions=[scheduled]))
    resizing = replace(
        pod, status=replace(pod.status, conditions=[scheduled, PodCondition("PodResizePending", "", "Infeasible")])
    )
    info = PodInfo(pod, sums_resizes_apart=True)
    assert not info.bound_as(resizing)
    assert info.bound_as(bound)


def test_host_ports_are_those_of_containers_and_sidecars_with_every_address_written_out() -> None:
    pod = (
        make_pod("p")
        .host_port(80)
        .host_port(53, "UDP", "10.0.0.1")
        .container()
        .host_port(443, host_ip="0.0.0.0")
        .init_container()
        .init_container(restart_policy="Always")
        .obj()
    )
    assert host_ports(pod) == (
        HostPort("TCP", 80, "0.0.0.0"),
        HostPort("UDP", 53, "10.0.0.1"),
        HostPort("TCP", 443, "0.0.0.0"),
    )


def test_ports_of_init_containers_count_only_while_those_keep_running() -> None:
    pod = make_pod("p").init_container().init_container(restart_policy="Always").obj()
    taking = [ContainerPort(container_port=1, host_port=80), ContainerPort(container_port=2)]
    inits = [replace(container, ports=taking) for container in pod.spec.init_containers or ()]
    assert host_ports(replace(pod, spec=replace(pod.spec, init_containers=inits))) == (HostPort("TCP", 80, "0.0.0.0"),)


def test_what_devices_take_is_seen_in_a_pod_whose_template_is_known() -> None:
    pod = make_pod("p").req(cpu="1").obj()
    status = [NodeAllocatableResourceClaimStatus("c", resources={"cpu": "2"})]
    taking = replace(pod, status=replace(pod.status, node_allocatable_resource_claim_statuses=status))
    for seen in ((pod, taking, pod), (taking, pod, taking)):
        requested = [PodInfo(each, counts_claims=True).resources.total.cpu_milli for each in seen]
        assert requested == [3000 if each is taking else 1000 for each in seen]
    assert PodInfo(taking).resources.total.cpu_milli == 1000


def test_a_pod_is_not_confirmed_as_bound_with_other_devices() -> None:
    pod = make_pod("p").node("n").req(cpu="1").obj()
    status = [NodeAllocatableResourceClaimStatus("c", resources={"cpu": "2"})]
    taking = replace(pod, status=replace(pod.status, node_allocatable_resource_claim_statuses=status))
    assert not PodInfo(pod, counts_claims=True).bound_as(taking)
    assert not PodInfo(taking, counts_claims=True).bound_as(pod)
    assert PodInfo(taking, counts_claims=True).bound_as(replace(taking))
