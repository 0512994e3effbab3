"""All that a scheduler emits about a pod, for tests that look for something in it."""

from __future__ import annotations

from kscheduler.config.types import SchedulerConfig
from kscheduler.explain.explainer import Leadership
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.scheduler import Options
from kscheduler.simulator.blocking_webhook import BlockingWebhook
from kscheduler.testing import make_pod
from tests.support.world import World


async def emitted_about_a_pod(config: SchedulerConfig) -> list[str]:
    """Schedule a pod in virtual time, with real extenders; its Events, its condition, metrics and its explanation."""
    async with World(
        config=config,
        options=Options(explain=DecisionLogOptions()),
        extender_endpoint=BlockingWebhook,
        expect_conditions=False,
    ) as world:
        world.add_nodes(2)
        world.add_pod(make_pod("p"))
        await world.until(lambda: bool(world.events("p")))
        explainer = world.scheduler.explainer(lambda: Leadership("me", True, "me"))
        assert explainer is not None
        return [
            *map(repr, [world.events("p"), world.condition("p"), world.describe()]),
            world.metrics.exposition().decode(),
            repr(explainer.explain("default/p", all_nodes=True)),
        ]
