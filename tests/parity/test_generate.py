"""What generated cases have: it needs no Go."""

from __future__ import annotations

import json
import random
from collections import Counter

from kscheduler.config.load import parse_config
from tests.parity.case import EVALUATE, Case
from tests.parity.generate import HEAD, generate
from tests.parity.generate_arguments import add_rarer_arguments
from tests.parity.generate_newer import add_newer
from tests.parity.generate_rarer import RARITIES


def test_no_capacity_states_the_size_of_a_volume_alone_where_kube_scheduler_scores_it_and_crashes() -> None:
    capacity = {"metadata": {"name": "k0"}, "storageClassName": "fast", "maximumVolumeSize": "1Gi"}
    case = Case(0, EVALUATE, {"profiles": []}, {"nodes": [], "csiStorageCapacities": [capacity]}, [], "1.37")
    add_newer(case)
    assert case.cluster["csiStorageCapacities"][0]["capacity"] == "1Gi"


def test_every_rarity_changes_some_cases() -> None:
    changed: Counter[str] = Counter()
    for seed in range(12):
        before = generate(seed)
        for give in RARITIES:
            after = before.copy()
            give(random.Random(seed), after)
            changed[give.__name__] += str(after) != str(before)
    assert min(changed[give.__name__] for give in RARITIES) > 0, changed


def test_rarer_arguments_are_given_to_every_kind_of_plugin_that_takes_them() -> None:
    given: Counter[str] = Counter()
    for seed in range(60):
        case = Case(seed, EVALUATE, {**HEAD, "profiles": [{"schedulerName": "a"}]}, {"nodes": []})
        add_rarer_arguments(case)
        parse_config(json.dumps(case.config))
        given.update(each["name"] for each in case.config["profiles"][0].get("pluginConfig", ()))
    expected = {"PodTopologySpread", "NodeAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation"}
    assert set(given) == expected, given
