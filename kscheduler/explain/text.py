"""Formats the endpoint's document for a terminal: the outcome, then the reasons, then the events that may help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kscheduler.counted import counted

Document = dict[str, Any]

GANGS = "Gangs"  # in place of a plugin that rejected a pod of a gang
MOST_NODES = 5  # of those where room is reserved, that are named

_STATES = {  # part of the queue that holds the pod -> description for users
    "active": "next in line",
    "backoff": "backing off, tried again when that is over",
    "error-backoff": "backing off after a fault, tried again when that is over",
    "unschedulable": "waiting for a change in the cluster",
    "gated": "held back before any attempt",
    "gang": "waiting with its gang",
    "parked": "incomplete, not tried until that changes",
}
_EXCEEDED = {"limit": "limit", "deserved": "deserved amount", "fair share": "fair share"}  # of a queue -> for users
_MEMBERS = {  # where members are -> description for users
    "gated": "gated",
    "queued": "waiting",
    "inFlight": "being decided",
    "assumed": "being bound",
    "bound": "bound",
    "succeeded": "succeeded",
}


def explanation_text(document: Document, lease_namespace: str = "") -> str:
    """Return the text about a pod. `lease_namespace`: where the leader's pod is; "" if that is not known."""
    pod = document["pod"]
    lines = [f"Pod {pod['namespace']}/{pod['name']} {document['summary']}"]
    if not document["replica"]["leads"]:
        lines.append(standby_text(document["replica"], lease_namespace))
        lines += _condition(document.get("condition"))
    if document["waitsForPermitOf"]:
        lines.append(f"Its binding waits for a permit of {', '.join(document['waitsForPermitOf'])}.")
    decisions = document["decisions"]
    if decisions:
        lines += ["", *_decision(decisions[0], is_member=document.get("gang") is not None)]
    gang = document.get("gang")
    if gang is not None:
        lines += ["", *_gang(gang)]
    reservations = document.get("reservations")  # absent if an older scheduler answered
    if reservations:
        lines.append("")
    for each in reservations or ():
        lines.append(f"Reserved for gang {each['gang']}{_failing(each)}: {_reserved(each)}.")
    claims = document.get("claims")  # absent if an older scheduler answered
    if claims is not None:
        lines += ["", *_claims(claims)]
    quota = document.get("quota")  # absent if an older scheduler answered
    if quota is not None:
        lines += ["", *_quota(quota)]
    share_queue = document.get("shareQueue")  # absent if an older scheduler answered
    if share_queue is not None:
        lines += ["", *_share_queue(share_queue)]
    if document["queue"] is not None:
        lines += ["", *_queue(document["queue"])]
    if len(decisions) > 1:
        lines += ["", "Earlier attempts", *_table(_earlier(decisions[1:]))]
    return "\n".join(lines) + "\n"


def gangs_text(document: Document, lease_namespace: str = "") -> str:
    """Return the text about the gangs of one name. `lease_namespace`: as for `explanation_text`."""
    lines = [line for gang in document["gangs"] for line in _gang(gang)]
    if not document["replica"]["leads"]:
        lines.append(standby_text(document["replica"], lease_namespace))
    return "\n".join(lines) + "\n"


def _gang(gang: Document) -> Iterator[str]:
    members = gang["members"]
    yield f"Gang {gang['namespace']}/{gang['name']} ({gang['api']}): {gang['summary']}"
    least = "no minimum known" if gang["minMembers"] is None else f"at least {gang['minMembers']} together"
    counts = ", ".join(f"{_number(members[field])} {word}" for field, word in _MEMBERS.items() if members[field])
    yield f"  {counted(members['known'], 'pod')}, {least}" + (f": {counts}" if counts else "")
    topology = gang["topology"]
    if topology is not None:
        asked = [f"in one {topology['required']}"] if topology["required"] else []
        asked += [f"preferably in one {key}" for key in topology["preferred"][:1]]
        asked += [f"else in one {key}" for key in topology["preferred"][1:]]
        yield f"  topology: {', '.join(asked)}"
    if gang["pool"] is not None:
        yield f"  queue: {gang['pool']}, {_STATES.get(gang['pool'], 'on its way')}; attempts so far: {gang['attempts']}"
    reserved = gang.get("reservation")  # absent if an older scheduler answered
    if reserved is not None:
        awaited = f"{counted(reserved['podsAwaited'], 'pod')} had to end there when the nodes were chosen"
        yield f"  {_reserved(reserved)} is reserved for it since {reserved['heldForSeconds']:g} s ago; {awaited}"
    latest = gang["latestAttempt"]
    if latest is not None:
        text = "" if latest["text"] == gang["summary"] else f": {latest['text']}"
        yield f"  {latest['outcome']} {latest['secondsAgo']:g} s ago{text}"
        if latest.get("stoppedBy"):  # absent if an older scheduler answered
            yield from _stopper(latest["stoppedBy"])
    if gang["brokenForSeconds"] is not None:
        stale = "; reported as stale" if gang["isStale"] else ""
        yield f"  fewer than the minimum have had a node for {gang['brokenForSeconds']:g} s{stale}"


def _stopper(stopper: Document) -> Iterator[str]:
    """Yield which pod stopped a gang, and why no node fits it."""
    if not stopper["evaluated"]:
        yield f"  stopped by pod {stopper['pod']}: {stopper['preFilter'] or stopper['message']}"
        return
    looked_at = f"{_number(stopper['evaluated'])} of {counted(stopper['nodes'], 'node')} looked at"
    yield f"  stopped by pod {stopper['pod']}: {looked_at}, 0 fit beside the pods of the gang before it"
    yield from (f"  {line}" for line in _table(_reasons(stopper["reasons"])))
    if stopper["reasonsLeftOut"]:
        yield f"    … and {counted(stopper['reasonsLeftOut'], 'rarer reason')}"


def _reserved(reserved: Document) -> str:
    nodes = reserved["nodes"]
    more = f" and {counted(len(nodes) - MOST_NODES, 'more node')}" if len(nodes) > MOST_NODES else ""
    return f"room for {counted(reserved['pods'], 'pod')} on {', '.join(nodes[:MOST_NODES])}{more}"


def _failing(reserved: Document) -> str:
    seconds = reserved["failingForSeconds"]
    return "" if seconds is None else f", which has failed for {seconds:g} s"


def _condition(condition: Document | None) -> list[str]:
    """Return what the leader has written to the pod, as a standby knows it."""
    if condition is None:
        return ["The pod has no condition PodScheduled: the leader has not reported an attempt yet."]
    why = f"{condition['reason']}: {condition['message']}".strip(": ")
    return [f"Its condition PodScheduled is {condition['status']} since {condition['since'] or 'some time'}: {why}"]


def standby_text(replica: Document, lease_namespace: str = "") -> str:
    """Return a note that the answering replica is a standby, naming the leader to ask instead.

    `lease_namespace`: where the leader's pod is; "" if that is not known.
    """
    leader = replica["leader"]
    if not leader:
        return f"Asked of {replica['identity']}, which stands by; nobody leads at the moment."
    host = leader.rpartition("_")[0] or leader
    asked = f"Asked of {replica['identity']}, which stands by and decides nothing"
    if not lease_namespace:
        return f"{asked}: {host} leads ({leader}). Ask that one."
    return (
        f"{asked}: {host} leads ({leader}). To ask that one: kubectl -n {lease_namespace} port-forward pod/{host} 10259"
    )


# --- one decision ---


def _decision(decision: Document, *, is_member: bool = False) -> Iterator[str]:
    """`is_member`: the pod is one of a gang."""
    yield f"Attempt {decision['attempt']} at {decision['time']}, profile {decision['profile']}"
    counts = f"{_number(decision['evaluated'])} of {counted(decision['nodes'], 'node')} looked at"
    if decision.get("fitted"):  # absent if an older scheduler answered
        yield f"  {counts}, {_number(decision['feasible'])} fit; it would have gone to {decision['fitted']}"
        yield "  rejected with its gang: what is said of that keeps it from a node, not what it asks for itself"
    elif is_member and _is_not_tried(decision):
        yield "  rejected with its gang, and not tried itself: what is said of the gang keeps it from a node"
    else:
        yield f"  {counts}, {_number(decision['feasible'])} fit"
    inside = decision.get("confinedTo")  # absent if an older scheduler answered
    if inside:
        left_out = len(inside) - MOST_NODES + decision["confinedToLeftOut"]
        which = "that its gang took" if decision["node"] else "where its gang was tried"
        yield f"  the nodes of the domain {which}: {_names(inside[:MOST_NODES], max(left_out, 0))}"
    if decision["finished"] and decision["outcome"] == "bound":
        yield f"  bound at {decision['finished']}"
    if decision["preFilter"]:
        plugins = ", ".join(decision["plugins"])
        yield f"  no node was looked at: {decision['preFilter']} ({plugins})"
    if decision["reasons"]:
        yield ""
        yield "Nodes that do not fit"
        yield from _table(_reasons(decision["reasons"]))
    if decision["reasonsLeftOut"]:
        yield f"  … and {counted(decision['reasonsLeftOut'], 'rarer reason')}"
    if not decision["detailed"] and decision["evaluated"] and is_member and decision["feasible"]:
        yield "  (of pods of gangs that fit somewhere the verdict of each node is kept if they have the annotation"
        yield "  kscheduler.io/explain=details)"
    elif not decision["detailed"] and decision["evaluated"]:
        yield "  (the scheduler was busy: the verdict of each node was not kept for this attempt; it is for pods with"
        yield "  the annotation kscheduler.io/explain=details)"
    if decision["bestNodes"]:
        yield ""
        yield "Best nodes: score × weight of each plugin (raw scores in brackets)"
        yield from _table(_scores(decision["bestNodes"], decision["node"]))
    if decision["values"]:
        yield ""
        yield "Values at that time (rules go by the smoothed one and what pods add that came since)"
        yield from _table(_values(decision["values"]))
    if decision.get("verdicts"):
        yield ""
        yield "All nodes"
        yield from _table([node, words or "fits"] for node, words in decision["verdicts"].items())
    if decision["postFilter"] or decision["nominatedNode"]:
        yield ""
        yield "Preemption"
        if decision["nominatedNode"]:
            yield f"  makes room on {decision['nominatedNode']}"
        if decision["postFilter"]:
            yield f"  {decision['postFilter']}"


def _is_not_tried(decision: Document) -> bool:
    """Return whether a pod of a gang was rejected without any search for a node."""
    was_searched_for = decision["evaluated"] or decision["preFilter"] or decision["outcome"] == "fault"
    return decision["plugins"] in ([GANGS], []) and not decision["node"] and not was_searched_for


def _reasons(reasons: Sequence[Document]) -> Iterator[list[str]]:
    for reason in reasons:
        examples = ", ".join(reason["examples"])
        if reason["nodes"] > len(reason["examples"]) > 0:
            examples += ", …"
        nodes = f"{counted(reason['nodes'], 'node')}:"
        yield [nodes, reason["plugin"], ", ".join(reason["reasons"]), examples]


def _scores(nodes: Sequence[Document], chosen: str) -> Iterator[list[str]]:
    plugins = [each["plugin"] for each in nodes[0]["plugins"]]
    yield ["node", "total", *plugins]
    for node in nodes:
        name = node["node"] + (" *" if node["node"] == chosen else "")
        yield [name, _number(node["score"]), *map(_score, node["plugins"])]
    if any(node["node"] == chosen for node in nodes):
        yield ["* taken"]


def _values(values: Sequence[Document]) -> Iterator[list[str]]:
    yield ["node", "plugin", "metric", "went by", "read", "clamped", "smoothed", "pods since", "age"]
    for value in values:
        steps = [_decimal(value[step]) for step in ("read", "clamped", "smoothed")]
        age = "" if value["ageSeconds"] is None else f"{value['ageSeconds']:.0f} s"
        used = "none fresh" if value["used"] is None else _decimal(value["used"])
        since = f"{value['selfLoad']:+.4g}" if value["selfLoad"] else ""
        yield [value["node"], value["plugin"], value["metric"], used, *steps, since, age]


def _decimal(number: float | None) -> str:
    return "" if number is None else f"{number:.4g}"


def _score(score: Document) -> str:
    return f"{score['normalized']}×{score['weight']} ({score['raw']})"


def _earlier(decisions: Sequence[Document]) -> Iterator[list[str]]:
    for decision in decisions:
        yield [f"{decision['attempt']}", decision["time"], decision["outcome"], decision["message"] or decision["node"]]


# --- claims for devices ---


def _claims(claims: Document) -> Iterator[str]:
    if claims["claims"]:
        yield "Claims for devices"
        yield from _table(row for claim in claims["claims"] for row in _claim(claim))
    if claims["waitsFor"]:
        yield f"Claims: waits, {claims['waitsFor']}"
    if not claims["nodes"]:
        return
    looked_at = f"{counted(claims['nodes'], 'node')} looked at"
    yield f"Claims, by the devices at this moment: {looked_at}, {_number(claims['satisfied'])} can satisfy them"
    yield from _table(map(_finding, claims["findings"]))
    if claims["findingsLeftOut"]:
        yield f"  … and {counted(claims['findingsLeftOut'], 'rarer reason')}"


def _claim(claim: Document) -> Iterator[list[str]]:
    """Yield a row for each device of a claim, the first with the claim itself."""
    known = [claim["name"], claim["claim"] or f"from template {claim['template']}", claim["state"]]
    devices = [_device(device) for device in claim["devices"]] or [""]
    yield [*known, devices[0]]
    yield from (["", "", "", device] for device in devices[1:])


def _device(device: Document) -> str:
    share = f", share {device['shareID']}" if device["shareID"] else ""
    return f"{device['driver']}/{device['pool']}/{device['device']} (request {device['request']}{share})"


def _finding(finding: Document) -> list[str]:
    examples = ", ".join(finding["examples"]) + (", …" if finding["nodes"] > len(finding["examples"]) else "")
    nodes = f"{counted(finding['nodes'], 'node')}:"
    request = f"request {finding['request']}" if finding["request"] else ""
    return [nodes, finding["claim"] or "all claims", request, examples, finding["message"]]


# --- the quota of the namespace ---


def _quota(quota: Document) -> Iterator[str]:
    yield f"Quota {quota['name']} at this moment"
    yield from _table(
        [["", "pod", "used", "min", "max", "used by all", "min of all", ""], *map(_standing, quota["resources"])]
    )
    for resource in quota["resources"]:
        others = [f"{each['namespace']} ({each['amount']})" for each in resource["overMin"]]
        if resource["overMinLeftOut"]:
            others.append(f"{_number(resource['overMinLeftOut'])} more")
        if others:
            yield f"  {resource['resource']} beyond their min is used by {', '.join(others)}"


def _standing(resource: Document) -> list[str]:
    """Return a row with how the namespace, and all together, stand with a resource, and which limit the pod exceeds."""
    amounts = [resource[each] for each in ("requested", "used", "min", "max", "usedByAll", "minOfAll")]
    exceeded = {"max": "more than max", "all": "more than all are guaranteed together"}
    return [resource["resource"], *amounts, " and ".join(exceeded[each] for each in resource["beyond"])]


# --- the queue with shares ---


def _share_queue(queue: Document) -> Iterator[str]:
    kind = "preemptible" if queue["isPreemptible"] else "not preemptible"
    yield f"Shares of queue {queue['name']} at this moment, for a pod that is {kind}"
    if queue["unusable"]:
        yield f"  {queue['unusable']}"
    if queue.get("takePods"):  # absent if an older scheduler answered, as the fields of `_room_of_others`
        yield f"  queues below it that take pods: {_names(queue['takePods'], queue['takePodsLeftOut'])}"
    pods = queue.get("requestedForPods", 1)
    columns = [
        "",
        "",
        "pod" if pods == 1 else f"{pods:,} pods",
        "used",
        "asked for",
        "deserved",
        "fair share",
        "limit",
        "",
    ]
    rows = [
        _share(level["name"] if number == 0 else "", resource)
        for level in queue["levels"]
        for number, resource in enumerate(level["resources"])
    ]
    if rows:
        yield from _table([columns, *rows])
    if not queue["unusable"]:
        yield f"  {_room_of_others(queue)}"


def _room_of_others(queue: Document) -> str:
    """Return whether the pod, or its gang, takes room of other queues, and of which."""
    pods = queue.get("reclaimsForPods", 1)
    whole = "the pod" if pods == 1 else f"all {pods} pods that its gang needs"
    if queue.get("preemptsNever"):
        return "it takes no room of others: its preemptionPolicy is Never"
    if not queue["mayReclaim"]:
        return f"with {whole}, the queue may not take room of other queues"
    within = f"with {whole}, the queue stays within its fair share"
    givers = queue.get("mayReclaimFrom")
    if givers is None:
        return f"{within}: it may take room of queues beyond theirs"
    if not givers:
        return f"{within}, but there is no queue that must give it room"
    return f"{within}: it may take room of {_names(givers, queue['mayReclaimFromLeftOut'])}"


def _names(names: Sequence[str], left_out: int) -> str:
    return ", ".join(names) + (f" and {left_out:,} more" if left_out else "")


def _share(name: str, resource: Document) -> list[str]:
    fields = ("requested", "used", "asked", "deserved", "fairShare", "limit")
    amounts = [resource[each] for each in fields]
    beyond = f"beyond its {' and '.join(_EXCEEDED[each] for each in resource['beyond'])}" if resource["beyond"] else ""
    return [name, resource["resource"], *amounts, beyond]


# --- the queue ---


def _queue(queue: Document) -> Iterator[str]:
    pool = queue["pool"]
    yield f"Queue: {pool} since {queue['since']}, {_STATES.get(pool, 'on its way')}"
    yield f"  attempts so far: {queue['attempts']}"
    if queue["backoffUntil"]:
        yield f"  backs off until {queue['backoffUntil']} ({queue['backoffSeconds']:g} s from now)"
    if queue["gatedBy"]:
        yield f"  held back by {queue['gatedBy']}"
    elif queue["rejectingPlugins"]:
        yield f"  rejected by {', '.join(queue['rejectingPlugins'])}"
    if queue["wokenBy"]:
        yield "  woken by"
        yield from _table(["", f"{plugin}:", events] for plugin, events in _by_plugin(queue["wokenBy"]))
        if any(waker["narrowed"] for waker in queue["wokenBy"]):
            yield "    (* if the plugin finds that the change may help this pod)"
    if queue["triedAgainBy"]:
        yield f"  tried again without that by {queue['triedAgainBy']}"


def _by_plugin(wakers: Sequence[Document]) -> Iterator[tuple[str, str]]:
    """Yield (plugin, its registered events as text: resources with actions), each plugin once."""
    found: dict[str, list[str]] = {}
    for waker in wakers:
        resource = "anything" if waker["resource"] == "*" else waker["resource"]
        star = "*" if waker["narrowed"] else ""
        found.setdefault(waker["plugin"], []).append(f"{resource}{star} ({', '.join(waker['actions'])})")
    return ((plugin, ", ".join(events)) for plugin, events in found.items())


# --- layout ---


def _number(value: int) -> str:
    return f"{value:,}"


def _table(rows: Iterable[list[str]]) -> Iterator[str]:
    """Yield rows as indented lines, each column as wide as its widest cell."""
    cells = list(rows)
    widths: list[int] = []
    for row in cells:
        for column, cell in enumerate(row[:-1]):
            if column == len(widths):
                widths.append(0)
            widths[column] = max(widths[column], len(cell))
    for row in cells:
        padded = [cell.ljust(widths[column]) if column < len(row) - 1 else cell for column, cell in enumerate(row)]
        yield ("  " + "  ".join(padded)).rstrip()
