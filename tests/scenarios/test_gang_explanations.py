"""How a gang stands, as `kscheduler explain` says it."""

from __future__ import annotations

import re
from typing import Any

from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37
from kscheduler.explain.explainer import Explainer
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.explain.text import explanation_text, gangs_text
from kscheduler.scheduler import Options
from kscheduler.testing.wrappers import make_node, make_pod
from tests.scenarios.gangs import BY_LABEL, add_members, by_field, explainer_of, gang, group, members, near
from tests.support.world import World, in_virtual_time

EXPLAINED = Options(explain=DecisionLogOptions())


def gang_of(explainer: Explainer, key: str) -> dict[str, Any]:
    document = explainer.explain_gang(key)
    assert document is not None
    (found,) = document["gangs"]
    assert isinstance(found, dict)
    return found


@in_virtual_time
async def test_a_gang_says_what_it_lacks_and_so_do_its_pods() -> None:
    async with World(config=BY_LABEL, options=EXPLAINED, expect_conditions=False) as world:
        explainer = explainer_of(world)
        world.add_nodes(2)
        world.cluster.create_object(gang("train", 4))
        for pod in members("train", 3):
            world.add_pod(pod)
        await world.sleep(5)
        found = gang_of(explainer, "default/train")
        assert found["summary"] == "gang default/train waits for pods: 3 of at least 4"
        assert found["pool"] == "parked"
        assert found["members"]["queued"] == 3
        document = explainer.explain("default/train-0")
        assert document is not None
        text = explanation_text(document)
        assert text.startswith(
            "Pod default/train-0 waits with its gang: gang default/train waits for pods: 3 of at least 4\n"
        )
        assert "Queue: gang since" in text


@in_virtual_time
async def test_a_gang_that_does_not_fit_says_which_pod_fails_and_why() -> None:
    async with World(config=BY_LABEL, options=EXPLAINED) as world:
        explainer = explainer_of(world)
        world.add_nodes(2)
        world.cluster.create_object(gang("train", 5))
        for pod in members("train", 5):
            world.add_pod(pod)
        await world.until(lambda: world.condition("train-0") is not None)
        document = explainer.explain_gang("default/train")
        assert document is not None
        first, counts, queue, latest, stopped, reason = gangs_text(document).splitlines()
        assert first.startswith(
            "Gang default/train (scheduling.x-k8s.io): gang default/train needs nodes for 5 pods at once, and 4 would "
            "have one: pod train-"
        )
        assert counts == "  5 pods, at least 5 together: 5 waiting"
        assert queue == "  queue: unschedulable, waiting for a change in the cluster; attempts so far: 1"
        assert first.endswith(
            "0/2 nodes are available: 2 Insufficient cpu. preemption: no pod of lower priority is where it would help."
        )
        assert latest.startswith("  rejected ")
        assert latest.endswith(" s ago"), "why is said above"
        stopper = document["gangs"][0]["latestAttempt"]["stoppedBy"]["pod"]
        assert stopped == (
            f"  stopped by pod {stopper}: 2 of 2 nodes looked at, 0 fit beside the pods of the gang before it"
        )
        assert reason == "    2 nodes:  NodeResourcesFit  Insufficient cpu  n0, n1"
        texts = {}
        for number in range(5):
            document = explainer.explain(f"default/train-{number}")
            assert document is not None
            texts[tuple(document["decisions"][0]["plugins"])] = explanation_text(document)
        assert texts.keys() == {("Gangs",), ("NodeResourcesFit",)}
        assert "  rejected with its gang: " in texts["Gangs",]
        assert re.search("\n  2 of 2 nodes looked at, [12] fit; it would have gone to n[01]\n", texts["Gangs",])
        assert stopped in texts["Gangs",]
        assert texts["NodeResourcesFit",].startswith(f"Pod {stopper} waits with its gang: ")
        assert "2 of 2 nodes looked at, 0 fit\n" in texts["NodeResourcesFit",]
        assert (
            "Nodes that do not fit\n  2 nodes:  NodeResourcesFit  Insufficient cpu  n0, n1\n"
            in texts["NodeResourcesFit",]
        )
        document = explainer.explain(stopper, all_nodes=True)
        assert document is not None
        assert document["decisions"][0]["verdicts"] == dict.fromkeys(("n0", "n1"), "NodeResourcesFit: Insufficient cpu")
        assert all("the scheduler was busy" not in text for text in texts.values())


@in_virtual_time
async def test_a_broken_gang_says_for_how_long_it_has_been_so() -> None:
    async with World(config=BY_LABEL, options=EXPLAINED) as world:
        explainer = explainer_of(world)
        world.add_nodes(2)
        world.cluster.create_object(gang("train", 4))
        for pod in members("train", 4):
            world.add_pod(pod)
        await world.until(world.all_bound)
        document = explainer.explain("default/train-0")
        assert document is not None
        assert document["summary"].endswith("nodes that fit, of 2")
        assert gang_of(explainer, "default/train")["summary"] == (
            "4 pods of gang default/train have a node, of at least 4"
        )
        world.cluster.delete_pod("default/train-3")
        world.add_pod(make_pod("other").req(cpu=2))
        await world.until(lambda: bool(world.node_of("other")))
        world.add_pod(make_pod("train-4").label(POD_GROUP_LABEL, "train").req(cpu=2))
        await world.sleep(30)
        found = gang_of(explainer, "default/train")
        assert found["summary"].startswith("3 pods of gang default/train have a node, of at least 4, 1 more wait; ")
        assert 25 < found["brokenForSeconds"] < 35
        assert not found["isStale"]


@in_virtual_time
async def test_what_is_not_known_is_reported_as_such() -> None:
    async with World(options=EXPLAINED) as world:
        explainer = explainer_of(world)
        assert explainer.explain_gang("default/train") is None
        assert "gangs are not scheduled here" in explainer.gang_absence("default/train")
    async with World(config=BY_LABEL, options=EXPLAINED) as world:
        explainer = explainer_of(world)
        assert explainer.explain_gang("default/train") is None
        assert "gang default/train is not known" in explainer.gang_absence("default/train")


@in_virtual_time
async def test_a_gang_that_asks_for_one_domain_of_nodes_says_which() -> None:
    async with World(config=BY_LABEL, options=EXPLAINED) as world:
        explainer = explainer_of(world)
        world.add_nodes(1)
        world.cluster.create_object(near("train", 2, required="zone", preferred="rack,block"))
        for pod in members("train", 2):
            world.add_pod(pod)
        await world.sleep(5)
        document = explainer.explain_gang("default/train")
        assert document is not None
        first, _, topology, *_ = gangs_text(document).splitlines()
        assert first.endswith('no node has the label "zone", which its topology requires')
        assert topology == "  topology: in one zone, preferably in one rack, else in one block"


@in_virtual_time
async def test_a_placed_member_that_asks_for_details_has_them_for_the_nodes_of_its_gangs_domain() -> None:
    async with World(config=BY_LABEL, options=EXPLAINED) as world:
        explainer = explainer_of(world)
        for zone in ("a", "b"):
            for number in range(3):
                room = 8 if zone == "b" else 3
                world.add_node(make_node(f"{zone}{number}").capacity(cpu=str(room), memory="16Gi").label("zone", zone))
        world.cluster.create_object(near("train", 4, required="zone"))
        for number, pod in enumerate(members("train", 4)):
            world.add_pod(pod if number == 1 else pod.annotation("kscheduler.io/explain", "details"))
        await world.until(world.all_bound)
        asked, other = (explainer.explain(f"default/train-{number}", all_nodes=True) for number in (0, 1))
    assert asked is not None
    assert other is not None
    [decision] = asked["decisions"]
    assert (decision["detailed"], decision["outcome"]) == (True, "bound")
    assert decision["confinedTo"] == ["b0", "b1", "b2"]
    assert decision["verdicts"]["b0"] == ""
    assert decision["verdicts"]["a0"] == "not in the domain of its gang"
    assert {each["node"] for each in decision["bestNodes"]} == {"b0", "b1", "b2"}
    assert decision["reasons"] == []
    text = explanation_text(asked)
    assert "Best nodes" in text
    assert "the nodes of the domain that its gang took: b0, b1, b2" in text
    assert other["decisions"][0]["detailed"] is False, "nobody asked"
    assert other["decisions"][0]["evaluated"] == 3, "those of its gang's domain"


@in_virtual_time
async def test_members_of_a_rejected_gang_say_what_kept_each_of_them() -> None:
    async with World(config=BY_LABEL, options=EXPLAINED) as world:
        explainer = explainer_of(world)
        world.add_node(make_node("big").capacity(cpu="8", memory="16Gi"))
        world.add_node(make_node("small").capacity(cpu="1", memory="16Gi"))
        world.cluster.create_object(gang("train", 4))
        for number, cpu in enumerate((4, 4, 4, 4)):
            world.add_pod(make_pod(f"train-{number}").label(POD_GROUP_LABEL, "train").req(cpu=cpu))
        await world.until(lambda: world.condition("train-3") is not None)
        texts = {}
        for number in range(4):
            document = explainer.explain(f"default/train-{number}")
            assert document is not None
            texts[number] = explanation_text(document)
    fitted = [text for text in texts.values() if "it would have gone to big" in text]
    failed = [text for text in texts.values() if "2 of 2 nodes looked at, 0 fit\n" in text]
    not_tried = [text for text in texts.values() if "and not tried itself" in text]
    assert [len(fitted), len(failed), len(not_tried)] == [2, 1, 1]
    assert all("stopped by pod default/train-" in text for text in texts.values())


@in_virtual_time
async def test_members_of_a_podgroup_of_kubernetes_say_what_kept_each_of_them() -> None:
    for release in (RELEASE_1_36, RELEASE_1_37):
        async with World(config=by_field(release), options=EXPLAINED, expect_conditions=False) as world:
            explainer = explainer_of(world)
            world.add_nodes(2)
            world.cluster.create_object(group("train", 5))
            add_members(world, "train", *range(5))
            await world.until(lambda: world.condition("train-4") is not None)
            texts = []
            for number in range(5):
                document = explainer.explain(f"default/train-{number}")
                assert document is not None
                texts.append(explanation_text(document))
        assert sum("fit; it would have gone to n" in text for text in texts) == 4
        [failed] = [text for text in texts if "2 of 2 nodes looked at, 0 fit\n" in text]
        assert "Nodes that do not fit\n  2 nodes:  NodeResourcesFit  Insufficient cpu  n0, n1\n" in failed
        assert all("stopped by pod default/train-4: " in text for text in texts)
