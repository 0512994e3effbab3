"""What one extender's answers mean, and how each question is counted."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kscheduler.api.documents import PodDocument, WholeMeta
from kscheduler.config.types import Extender as ExtenderConfig
from kscheduler.errors import PluginError
from kscheduler.extenders.extender import Extender
from kscheduler.extenders.wire import Victims
from kscheduler.input.redaction import SecretURL
from kscheduler.observability.measurements import Measurements

POD = PodDocument(WholeMeta(name="p", namespace="d", uid="u"))


class Desk(Measurements):
    """Endpoint and observer: gives one answer, and writes down what was counted."""

    url = SecretURL("http://host")

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self._answer = answer
        self.verbs: list[str] = []
        self.counted: list[tuple[str, str, str]] = []

    async def ask(self, verb: str, question: bytes) -> bytes:
        self.verbs.append(verb)
        if isinstance(self._answer, BaseException):
            raise self._answer
        return json.dumps(self._answer).encode()

    async def close(self) -> None:
        pass

    def extender_asked(self, extender: str, verb: str, result: str, seconds: float) -> None:
        self.counted.append((extender, verb, result))


def extender(desk: Desk, **fields: Any) -> Extender:
    verbs = {"filter_verb": "f", "prioritize_verb": "s", "preempt_verb": "x", "bind_verb": "b"}
    config = ExtenderConfig(
        url_prefix=SecretURL("http://host"), node_cache_capable=True, weight=3, **{**verbs, **fields}
    )
    return Extender(config, desk, desk, lambda: 0.0)


async def test_each_question_goes_to_its_verb_and_is_counted_under_what_it_is() -> None:
    desk = Desk({})
    one = extender(desk)
    await one.filter(POD, ["a"], None)
    await one.bind("d", "p", "u", "a")
    await one.preempt(POD, {}, None, lambda node: ())
    assert desk.verbs == ["f", "b", "x"]
    assert desk.counted == [("http://host", verb, "success") for verb in ("filter", "bind", "preempt")]


async def test_nodes_it_was_not_asked_about_are_a_fault_in_kube_schedulers_words() -> None:
    desk = Desk({"NodeNames": ["b"]})
    reported = 'extender "http://host" claims a filtered node "b" which is not found in the input node list'
    with pytest.raises(PluginError, match=f"^{reported}$"):
        await extender(desk).filter(POD, ["a"], None)
    assert desk.counted == [("http://host", "filter", "error")]


async def test_scores_are_scaled_and_those_of_other_nodes_are_left_out() -> None:
    desk = Desk([{"Host": "a", "Score": 4}, {"Host": "b", "Score": 25}, {"Host": "who", "Score": 1}])
    assert await extender(desk).prioritize(POD, ["a", "b"], None) == {"a": 120, "b": 750}


async def test_a_score_that_totals_cannot_hold_is_a_fault() -> None:
    desk = Desk([{"Host": "a", "Score": 1 << 60}])
    with pytest.raises(PluginError, match=r"^extender at URL http://host/s: expected scores of 0 to 10, got 1152"):
        await extender(desk).prioritize(POD, ["a"], None)


async def test_victims_must_be_on_the_node_that_the_answer_names() -> None:
    one = extender(Desk({"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "v"}]}}}))
    assert await one.preempt(POD, {}, None, lambda node: {"v"}) == {"a": Victims(["v"], 0)}
    with pytest.raises(PluginError, match=r'^nodeinfo not found for node name "a"$'):
        await one.preempt(POD, {}, None, lambda node: None)
    with pytest.raises(
        PluginError, match=r"claims to preempt pod \(UID: &\{v\}\) on node: a, but the pod is not found"
    ):
        await one.preempt(POD, {}, None, lambda node: {"other"})


async def test_an_error_text_is_passed_on_as_it_is() -> None:
    with pytest.raises(PluginError, match=r"^out of order$"):
        await extender(Desk({"Error": "out of order"})).bind("d", "p", "u", "a")


async def test_a_question_that_is_broken_off_is_counted_as_such() -> None:
    desk = Desk(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await extender(desk).filter(POD, ["a"], None)
    assert desk.counted == [("http://host", "filter", "canceled")]
