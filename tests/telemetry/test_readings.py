from __future__ import annotations

from kscheduler.telemetry.readings import DUPLICATE, TOO_MANY, ReadingBuilder, Sample


def test_elements_become_samples_by_node() -> None:
    builder = ReadingBuilder()
    builder.add("a", 1.0, 100.0)
    builder.add("b", 2.0)
    reading = builder.reading(window_s=60.0)
    assert reading.samples == {"a": Sample(1.0, 100.0), "b": Sample(2.0, None)}
    assert reading.window_s == 60.0
    assert not reading.refused


def test_two_values_for_one_node_void_each_other_however_often_they_come() -> None:
    builder = ReadingBuilder()
    for value in (1.0, 2.0, 1.0, 3.0):
        builder.add("a", value)
    builder.add("b", 5.0)
    reading = builder.reading()
    assert reading.samples == {"b": Sample(5.0)}
    assert reading.refused == {DUPLICATE: 4}


def test_a_repetition_of_the_same_value_is_harmless() -> None:
    builder = ReadingBuilder()
    builder.add("a", 1.0)
    builder.add("a", 1.0)
    reading = builder.reading()
    assert reading.samples == {"a": Sample(1.0)}
    assert reading.refused == {DUPLICATE: 1}


def test_refusals_add_up() -> None:
    builder = ReadingBuilder()
    builder.refuse(TOO_MANY, 3)
    builder.refuse(TOO_MANY)
    assert builder.reading().refused == {TOO_MANY: 4}
