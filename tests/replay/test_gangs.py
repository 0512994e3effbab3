"""A record holds no gangs yet: a configuration with them is refused, whether it is to be recorded or to be replayed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kscheduler.config.load import parse_config
from kscheduler.errors import ConfigError
from kscheduler.observability.metrics import Metrics
from kscheduler.record.entries import Start
from kscheduler.replay.recording import RecordedScheduler, RecordingOptions
from kscheduler.replay.replayed import ReplayedScheduler
from kscheduler.scheduler import Options
from kscheduler.simulator.cluster import Cluster
from tests.support.clocks import ManualClock

CONFIG = parse_config(
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    "profiles: [{plugins: {permit: {enabled: [{name: Coscheduling}]}}}]\n"
)


async def test_gangs_are_not_recorded(tmp_path: Path) -> None:
    clock = ManualClock()
    with pytest.raises(ConfigError, match="a configuration whose decisions a record can hold, got gangs"):
        RecordedScheduler(
            Cluster(clock).client(),
            CONFIG,
            recording=RecordingOptions(tmp_path / "record.zst"),
            clock=clock,
            rng=random.Random(0),
            metrics=Metrics(process=False),
            stopwatch=clock.now,
            options=Options(),
        )


async def test_gangs_are_not_replayed() -> None:
    with pytest.raises(ConfigError, match="a configuration that a record suffices for, got gangs"):
        ReplayedScheduler(CONFIG, Start(0, 0, 1, False, True, 300.0, 0.0), Options())
