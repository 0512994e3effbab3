from __future__ import annotations

from kscheduler.config.metric_policy import Metric
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.telemetry.source import NOT_A_NUMBER, Reading, Sample
from kscheduler.telemetry.sources.node_fields import NodeFieldsSource
from kscheduler.testing.wrappers import make_node
from tests.support.clocks import ManualClock


async def read(metric: Metric) -> Reading:
    table = NodeTable()
    table.set_node(make_node("a").label(price="35m", since="2023-11-14T22:13:20Z").obj())
    table.set_node(make_node("b").label(price="cheap", since="long ago").obj())
    table.set_node(make_node("c").obj())
    clock = ManualClock(epoch=1_700_000_060.0)
    return (await NodeFieldsSource(table, clock).fetch([metric])).by_metric[metric.name]


async def test_a_label_is_a_quantity() -> None:
    reading = await read(Metric(name="price", source="n", label="price"))
    assert reading.samples == {"a": Sample(0.035, None)}
    assert reading.refused == {NOT_A_NUMBER: 1}


async def test_of_a_time_the_age_counts() -> None:
    reading = await read(Metric(name="age", source="n", label="since", is_time=True))
    assert reading.samples == {"a": Sample(60.0, None)}
    assert reading.refused == {NOT_A_NUMBER: 1}


async def test_annotations_are_fields_too() -> None:
    reading = await read(Metric(name="price", source="n", annotation="price"))
    assert not reading.samples
    assert not reading.refused
