"""The bench of a Prometheus that dies in mid-run: its sums are right, and its configuration is one."""

from __future__ import annotations

import pytest
import yaml

from kscheduler.config.load import parse_config
from kscheduler.framework.plugins.registry import known_plugins
from perf.live_metrics import ALIVE, Half, Mark, Result, configuration, half, longest_pause, table


def test_a_half_is_what_happened_between_two_marks() -> None:
    assert half(Mark(10.0, 100, 1.0), Mark(14.0, 500, 1.5)) == Half(pods_per_s=100.0, cpu_us_per_pod=1250.0)


def test_a_pause_before_the_fault_does_not_count() -> None:
    assert longest_pause([0.0, 5.0, 5.1, 6.1, 6.2], since=5.0) == pytest.approx(1.0)
    assert longest_pause([0.0], since=5.0) == 0.0


def test_ratios_are_compared_to_those_of_the_run_of_the_same_round_in_which_nothing_happened() -> None:
    alive = Result(ALIVE, Half(100.0, 300.0), Half(50.0, 300.0), 0.1, 0)
    killed = Result("killed", Half(100.0, 300.0), Half(25.0, 200.0), 0.2, 9)
    lines = table([{ALIVE: alive, "killed": killed}]).splitlines()
    assert lines[1].split()[3:7] == ["1.00", "(1.00", "..", "1.00)"]
    words = "killed 100 25 0.50 (0.50 .. 0.50) 300 200 1.50 (1.50 .. 1.50) 0.20 s 9"
    assert lines[2].split() == words.split()


def test_its_configuration_is_valid() -> None:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    text = yaml.safe_dump({**head, **configuration("http://127.0.0.1:9090")})
    assert parse_config(text, find_plugins=known_plugins).profiles
