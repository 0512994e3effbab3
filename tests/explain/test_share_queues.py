"""How a waiting pod stands with its queue with shares, with a whole scheduler in virtual time."""

from __future__ import annotations

from kscheduler.config.load import parse_config
from kscheduler.explain.explainer import Leadership
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.explain.share_queues import ShareQueueExplainer
from kscheduler.explain.text import explanation_text
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.scheduler import Options
from kscheduler.testing import make_pod
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
        "beyond": ["limit", "fair share"],
        "line": "team: 2 of 2 deserved, fair share 3, limit 3, would be 3500m",
    }
    text = explanation_text(found)
    assert "Shares of queue team/train at this moment, for a pod that is preemptible" in text
    assert "beyond its limit and fair share" in text
    assert lost["shareQueue"]["unusable"] == 'queue "nowhere" does not exist'
    assert 'queue "nowhere" does not exist' in explanation_text(lost)


def test_pods_in_no_queue_and_without_the_plugin_have_nothing_to_explain() -> None:
    queues = ShareQueues()
    pod = make_pod("p").label(LABEL, "a").req(cpu="1")
    assert ShareQueueExplainer(queues).explain(pod.obj()) is None
    queues.is_followed = True
    assert ShareQueueExplainer(queues).explain(make_pod("p").req(cpu="1").obj()) is None
    assert ShareQueueExplainer(queues).explain(pod.req(cpu="x").obj()) is None
    assert ShareQueueExplainer(queues).explain(pod.obj()) is not None
