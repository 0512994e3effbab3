"""What a scenario came to with one scheduler, and in which words; and how two outcomes differ.

Everything that a user can see and that must not differ: bound or not, where, the PodScheduled condition, the
nominated node, Events, claims and their devices. Generated names are masked. Where a pod may be on any of several equal
nodes, a scenario says what of its placement counts.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from kscheduler.testing.controlplane.api import Object
from tests.controlplane.parity.stage import Stage, condition

Nodes = Mapping[str, Object]  # name -> node
Bindings = Mapping[str, str]  # namespace/name of a bound pod -> node
Placements = Callable[[Bindings, Nodes], dict[str, Any]]

ABSENT = "absent"


def exact(bindings: Bindings, nodes: Nodes) -> dict[str, Any]:
    """The very node of each pod: for scenarios in which filters or scores leave one."""
    return dict(bindings)


def anywhere(bindings: Bindings, nodes: Nodes) -> dict[str, Any]:
    """Nothing: the judge alone decides."""
    return {}


def in_each(key: str) -> Placements:
    """How many pods are in each domain of a label."""

    def count(bindings: Bindings, nodes: Nodes) -> dict[str, Any]:
        return dict(Counter(_label(nodes, node, key) for node in bindings.values()))

    return count


def shape(key: str) -> Placements:
    """How many pods are together in a domain of a label, whichever that is: `2 1 1`."""

    def sizes(bindings: Bindings, nodes: Nodes) -> dict[str, Any]:
        counts = Counter(_label(nodes, node, key) for node in bindings.values())
        return {f"pods in each {key}": " ".join(map(str, sorted(counts.values(), reverse=True)))}

    return sizes


def label_of_each(key: str) -> Placements:
    """The domain of each pod."""

    def find(bindings: Bindings, nodes: Nodes) -> dict[str, Any]:
        return {pod: _label(nodes, node, key) for pod, node in bindings.items()}

    return find


@dataclass(frozen=True, slots=True)
class Outcome:
    """Each field maps what it is about, as scenarios know it, to what was found."""

    bound: dict[str, Any]  # pod -> is it?
    placements: dict[str, Any]  # what a scenario's `Placements` made of the bindings
    conditions: dict[str, Any]  # pod -> its PodScheduled condition, without times
    nominated: dict[str, Any]  # pod -> nominatedNodeName
    disrupted: dict[str, Any]  # pod that is still there -> its DisruptionTarget condition, without times
    events: dict[str, Any]  # who reports what about whom -> how many such Events
    claims: dict[str, Any]  # claim -> phase, volume, selected node
    devices: dict[str, Any]  # claim for devices -> those it has, where they can be used, and by whom they are
    backed: dict[str, Any]  # pod whose extended resources devices back -> which requests of a claim they became
    node_resources: dict[str, Any]  # pod whose devices take cpu and the like of its node -> how much, by claim
    given_up: dict[str, Any]  # waits in vain
    wrong: dict[str, Any]  # what the judge found

    @property
    def problems(self) -> list[str]:
        """What did not go as the scenario and the judge demand."""
        return [*self.given_up, *self.wrong]


def collect(stage: Stage, placements: Placements, what_counts: Callable[[str, int], int]) -> Outcome:
    """Look at a play once nothing moves any more.

    `what_counts`: (an Event's text, how many Events have it) -> how many of these are compared.
    """
    pods = stage.pods()
    bindings = {key: pod["spec"]["nodeName"] for key, pod in sorted(pods.items()) if pod["spec"].get("nodeName")}

    def of_each(find: Callable[[Object], Any]) -> dict[str, Any]:
        return of_each_name({key: find(pod) for key, pod in pods.items()}, stage.mask)

    uids = {pod["metadata"]["uid"]: pod for pod in pods.values()}
    return Outcome(
        bound=of_each(lambda pod: bool(pod["spec"].get("nodeName"))),
        placements=placements(bindings, stage.nodes()),
        conditions=of_each(lambda pod: _condition(stage, pod, "PodScheduled")),
        nominated=of_each(lambda pod: pod["status"].get("nominatedNodeName", "")),
        disrupted=of_each(lambda pod: _condition(stage, pod, "DisruptionTarget")),
        events={
            words: count
            for words, found in Counter(
                _event(stage, each, uids) for each in stage.events() if _profile(stage, each)
            ).items()
            if (count := what_counts(words, found))
        },
        claims={key: _claim(stage, each, bindings) for key, each in stage.claims().items()},
        devices={_claim_name(key, each): _devices(each) for key, each in stage.resource_claims().items()},
        backed={key: made for key, pod in pods.items() if (made := _mappings(pod))},
        node_resources={key: taken for key, pod in pods.items() if (taken := _node_resources(pod))},
        given_up=dict.fromkeys(stage.given_up, "so"),
        wrong=dict.fromkeys(stage.wrong, "so"),
    )


def differences(theirs: Outcome, ours: Outcome) -> list[str]:
    """What differs, a paragraph each; empty when the outcomes are the same."""
    return [
        f"{field.name} of {key}:\n  kube-scheduler: {one}\n  kscheduler:     {other}"
        for field in fields(Outcome)
        for key, one, other in _unequal(getattr(theirs, field.name), getattr(ours, field.name))
    ]


def _unequal(theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for key in sorted(theirs.keys() | ours.keys(), key=str):
        one, other = theirs.get(key, ABSENT), ours.get(key, ABSENT)
        if one != other:
            yield key, one, other


def of_each_name(found: Mapping[str, Any], mask: Callable[[str], str]) -> dict[str, Any]:
    """What was found of each pod. Replicas have one name together, and in no order."""
    together: dict[str, list[Any]] = {}  # name without what is generated -> what was found of its pods
    for key, each in found.items():
        together.setdefault(mask(key), []).append(each)
    return {key: sorted(each, key=str) if "*" in key else each[0] for key, each in together.items()}


def _condition(stage: Stage, pod: Object, kind: str) -> dict[str, Any]:
    times = ("lastProbeTime", "lastTransitionTime")
    found = {key: value for key, value in condition(pod, kind).items() if key not in times}
    if "message" in found:
        found["message"] = _by_profile(stage, stage.mask(found["message"]))
    if "observedGeneration" in found:
        # Numbers depend on how often a scenario's own steps touched the pod; whether it is the newest does not.
        found["observedGeneration"] = found["observedGeneration"] - pod["metadata"]["generation"]
    return found


def _by_profile(stage: Stage, message: str) -> str:
    """A message that begins with a scheduler's name, with the profile instead."""
    scheduler, colon, words = message.partition(": ")
    profile = stage.names.profile_name(scheduler)
    return f"{profile}{colon}{words}" if colon and profile is not None else message


def _profile(stage: Stage, event: Object) -> str | None:
    """The profile that reports it; None for controllers, which write Events about the same pods."""
    return stage.names.profile_name(event.get("reportingController", ""))


def _event(stage: Stage, event: Object, pods: Mapping[str, Object]) -> str:
    about = event["regarding"]
    note = stage.mask(event.get("note", ""))
    pod = pods.get(about.get("uid", ""))
    if pod is not None and pod["spec"].get("nodeName"):
        # That it names the pod's own node is compared here; which node that is, by the scenario's `Placements`.
        note = re.sub(rf"\b{re.escape(pod['spec']['nodeName'])}$", "its node", note)
    return (
        f"{about['kind']} {stage.mask(about.get('namespace', ''))}/{stage.mask(about['name'])}:"
        f" {_profile(stage, event)} {event['type']} {event['reason']} {event.get('action')}: {note}"
    )


def _claim(stage: Stage, claim: Object, bindings: Bindings) -> str:
    selected = claim["metadata"].get("annotations", {}).get("volume.kubernetes.io/selected-node", "")
    if selected and selected in bindings.values():
        selected = "a pod's node"
    volume = stage.mask(claim["spec"].get("volumeName", ""))
    return f"{claim.get('status', {}).get('phase')}, volume {volume or 'none'}, selected node {selected or 'none'}"


def _claim_name(key: str, claim: Object) -> str:
    """Return a claim's name; a generated one is replaced by the pod and the pod's entry that it belongs to."""
    metadata = claim["metadata"]
    entry = metadata.get("annotations", {}).get("resource.kubernetes.io/pod-claim-name", "")
    owners = [owner["name"] for owner in metadata.get("ownerReferences", ())]
    if not owners:
        return key
    return f"{key.partition('/')[0]}/ of {owners[0]}: {entry or metadata.get('generateName', '')}"


def _devices(claim: Object) -> dict[str, Any]:
    status = copy.deepcopy(claim.get("status", {}))
    allocation = status.get("allocation", {})
    allocation.pop("allocationTimestamp", None)
    for result in allocation.get("devices", {}).get("results", ()):
        if "shareID" in result:
            result["shareID"] = "drawn"
    return {
        "allocation": allocation,
        "reported": [_reported(each) for each in status.get("devices", ())],
        "used by": sorted(f"{user['resource']} {user['name']}" for user in status.get("reservedFor", ())),
        "finalizers": claim["metadata"].get("finalizers", []),
        "spec": claim["spec"] if claim["metadata"].get("generateName", "").endswith("-extended-resources-") else "",
    }


def _reported(found: Object) -> str:
    conditions = (f"{each['type']} {each['status']}" for each in found.get("conditions", ()))
    return f"{found['driver']}/{found['pool']}/{found['device']}: {', '.join(sorted(conditions))}"


def _mappings(pod: Object) -> Any:
    """How the pod's status maps extended resources to requests of its claim, whose name is generated."""
    return pod.get("status", {}).get("extendedResourceClaimStatus", {}).get("requestMappings")


def _node_resources(pod: Object) -> list[Object]:
    """What the pod's status says that its devices take of its node; claims made for it by their names in its spec."""
    status = pod.get("status", {})
    made = {each.get("resourceClaimName"): each["name"] for each in status.get("resourceClaimStatuses", ())}
    return [
        {**each, "resourceClaimName": made.get(each["resourceClaimName"], each["resourceClaimName"])}
        for each in status.get("nodeAllocatableResourceClaimStatuses", ())
    ]


def _label(nodes: Nodes, node: str, key: str) -> str:
    found = nodes.get(node)
    return ABSENT if found is None else str(found["metadata"]["labels"].get(key, ABSENT))
