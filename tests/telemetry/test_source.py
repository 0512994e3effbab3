from __future__ import annotations

from collections.abc import Callable

import pytest

from kscheduler.telemetry.source import (
    DUPLICATE,
    NOT_A_NUMBER,
    TOO_MANY,
    UNKNOWN_NODE,
    ReadingBuilder,
    Sample,
    why_useless,
)


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


def nothing(builder: ReadingBuilder) -> None:
    pass


def not_numbers(builder: ReadingBuilder) -> None:
    builder.refuse(NOT_A_NUMBER, 2)


def no_such_label(builder: ReadingBuilder) -> None:
    builder.refuse_nameless(["job", "instance"], "host")
    builder.refuse_nameless(["other"], "host")


def no_labels(builder: ReadingBuilder) -> None:
    builder.refuse_nameless([], "node or instance")


def names_of_others(builder: ReadingBuilder) -> None:
    builder.add("10.0.0.7", 1.0)


@pytest.mark.parametrize(
    ("add", "expected"),
    [
        (nothing, "expected a value for each node, got an empty answer"),
        (not_numbers, "expected a value for each node, got none that can be used: nan"),
        (no_such_label, "expected the label host to name a node, got the labels instance, job"),
        (no_labels, "expected the label node or instance to name a node, got the labels none"),
        (names_of_others, "expected the names of nodes, got '10.0.0.7' for one"),
    ],
)
def test_a_reading_without_a_value_for_any_node_says_what_it_has_instead(
    add: Callable[[ReadingBuilder], None], expected: str
) -> None:
    builder = ReadingBuilder()
    add(builder)
    assert why_useless(builder.reading()) == expected


def test_an_element_without_a_name_counts_as_one_about_an_unknown_node() -> None:
    builder = ReadingBuilder()
    builder.refuse_nameless(["x" * 10_000], "node")
    assert builder.reading().refused == {UNKNOWN_NODE: 1}
    assert len(builder.reading().nameless) < 300
