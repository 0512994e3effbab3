"""The judge of placements finds each way in which a pod may be where it must not, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from kscheduler.testing.controlplane import workload
from kscheduler.testing.controlplane.api import Object
from tests.controlplane.parity.judge import World, by_name, infeasible
from tests.controlplane.parity.manifests import (
    HOST,
    ZONE,
    claim,
    has,
    host_port,
    mounts,
    needs_node,
    needs_pods,
    shuns_pods,
    spread,
    spreads,
    taint,
    term,
    tolerates,
    volume,
)

WEB = {"app": "web"}
NODES = [
    workload.node("a", labels={ZONE: "a"}),
    workload.node("b", labels={ZONE: "b"}),
    workload.node("unzoned"),
    workload.node("tainted", labels={ZONE: "c"}, taints=[taint("closed", value="x")]),
    {**workload.node("cordoned"), "spec": {"unschedulable": True}},
]


def bound(
    name: str, node: str, spec: Object | None = None, ports: list[Object] | None = None, **options: Any
) -> Object:
    pod = workload.pod(name, spec=spec, **options)
    pod["metadata"] |= {"namespace": "main", "uid": name}
    pod["spec"]["nodeName"] = node
    pod["spec"]["containers"][0]["ports"] = ports or []
    return pod


def elsewhere(pod: Object) -> Object:
    """The same pod in another namespace."""
    pod["metadata"]["namespace"] = "other"
    return pod


def judged(pod: Object, *others: Object, **objects: Any) -> list[str]:
    return infeasible(pod, World(by_name(NODES), [pod, *others], **objects))


def test_a_plain_pod_may_be_on_a_plain_node() -> None:
    assert judged(bound("p", "a"), bound("q", "a")) == []


@pytest.mark.parametrize(
    ("pod", "others", "what"),
    [
        (bound("p", "nowhere"), [], "does not exist"),
        (bound("p", "tainted"), [], "taint closed"),
        (bound("p", "tainted", tolerates({"key": "closed", "value": "y"})), [], "taint closed"),
        (bound("p", "cordoned"), [], "unschedulable"),
        (bound("p", "a", {"nodeSelector": {ZONE: "b"}}), [], "selector or affinity"),
        (bound("p", "a", needs_node(has(ZONE, "a", operator="NotIn"))), [], "selector or affinity"),
        (bound("p", "a", requests={"cpu": "3"}), [bound("q", "a", requests={"cpu": "2"})], "overcommitted in cpu"),
        (
            bound("p", "a", ports=[host_port(80)]),
            [bound("q", "a", ports=[host_port(80, "127.0.0.1")])],
            "host port 80",
        ),
        (bound("p", "a", needs_pods(term(WEB, ZONE))), [], "does not match its own affinity"),
        (bound("p", "a", needs_pods(term(WEB, ZONE))), [bound("q", "b", labels=WEB)], "no pod that it needs"),
        (bound("p", "a", needs_pods(term(WEB, ZONE)), labels=WEB), [bound("q", "b", labels=WEB)], "no pod that"),
        (bound("p", "a", shuns_pods(term(WEB, HOST))), [bound("q", "a", labels=WEB)], "anti-affinity of p"),
        (bound("p", "a", labels=WEB), [bound("q", "a", shuns_pods(term(WEB, HOST)))], "anti-affinity of q"),
        (bound("p", "a", spreads(spread(ZONE, WEB)), labels=WEB), [bound("q", "a", labels=WEB)], "maxSkew of 1"),
        (bound("p", "unzoned", spreads(spread(ZONE, WEB)), labels=WEB), [], f"its node has no {ZONE}"),
        (bound("p", "a", mounts("data")), [], "claim data has no volume"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_forbids_a_node_is_named(pod: Object, others: list[Object], what: str) -> None:
    found = judged(pod, *others)
    assert len(found) == 1, found
    assert what in found[0]


@pytest.mark.parametrize(
    ("pod", "others"),
    [
        (bound("p", "tainted", tolerates({"key": "closed", "value": "x"})), []),
        (bound("p", "tainted", tolerates({"operator": "Exists"})), []),
        (bound("p", "a", ports=[host_port(80, "10.0.0.1")]), [bound("q", "a", ports=[host_port(80, "127.0.0.1")])]),
        (bound("p", "a", ports=[host_port(80)]), [bound("q", "a", ports=[host_port(80, protocol="UDP")])]),
        (bound("p", "a", needs_pods(term(WEB, ZONE)), labels=WEB), []),
        (bound("p", "a", needs_pods(term(WEB, ZONE)), labels=WEB), [elsewhere(bound("q", "b", labels=WEB))]),
        (bound("p", "a", shuns_pods(term(WEB, ZONE))), [bound("q", "b", labels=WEB)]),
        (bound("p", "a", spreads(spread(ZONE, WEB, skew=2)), labels=WEB), [bound("q", "a", labels=WEB)]),
        (bound("p", "a", spreads(spread(ZONE, WEB, hard=False)), labels=WEB), [bound("q", "a", labels=WEB)]),
    ],
)
def test_what_only_looks_like_an_obstacle_is_none(pod: Object, others: list[Object]) -> None:
    assert judged(pod, *others) == []


def test_tainted_nodes_count_as_domains_unless_the_constraint_honours_taints() -> None:
    others = [bound("q", "b", labels=WEB), bound("r", "a", labels=WEB)]
    ignoring = bound("p", "a", spreads(spread(ZONE, WEB)), labels=WEB)
    honouring = bound("p", "a", spreads(spread(ZONE, WEB, nodeTaintsPolicy="Honor")), labels=WEB)
    assert judged(ignoring, *others) == ["2 pods in a, 0 elsewhere, with a maxSkew of 1"]
    assert judged(honouring, *others) == []


def test_a_namespace_is_selected_by_its_labels() -> None:
    everywhere = bound("p", "a", needs_pods(term(WEB, ZONE, namespaceSelector={"matchLabels": {"team": "x"}})))
    other = elsewhere(bound("q", "a", labels=WEB))
    assert judged(everywhere, other, namespaces={"other": {"team": "x"}}) == []
    assert len(judged(everywhere, other, namespaces={"other": {"team": "y"}})) == 1


def test_a_volume_must_be_reachable_from_the_node() -> None:
    bound_claim = claim("data", "local", volume="disk")
    objects = {"claims": {("main", "data"): bound_claim}, "volumes": {"disk": volume("disk", "local", node="b")}}
    assert judged(bound("p", "b", mounts("data")), **objects) == []
    assert judged(bound("p", "a", mounts("data")), **objects) == ["volume disk cannot be accessed from a"]
