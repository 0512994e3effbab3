"""The cases of upstream's own allocator tests: ours answers each as kube-scheduler's allocator does.

Each is tried with just the feature gates it is about, as upstream does, and with those that are on by default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.parity.devices.case import DeviceCase
from tests.parity.devices.compare import all_differences
from tests.parity.devices.oracle import DeviceAnswer
from tests.parity.devices.upstream_tables import TableCase, upstream_tables

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

LISTS = ("ints", "bools", "strings", "versions")  # attributes with many values, which an apiserver stores with the gate
UNREADABLE = {  # cases that do not survive as JSON, and so never come from an apiserver
    "consumable-capacity-requests-are-not-modified": "10^21, which Go writes as 1",
    "list-attributes-distinct-constaint-with-empty-or-unknown-type": "an empty list, which Go leaves out",
}
SKIPPED = {  # release -> how many cases are not tried with their own gates, and with the default ones
    "1.36": (1, 1),
    "1.37": (4, 24),
}


@pytest.fixture(scope="module")
def tables(release: str) -> list[TableCase]:
    return upstream_tables(release)


def test_cases_with_their_own_gates_are_decided_as_by_kube_scheduler(tables: list[TableCase], release: str) -> None:
    tried = [each for each in tables if _reason_to_skip(each, with_own_gates=True) is None]
    assert _differing((each.name, *each.with_own_gates()) for each in tried) == []
    assert len(tables) - len(tried) == SKIPPED[release][0], _reasons(tables, with_own_gates=True)


def test_cases_with_default_gates_are_decided_as_by_kube_scheduler(tables: list[TableCase], release: str) -> None:
    tried = [each for each in tables if _reason_to_skip(each, with_own_gates=False) is None]
    assert _differing((each.name, *each.with_default_gates()) for each in tried) == []
    assert len(tables) - len(tried) == SKIPPED[release][1], _reasons(tables, with_own_gates=False)


def _differing(cases: Iterator[tuple[str, DeviceCase, DeviceAnswer]]) -> list[str]:
    """For each case that differs, its name and the first difference."""
    return [
        f"{name}: {differences[0][1]}" for name, case, answer in cases if (differences := all_differences(case, answer))
    ]


def _reason_to_skip(case: TableCase, *, with_own_gates: bool) -> str | None:
    if case.name in UNREADABLE:
        return UNREADABLE[case.name]
    has_gate = with_own_gates and "DRAListTypeAttributes" in case.needs
    if case.release != "1.36" and not has_gate and _has_list_attributes(case):  # 1.37 reads them without the gate, too
        return "attributes with many values"
    return None


def _has_list_attributes(case: TableCase) -> bool:
    return any(
        name in attribute
        for published in case.cluster["resourceSlices"]
        for device in published["spec"].get("devices") or ()
        for attribute in (device.get("attributes") or {}).values()
        for name in LISTS
    )


def _reasons(tables: list[TableCase], *, with_own_gates: bool) -> Counter[str | None]:
    return Counter(_reason_to_skip(each, with_own_gates=with_own_gates) for each in tables)
