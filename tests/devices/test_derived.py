"""Attributes that requests derive from devices are what constraints read."""

from __future__ import annotations

import pytest

from kscheduler.api.devices import DeviceDerivedAttribute
from kscheduler.cel.selectors import selectors_for
from kscheduler.devices.allocator import AllocationError, Allocator
from tests.devices.building import (
    NEW,
    OLD,
    Cluster,
    alternative,
    device,
    first_available,
    make_claim,
    make_class,
    make_node,
    make_slice,
    names_of,
    request,
)

GATE = "DRADerivedAttributes"
DERIVING = NEW.with_gates({GATE: True})
NUMA = "gpu.example.com/numa"
DEVICES = [
    device("a", {"numa": 1, "socket": 1}),
    device("b", {"numa": 2, "socket": 1}),
    device("c", {"numa": 1, "socket": 2}),
]


def derived(name: str, expression: str) -> dict[str, list[DeviceDerivedAttribute]]:
    return {"derived_attributes": [DeviceDerivedAttribute(name, expression)]}


def test_what_a_request_derives_hides_what_the_driver_published() -> None:
    cluster = Cluster(DERIVING, [make_slice("s", DEVICES)])
    assert cluster.chosen(make_claim(request("req", 2), match=[NUMA])) == [["a", "c"]]
    assert cluster.chosen(make_claim(request("req", 2, **derived(NUMA, "socket")), match=[NUMA])) == [["a", "b"]]
    assert cluster.chosen(make_claim(request("req", 2, **derived("x/new", "socket")), distinct=["x/new"])) == [
        ["a", "c"]
    ]


def test_a_request_that_derives_nothing_reads_what_the_driver_published() -> None:
    claim = make_claim(request("one", 1, **derived(NUMA, "socket")), request("other"), match=[NUMA])
    assert Cluster(DERIVING, [make_slice("s", DEVICES)]).chosen(claim) == [["a", "c"]]


def test_alternatives_derive_attributes_of_their_own() -> None:
    either = first_available(
        "either", alternative("one", 3, **derived(NUMA, "socket")), alternative("two", 2, **derived(NUMA, "numa"))
    )
    assert Cluster(DERIVING, [make_slice("s", DEVICES)]).chosen(make_claim(either, match=[NUMA])) == [["a", "c"]]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("no name", f"compile derived attribute {NUMA} failed: no name: no name"),
        (
            "uuid",
            f"evaluate derived attribute {NUMA} on device gpu.example.com/pool/a failed: no such key: uuid",
        ),
    ],
)
def test_an_expression_that_fails_is_an_error_once_a_constraint_asks(expression: str, message: str) -> None:
    cluster = Cluster(DERIVING, [make_slice("s", DEVICES)])
    wanted = request("req", 1, **derived(NUMA, expression))
    assert cluster.chosen(make_claim(wanted)) == [["a"]]
    assert cluster.chosen(make_claim(wanted, match=["gpu.example.com/socket"])) == [["a"]]
    with pytest.raises(AllocationError) as raised:
        cluster.allocate(make_claim(wanted, match=[NUMA]))
    assert str(raised.value) == message


def test_while_the_gate_is_off_the_claim_is_refused_and_an_older_release_does_not_know_the_field() -> None:
    claim = make_claim(request("req", 2, **derived(NUMA, "socket")), match=[NUMA])
    with pytest.raises(AllocationError, match="cannot handle request with derived attributes, the feature is disabled"):
        Cluster(NEW, [make_slice("s", DEVICES)]).allocate(claim)
    assert Cluster(OLD, [make_slice("s", DEVICES)]).chosen(claim) == [["a", "c"]]


@pytest.mark.parametrize("with_lists", [False, True])
def test_an_expression_may_give_a_list(with_lists: bool) -> None:
    """Without the gate of lists it is a value that nothing is equal to, which a single device may have."""
    release = DERIVING.with_gates({"DRAListTypeAttributes": with_lists})
    own = 'device.attributes["gpu.example.com"]'
    claims = [
        make_claim(request("req", count, **derived("x/ids", f"[{own}.numa + 2, {own}.socket + 0]")), match=["x/ids"])
        for count in (1, 2)
    ]
    allocator = Allocator(
        release,
        Cluster(release, []).state,
        {"gpu": make_class()},
        [make_slice("s", DEVICES)],
        selectors_for(release),
        draw_share_id=lambda: "share",
    )
    found = [allocator.allocate(make_node(), [claim]) or [] for claim in claims]
    names = [[names_of(each) for each in allocations] for allocations in found]
    assert names == [[["a"]], [["a", "b"]] if with_lists else []]
