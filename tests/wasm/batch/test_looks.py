"""Pods that a guest can distinguish are not decided as one, whatever the scheduler itself would see of them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kscheduler.api.objects import Pod, Volume
from kscheduler.testing import make_node, make_pod
from tests.wasm.batch.fake_guest import ListGuest
from tests.wasm.batch.fake_guests import lanes_of
from tests.wasm.batch.plugins import one

WANTED = "example.com/node"


def by_annotation(guest: ListGuest, point: int, question: Any) -> Any:
    """Lets pass the node that the pod's annotation names."""
    wanted = question["pods"][0].get("annotations", {}).get(WANTED)
    return _only(guest, question, lambda name: wanted in (None, name))


def by_volumes(guest: ListGuest, point: int, question: Any) -> Any:
    """Lets pass the node that is named as there are volumes."""
    volumes = json.loads(question["pods"][0]["spec"]).get("volumes") or []
    return _only(guest, question, lambda name: name == f"n{len(volumes)}")


def _only(guest: ListGuest, question: Any, fits: Any) -> Any:
    assert "rows" not in question
    return one(verdicts=bytes(not fits(row["names"]) for row in guest.rows), reasons=[[2, "not the one"]])


def lanes_with(part: str, answer: Any) -> Any:
    guest = ListGuest(["filter"], {"depends": ["pod", "node"], "pod": [part], "table": ["names"]}, answer)
    lanes = lanes_of({"Registrations": guest})
    for number in range(4):
        lanes.set_node(make_node(f"n{number}").capacity(cpu="8", memory="16Gi").obj())
    return lanes


def test_pods_that_differ_in_annotations_alone_are_distinguished_in_the_compiled_lane() -> None:
    lanes = lanes_with("annotations", by_annotation)
    wanted = [f"n{number % 3}" for number in range(12)]
    pods = [make_pod(f"p{number}").annotation(WANTED, node).obj() for number, node in enumerate(wanted)]
    assert [outcome.node for outcome in lanes.schedule(*pods)] == wanted
    assert lanes.decided_by_lane == 12


def test_pods_that_differ_in_volumes_alone_are_distinguished_by_a_guest_that_sees_the_spec() -> None:
    lanes = lanes_with("spec", by_volumes)
    pods = [with_volumes(f"p{number}", count) for number, count in enumerate((0, 1, 2, 0))]
    assert [outcome.node for outcome in lanes.schedule(*pods)] == ["n0", "n1", "n2", "n0"]
    assert lanes.decided_by_lane == 2


def with_volumes(name: str, count: int) -> Pod:
    """Of the kind that no plugin of the scheduler's own looks at."""
    pod = make_pod(name).obj()
    volumes = [Volume(name=f"v{number}") for number in range(count)]
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, volumes=volumes or None))


@pytest.mark.parametrize("part", ["labels", "name"])
def test_annotations_are_nothing_to_guests_that_do_not_see_them(part: str) -> None:
    lanes = lanes_with(part, by_annotation)
    pods = [make_pod(f"p{number}").annotation(WANTED, "n1").obj() for number in range(4)]
    assert all(outcome.node for outcome in lanes.schedule(*pods))
    assert lanes.decided_by_lane == (4 if part == "labels" else 0)
