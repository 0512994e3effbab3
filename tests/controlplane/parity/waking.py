"""Scenarios of pods that wait: what wakes them, and that nothing else seems to have changed.

They say when a pod is expected to wait, with `settle`: then the scheduler has seen all that happened before.
"""

from __future__ import annotations

from tests.controlplane.parity.manifests import (
    HOST,
    ZONE,
    has,
    host_port,
    needs_node,
    needs_pods,
    shuns_pods,
    spread,
    spreads,
    taint,
    term,
)
from tests.controlplane.parity.outcome import in_each, shape
from tests.controlplane.parity.scenario import Scenario
from tests.controlplane.parity.steps import (
    ask_to_go,
    bound,
    change_node,
    change_pod,
    finish,
    node,
    pod,
    pods,
    refused,
    remove_node,
    remove_pod,
    resize,
    settle,
    tolerate,
)

WEB = {"app": "web"}
DB = {"app": "db"}

MANY = 200
OF_A_KIND = 30

WAKING = (
    Scenario(
        "A gated pod waits until its gates are removed",
        (
            node("a"),
            pod("gated", {"schedulingGates": [{"name": "example.com/one"}, {"name": "example.com/two"}]}),
            pod("still-gated", {"schedulingGates": [{"name": "example.com/one"}]}),
            pod("free"),
            bound("free", "a"),
            change_pod("gated", {"spec": {"schedulingGates": [{"name": "example.com/two"}]}}),
            settle,
            change_pod("gated", {"spec": {"schedulingGates": None}}),
            bound("gated", "a"),
        ),
    ),
    Scenario(
        "A gated pod is refused once its gate is removed",
        (
            node("a"),
            pod("gated", {"schedulingGates": [{"name": "example.com/one"}]}, cpu="100"),
            change_pod("gated", {"spec": {"schedulingGates": None}}),
            refused("gated", "1 Insufficient cpu"),
        ),
    ),
    Scenario(
        "A pod that came before all nodes",
        (
            pod("early"),
            refused("early", "no nodes available to schedule pods"),
            node("a"),
            bound("early", "a"),
        ),
    ),
    Scenario(
        "A new node with room",
        (
            node("a", cpu="500m"),
            pod("large", cpu="1"),
            refused("large", "1 Insufficient cpu"),
            node("b", cpu="700m"),
            settle,
            node("c", cpu="2"),
            bound("large", "c"),
        ),
    ),
    Scenario(
        "A taint is removed",
        (
            node("a", taints=[taint("closed"), taint("dirty")]),
            pod("waiting"),
            refused("waiting", "untolerated taint"),
            change_node("a", {"spec": {"taints": [taint("dirty")]}}),
            settle,
            change_node("a", {"spec": {"taints": None}}),
            bound("waiting", "a"),
        ),
    ),
    Scenario(
        "A node is uncordoned",
        (
            node("a", unschedulable=True),
            pod("waiting"),
            refused("waiting", "1 node(s) were unschedulable"),
            change_node("a", {"spec": {"unschedulable": None}}),
            bound("waiting", "a"),
        ),
    ),
    Scenario(
        "A label that was needed",
        (
            node("a", {"disk": "hdd"}),
            node("b"),
            pod("waiting", needs_node(has("disk", "ssd"))),
            refused("waiting", "2 node(s) didn't match Pod's node affinity/selector"),
            change_node("b", {"metadata": {"labels": {"colour": "red"}}}),
            settle,
            change_node("b", {"metadata": {"labels": {"disk": "ssd"}}}),
            bound("waiting", "b"),
        ),
    ),
    Scenario(
        "A pod that goes leaves room",
        (
            node("a", cpu="1"),
            pod("first", cpu="600m"),
            pod("second", cpu="300m"),
            pod("waiting", cpu="600m"),
            refused("waiting", "1 Insufficient cpu"),
            remove_pod("second"),
            settle,
            remove_pod("first"),
            bound("waiting", "a"),
        ),
        retries_vary=True,  # the first change helps nobody; whether it is tried before the next is chance
    ),
    Scenario(
        "A pod that needs less leaves room",
        (
            node("a", cpu="1"),
            pod("first", cpu="600m"),
            pod("waiting", cpu="600m"),
            refused("waiting", "1 Insufficient cpu"),
            resize("first", cpu="500m"),
            settle,
            resize("first", cpu="300m"),
            bound("waiting", "a"),
        ),
        retries_vary=True,  # the first change helps nobody; whether it is tried before the next is chance
    ),
    Scenario(
        "A pod that learns to need less",
        (
            node("a", cpu="500m"),
            pod("waiting", cpu="600m"),
            refused("waiting", "1 Insufficient cpu"),
            resize("waiting", cpu="400m"),
            bound("waiting", "a"),
        ),
    ),
    Scenario(
        "A finished pod leaves room",
        (
            node("a", cpu="1"),
            pod("first", shuns_pods(term(WEB, HOST)), cpu="600m", ports=[host_port(80)]),
            pod("waiting", labels=WEB, cpu="600m", ports=[host_port(80)]),
            refused("waiting", "1 node(s) didn't have free ports"),
            finish("first"),
            bound("waiting", "a"),
        ),
    ),
    Scenario(
        "A pod comes again under its name",
        (
            node("a"),
            pod("again", cpu="100"),
            refused("again", "1 Insufficient cpu"),
            remove_pod("again"),
            pod("again"),
            bound("again", "a"),
            remove_pod("again"),
            pod("again", cpu="200"),
            refused("again", "1 Insufficient cpu"),
        ),
    ),
    Scenario(
        "A pod that is going still takes room and is shunned",
        (
            node("a", cpu="1"),
            pod("going", labels=WEB, cpu="600m"),
            ask_to_go("going"),
            pod("large", cpu="600m"),
            refused("large", "1 Insufficient cpu"),
            pod("shunning", shuns_pods(term(WEB, HOST))),
            refused("shunning", "1 node(s) didn't match pod anti-affinity rules"),
            remove_pod("going"),
            bound("large", "a"),
            bound("shunning", "a"),
        ),
    ),
    Scenario(
        "A pod that goes leaves its port",
        (
            node("a"),
            pod("first", ports=[host_port(80)]),
            pod("waiting", ports=[host_port(80)]),
            refused("waiting", "1 node(s) didn't have free ports"),
            remove_pod("first"),
            bound("waiting", "a"),
        ),
    ),
    Scenario(
        "The pod that was needed",
        (
            node("a"),
            node("b"),
            pod("waiting", needs_pods(term(DB, HOST))),
            refused("waiting", "2 node(s) didn't match pod affinity rules"),
            pod("stranger", {"nodeSelector": {HOST: "a"}}, labels=WEB),
            settle,
            pod("db", {"nodeSelector": {HOST: "b"}}, labels=DB),
            bound("waiting", "b"),
        ),
    ),
    Scenario(
        "The pod that was shunned goes",
        (
            node("a"),
            pod("db", labels=DB),
            pod("waiting", shuns_pods(term(DB, HOST))),
            refused("waiting", "1 node(s) didn't match pod anti-affinity rules"),
            remove_pod("db"),
            bound("waiting", "a"),
        ),
    ),
    Scenario(
        "A node for pods that shun each other",
        (
            node("a"),
            pod("web", shuns_pods(term(WEB, HOST)), labels=WEB),
            pod("waiting", shuns_pods(term(WEB, HOST)), labels=WEB),
            refused("waiting", "1 node(s) didn't match pod anti-affinity rules"),
            node("b"),
            bound("waiting", "b"),
        ),
    ),
    Scenario(
        "A zone that could not be used goes",
        (
            node("a", zone="a"),
            node("b", zone="b", cpu="10m"),
            pod("first", spreads(spread(ZONE, WEB)), labels=WEB),
            pod("waiting", spreads(spread(ZONE, WEB)), labels=WEB),
            refused("waiting", "1 node(s) didn't match pod topology spread constraints"),
            remove_node("b"),
            bound("waiting", "a"),
        ),
    ),
    Scenario(
        "A spread pod waits for one of its own to go",
        (
            node("a", zone="a"),
            node("b", zone="b", cpu="100m"),
            *pods(3, "web", spreads(spread(ZONE, WEB)), labels=WEB),
            pod("waiting", spreads(spread(ZONE, WEB)), labels=WEB),
            refused("waiting", "1 node(s) didn't match pod topology spread constraints"),
            pod("other", {"nodeSelector": {ZONE: "a"}}, labels=DB),
            settle,
            remove_pod("other"),
            settle,
        ),
        placements=in_each(ZONE),
        retries_vary=True,
    ),
    Scenario(
        "A pod that learns to tolerate",
        (
            node("a", taints=[taint("closed")]),
            pod("waiting"),
            refused("waiting", "untolerated taint"),
            tolerate("waiting", {"key": "closed", "operator": "Exists"}),
            bound("waiting", "a"),
        ),
    ),
    Scenario(
        "A pod whose labels let it in",
        (
            node("a"),
            pod("web", shuns_pods(term(WEB, HOST)), labels=DB),
            pod("waiting", labels=WEB),
            refused("waiting", "1 node(s) didn't satisfy existing pods anti-affinity rules"),
            change_pod("waiting", {"metadata": {"labels": {"app": "other"}}}),
            bound("waiting", "a"),
        ),
    ),
    Scenario(
        "Several wait for little room",
        (
            node("a", cpu="100m"),
            *pods(3, "waiting", cpu="1"),
            refused("waiting-2", "1 Insufficient cpu"),
            node("b", cpu="1500m"),
            refused("waiting-1", "0/2 nodes"),
            refused("waiting-2", "0/2 nodes"),
        ),
        placements=shape(HOST),
    ),
    Scenario(
        "A node for many pods that wait",
        (
            node("a", cpu="10m"),
            *pods(MANY, "waiting", wait=False),
            *(refused(f"waiting-{index}", "1 Insufficient cpu") for index in range(MANY)),
            node("b", cpu="20", memory="100Gi", pods=str(MANY)),
            *(bound(f"waiting-{index}", "b") for index in range(MANY)),
        ),
    ),
    Scenario(
        "Many pods of several kinds wait, and one kind after the other is let in",
        (
            node("a", cpu="10m", pods=str(OF_A_KIND)),
            *pods(OF_A_KIND, "large", cpu="1", wait=False),
            *pods(OF_A_KIND, "huge", cpu="100", wait=False),
            *pods(OF_A_KIND, "choosy", needs_node(has("disk", "ssd")), cpu="10m", wait=False),
            *(refused(f"large-{index}", "1 Insufficient cpu") for index in range(OF_A_KIND)),
            *(refused(f"huge-{index}", "1 Insufficient cpu") for index in range(OF_A_KIND)),
            *(refused(f"choosy-{index}", "didn't match Pod's node affinity") for index in range(OF_A_KIND)),
            node("b", cpu="900m", memory="100Gi", pods=str(OF_A_KIND + 1)),
            pod("first", cpu="500m"),
            bound("first", "b"),
            settle,
            change_node("b", {"metadata": {"labels": {"disk": "ssd"}}}),
            *(bound(f"choosy-{index}", "b") for index in range(OF_A_KIND)),
            remove_pod("first"),  # which helps nobody; each is tried again
            *(refused(f"large-{index}", "0/2 nodes") for index in range(OF_A_KIND)),
            *(refused(f"huge-{index}", "0/2 nodes") for index in range(OF_A_KIND)),
            node("c", cpu=str(OF_A_KIND), memory="100Gi", pods=str(OF_A_KIND)),
            *(bound(f"large-{index}", "c") for index in range(OF_A_KIND)),
        ),
        retries_vary=True,  # whether a change is seen before all pods were tried after the one before is chance
    ),
    Scenario(
        "Some of many pods that wait are deleted",
        (
            node("a", cpu="10m"),
            *pods(8, "waiting", cpu="1"),
            *(remove_pod(f"waiting-{index}") for index in range(0, 8, 2)),
            node("b", cpu="4"),
            *(bound(f"waiting-{index}", "b") for index in range(1, 8, 2)),
        ),
    ),
    Scenario(
        "A node is deleted and comes back larger",
        (
            node("a", cpu="500m"),
            pod("waiting", cpu="1"),
            refused("waiting", "1 Insufficient cpu"),
            remove_node("a"),
            settle,
            node("a", cpu="2"),
            bound("waiting", "a"),
        ),
    ),
)
