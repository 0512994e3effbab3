"""Scenarios between a claim and its bound pod: drivers that prepare devices, and schedulers that die meanwhile."""

from __future__ import annotations

from kscheduler.testing.controlplane.api import Object
from tests.controlplane.parity.device_parts import (
    ONE,
    TWO,
    change_slice,
    claim,
    claim_gone,
    claim_of_resources,
    device,
    device_class,
    devices,
    is_model,
    model,
    preparing,
    preparing_or_refused,
    remove_devices_claim,
    report,
    request,
    scenario,
    scheduler_dies,
    scheduler_starts,
    uses,
    write_claim,
)
from tests.controlplane.parity.manifests import priority_class
from tests.controlplane.parity.steps import (
    Step,
    bound,
    change_node,
    node,
    pod,
    refused,
    released,
    remove_pod,
    settle,
    thing,
)


def _slow(name: str) -> Object:
    """A device that its driver has to prepare before a pod may be bound."""
    return device(name, bindingConditions=["Ready"], bindingFailureConditions=["Failed"])


SPARE: Step = devices("a", "spare", pool={"name": "spare"}, name="spare")  # needs no preparation, so it is preferred

CONDITIONS = (
    scenario(
        "Pods wait until their device is prepared",
        *ONE,
        devices("a", _slow("slow")),
        claim("one"),
        pod("first", uses("one"), wait=False),
        preparing("first"),
        pod("second", uses("one"), wait=False),
        preparing("second"),
        report("one", Ready="True", Failed="False"),
        bound("first", "a"),
        bound("second", "a"),
    ),
    scenario(
        "A device cannot be prepared, and another one is taken",
        *ONE,
        devices("a", _slow("slow")),
        claim("one"),
        pod("first", uses("one"), wait=False),
        preparing("first"),
        SPARE,
        report("one", Ready="False", Failed="True"),
        bound("first", "a"),
        retries_vary=True,
    ),
    scenario(
        "A device is not prepared in time, and another one is taken",
        *ONE,
        devices("a", _slow("slow")),
        claim("one"),
        pod("first", uses("one"), wait=False, profile="impatient"),
        preparing("first"),
        SPARE,
        bound("first", "a"),
        retries_vary=True,
    ),
    scenario(
        "A pod is deleted while its device is prepared",
        *ONE,
        devices("a", _slow("forsaken")),  # the schedulers think of it for ten minutes: nobody else has its name
        claim("one"),
        pod("first", uses("one"), wait=False),
        preparing("first"),
        remove_pod("first"),
        released("one"),
        # In 1.36 the device is free at once. In 1.37 it is only when the first pod's time to be bound is over.
        claim("two"),
        pod("second", uses("two"), wait=False),
        preparing_or_refused("second"),
        remove_pod("second"),
        retries_vary=True,
    ),
    scenario(
        "A pod is preempted while its device is prepared",
        *ONE,
        thing(priority_class("high", 100)),
        devices("a", _slow("slow")),
        claim("one"),
        pod("low", uses("one"), wait=False, cpu="3"),
        preparing("low"),
        pod("high", {"priorityClassName": "high"}, cpu="3", wait=False),
        bound("high", "a"),
        refused("low", "Insufficient cpu"),
        retries_vary=True,
        # There the preemptor is tried again at once. If its victim has not been taken back yet, it is deleted, too.
        by_chance_in=("1.37",),
    ),
    scenario(
        "A claim is deleted while its device is prepared",
        *ONE,
        devices("a", _slow("slow")),
        claim("one"),
        pod("first", uses("one"), wait=False),
        preparing("first"),
        remove_devices_claim("one"),
        # The first pod has the claim, and nobody else gets it any more: the second is gated.
        pod("second", uses("one"), wait=False),
        settle,
        report("one", Ready="True"),
        bound("first", "a"),
        remove_pod("second"),
    ),
)

DEATHS = (
    scenario(
        "The scheduler dies while devices are prepared",
        *ONE,
        devices("a", _slow("slow-1"), _slow("slow-2")),
        claim("one"),
        claim("two"),
        pod("first", uses("one"), wait=False),
        preparing("first"),
        pod("second", uses("two"), wait=False),
        preparing("second"),
        scheduler_dies,
        report("one", Ready="True"),
        report("two", Failed="True"),
        SPARE,
        scheduler_starts,
        bound("first", "a"),
        bound("second", "a"),
        retries_vary=True,
    ),
    scenario(
        "The scheduler has died between a claim and its pod",
        *TWO,
        devices("b", *(model(f"g{index}", "usual") for index in range(5)), model("odd", "odd")),
        *(claim(each) for each in ("allocated", "reserved", "begun", "half")),
        claim("other-half", request(selector=is_model("odd"))),
        *(pod(f"pod-{each}", uses(each), wait=False) for each in ("allocated", "reserved", "begun")),
        pod("pod-of-two", uses("half", "other-half"), wait=False),
        write_claim("allocated", "g4", on="b"),
        write_claim("reserved", "g3", on="b", reserved_for=["pod-reserved"]),
        write_claim("begun"),
        write_claim("half", "g2", on="b", reserved_for=["pod-of-two"]),
        starts_cold=True,
        then=tuple(bound(f"pod-{each}", "b") for each in ("allocated", "reserved", "begun", "of-two")),
    ),
    scenario(
        "A claim was allocated by a scheduler that wrote no time",
        *TWO,
        devices("b", "g0"),
        claim("one"),
        write_claim("one", "g0", on="b", at=None),
        pod("first", uses("one")),
        refused("first", "add reservation to claim main/one"),
        retries_vary=True,
    ),
    scenario(
        "A claim was reserved on a node that is closed when the scheduler starts",
        *TWO,
        devices("a", "g0"),
        devices("b", "g0"),
        claim("one"),
        pod("first", uses("one"), wait=False),
        write_claim("one", "g0", on="a", reserved_for=["first"]),
        change_node("a", {"spec": {"unschedulable": True}}),
        starts_cold=True,
        then=(bound("first", "b"),),
        retries_vary=True,
    ),
    scenario(
        "A claim for extended resources is left when the scheduler starts",
        node("a"),
        device_class(extendedResourceName="example.com/gpu"),
        devices("a", "g0", "g1"),
        pod("first", wait=False, gpu="1"),
        claim_of_resources("first-extended-resources-left", "first", "g1", on="a"),
        starts_cold=True,
        # The claim is deleted first. That wakes the pod in 1.37 only, a device that comes does in both.
        then=(
            claim_gone("first-extended-resources-left"),
            change_slice("a-gpus", {"devices": [{"name": f"g{index}"} for index in range(3)]}),
            bound("first", "a"),
        ),
        retries_vary=True,
    ),
)

PREPARING = (*CONDITIONS, *DEATHS)
