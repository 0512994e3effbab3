"""How a waiting pod stands with its queue with shares, with a whole scheduler in virtual time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pytest

from kscheduler.api.share_queues import QueueObject
from kscheduler.config.load import parse_config
from kscheduler.explain.explainer import Leadership
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.explain.share_queues import ShareQueueExplainer
from kscheduler.explain.text import explanation_text
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.scheduler import Options
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.explain.explained import explained
from tests.scenarios.share_queues import CONFIG, LABEL, queue
from tests.support.world import World, in_virtual_time


@in_virtual_time
async def test_a_pod_that_its_queue_refuses_is_explained_with_all_levels() -> None:
    options = Options(explain=DecisionLogOptions(), first_on_tie=True)
    async with World(config=parse_config(CONFIG, "test"), options=options) as here:
        explainer = here.scheduler.explainer(lambda: Leadership("here_1", True, "here_1"))
        assert explainer is not None
        for each in (queue("team", deserved=2, limit=3), queue("train", "team", 1), queue("lab", "team")):
            here.cluster.create_object(each)
        await here.sleep(1.0)
        here.add_node("n1", cpu="10")
        here.add_pod(make_pod("a").label(LABEL, "lab").req(cpu="2"))
        await here.until(here.all_bound)
        here.add_pod(make_pod("p").label(LABEL, "train").req(cpu="1500m").preemption_policy("Never"))
        here.add_pod(make_pod("lost").label(LABEL, "nowhere").req(cpu="1"))
        await here.sleep(20.0)
        found, bound = explained(explainer, "default/p"), explained(explainer, "default/a")
        lost = explained(explainer, "default/lost")
    assert bound["shareQueue"] is None, "it waits no more"
    shares = found["shareQueue"]
    assert (shares["name"], shares["unusable"], shares["isPreemptible"]) == ("team/train", "", True)
    assert [level["name"] for level in shares["levels"]] == ["team/train", "team"]
    [train], [team] = (level["resources"] for level in shares["levels"])
    assert train["beyond"] == []
    assert team == {
        "resource": "cpu",
        "requested": "1500m",
        "used": "2",
        "usedNonPreemptible": "0",
        "asked": "3500m",
        "deserved": "2",
        "fairShare": "3",
        "limit": "3",
        "beyond": ["limit"],
        "line": "team: 2 of 2 deserved, fair share 3, limit 3, would be 3500m",
    }
    text = explanation_text(found)
    assert "Shares of queue team/train at this moment, for a pod that is preemptible" in text
    assert "beyond its limit" in text
    assert "it takes no room of others: its preemptionPolicy is Never" in text
    assert lost["shareQueue"]["unusable"] == 'queue "nowhere" does not exist'
    assert 'queue "nowhere" does not exist' in explanation_text(lost)


class Explained(NamedTuple):
    """How the waiting pod of a hierarchy stood in the end."""

    is_bound: bool
    message: str
    shares: dict[str, Any] | None
    text: str

    @property
    def causes(self) -> set[tuple[str, str]]:
        """The queues whose bound keeps the pod from any node, with its kind."""
        levels = [] if self.shares is None else self.shares["levels"]
        return {
            (level["name"].rpartition("/")[2], bound)
            for level in levels
            for resource in level["resources"]
            for bound in resource["beyond"]
            if bound != "fair share"
        }


def hierarchy(
    queues: Sequence[QueueObject], running: Sequence[PodBuilder], waiting: PodBuilder, cpu: str = "1000"
) -> Explained:
    """Return how a pod stands that comes to a node on which others of the hierarchy are."""

    async def play() -> Explained:
        options = Options(explain=DecisionLogOptions(), first_on_tie=True)
        async with World(config=parse_config(CONFIG, "test"), options=options, expect_conditions=False) as here:
            explainer = here.scheduler.explainer(lambda: Leadership("here_1", True, "here_1"))
            assert explainer is not None
            here.run_kubelets()
            for each in queues:
                here.cluster.create_object(each)
            await here.sleep(1.0)
            here.add_node("n1", cpu=cpu)
            for pod in running:
                here.add_pod(pod)
                await here.sleep(1.0)
            here.add_pod(waiting)
            await here.sleep(45.0)  # victims have half a minute to end
            found = explained(explainer, "default/p")
            return Explained(
                bool(here.pod("p").spec.node_name), found["summary"], found["shareQueue"], explanation_text(found)
            )

    return run_virtual(play())


def in_queue(name: str, queue_name: str, cpu: int, priority: int = 0) -> PodBuilder:
    return make_pod(name).label(LABEL, queue_name).req(cpu=str(cpu)).priority(priority)


def without(queues: Sequence[QueueObject], name: str, bound: str) -> list[QueueObject]:
    """Return the queues, of which one has this bound no more."""
    found = []
    for each in queues:
        [(resource, terms)] = (each.spec.resources or {}).items()
        if each.metadata.name == name:
            terms = msgspec.structs.replace(terms, **{bound: "unlimited"})
        spec = msgspec.structs.replace(each.spec, resources={resource: terms})
        found.append(msgspec.structs.replace(each, spec=spec))
    return found


def removed_one_by_one(queues: Sequence[QueueObject], running: Sequence[PodBuilder], waiting: PodBuilder) -> list[str]:
    """Return the causes that keep a pod waiting, each removed before the next look, until the pod has a node."""
    removed: list[tuple[str, str]] = []
    while True:
        found = hierarchy(queues, running, waiting)
        assert not found.causes & set(removed), f"named again: {found.text}"
        if found.is_bound:
            assert not found.causes
            return [f"{name}: {bound}" for name, bound in removed]
        assert found.causes, f"nothing is named: {found.text}"
        assert any(f"/{name} would " in f"/{found.message}" or f"{name} " in found.message for name, _ in found.causes)
        cause = min(found.causes)
        queues = without(queues, *cause)
        removed.append(cause)


@pytest.mark.parametrize(
    ("queues", "running", "waiting", "causes"),
    [
        pytest.param(
            (queue("team", deserved=2, limit=3), queue("train", "team"), queue("lab", "team", 2, limit=2)),
            (in_queue("a", "lab", 2, 100),),
            in_queue("p", "train", 2),
            ["team: limit"],
            id="the limit is above the queue",
        ),
        pytest.param(
            (queue("team", limit=3), queue("train", "team", limit=1), queue("lab", "team")),
            (in_queue("a", "lab", 2), in_queue("b", "train", 1)),
            in_queue("p", "train", 1),
            ["team: limit", "train: limit"],
            id="limits at both levels",
        ),
        pytest.param(
            (queue("team", deserved=2), queue("train", "team", 4), queue("lab", "team", 2), queue("others", "", 4)),
            (in_queue("a", "lab", 2, 100), in_queue("b", "others", 9)),
            in_queue("p", "train", 1, 100),
            ["team: deserved"],
            id="a sibling has what is promised to pods that are not preemptible",
        ),
        pytest.param(
            (queue("team", deserved=4), queue("train", "team", 2), queue("lab", "team", 2)),
            (in_queue("a", "lab", 6), in_queue("b", "train", 3)),
            in_queue("p", "train", 8),
            [],
            id="all are beyond their shares, and there is room",
        ),
    ],
)
def test_what_is_named_is_what_keeps_the_pod_waiting(
    queues: Sequence[QueueObject], running: Sequence[PodBuilder], waiting: PodBuilder, causes: list[str]
) -> None:
    assert removed_one_by_one(queues, running, waiting) == causes


@pytest.mark.parametrize("seed", range(24))
def test_causes_in_any_hierarchy_are_not_named_again_once_they_are_removed(seed: int) -> None:
    chance = random.Random(seed)
    names, leaves = ["a", "b"], []
    queues = [
        queue(name, "", chance.randint(0, 6), chance.choice(("unlimited", chance.randint(2, 9)))) for name in names
    ]
    for top in names:
        for number in range(chance.randint(1, 3)):
            leaves.append(f"{top}{number}")
            limit = chance.choice(("unlimited", chance.randint(1, 6)))
            queues.append(queue(leaves[-1], top, chance.randint(0, 4), limit))
    pods = [
        in_queue(f"r{number}", chance.choice(leaves), chance.randint(1, 3), chance.choice((0, 100)))
        for number in range(6)
    ]
    removed_one_by_one(
        queues, pods, in_queue("p", chance.choice(leaves), chance.randint(1, 6), chance.choice((0, 100)))
    )


def test_of_a_queue_that_takes_no_pods_nothing_else_is_named() -> None:
    queues = (queue("team", limit=1), queue("train", "team"), queue("lab", "team"))
    found = hierarchy(queues, [], in_queue("p", "team", 2))
    assert not found.is_bound
    assert found.shares is not None
    assert found.shares["levels"][0]["resources"][0]["beyond"] == []
    assert 'queue "team" has queues below it' in found.text
    assert "queues below it that take pods: lab, train" in found.text
    assert "beyond" not in found.text
    assert "room of other" not in found.text


def beyond(found: Explained) -> dict[str, list[str]]:
    assert found.shares is not None
    return {level["name"]: level["resources"][0]["beyond"] for level in found.shares["levels"]}


def test_the_fair_share_is_named_of_the_queue_that_may_take_no_room_beyond_it() -> None:
    queues = [queue("team", deserved=1), queue("train", "team", 1), queue("others", deserved=3)]
    running, waiting = [in_queue("a", "others", 4)], in_queue("p", "train", 2)
    found = hierarchy(queues, running, waiting, cpu="4")
    assert beyond(found) == {"team/train": ["fair share"], "team": []}
    assert "with the pod, the queue may not take room of other queues" in found.text
    # More for the queue above alone helps as far as the queue asks for it, and then the pod gets its node.
    assert hierarchy([queue("team", deserved=4), *queues[1:]], running, waiting, cpu="4").is_bound


def test_the_fair_share_of_a_queue_above_is_named_no_bound() -> None:
    queues = [
        queue("team", deserved=2),
        queue("train", "team", 1),
        queue("lab", "team", 1),
        queue("others", deserved=4),
    ]
    running = [in_queue("a", "lab", 2), in_queue("b", "others", 4)]
    waiting = in_queue("p", "train", 1)
    found = hierarchy(queues, running, waiting.preemption_policy("Never"), cpu="6")
    assert not found.is_bound
    assert beyond(found) == {"team/train": [], "team": []}
    assert hierarchy(queues, running, in_queue("p", "train", 1), cpu="6").is_bound, "it took room of its sibling"


def test_no_room_of_others_is_promised_to_a_pod_for_which_a_queue_above_deserves_too_little() -> None:
    queues = [queue("team", deserved=2), queue("train", "team", 4), queue("lab", "team", 2), queue("others")]
    running = [in_queue("a", "lab", 2, 100), in_queue("b", "others", 8)]
    found = hierarchy(queues, running, in_queue("p", "train", 1, 100), cpu="10")
    assert beyond(found) == {"team/train": [], "team": ["deserved"]}
    assert "beyond its deserved amount" in found.text
    assert "with the pod, the queue may not take room of other queues" in found.text
    assert hierarchy(without(queues, "team", "deserved"), running, in_queue("p", "train", 1, 100), cpu="10").is_bound


def test_the_queues_are_named_that_must_give_room_and_that_there_is_none() -> None:
    queues = [queue("team", limit=4), queue("train", "team", 2), queue("lab", "team"), queue("others")]
    # The limit of the queue above is reached: room of others would not help.
    running = [in_queue("a", "lab", 4), in_queue("b", "others", 8)]
    explainer = ShareQueueExplainer(queues_with(queues, running, cpu=12))
    found = explainer.explain(in_queue("p", "train", 2).obj())
    assert found is not None
    assert found["mayReclaimFrom"] == ["team/lab"]
    explainer = ShareQueueExplainer(queues_with(without(queues, "team", "limit"), running, cpu=12))
    found = explainer.explain(in_queue("p", "train", 2).obj())
    assert found is not None
    assert found["mayReclaimFrom"] == ["others", "team/lab"]
    # Nobody uses more than its share.
    queues = [queue("team", deserved=4), queue("train", "team", 2), queue("others", deserved=8)]
    text = hierarchy(queues, [in_queue("b", "others", 7)], in_queue("p", "train", 2), cpu="8").text
    assert "the queue stays within its fair share, but there is no queue that must give it room" in text


def queues_with(objects: Sequence[QueueObject], running: Sequence[PodBuilder], cpu: int) -> ShareQueues:
    queues = ShareQueues()
    for each in objects:
        queues.set(each.metadata.name, each)
    queues.set_node(make_node("n1").capacity(cpu=str(cpu)).obj())
    for pod in running:
        queues.pod_added(pod.uid(pod.obj().metadata.name).obj())
    queues.pod_waits(in_queue("p", "train", 2).obj())
    return queues


def test_pods_in_no_queue_have_nothing_to_explain() -> None:
    queues = ShareQueues()
    pod = make_pod("p").label(LABEL, "a").req(cpu="1")
    assert ShareQueueExplainer(queues).explain(make_pod("p").req(cpu="1").obj()) is None
    assert ShareQueueExplainer(queues).explain(pod.req(cpu="x").obj()) is None
    assert ShareQueueExplainer(queues).explain(pod.obj()) is not None
