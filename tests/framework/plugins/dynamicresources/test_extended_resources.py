"""Extended resources that device classes back: requests by container, and the special claim up to its binding."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kscheduler.api.devices import EXTENDED_RESOURCE_CLAIM, FINALIZER, ResourceClaim
from kscheduler.api.objects import Container, Pod, PodSpec, QuantityMap, ResourceRequirements
from kscheduler.config.releases import Release
from kscheduler.errors import APIError, Conflict
from kscheduler.framework.class_draft import ClassDraft, Source
from kscheduler.framework.plugins.dynamicresources.extended_resources import requests_for
from kscheduler.framework.status import Code
from kscheduler.snapshot.devices import Devices
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node
from tests.framework.plugins.dynamicresources.bench import Bench, claim, pod_with
from tests.support.devices import backing

GPU, NIC = "example.com/gpu", "example.com/nic"
NAME = "p-extended-resources-x"
KEY = f"default/{NAME}"


# --- requests ---------------------------------------------------------------------------------------------------


def container(name: str, gpus: int = 0, nics: int = 0, *, sidecar: bool = False) -> Container:
    wanted = {"cpu": 1, GPU: gpus, NIC: nics}
    requests: QuantityMap = {name: str(amount) for name, amount in wanted.items() if amount}
    return Container(name, resources=ResourceRequirements(requests), restart_policy="Always" if sidecar else None)


def asked(
    containers: Sequence[Container], init: Sequence[Container] = ()
) -> tuple[dict[str, int], list[tuple[str, str, str]]]:
    """Request -> number of devices, and (container, resource, request)."""
    known = Devices()
    known.set_class(backing("gpu-class", GPU))
    known.set_class(backing("nic-class", NIC))
    pod = Pod(spec=PodSpec(containers=list(containers), init_containers=list(init) or None))
    requests, mappings = requests_for(pod, [NIC, GPU], known)
    for request in requests:
        assert request.exactly is not None
        assert request.exactly.device_class_name in ("gpu-class", "nic-class")
    counts = {each.name: each.exactly.count for each in requests if each.exactly is not None}
    return counts, [(each.container_name, each.resource_name, each.request_name) for each in mappings]


def test_each_container_has_its_requests_named_by_position() -> None:
    # The requests of a container in order are cpu, example.com/gpu, example.com/nic.
    counts, mappings = asked([container("a", 2), container("b", 1, 4)])
    assert counts == {"container-0-request-1": 2, "container-1-request-1": 1, "container-1-request-2": 4}
    assert mappings == [
        ("a", GPU, "container-0-request-1"),
        ("b", GPU, "container-1-request-1"),
        ("b", NIC, "container-1-request-2"),
    ]


def test_an_init_container_uses_the_devices_of_later_ones() -> None:
    counts, mappings = asked([container("a", 1), container("b", 2)], [container("init", 3)])
    assert counts == {"container-1-request-1": 1, "container-2-request-1": 2}
    assert mappings[2:] == [("init", GPU, "container-1-request-1"), ("init", GPU, "container-2-request-1")]


def test_of_what_init_containers_need_beyond_that_the_most_is_requested_once() -> None:
    counts, mappings = asked([container("a", 1)], [container("small", 2), container("big", 4), container("mid", 3)])
    assert counts == {"container-1-request-1": 3, "container-3-request-1": 1}
    beyond = [mapping for mapping in mappings if mapping[2] != "container-3-request-1"]
    assert beyond == [(name, GPU, "container-1-request-1") for name in ("small", "big", "mid")]


def test_a_sidecar_counts_as_lasting_for_init_containers_before_it_only() -> None:
    counts, mappings = asked([container("a")], [container("before", 1), container("side", 2, sidecar=True)])
    assert counts == {"container-1-request-1": 2}
    assert ("before", GPU, "container-1-request-1") in mappings
    counts, _ = asked([container("a")], [container("side", 2, sidecar=True), container("later", 1)])
    assert counts == {"container-0-request-1": 2, "container-1-request-1": 1}


def test_amounts_that_are_no_integers_are_not_requested() -> None:
    odd = Container("a", resources=ResourceRequirements({GPU: "1500m"}))
    assert asked([odd]) == ({}, [])


# --- the special claim ------------------------------------------------------------------------------------------


def bench(release: Release, **options: int) -> Bench:
    made = Bench(release, **options)
    made.devices.set_class(backing("gpu", GPU))
    return made


POD = pod_with(example_com__gpu="1")


def test_a_node_without_the_resource_gets_devices_and_one_with_it_none(release: Release) -> None:
    made = bench(release, nodes=1)
    made.cache.set_node(make_node("own").capacity(**{"cpu": "4", "memory": "8Gi", GPU: "8"}).obj())
    made.cache.set_node(make_node("bare").capacity(cpu="4", memory="8Gi").obj())
    assert made.filter(POD) == {"n0": "", "own": "", "bare": "cannot allocate all claims"}
    state = made.reserved(POD, "own")
    assert not made.devices.in_flight
    assert made.pre_bind(state, POD, "own") == ""
    assert not made.writes.requests


def test_a_resource_that_nobody_has_does_not_fit(release: Release) -> None:
    made = bench(release, nodes=1)
    both = pod_with(example_com__gpu="1", example_com__fpga="1")
    assert made.filter(both) == {"n0": "cannot fit resource"}


def test_the_resource_of_a_class_has_its_name(release: Release) -> None:
    made = bench(release, nodes=1)
    assert made.filter(pod_with(deviceclass_resource_kubernetes_io__gpu="1")) == {"n0": ""}
    assert made.plugin.concerns(pod_with(deviceclass_resource_kubernetes_io__gpu="1"))


def test_the_claim_is_created_allocated_and_named_in_the_pods_status(release: Release) -> None:
    made = bench(release, nodes=1)
    state = made.reserved(POD)
    assert len(made.devices.in_flight) == 1
    assert made.filter(pod_with(name="q", example_com__gpu="1")) == {"n0": "cannot allocate all claims"}
    assert made.pre_bind(state, POD) == ""
    verbs = [verb for verb, _ in made.writes.requests]
    assert verbs == ["create", "patch", "patch status", "set pod claim"]
    written = made.writes.claims[KEY]
    assert written.metadata.annotations == {EXTENDED_RESOURCE_CLAIM: "true"}
    assert written.metadata.owner_references is not None
    owner = written.metadata.owner_references[0]
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Pod", "p", "uid-p", True)
    assert written.metadata.finalizers == [FINALIZER]
    requests = written.spec.devices.requests or []
    assert [each.name for each in requests] == ["container-0-request-1"]
    assert written.status.allocation is not None
    status = made.writes.pod_claims["default/p"]
    assert status.resource_claim_name == NAME
    assert status.request_mappings is not None
    assert [each.request_name for each in status.request_mappings] == ["container-0-request-1"]
    assert made.writes.reports == [("created", "success")]
    assert not made.devices.in_flight
    assert made.devices.claim("default", NAME) == written


def test_binding_waits_for_the_watch_to_bring_the_claim() -> None:
    made = bench(Bench().handle.release, nodes=1)
    state = made.reserved(POD)
    put = made.writes.put
    made.writes.put = lambda claim, *, is_seen=True: put(claim, is_seen=False)  # type: ignore[method-assign]

    def show() -> None:
        if len(made.slept) == 3:
            made.devices.set_claim(made.writes.claims[KEY])

    made.on_sleep = show
    assert made.pre_bind(state, POD) == ""
    assert made.slept == [0.01, 0.02, 0.04]
    assert not made.devices.in_flight


def test_a_claim_that_cannot_be_created_fails_the_binding(release: Release) -> None:
    made = bench(release, nodes=1)
    state = made.reserved(POD)
    made.writes.refusals["create"] = [APIError("forbidden", status=403)]
    assert made.pre_bind(state, POD) == "create claim for extended resources default/: forbidden"
    assert made.writes.reports == [("created", "failure")]
    made.plugin.unreserve(state, POD, "n0")
    assert not made.devices.in_flight
    assert not made.writes.background


def test_a_status_that_cannot_be_written_fails_the_binding_and_the_claim_is_deleted(release: Release) -> None:
    made = bench(release, nodes=1)
    state = made.reserved(POD)
    made.writes.refusals["set pod claim"] = [APIError("no", status=500)]
    assert made.pre_bind(state, POD) == "update pod default/p ExtendedResourceClaimStatus: no"
    made.plugin.unreserve(state, POD, "n0")
    made.writes.refusals["patch"] = [Conflict("changed")]
    made.writes.run_background()
    assert KEY not in made.writes.claims
    assert not made.devices.in_flight
    assert [verb for verb, _ in made.writes.requests][-4:] == ["patch", "get", "patch", "delete"]


def test_a_claim_of_an_earlier_attempt_is_deleted_first(release: Release) -> None:
    made = bench(release, nodes=1)
    old = left_behind(made)
    assert made.filter(POD) == {"n0": "cannot schedule extended resource claim"}
    state, _ = made.pre_filter(POD)
    made.filter_all(state, POD)
    _, status = made.plugin.post_filter(state, POD, {})
    assert status is not None
    assert (status.code, status.message) == (Code.UNSCHEDULABLE, "deletion of ResourceClaim completed")
    made.writes.run_background()
    assert not made.writes.claims
    made.devices.remove_claim("default", old.metadata.name)
    assert made.filter(POD) == {"n0": ""}


def left_behind(made: Bench) -> ResourceClaim:
    """A claim as an attempt leaves it that ended in the middle of its binding."""
    state = made.reserved(POD)
    assert made.pre_bind(state, POD) == ""
    return made.writes.claims[KEY]


def test_claims_of_users_come_before_the_special_one() -> None:
    made = bench(Bench().handle.release, nodes=1, gpus=3)
    made.add(claim("c"))
    both = pod_with("c", example_com__gpu="2")
    state = made.reserved(both)
    assert made.pre_bind(state, both) == ""
    taken = {
        key: [each.device for each in written.status.allocation.devices.results or ()]
        for key, written in made.writes.claims.items()
        if written.status.allocation is not None
    }
    assert taken == {"default/c": ["g0"], KEY: ["g1", "g2"]}


# --- which pods -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod", "reads", "concerns"),
    [
        (pod_with(), False, False),
        (pod_with(example_com__fpga="1"), True, False),
        (pod_with(example_com__gpu="1"), True, True),
    ],
    ids=["plain", "a device plugin's", "backed"],
)
def test_pods_with_backed_resources_are_decided_by_what_is_known_of_each_node(
    pod: PodInfo, reads: bool, concerns: bool
) -> None:
    made = bench(Bench().handle.release)
    draft = ClassDraft(made.cache.table.columns, len(made.cache.table.node_classes))
    draft.begin("DynamicResources", filters=True, weight=2)
    assert made.plugin.compile_class(draft, pod)
    assert (Source.DEVICES in draft.sources) is reads
    assert made.plugin.concerns(pod) is concerns
    assert (made.plugin.prepare_claims(pod) is not None) is concerns


def test_a_pod_is_left_to_the_general_lane_if_a_node_has_the_resource_or_no_class_backs_another_one(
    release: Release,
) -> None:
    made = bench(release)
    assert made.plugin.prepare_claims(POD) is not None
    assert made.plugin.prepare_claims(pod_with(example_com__gpu="1", example_com__fpga="1")) is None
    made.add(claim("a"))
    assert made.plugin.prepare_claims(pod_with("a", example_com__gpu="1")) is None
    made.cache.set_node(make_node("own").capacity(cpu="4", **{GPU: "1"}).obj())
    assert made.plugin.prepare_claims(POD) is None


def test_without_the_feature_no_class_backs_anything(release: Release) -> None:
    made = Bench(release.with_gates({"DRAExtendedResource": False}))
    made.devices.set_class(backing("gpu", GPU))
    assert not made.plugin.concerns(POD)
    assert made.filter(POD) == {"n0": "", "n1": ""}
