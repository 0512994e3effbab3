"""How long a guest that keeps failing is left alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.wasm.quarantine import Admission, Quarantine, QuarantineRules

RULES = QuarantineRules(faults_in_a_row=3, first_s=1.0, longest_s=8.0, well_s=60.0)


def failed(quarantine: Quarantine, now: float, times: int = 3) -> bool:
    return [quarantine.failed(now) for _ in range(times)][-1]


def test_a_guest_is_admitted_until_it_fails_three_times_in_a_row() -> None:
    quarantine = Quarantine(RULES)
    assert [quarantine.failed(0), quarantine.failed(0)] == [False, False]
    assert quarantine.admission(0) is Admission.ADMITTED
    assert quarantine.failed(0)
    assert quarantine.admission(0) is Admission.REFUSED
    assert quarantine.is_quarantined


def test_a_success_in_between_starts_the_count_again() -> None:
    quarantine = Quarantine(RULES)
    failed(quarantine, 0, 2)
    assert not quarantine.succeeded(0)
    assert not failed(quarantine, 0, 2)
    assert quarantine.admission(0) is Admission.ADMITTED


def test_when_its_time_is_over_a_trial_decides() -> None:
    quarantine = Quarantine(RULES)
    failed(quarantine, 10.0)
    assert quarantine.left_s(10.25) == 0.75
    assert quarantine.admission(10.99) is Admission.REFUSED
    assert quarantine.admission(11.0) is Admission.TRIAL
    assert quarantine.succeeded(11.0)
    assert quarantine.admission(11.0) is Admission.ADMITTED
    assert quarantine.left_s(11.0) == 0


def test_one_failed_trial_is_enough_for_a_longer_quarantine() -> None:
    quarantine = Quarantine(RULES)
    failed(quarantine, 0)
    assert quarantine.failed(1.0)
    assert quarantine.admission(2.9) is Admission.REFUSED
    assert quarantine.admission(3.0) is Admission.TRIAL


def test_late_news_of_a_fault_does_not_lengthen_a_quarantine() -> None:
    quarantine = Quarantine(RULES)
    failed(quarantine, 0)
    assert not failed(quarantine, 0.5, 5)
    assert quarantine.left_s(0.5) == 0.5


def test_quarantines_double_up_to_a_bound() -> None:
    quarantine, now, lengths = Quarantine(RULES), 0.0, []
    failed(quarantine, now)
    for _ in range(5):
        lengths.append(quarantine.left_s(now))
        now += lengths[-1]
        quarantine.failed(now)
    assert lengths == [1, 2, 4, 8, 8]


def test_a_guest_that_starts_but_fails_again_waits_longer_each_time() -> None:
    quarantine = Quarantine(RULES)
    failed(quarantine, 0)
    quarantine.succeeded(1)
    failed(quarantine, 2)
    assert quarantine.left_s(2) == 2


def test_a_guest_that_was_well_for_a_while_begins_with_a_short_one() -> None:
    quarantine = Quarantine(RULES)
    failed(quarantine, 0)
    quarantine.failed(1)
    quarantine.succeeded(3)
    failed(quarantine, 63)
    assert quarantine.left_s(63) == 1


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20)), max_size=60))
def test_a_quarantine_is_never_longer_than_its_bound_and_always_ends_in_a_trial(
    steps: list[tuple[bool, int]],
) -> None:
    quarantine, now = Quarantine(RULES), 0.0
    for is_fault, passed in steps:
        now += passed
        if is_fault:
            quarantine.failed(now)
        elif quarantine.admission(now) is not Admission.REFUSED:
            quarantine.succeeded(now)
        assert 0 <= quarantine.left_s(now) <= RULES.longest_s
        assert quarantine.is_quarantined == (quarantine.admission(now) is not Admission.ADMITTED)
        assert quarantine.admission(now + RULES.longest_s) is not Admission.REFUSED
