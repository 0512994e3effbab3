from __future__ import annotations

from kscheduler.telemetry.limits import BASE_BYTES, BASE_ELEMENTS, MOST_BYTES, AnswerLimits
from kscheduler.telemetry.readings import TOO_MANY, ReadingBuilder


def test_limits_grow_with_the_cluster_up_to_a_bound() -> None:
    assert AnswerLimits(lambda: 0).bytes == BASE_BYTES
    assert AnswerLimits(lambda: 5_000).bytes > 5_000 * 1_000
    assert AnswerLimits(lambda: 10_000_000).bytes == MOST_BYTES
    assert AnswerLimits(lambda: 100).elements == BASE_ELEMENTS + 200


def test_what_is_too_much_is_refused_and_the_first_are_kept() -> None:
    builder = ReadingBuilder()
    elements = list(range(BASE_ELEMENTS + 5))
    assert AnswerLimits(lambda: 0).first(elements, builder) == elements[:BASE_ELEMENTS]
    assert builder.reading().refused == {TOO_MANY: 5}


def test_an_honest_answer_is_kept_whole() -> None:
    builder = ReadingBuilder()
    elements = list(range(BASE_ELEMENTS))
    assert AnswerLimits(lambda: 0).first(elements, builder) is elements
    assert not builder.reading().refused
