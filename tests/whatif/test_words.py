"""Every change of a what-if is in the answer, in words."""

from __future__ import annotations

from kscheduler.whatif.capacity import Trial
from kscheduler.whatif.words import changes_in_words, trial_in_words
from tests.whatif.scenarios import read


def test_each_change_is_a_phrase() -> None:
    arguments = read(
        *("--remove-nodes", "2:small", "--add-nodes", "1:gpu-8", "--cordon", "n0", "--uncordon", "all"),
        *("--taint", "pool=web", "a=b:NoSchedule", "--taint", "n0", "c:NoExecute-", "--new-config", "b.yaml"),
        *("--plugin", "A", "--no-plugin", "B", "--weight", "NodeAffinity=5", "--set", "podMaxBackoffSeconds=7"),
    )
    assert list(changes_in_words(arguments, None)) == [
        "without the nodes 2:small",
        "with 1 more node (gpu-8)",
        "with n0 cordoned",
        "with all uncordoned",
        "with the taint a=b:NoSchedule on pool=web",
        "without the taint c:NoExecute on n0",
        "with the configuration b.yaml",
        "with plugin A",
        "without plugin B",
        "with weight 5 of NodeAffinity",
        "with podMaxBackoffSeconds = 7",
    ]


def test_the_number_that_was_found_is_in_the_words() -> None:
    arguments = read("--find", "min-nodes", "--slo", "unplaced <= 0", "--add-nodes", "general-32")
    assert list(changes_in_words(arguments, 1_200)) == ["with 1,200 more nodes (general-32)"]


def test_a_trial_is_a_phrase() -> None:
    assert trial_in_words(Trial(3, ["unplaced = 4", "placed = 9.00 %"], False)) == (
        "3 more: unplaced = 4, placed = 9.00 %: not met"
    )
