"""Random extenders that fail, hang and lie about nodes, ignorable or not: decisions follow kube-scheduler's rules.

Up to three extenders have a say in each of some pods, which come one after the other to nodes that are equal. What they
answer is drawn as text; `extender_rules` works out from it where the pod may go, what is asked of whom, and whether the
pod waits and why. Every pod is placed once its extenders come to reason.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kscheduler.errors import PluginError
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.testing import make_pod
from tests.scenarios.extender_rules import Answers, Outcome, outcome_of
from tests.scenarios.fake_extenders import FakeExtender, configured, endpoints
from tests.support.seeds import sampled
from tests.support.world import World

EXAMPLES = sampled(1200)
DEVICES = tuple(f"example.com/d{place}" for place in range(3))  # one for each extender that manages some
SMALL, LARGE = "n0", ("n1", "n2", "n3")  # no pod fits on the first
TOO_SMALL = "Insufficient cpu"
HANGS_S = 5.0  # the time limit of the real endpoint
DECIDED_S = 3 * 2 * HANGS_S + 1.0  # three extenders may hang at two verbs each
WAITS_S = 360.0  # of a pod that extenders rejected, until the queue tries it again by itself


@dataclass(frozen=True)
class Answer:
    """How an extender answers: the kind of its answer, which nodes it means, and how long it takes."""

    kind: str
    mask: int
    late_s: float

    def means(self, place: int) -> bool:
        return bool(self.mask >> place & 1)


@dataclass(frozen=True)
class Character:
    """What an extender is, whatever it answers."""

    is_ignorable: bool
    knows_nodes: bool
    for_devices: bool
    filters: bool
    prioritizes: bool
    weight: int


@dataclass(frozen=True)
class Asked:
    """A pod, and what each extender answers about it: to filter, and to prioritize."""

    wants_devices: bool
    answers: tuple[tuple[Answer, Answer], ...]


@dataclass(frozen=True)
class Plan:
    characters: tuple[Character, ...]
    pods: tuple[Asked, ...]


FILTERED = [
    "pass", "without a reason", "some", "some", "some", "silent", "for good", "both ways", "all fail and pass", "ghost",
    "not asked", "haunted", "twice", "error", "garbage", "wrong type", "array", "null", "no names", "empty", "trailing",
    "in lower case", "refuse", "hang",
]  # fmt: skip
SCORED = [
    "points", "points", "points", "beyond", "ghost", "twice", "first only", "garbage", "object", "fraction", "text",
    "null", "empty", "refuse", "hang",
]  # fmt: skip


def answers(kinds: list[str]) -> st.SearchStrategy[Answer]:
    return st.builds(
        Answer, kind=st.sampled_from(kinds), mask=st.integers(0, 15), late_s=st.sampled_from([0.0, 0.0, 0.1, 2.0])
    )


characters = st.builds(
    Character,
    is_ignorable=st.booleans(),
    knows_nodes=st.sampled_from([True, True, False]),
    for_devices=st.sampled_from([False, False, True]),
    filters=st.sampled_from([True, True, False]),
    prioritizes=st.booleans(),
    weight=st.sampled_from([1, 2, 7]),
).filter(lambda character: character.filters or character.prioritizes)
plans = st.builds(
    Plan,
    characters=st.lists(characters, min_size=1, max_size=3).map(tuple),
    pods=st.lists(
        st.builds(
            Asked,
            wants_devices=st.booleans(),
            answers=st.tuples(*[st.tuples(answers(FILTERED), answers(SCORED))] * 3),
        ),
        min_size=1,
        max_size=4,
    ).map(tuple),
)


# --- texts --------------------------------------------------------------------------------------------------------


def filter_text(answer: Answer, asked: list[str], *, by_name: bool) -> str | None:
    """The answer to a question about these nodes; None: there is none."""
    kind = answer.kind
    passing = [name for place, name in enumerate(asked) if kind == "pass" or answer.means(place)]
    others = [name for name in asked if name not in passing]
    if kind in ("refuse", "hang"):
        return None
    if kind == "garbage":
        return "<html>502</html>"
    if kind == "array":
        return "[]"
    if kind == "null":
        return "null"
    if kind == "empty":
        return "{}"
    if kind == "error":
        return json.dumps({"Error": "broken", **_nodes(asked, by_name=by_name)})
    if kind == "wrong type":
        return json.dumps({"NodeNames": 5, "Nodes": 5})
    if kind == "no names":
        return json.dumps({"NodeNames": None, "Nodes": None, "FailedNodes": dict.fromkeys(asked, "no")})
    if kind == "ghost":
        return json.dumps(_nodes([*passing, "ghost"], by_name=by_name))
    if kind == "not asked":
        return json.dumps(_nodes([*passing, SMALL], by_name=by_name))
    fields: dict[str, Any] = _nodes(passing * (2 if kind == "twice" else 1), by_name=by_name)
    if kind in ("some", "both ways", "twice"):
        fields["FailedNodes"] = dict.fromkeys(others, "not this one")
    if kind in ("for good", "both ways"):
        fields["FailedAndUnresolvableNodes"] = dict.fromkeys(others, "never this one")
    if kind == "without a reason":
        fields["FailedNodes"] = dict.fromkeys(others)
    if kind == "all fail and pass":
        fields["FailedNodes"] = dict.fromkeys(asked, "well")
    if kind == "haunted":
        fields["FailedNodes"] = {"ghost": "haunted", SMALL: "haunted"}
    if kind == "in lower case":
        fields = {key.lower(): value for key, value in fields.items()}
    return json.dumps(fields) + (" {more" if kind == "trailing" else "")


def _nodes(names: list[str], *, by_name: bool) -> dict[str, Any]:
    if by_name:
        return {"NodeNames": names}
    return {"Nodes": {"items": [{"metadata": {"name": name}} for name in names]}}


def score_text(answer: Answer, asked: list[str]) -> str | None:
    kind = answer.kind
    if kind in ("refuse", "hang"):
        return None
    if kind == "garbage":
        return "<html>502</html>"
    if kind == "object":
        return "{}"
    if kind == "null":
        return "null"
    if kind == "empty":
        return "[]"
    scores: list[dict[str, Any]] = [
        {"Host": name, "Score": (answer.mask * (place + 1)) % 11} for place, name in enumerate(asked)
    ]
    if kind == "beyond":
        scores = [{**entry, "Score": 30 - 9 * entry["Score"]} for entry in scores]
    elif kind == "ghost":
        scores.append({"Host": "ghost", "Score": 10})
    elif kind == "twice":
        scores = [{"Host": name, "Score": 6 if place == 0 else 10} for place, name in enumerate([*asked, asked[0]])]
        scores[-1]["Score"] = 6  # 12 in all
    elif kind == "first only":
        scores = scores[:1]
    elif kind == "fraction":
        scores[0]["Score"] = 3.5
    elif kind == "text":
        scores[0]["Score"] = "3"
    return json.dumps(scores)


# --- both sides ---------------------------------------------------------------------------------------------------


class Talker:
    """An extender that answers as the plan says, about the pod that is being decided."""

    def __init__(self, place: int, character: Character) -> None:
        self.name = f"e{place}"
        self.character = character
        self.is_sane = False
        self.filter_answer, self.score_answer = Answer("pass", 0, 0.0), Answer("points", 0, 0.0)
        verbs = {}
        if character.filters:
            verbs["filter"] = self._filter
        if character.prioritizes:
            verbs["prioritize"] = self._prioritize
        settings: dict[str, Any] = {
            "ignorable": character.is_ignorable,
            "nodeCacheCapable": character.knows_nodes,
            "weight": character.weight,
        }
        if character.for_devices:
            settings["managedResources"] = [{"name": DEVICES[place]}]
        self.fake = FakeExtender(self.name, settings=settings, **verbs)
        self.heard: list[tuple[str, str, frozenset[str]]] = []

    async def _filter(self, question: dict[str, Any]) -> bytes:
        names = self._hear("filter", question)
        if self.is_sane:
            return self._sane(names)
        return await self._say(self.filter_answer, filter_text(self.filter_answer, names, by_name=self.by_name))

    async def _prioritize(self, question: dict[str, Any]) -> bytes:
        names = self._hear("prioritize", question)
        return b"[]" if self.is_sane else await self._say(self.score_answer, score_text(self.score_answer, names))

    @property
    def by_name(self) -> bool:
        return self.character.knows_nodes

    def _sane(self, names: list[str]) -> bytes:
        return json.dumps(_nodes(names, by_name=self.by_name)).encode()

    def _hear(self, verb: str, question: dict[str, Any]) -> list[str]:
        names = question["NodeNames"]
        if names is None:
            names = [node["metadata"]["name"] for node in question["Nodes"]["items"]]
        self.heard.append((self.name, verb, frozenset(names)))
        return sorted(names)

    async def _say(self, answer: Answer, text: str | None) -> bytes:
        await asyncio.sleep(HANGS_S if answer.kind == "hang" else answer.late_s)
        if text is None:
            raise PluginError(f"{self.name} fails")
        return text.encode()

    def says(self, *, wants_devices: bool, names: list[str], scored: list[str]) -> Answers:
        """For the rules: what it answers when it is asked to filter the one and to score the other nodes."""
        character = self.character
        return Answers(
            self.name,
            is_ignorable=character.is_ignorable,
            knows_nodes=character.knows_nodes,
            is_interested=wants_devices or not character.for_devices,
            filter=filter_text(self.filter_answer, names, by_name=self.by_name) if character.filters else "",
            prioritize=score_text(self.score_answer, scored) if character.prioritizes else "",
            weight=character.weight,
        )


def expected_outcome(talkers: list[Talker], asked: Asked) -> Outcome:
    """The rules' decision. What an extender answers hangs on what it is asked: on the answers of those before it."""
    fitting = sorted(LARGE)
    saying: list[Answers] = []
    names: list[str] = list(fitting)
    for talker in sorted(talkers, key=lambda each: each.character.is_ignorable):
        says = talker.says(wants_devices=asked.wants_devices, names=names, scored=names or fitting)
        saying.append(says)
        so_far = outcome_of([replace(each, prioritize="") for each in saying], fitting, {SMALL: TOO_SMALL})
        if so_far.failed:
            return so_far
        names = sorted(so_far.best)
    order = {talker.name: talker for talker in talkers}
    if not names:
        return outcome_of(saying, fitting, {SMALL: TOO_SMALL})
    final = [
        replace(each, prioritize=score_text(order[each.name].score_answer, names)) if each.prioritize != "" else each
        for each in saying
    ]
    return outcome_of(final, fitting, {SMALL: TOO_SMALL})


async def execute(plan: Plan) -> None:
    talkers = [Talker(place, character) for place, character in enumerate(plan.characters)]
    fakes = [talker.fake for talker in talkers]
    async with World(config=configured(*fakes), extender_endpoint=endpoints(fakes)) as world:
        world.add_node(SMALL, cpu="1", **dict.fromkeys(DEVICES, "8"))
        for name in LARGE:
            world.add_node(name, **dict.fromkeys(DEVICES, "8"))
        for number, asked in enumerate(plan.pods):
            await decide(world, talkers, f"p{number}", asked)


async def decide(world: World, talkers: list[Talker], name: str, asked: Asked) -> None:
    """One pod, whose decision is compared, and which is placed once all extenders come to reason."""
    for talker, (filter_answer, score_answer) in zip(talkers, asked.answers, strict=False):
        talker.filter_answer, talker.score_answer, talker.is_sane = filter_answer, score_answer, False
        talker.heard.clear()
    expected = expected_outcome(talkers, asked)
    world.add_pod(make_pod(name).req(cpu="2", **dict.fromkeys(DEVICES if asked.wants_devices else (), "1")))
    await world.until(lambda: bool(world.node_of(name)) or world.condition(name) is not None, within_s=DECIDED_S)
    heard = {each for talker in talkers for each in talker.heard}  # by further attempts of one that waits, too
    assert heard == set(expected.asked), f"{heard} were asked, not {expected.asked}"
    condition = world.condition(name)
    if expected.best:
        assert world.node_of(name) in expected.best, f"{world.node_of(name)}, not {expected.best}: {condition}"
    else:
        assert condition is not None, f"{name} is on {world.node_of(name)}, and should wait: {expected}"
        check_condition(condition.reason, condition.message, expected)
    for talker in talkers:
        talker.is_sane = True
    await world.until(world.all_bound, within_s=WAITS_S)
    world.cluster.delete_pod(f"default/{name}")
    await world.sleep(1.0)


def check_condition(reason: str, message: str, expected: Outcome) -> None:
    if expected.failed:
        assert reason == "SchedulerError", message
        return
    assert reason == "Unschedulable", message
    counted = message.partition("nodes are available: ")[2].partition(". ")[0].rstrip(".")
    found = {why: int(count) for count, why in re.findall(r"(\d+) ([^,]+)", counted)}
    assert found == {why: count for why, count in expected.reasons.items() if why}, message


RANDOM = settings(
    max_examples=-(-EXAMPLES // 8),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


@RANDOM
@given(plans)
def test_whatever_extenders_answer_pods_are_decided_by_kube_schedulers_rules(plan: Plan) -> None:
    run_virtual(execute(plan))


@pytest.mark.slow
@settings(RANDOM, max_examples=EXAMPLES, phases=[Phase.generate, Phase.shrink])
@given(plans)
def test_the_same_with_many_more_examples(plan: Plan) -> None:
    run_virtual(execute(plan))
