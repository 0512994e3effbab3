"""Taints of devices, tolerations of requests, and DeviceTaintRules."""

from __future__ import annotations

import pytest

from kscheduler.api.devices import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    DeviceToleration,
)
from kscheduler.config.releases import Release
from kscheduler.devices.taints import with_taint_rules
from tests.devices.building import (
    DRIVER,
    NEW,
    OLD,
    Cluster,
    device,
    devices,
    make_claim,
    make_slice,
    request,
    request_all,
    toleration,
)

BROKEN = DeviceTaint("broken", "fan", "NoSchedule")
OLD_WITH_RULES = OLD.with_gates({"DRADeviceTaintRules": True})


def rule(selector: DeviceTaintSelector | None, taint: DeviceTaint = BROKEN) -> DeviceTaintRule:
    return DeviceTaintRule(spec=DeviceTaintRuleSpec(selector, taint))


@pytest.mark.parametrize(
    ("effect", "is_prevented"),
    [("NoSchedule", True), ("NoExecute", True), ("None", False), ("PreferNoSchedule", False), ("Other", False)],
)
def test_only_known_effects_keep_a_device_from_being_allocated(
    release: Release, effect: str, is_prevented: bool
) -> None:
    slices = [make_slice("s", [device("a", taints=[DeviceTaint("broken", "", effect)]), device("b")])]
    assert Cluster(release, slices).chosen(make_claim(request())) == [["b" if is_prevented else "a"]]


@pytest.mark.parametrize(
    ("tolerated", "is_enough"),
    [
        (toleration(), True),
        (toleration("broken"), True),
        (toleration("other"), False),
        (toleration("broken", "Equal", "fan"), True),
        (toleration("broken", "", "fan"), True),
        (toleration("broken", "Equal", "disk"), False),
        (toleration("broken", effect="NoSchedule"), True),
        (toleration("broken", effect="NoExecute"), False),
        (toleration("broken", "Future"), False),
    ],
)
def test_a_request_gets_tainted_devices_that_it_tolerates(
    release: Release, tolerated: DeviceToleration, is_enough: bool
) -> None:
    cluster = Cluster(release, [make_slice("s", [device("a", taints=[BROKEN])])])
    found = cluster.chosen(make_claim(request(tolerations=[tolerated])))
    assert found == ([["a"]] if is_enough else None)


def test_every_taint_has_to_be_tolerated(release: Release) -> None:
    taints = [BROKEN, DeviceTaint("hot", "", "NoExecute")]
    cluster = Cluster(release, [make_slice("s", [device("a", taints=taints)])])
    assert cluster.allocate(make_claim(request(tolerations=[toleration("broken")]))) is None
    both = [toleration("broken"), toleration("hot")]
    assert cluster.chosen(make_claim(request(tolerations=both))) == [["a"]]


def test_a_tainted_device_makes_a_request_for_all_fail(release: Release) -> None:
    slices = [make_slice("s", [device("a"), device("b", taints=[BROKEN])])]
    assert Cluster(release, slices).allocate(make_claim(request_all())) is None


def test_taints_are_ignored_while_their_gate_is_off(release: Release) -> None:
    off = release.with_gates({"DRADeviceTaints": False})
    cluster = Cluster(off, [make_slice("s", [device("a", taints=[BROKEN])])])
    assert cluster.chosen(make_claim(request())) == [["a"]]


# --- rules ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "tainted"),
    [
        (DeviceTaintSelector(), ["a", "b", "x"]),
        (DeviceTaintSelector(driver=DRIVER), ["a", "b", "x"]),
        (DeviceTaintSelector(driver="other"), []),
        (DeviceTaintSelector(pool="pool"), ["a", "b"]),
        (DeviceTaintSelector(device="b"), ["b"]),
        (DeviceTaintSelector(driver=DRIVER, pool="other", device="x"), ["x"]),
        (DeviceTaintSelector(driver=DRIVER, pool="pool", device="x"), []),
    ],
)
def test_a_rule_taints_the_devices_that_its_selector_names(selector: DeviceTaintSelector, tainted: list[str]) -> None:
    slices = [make_slice("s1", devices("a", "b")), make_slice("s2", devices("x"), pool="other")]
    patched = [with_taint_rules(each, [rule(selector)], NEW) for each in slices]
    found = [each for published in patched for each in published.spec.devices or ()]
    assert [each.name for each in found if each.taints == [BROKEN]] == tainted
    assert [each.name for each in found if not each.taints] == [n for n in ("a", "b", "x") if n not in tainted]


def test_a_rule_without_a_selector_taints_all_devices_in_1_36_and_none_since_1_37() -> None:
    published = make_slice("s", devices("a"))
    assert with_taint_rules(published, [rule(None)], NEW) is published
    patched = with_taint_rules(published, [rule(None)], OLD_WITH_RULES)
    assert (patched.spec.devices or [])[0].taints == [BROKEN]


def test_rules_do_nothing_while_their_gate_is_off() -> None:
    published = make_slice("s", devices("a"))
    assert with_taint_rules(published, [rule(DeviceTaintSelector())], OLD) is published


def test_taints_of_rules_come_behind_those_of_the_device_and_slices_without_are_kept() -> None:
    hot, cold = DeviceTaint("hot", "", "NoSchedule"), DeviceTaint("cold", "", "NoSchedule")
    slices = [make_slice("s1", [device("a", taints=[BROKEN])]), make_slice("s2", devices("x"), pool="other")]
    rules = [rule(DeviceTaintSelector(device="a"), hot), rule(DeviceTaintSelector(pool="pool"), cold)]
    patched = [with_taint_rules(each, rules, NEW) for each in slices]
    assert (patched[0].spec.devices or [])[0].taints == [BROKEN, hot, cold]
    assert patched[1] is slices[1]
    assert (slices[0].spec.devices or [])[0].taints == [BROKEN]
