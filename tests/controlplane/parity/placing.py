"""Scenarios of filters and scores: where pods may be, where they would rather be, and how a refusal is worded."""

from __future__ import annotations

from typing import Any

from tests.controlplane.parity.manifests import (
    HOST,
    ZONE,
    avoids_pods,
    has,
    host_port,
    needs_node,
    needs_pods,
    prefers_node,
    prefers_pods,
    priority_class,
    service,
    shuns_pods,
    spread,
    spreads,
    taint,
    term,
    tolerates,
)
from tests.controlplane.parity.outcome import in_each, label_of_each, shape
from tests.controlplane.parity.scenario import Scenario
from tests.controlplane.parity.stage import FOREIGN
from tests.controlplane.parity.steps import ask_to_go, bound, namespace, node, pod, pods, refused, settle, thing


def _with_init(cpu: str, *, restarts: bool = False) -> dict[str, Any]:
    """A pod's spec with an init container, or a sidecar."""
    container: dict[str, Any] = {"name": "init", "image": "pause:3.10", "resources": {"requests": {"cpu": cpu}}}
    if restarts:
        container["restartPolicy"] = "Always"
    return {"initContainers": [container]}


WEB = {"app": "web"}
DB = {"app": "db"}

NODES = (
    Scenario(
        "Required node affinity",
        (
            node("a", {"disk": "ssd", "generation": "7"}),
            node("b", {"disk": "hdd", "generation": "3"}),
            node("c", {"generation": "5"}),
            pod("in", needs_node(has("disk", "ssd"))),
            bound("in", "a"),
            pod("not-in", needs_node(has("disk", "ssd", operator="NotIn"), has("generation", "4", operator="Lt"))),
            bound("not-in", "b"),
            pod("without", needs_node(has("disk", operator="DoesNotExist"))),
            bound("without", "c"),
            pod("newer", needs_node(has("generation", "6", operator="Gt"))),
            bound("newer", "a"),
            pod("by-name", needs_node(fields=[has("metadata.name", "c")])),
            bound("by-name", "c"),
            pod("selector", {"nodeSelector": {"disk": "hdd"}}),
            bound("selector", "b"),
            pod("nowhere", needs_node(has("disk", "tape"))),
            refused("nowhere", "3 node(s) didn't match Pod's node affinity/selector"),
            pod("name-and-label", needs_node(has("disk", "ssd"), fields=[has("metadata.name", "b")])),
            refused("name-and-label", "node(s) didn't match Pod's node affinity/selector"),
            pod("no-such-node", needs_node(fields=[has("metadata.name", "z")])),
            refused("no-such-node", "3 nodes"),
        ),
    ),
    Scenario(
        "Preferred node affinity decides",
        (
            node("a", {"disk": "ssd"}),
            node("b", {"disk": "hdd"}),
            node("c", {"disk": "hdd", "fast": "yes"}),
            pod("likes-ssd", prefers_node((10, has("disk", "ssd")))),
            bound("likes-ssd", "a"),
            pod("likes-both", prefers_node((10, has("disk", "ssd")), (20, has("fast", operator="Exists")))),
            bound("likes-both", "c"),
            pod("weighs", prefers_node((1, has("disk", "ssd")), (100, has("fast", operator="DoesNotExist")))),
            bound("weighs", "a"),
        ),
    ),
    Scenario(
        "Taints keep off, tolerations let in",
        (
            node("a", taints=[taint("dedicated", value="x")]),
            node("b", taints=[taint("dedicated", value="y"), taint("gone", "NoExecute")]),
            pod("intolerant"),
            refused("intolerant", "2 node(s) had untolerated taint"),
            pod("one", tolerates({"key": "dedicated", "operator": "Equal", "value": "x", "effect": "NoSchedule"})),
            bound("one", "a"),
            pod("half", tolerates({"key": "dedicated", "value": "y"})),
            refused("half", "untolerated taint"),
            pod("all", {**tolerates({"operator": "Exists"}), "nodeSelector": {HOST: "b"}}),
            bound("all", "b"),
        ),
    ),
    Scenario(
        "A preference against taints decides",
        (
            node("a", taints=[taint("slow", "PreferNoSchedule")]),
            node("b", taints=[taint("slow", "PreferNoSchedule"), taint("old", "PreferNoSchedule")]),
            node("c", taints=[taint("slow"), taint("old")]),
            pod("plain"),
            bound("plain", "a"),
            pod("used-to-slow", tolerates({"key": "slow", "operator": "Exists"})),
            pod("used-to-old", tolerates({"key": "old", "operator": "Exists"})),
            pod("used-to-both", tolerates({"operator": "Exists"})),
        ),
        placements=lambda bindings, nodes: {pod: node for pod, node in bindings.items() if "both" not in pod},
    ),
    Scenario(
        "Cordoned nodes, full nodes and too large pods",
        (
            node("a", cpu="1"),
            node("cordoned", unschedulable=True),
            node("full", pods="0"),
            pod("fits", cpu="800m"),
            bound("fits", "a"),
            pod("too-large", cpu="100", memory="100Gi"),
            refused("too-large", "Insufficient memory"),
            pod("second", cpu="300m"),
            refused("second", "1 Too many pods"),
            pod("cordon-tolerant", tolerates({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"})),
        ),
        placements=lambda bindings, nodes: {pod: node for pod, node in bindings.items() if "tolerant" not in pod},
    ),
    Scenario(
        "Sidecars, first steps and limits of a whole pod count",
        (
            node("a", cpu="1"),
            node("b", cpu="2"),
            pod("sidecar", _with_init(cpu="950m", restarts=True)),
            bound("sidecar", "b"),
            pod("first-step", _with_init(cpu="1")),
            bound("first-step"),
            pod("whole", {"resources": {"requests": {"cpu": "1500m"}, "limits": {"cpu": "2"}}}),
            refused("whole", "2 Insufficient cpu"),
        ),
    ),
    Scenario(
        "Extended resources run out",
        (
            node("a", gpu="2"),
            node("b", gpu="1"),
            node("c"),
            pod("two", gpu="2"),
            bound("two", "a"),
            pod("one", gpu="1"),
            bound("one", "b"),
            pod("none-left", gpu="1"),
            refused("none-left", "3 Insufficient example.com/gpu"),
            pod("unknown", fpga="1"),
            refused("unknown", "Insufficient example.com/fpga"),
        ),
    ),
    Scenario(
        "Host ports clash",
        (
            node("a"),
            node("b"),
            *pods(2, "everywhere", ports=[host_port(8080)]),
            pod("third", ports=[host_port(8080)]),
            refused("third", "2 node(s) didn't have free ports for the requested pod ports"),
            pod("one-address", ports=[host_port(8080, "127.0.0.1")]),
            refused("one-address", "free ports"),
            pod("other-protocol", ports=[host_port(8080, protocol="UDP")]),
            bound("other-protocol"),
            pod("first-address", {"nodeSelector": {HOST: "a"}}, ports=[host_port(9090, "127.0.0.1")]),
            pod("second-address", {"nodeSelector": {HOST: "a"}}, ports=[host_port(9090, "127.0.0.2")]),
            bound("second-address", "a"),
        ),
        placements=lambda bindings, nodes: {pod: node for pod, node in bindings.items() if "address" in pod},
    ),
    Scenario(
        "Images that are there already decide",
        (
            node("a", images={"example.com/small:1": 30_000_000}),
            node("b", images={"example.com/large:1": 900_000_000}),
            node("c", images={"example.com/large:1": 900_000_000, "example.com/small:1": 30_000_000}),
            pod("large-and-small", image="example.com/large:1"),
            pod("large", image="example.com/large:1"),
            pod("small", image="example.com/small:1"),
            pod("unknown", image="example.com/unknown:1"),
            node("d", images={"example.com/huge:1": 5_000_000_000}),
            pod("huge", image="example.com/huge:1"),
            bound("huge", "d"),
        ),
        placements=lambda bindings, nodes: {"huge": bindings.get("main/huge")},
    ),
)

SPREADING = (
    Scenario(
        "Hard spread over zones",
        (
            node("a1", zone="a"),
            node("a2", zone="a"),
            node("b1", zone="b", cpu="1"),
            node("unzoned"),
            *pods(4, "web", spreads(spread(ZONE, WEB)), labels=WEB, cpu="400m"),
            pod("too-many", spreads(spread(ZONE, WEB)), labels=WEB, cpu="400m"),
            pod("far-too-many", spreads(spread(ZONE, WEB)), labels=WEB, cpu="400m"),
            refused("far-too-many", "missing required label"),
        ),
        placements=in_each(ZONE),
    ),
    Scenario(
        "Hard spread over hosts",
        (
            node("a"),
            node("b"),
            node("c", cpu="100m"),
            *pods(3, "web", spreads(spread(HOST, WEB)), labels=WEB, cpu="50m"),
            pod("fourth", spreads(spread(HOST, WEB)), labels=WEB),
            pod("fifth", spreads(spread(HOST, WEB)), labels=WEB),
            pod("sixth", spreads(spread(HOST, WEB)), labels=WEB),
            refused("sixth", "2 node(s) didn't match pod topology spread constraints"),
        ),
        placements=in_each(HOST),
    ),
    Scenario(
        "Hard spread over zones and hosts at once",
        (
            node("a1", zone="a"),
            node("a2", zone="a"),
            node("b1", zone="b"),
            node("b2", zone="b", cpu="100m"),
            *pods(4, "web", spreads(spread(ZONE, WEB), spread(HOST, WEB)), labels=WEB, cpu="50m"),
            *pods(4, "more", spreads(spread(ZONE, WEB), spread(HOST, WEB)), labels=WEB),
            refused("more-3", "node(s) didn't match pod topology spread constraints"),
        ),
        placements=in_each(ZONE),
    ),
    Scenario(
        "Fewer zones than the least number of domains",
        (
            node("a", zone="a"),
            node("b", zone="b"),
            *pods(2, "web", spreads(spread(ZONE, WEB, minDomains=3)), labels=WEB),
            pod("third", spreads(spread(ZONE, WEB, minDomains=3)), labels=WEB),
            refused("third", "2 node(s) didn't match pod topology spread constraints"),
            node("c", zone="c"),
            bound("third", "c"),
        ),
        placements=in_each(ZONE),
    ),
    Scenario(
        "Spread that leaves out tainted nodes and follows a revision",
        (
            node("a", zone="a"),
            node("b", zone="b"),
            node("c", zone="c", taints=[taint("closed")]),
            *pods(
                2,
                "old",
                spreads(spread(ZONE, WEB, nodeTaintsPolicy="Honor", matchLabelKeys=["revision"])),
                labels={**WEB, "revision": "1"},
            ),
            *pods(
                3,
                "new",
                spreads(spread(ZONE, WEB, nodeTaintsPolicy="Honor", matchLabelKeys=["revision"])),
                labels={**WEB, "revision": "2"},
            ),
            *pods(2, "ignoring", spreads(spread(ZONE, DB)), labels=DB),
            pod("ignoring-too", spreads(spread(ZONE, DB)), labels=DB),
            refused("ignoring-too", "2 node(s) didn't match pod topology spread constraints"),
        ),
        placements=shape(ZONE),
    ),
    Scenario(
        "Pods that are going do not count when others spread",
        (
            node("a", zone="a"),
            node("b", zone="b", taints=[taint("closed")]),
            pod("first", spreads(spread(ZONE, WEB)), labels=WEB),
            bound("first", "a"),
            pod("second", spreads(spread(ZONE, WEB)), labels=WEB),
            refused("second", "1 node(s) didn't match pod topology spread constraints"),
            ask_to_go("first"),
            pod("third", spreads(spread(ZONE, WEB)), labels=WEB),
            settle,
        ),
        placements=in_each(ZONE),
        # Which of the two that wait gets the room depends on who is awake first.
        retries_vary=True,
    ),
    Scenario(
        "Domains that node affinity leaves out count with nodeAffinityPolicy Ignore",
        (
            node("a", {"pool": "x"}, zone="a"),
            node("b", {"pool": "y"}, zone="b"),
            *pods(
                2,
                "honouring",
                {**spreads(spread(ZONE, WEB)), "nodeSelector": {"pool": "x"}},
                labels=WEB,
            ),
            *pods(
                2,
                "ignoring",
                {**spreads(spread(ZONE, DB, nodeAffinityPolicy="Ignore")), "nodeSelector": {"pool": "x"}},
                labels=DB,
            ),
            refused("ignoring-1", "1 node(s) didn't match pod topology spread constraints"),
        ),
    ),
    Scenario(
        "Soft spread decides against a larger node",
        (
            node("large", zone="a", cpu="64", memory="256Gi"),
            node("small", zone="b"),
            *pods(6, "web", spreads(spread(ZONE, WEB, hard=False)), labels=WEB),
        ),
    ),
    Scenario(
        "Without a Service pods prefer the large node",
        (
            node("large", zone="a", cpu="64", memory="512Gi"),
            node("small", zone="b"),
            *pods(4, "web", labels=WEB),
            bound("web-3", "large"),
        ),
    ),
    Scenario(
        "A Service spreads its pods by default",
        (
            node("large", zone="a", cpu="64", memory="512Gi"),
            node("small", zone="b"),
            thing(service("web", WEB)),
            *pods(4, "web", labels=WEB),
            *pods(2, "other", labels=DB),
        ),
    ),
    Scenario(
        "Constraints of a profile apply to pods of a Service",
        (
            node("large", zone="a", cpu="64", memory="512Gi"),
            node("small", zone="b", cpu="200m"),
            thing(service("web", WEB)),
            *pods(6, "web", labels=WEB, profile="own-constraints"),
            refused("web-5", "didn't match pod topology spread constraints"),
            pod("free", labels=DB, profile="own-constraints"),
            bound("free", "large"),
        ),
        placements=in_each(ZONE),
    ),
)

TOGETHER = (
    Scenario(
        "The first of a series attracts the others",
        (
            node("a"),
            node("b"),
            node("c"),
            *pods(3, "db", needs_pods(term(DB, HOST)), labels=DB),
            pod("stranger", needs_pods(term({"app": "nobody"}, HOST))),
            refused("stranger", "3 node(s) didn't match pod affinity rules"),
        ),
        placements=shape(HOST),
    ),
    Scenario(
        "Pods that need another in their zone",
        (
            node("a1", zone="a"),
            node("a2", zone="a"),
            node("b1", zone="b"),
            pod("db", {"nodeSelector": {ZONE: "a"}}, labels=DB),
            *pods(3, "web", needs_pods(term(DB, ZONE)), labels=WEB, cpu="2"),
            *pods(3, "more", needs_pods(term(DB, ZONE)), labels=WEB, cpu="2"),
            refused("more-2", "1 node(s) didn't match pod affinity rules"),
        ),
        placements=label_of_each(ZONE),
    ),
    Scenario(
        "Pods that shun each other",
        (
            node("a"),
            node("b"),
            *pods(2, "web", shuns_pods(term(WEB, HOST)), labels=WEB),
            pod("third", shuns_pods(term(WEB, HOST)), labels=WEB),
            refused("third", "2 node(s) didn't match pod anti-affinity rules"),
            pod("shunned", labels=WEB),
            refused("shunned", "2 node(s) didn't satisfy existing pods anti-affinity rules"),
            pod("other", labels=DB),
            bound("other"),
        ),
        placements=lambda bindings, nodes: shape(HOST)(
            {pod: node for pod, node in bindings.items() if "web" in pod}, nodes
        ),
    ),
    Scenario(
        "Preferred affinity decides",
        (
            node("a"),
            node("b"),
            node("c", cpu="64", memory="512Gi"),
            pod("db", {"nodeSelector": {HOST: "a"}}, labels=DB),
            pod("web", prefers_pods((100, term(DB, HOST))), labels=WEB),
            bound("web", "a"),
            pod("away", avoids_pods((100, term(DB, HOST)), (50, term(WEB, HOST)))),
            bound("away", "c"),
            pod("liked", {"nodeSelector": {HOST: "b"}, **prefers_pods((50, term({"app": "friend"}, HOST)))}),
            pod("friend", labels={"app": "friend"}),
            bound("friend", "b"),
            pod("indifferent", labels={"app": "friend"}, profile="ignores-preferences"),
        ),
    ),
    Scenario(
        "Pods that need others attract them",
        (
            node("a"),
            node("b", cpu="64", memory="512Gi"),
            pod("db", {"nodeSelector": {HOST: "a"}}, labels=DB),
            pod("needs-db", {"nodeSelector": {HOST: "a"}, **needs_pods(term(DB, HOST))}),
            pod("attracted", labels=DB, profile="heeds-needs"),
            bound("attracted", "a"),
            pod("hardly", labels=DB),
        ),
    ),
    Scenario(
        "Affinity within one revision, and against others",
        (
            node("a"),
            node("b"),
            pod("old", {"nodeSelector": {HOST: "a"}}, labels={**WEB, "revision": "1"}),
            pod("new", {"nodeSelector": {HOST: "b"}}, labels={**WEB, "revision": "2"}),
            pod("joins", needs_pods(term(WEB, HOST, matchLabelKeys=["revision"])), labels={"revision": "2"}),
            bound("joins", "b"),
            pod("leaves", shuns_pods(term(WEB, HOST, mismatchLabelKeys=["revision"])), labels={"revision": "1"}),
            bound("leaves", "a"),
        ),
    ),
    Scenario(
        "Affinity across namespaces",
        (
            node("a"),
            node("b"),
            node("c", cpu="64", memory="512Gi"),
            namespace("blue", team="blue"),
            namespace("red", team="red"),
            pod("db", {"nodeSelector": {HOST: "a"}}, labels=DB, namespace="blue"),
            pod("db", {"nodeSelector": {HOST: "b"}}, labels=DB, namespace="red"),
            pod("own-only", needs_pods(term(DB, HOST))),
            refused("own-only", "3 node(s) didn't match pod affinity rules"),
            pod("blue", needs_pods(term(DB, HOST, namespaceSelector={"matchLabels": {"team": "blue"}}))),
            bound("blue", "a"),
            pod("not-blue", needs_pods(term(DB, HOST, namespaceSelector={"matchExpressions": [has("team", "red")]}))),
            bound("not-blue", "b"),
            pod("nobodys", shuns_pods(term(DB, HOST, namespaceSelector={}))),
            bound("nobodys", "c"),
        ),
    ),
)

PACKING = Scenario(
    "One profile packs, another spreads",
    (
        node("a"),
        node("b"),
        pod("first", {"nodeSelector": {HOST: "b"}}, cpu="1", memory="4Gi"),
        *pods(3, "packed", profile="packing", cpu="500m", memory="2Gi"),
        bound("packed-2", "b"),
        *pods(3, "spread", cpu="500m", memory="2Gi"),
        bound("spread-2", "a"),
        pod("no-room", profile="packing", cpu="4"),
        refused("no-room", "2 Insufficient cpu"),
    ),
)

PROFILES = (
    PACKING,
    Scenario(
        "A ratio of requests to capacity with weights",
        (
            node("a", gpu="8"),
            node("b", gpu="8"),
            node("c", gpu="8", cpu="64", memory="512Gi"),
            pod("first", {"nodeSelector": {HOST: "b"}}, gpu="4"),
            *pods(3, "packed", profile="ratio", gpu="1"),
            bound("packed-2", "b"),
            pod("large", profile="ratio", gpu="6"),
            pod("spread", gpu="1"),
        ),
        placements=lambda bindings, nodes: {pod: node for pod, node in bindings.items() if "large" not in pod},
    ),
    Scenario(
        "A profile adds node affinity",
        (
            node("a", {"pool": "green"}),
            node("b", {"pool": "blue"}, cpu="200m"),
            *pods(2, "blue", profile="added-affinity"),
            bound("blue-1", "b"),
            pod("third", profile="added-affinity"),
            refused("third", "1 node(s) didn't match scheduler-enforced node affinity"),
            pod("free"),
            bound("free", "a"),
        ),
    ),
    Scenario(
        "A profile without taints",
        (
            node("a", taints=[taint("closed")]),
            pod("kept-off"),
            refused("kept-off", "1 node(s) had untolerated taint"),
            pod("blind", profile="blind-to-taints"),
            bound("blind", "a"),
        ),
        pardons="taint closed is not tolerated",
    ),
    Scenario(
        "A scheduler that starts finds what is there",
        (
            node("a", cpu="1"),
            node("b"),
            node("c", taints=[taint("closed")]),
            pod("theirs", {"nodeName": "a"}, labels=DB, cpu="700m", profile=FOREIGN, wait=False),
            pod("other", {"nodeName": "c"}, labels=WEB, profile=FOREIGN, ports=[host_port(80)], wait=False),
            pod("no-room-on-a", cpu="400m", wait=False),
            pod("beside-theirs", needs_pods(term(DB, HOST)), wait=False),
            pod("nowhere", needs_pods(term(WEB, HOST)), wait=False),
            pod("gated", {"schedulingGates": [{"name": "example.com/wait"}]}, wait=False),
        ),
        starts_cold=True,
    ),
    Scenario(
        "A scheduler that starts takes the most important pods first",
        (
            node("a", cpu="400m"),
            thing(priority_class("high", 1000, preempts=False)),
            thing(priority_class("middle", 100, preempts=False)),
            thing(priority_class("low", 10, preempts=False)),
            *(
                pod(f"{name}-{number}", {"priorityClassName": name}, wait=False)
                for number in range(2)
                for name in ("low", "high", "middle")
            ),
            pod("none", wait=False),
        ),
        starts_cold=True,
    ),
)
