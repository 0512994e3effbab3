"""The status of a Coscheduling PodGroup, by the rules of scheduler-plugins' own controller."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.objects import ObjectMeta, OwnerReference
from kscheduler.api.pod_groups import (
    CoschedulingPodGroup,
    CoschedulingPodGroupSpec,
    CoschedulingPodGroupStatus,
    GroupPod,
    GroupPodStatus,
)
from kscheduler.gangs.phases import FINAL, status_of

Status = CoschedulingPodGroupStatus


def group(least: int, status: Status) -> CoschedulingPodGroup:
    meta = ObjectMeta(name="train", namespace="shop")
    return CoschedulingPodGroup(metadata=meta, spec=CoschedulingPodGroupSpec(min_member=least), status=status)


def pods(*phases: str, owners: tuple[str, ...] = ()) -> dict[str, GroupPod]:
    owned = [OwnerReference(name=owner) for owner in owners] or None
    names = [f"train-{number}" for number in range(len(phases))]
    return {
        name: GroupPod(ObjectMeta(name=name, namespace="shop", owner_references=owned), GroupPodStatus(phase))
        for name, phase in zip(names, phases, strict=True)
    }


def shown(least: int, before: Status, *phases: str) -> tuple[str, int, int, int]:
    status = status_of(group(least, before), pods(*phases))
    return status.phase, status.running, status.succeeded, status.failed


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        ((), ("Pending", 0, 0, 0)),
        (("Pending",), ("Pending", 0, 0, 0)),
        (("Running",), ("Pending", 0, 0, 0)),  # numbers are first counted once enough pods exist
        (("Pending", "Pending"), ("Scheduling", 0, 0, 0)),
        (("Running", "Pending"), ("Scheduling", 1, 0, 0)),
        (("Running", "Running", "Pending"), ("Running", 2, 0, 0)),
        (("Running", "Succeeded"), ("Running", 1, 1, 0)),
        (("Succeeded", "Succeeded", "Running"), ("Finished", 1, 2, 0)),
        (("Failed", "Running"), ("Failed", 1, 0, 1)),
        (("Failed", "Pending"), ("Scheduling", 0, 0, 1)),
        (("Failed", "Succeeded", "Succeeded"), ("Finished", 0, 2, 1)),
    ],
)
def test_the_phase_follows_from_the_pods(phases: tuple[str, ...], expected: tuple[str, int, int, int]) -> None:
    assert shown(2, Status(), *phases) == expected


def test_a_group_that_loses_pods_is_pending_again_with_the_numbers_of_those_left() -> None:
    assert shown(2, Status(phase="Running", running=2), "Running") == ("Pending", 1, 0, 0)


@pytest.mark.parametrize("phase", FINAL)
def test_a_final_phase_stays_whatever_the_pods_do(phase: str) -> None:
    before = Status(phase=phase, succeeded=2)
    assert status_of(group(2, before), pods("Running", "Running", "Running")) == before


def test_the_owners_of_the_first_pod_say_whose_the_group_is_and_stay_so() -> None:
    first = status_of(group(2, Status()), pods("Pending", "Pending", owners=("zoo", "job")))
    assert first.occupied_by == "shop/job,shop/zoo"
    assert status_of(group(2, first), pods("Running", "Running", owners=("later",))).occupied_by == "shop/job,shop/zoo"


def test_the_start_time_that_others_wrote_is_kept() -> None:
    before = Status(phase="Scheduling", schedule_start_time="2026-01-01T00:00:00Z")
    assert status_of(group(1, before), pods("Running")) == replace(before, phase="Running", running=1)


PHASES = st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"])


@given(
    before=st.builds(
        Status, phase=st.sampled_from(["", "Pending", "Scheduling", "Running", "Unknown", "PreScheduling"])
    ),
    least=st.integers(0, 4),
    phases=st.lists(PHASES, max_size=6),
)
def test_a_status_once_written_says_the_same_the_next_time(before: Status, least: int, phases: list[str]) -> None:
    """Else the write would cause the next one, without end."""
    found = pods(*phases)
    once = status_of(group(least, before), found)
    assert status_of(group(least, once), found) == once
    assert once.phase in ("Pending", "Scheduling", "Running", *FINAL)
