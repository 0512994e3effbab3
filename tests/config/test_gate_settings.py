"""--feature-gates, with the rules and the words of kube-scheduler."""

from __future__ import annotations

import pytest

from kscheduler.config.gate_settings import parse_gates, with_settings
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.errors import ConfigError

BOTH = pytest.mark.parametrize("release", [RELEASE_1_36, RELEASE_1_37], ids=["1.36", "1.37"])


def test_settings_are_read_from_all_flags_and_the_last_one_counts() -> None:
    assert parse_gates(["A=true,B=false", "A=F", "", " C = 1 "]) == {"A": False, "B": False, "C": True}
    assert parse_gates(["kube:A=true", "kube:B=0"]) == {"A": True, "B": False}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["A"], "missing bool value for A"),
        (["A=maybe"], 'invalid value of A=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax'),
        (["wardle:A=true"], "component not registered: wardle"),
        (
            ["A=true,kube:B=true"],
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
        ),
    ],
)
def test_what_is_no_setting_is_refused_in_the_words_of_kube_scheduler(texts: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_gates(texts)
    assert str(raised.value) == message


@BOTH
@pytest.mark.parametrize("value", [True, False])
def test_an_implemented_gate_is_switched(release: Release, value: bool) -> None:
    for name in ("StorageCapacityScoring", "VolumeLimitScaling"):
        changed, warnings = with_settings(release, {name: value})
        assert changed.has(name) is value
        assert warnings == ()


def test_a_gate_that_one_release_alone_has_is_switched_there() -> None:
    settings = {"GenericWorkload": True, "PodGroupPreemptionPolicy": True}
    changed, warnings = with_settings(RELEASE_1_37, settings)
    assert changed.has("PodGroupPreemptionPolicy")
    assert warnings == ()
    with pytest.raises(ConfigError, match=r"^unrecognized feature gate: PodGroupPreemptionPolicy$"):
        with_settings(RELEASE_1_36, settings)


def test_a_gate_may_be_implemented_in_one_release_alone() -> None:
    settings = {"DRADeviceTaintRules": False}
    changed, warnings = with_settings(RELEASE_1_36.with_gates({"DRADeviceTaintRules": True}), settings)
    assert not changed.has("DRADeviceTaintRules")
    assert warnings == ()
    unswitched, warnings = with_settings(RELEASE_1_37, settings)
    assert unswitched == RELEASE_1_37
    assert warnings == ("--feature-gates DRADeviceTaintRules=false has no effect: kscheduler has one behaviour",)


def test_a_gate_of_one_release_is_unknown_in_another() -> None:
    needed = {"GenericWorkload": True, "GangScheduling": True}
    changed, warnings = with_settings(RELEASE_1_36, {**needed, "WorkloadAwarePreemption": True})
    assert changed.has("WorkloadAwarePreemption")
    assert warnings == ()
    with pytest.raises(ConfigError, match=r"^unrecognized feature gate: WorkloadAwarePreemption$"):
        with_settings(RELEASE_1_37, {"WorkloadAwarePreemption": True})


@BOTH
def test_all_gates_of_a_stage_are_switched_but_those_that_are_set(release: Release) -> None:
    stage = "AllAlpha" if release is RELEASE_1_36 else "AllBeta"
    value = not release.has("StorageCapacityScoring")
    changed, _ = with_settings(release, {"VolumeLimitScaling": not value, stage: value})
    assert changed.has("StorageCapacityScoring") is value
    assert changed.has("VolumeLimitScaling") is not value
    other, _ = with_settings(release, {"AllBeta" if stage == "AllAlpha" else "AllAlpha": value})
    assert other.set_gates.keys() <= {"DRADeviceTaintRules"}  # of 1.36: beta, and off


def test_gates_that_all_gates_of_a_stage_do_not_switch_are_named() -> None:
    settings = {"AllBeta": True, "DRAWorkloadResourceClaims": False, "GenericWorkload": True}
    _, warnings = with_settings(RELEASE_1_37, settings)
    assert warnings == (
        "--feature-gates AllBeta=true has no effect on SchedulerAsyncAPICalls: kscheduler has one behaviour",
    )
    _, warnings = with_settings(RELEASE_1_37, settings | {"SchedulerAsyncAPICalls": False})
    assert warnings == ()


@pytest.mark.parametrize("name", ["SchedulerQueueingHints", "SidecarContainers"])
def test_a_gate_that_was_removed_is_locked_before_and_unknown_after(name: str) -> None:
    release, warnings = with_settings(RELEASE_1_36, {name: True})
    assert release == RELEASE_1_36
    assert warnings == (
        f"--feature-gates {name}=true: setting GA feature gate. It will be removed in a future release.",
    )
    with pytest.raises(ConfigError, match=f"^cannot set feature gate {name} to false, feature is locked to true$"):
        with_settings(RELEASE_1_36, {name: False})
    with pytest.raises(ConfigError, match=f"^unrecognized feature gate: {name}$"):
        with_settings(RELEASE_1_37, {name: True})


@BOTH
def test_a_gate_that_no_release_has_is_unknown(release: Release) -> None:
    with pytest.raises(ConfigError, match=r"^unrecognized feature gate: Foo$"):
        with_settings(release, {"StorageCapacityScoring": True, "Foo": True})


def test_all_gates_that_are_locked_are_named() -> None:
    with pytest.raises(ConfigError) as raised:
        with_settings(RELEASE_1_37, {"DRAAdminAccess": False, "GitRepoVolumeDriver": True, "NodeSwap": True})
    assert str(raised.value) == (
        "[cannot set feature gate DRAAdminAccess to false, feature is locked to true, "
        "cannot set feature gate GitRepoVolumeDriver to true, feature is locked to false]"
    )


@BOTH
def test_other_gates_are_accepted_with_a_warning_that_they_have_no_effect(release: Release) -> None:
    settings = {"OpportunisticBatching": False, "APIResponseCompression": False, "MemoryQoS": release.version == "1.37"}
    changed, warnings = with_settings(release, settings)
    assert changed == release
    assert warnings == (
        "--feature-gates OpportunisticBatching=false has no effect: kscheduler has one behaviour",
        "--feature-gates APIResponseCompression=false has no effect: it is of other parts of Kubernetes",
    )


def test_a_gate_that_is_on_without_those_on_which_it_depends_is_refused() -> None:
    with pytest.raises(ConfigError) as raised:
        with_settings(RELEASE_1_36, {"GangScheduling": True, "TopologyAwareWorkloadScheduling": True})
    assert str(raised.value) == (
        "[GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload], "
        "TopologyAwareWorkloadScheduling is enabled, but depends on features that are disabled: [GenericWorkload]]"
    )


def test_gates_that_a_release_was_given_before_count_as_dependencies() -> None:
    before = RELEASE_1_36.with_gates({"GenericWorkload": True})
    changed, _ = with_settings(before, {"GangScheduling": True})
    assert changed.has("GangScheduling")
