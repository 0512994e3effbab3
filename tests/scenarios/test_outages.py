"""What a scheduler logs about an apiserver that is down, with all the kinds that a configuration can ask for."""

from __future__ import annotations

import asyncio
import logging
import random

import pytest

from kscheduler.client.outages import Outages
from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.config.load import parse_config
from kscheduler.framework.plugins.registry import known_plugins
from kscheduler.scheduler import Options
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from tests.scenarios.gangs import HEAD
from tests.scenarios.policies import source_of
from tests.support.world import World

WITH_FURTHER_KINDS = """
profiles:
- plugins:
    multiPoint: {enabled: [{name: MetricPolicy}]}
    permit: {enabled: [{name: Coscheduling}]}
  pluginConfig:
  - name: MetricPolicy
    args:
      sources: [{name: fake, prometheus: {url: "http://127.0.0.1:9"}, interval: 10s, timeout: 2s}]
      metrics: [{name: load, source: fake, query: load}]
      policyObjects: true
"""


def test_an_apiserver_that_is_down_is_logged_once_for_gangs_and_policy_objects_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        options = Options(pauses=RetryPauses(random.Random(1)), outages=Outages(clock))
        config = parse_config(HEAD + WITH_FURTHER_KINDS, find_plugins=known_plugins)
        async with World(config=config, options=options, metric_source=lambda _: source_of()) as world:
            await world.sleep(10.0)
            world.cluster.stop()
            await world.sleep(100.0)
            world.cluster.start()
            await world.sleep(700.0)

    caplog.set_level(logging.INFO, logger="kscheduler.client.informer")
    run_virtual(scenario())
    complete = [record for record in caplog.records if record.getMessage() == "list complete"]
    *failed, end = [record for record in caplog.records if record.getMessage() != "list complete"]
    assert {record.getMessage() for record in failed} == {"list or watch failed"}
    errors = [vars(record)["err"] for record in failed]
    assert len(errors) == len(set(errors)), "each cause once: the watches that broke, and what was refused after that"
    assert end.getMessage() == "list and watch work again"
    listed = {vars(record)["resource"] for record in complete}
    assert {"podgroups", "metricpolicies"} <= listed
    assert vars(end)["kinds"] == len(listed)
