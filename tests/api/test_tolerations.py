"""Tolerations match taints by the API's rules."""

from __future__ import annotations

import pytest

from kscheduler.api.objects import Taint, Toleration
from kscheduler.api.tolerations import count_intolerable_prefer_no_schedule, find_untolerated, tolerates

GPU = Taint("gpu", "yes", "NoSchedule")


@pytest.mark.parametrize(
    ("sentence", "toleration", "expected"),
    [
        ("the same key, value and effect", Toleration("gpu", "Equal", "yes", "NoSchedule"), True),
        ("no operator means Equal", Toleration("gpu", "", "yes", "NoSchedule"), True),
        ("another value", Toleration("gpu", "Equal", "no", "NoSchedule"), False),
        ("another key", Toleration("cpu", "Equal", "yes", "NoSchedule"), False),
        ("another effect", Toleration("gpu", "Equal", "yes", "NoExecute"), False),
        ("no effect means any", Toleration("gpu", "Equal", "yes"), True),
        ("Exists does not look at the value", Toleration("gpu", "Exists", "", "NoSchedule"), True),
        ("no key and Exists means everything", Toleration("", "Exists"), True),
        ("no key and Exists, for another effect", Toleration("", "Exists", "", "NoExecute"), False),
        ("no key and Equal compares the value", Toleration("", "Equal", "yes"), True),
        ("an empty toleration tolerates taints without a value", Toleration(), False),
        ("Gt is off by default", Toleration("gpu", "Gt", "1"), False),
        ("an unknown operator never matches", Toleration("gpu", "exists"), False),
    ],
)
def test_a_toleration_matches_a_taint(sentence: str, toleration: Toleration, expected: bool) -> None:
    assert tolerates(toleration, GPU) is expected, sentence


def test_the_first_untolerated_taint_of_the_asked_effects_is_found() -> None:
    soft, hard, harder = Taint("a", "", "PreferNoSchedule"), Taint("b", "", "NoSchedule"), Taint("c", "", "NoExecute")
    keep_off = ("NoSchedule", "NoExecute")
    assert find_untolerated((soft, hard, harder), (), keep_off) == hard
    assert find_untolerated((soft, hard, harder), (Toleration("b", "Exists"),), keep_off) == harder
    assert find_untolerated((soft, hard, harder), (Toleration("", "Exists"),), keep_off) is None
    assert find_untolerated((soft,), None, keep_off) is None
    assert find_untolerated(None, None, keep_off) is None


def test_only_tolerations_for_the_soft_effect_count_in_scoring() -> None:
    taints = (Taint("a", "", "PreferNoSchedule"), Taint("b", "", "PreferNoSchedule"), GPU)
    assert count_intolerable_prefer_no_schedule(taints, ()) == 2
    assert count_intolerable_prefer_no_schedule(taints, (Toleration("a", "Exists", "", "NoSchedule"),)) == 2
    assert count_intolerable_prefer_no_schedule(taints, (Toleration("a", "Exists", "", "PreferNoSchedule"),)) == 1
    assert count_intolerable_prefer_no_schedule(taints, (Toleration("", "Exists"),)) == 0
    assert count_intolerable_prefer_no_schedule(None, None) == 0
