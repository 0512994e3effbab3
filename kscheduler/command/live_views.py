"""Implements `kubectl kscheduler queue` and `nodes`: what the live page of a running scheduler shows, as text.

Both need `kscheduler run --ui`, and a token of a user who may open the page: they see what they would see there.
"""

from __future__ import annotations

import argparse
import json
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kscheduler.clock import Clock
from kscheduler.command.flags.shared import add_output, add_scheduler_flags
from kscheduler.command.scheduler_endpoint import MAX_ANSWER, Answer, SchedulerEndpoint
from kscheduler.errors import APIError, ConfigError, DecodeError, Forbidden, NotFound
from kscheduler.input.decoding import decode_loosely

VIEWS = ("queue", "nodes")
STREAM = "/ui/api/stream"
NODE = "/ui/api/node"
MOST_NODES = 20  # asked about at once; the page limits questions about nodes
SHOWN_REASON = 100  # characters
_CHUNK = 1 << 16
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """The options of `queue` and `nodes`."""

    server: str
    kubeconfig: str
    lease: str
    token_file: str
    certificate_authority: str
    insecure_skip_tls_verify: bool
    output: str
    nodes: tuple[str, ...] = ()  # names; none: the first MOST_NODES


def view_parser(view: str) -> argparse.ArgumentParser:
    """Return the parser of one of `VIEWS`."""
    texts = {
        "queue": "the pods that wait, in the order in which they are tried, and why they wait",
        "nodes": "what nodes have allocated of what is allocatable, and how many pods",
    }
    parser = argparse.ArgumentParser(
        prog=f"kubectl kscheduler {view}",
        description=f"{texts[view]}; asks the leader, which must run with --ui",
        allow_abbrev=False,
        exit_on_error=False,
    )
    if view == "nodes":
        few = f"names of nodes, {MOST_NODES} at most (default: the first {MOST_NODES} by name)"
        parser.add_argument("nodes", nargs="*", metavar="NODE", help=few)
    add_scheduler_flags(parser)
    add_output(parser)
    return parser


def view_text(view: str, arguments: Sequence[str], clock: Clock) -> str:
    """Ask the scheduler, and return what is printed. Raises ConfigError for wrong flags, APIError if it refuses."""
    options = _options(view, arguments)
    endpoint = SchedulerEndpoint(options, clock)
    try:
        if view == "queue":
            document = _event(endpoint, "queue", "queue")
            return _json(document) if options.output == "json" else queue_text(document, clock.wall())
        nodes, left_out = _nodes(endpoint, options.nodes)
        return _json(nodes) if options.output == "json" else nodes_text(nodes, left_out)
    except NotFound as error:
        if options.nodes and "node" in str(error):
            raise
        raise NotFound(
            f"{endpoint.shown}: expected the live page, which `kscheduler run --ui` serves, got: {error}", status=404
        ) from None
    except Forbidden as error:
        raise Forbidden(
            f"{error}. The page's user needs `get` on /ui/*, see the ClusterRole kscheduler-ui-viewer"
        ) from None
    except (DecodeError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise APIError(f"{endpoint.shown}: expected a view of the live page: {error}") from error


def _options(view: str, arguments: Sequence[str]) -> ViewOptions:
    try:
        namespace, unknown = view_parser(view).parse_known_args(list(arguments))
    except argparse.ArgumentError as error:
        raise ConfigError(f"{view}: {error}") from error
    if unknown:
        raise ConfigError(f"{view}: unrecognized arguments: {' '.join(unknown)} (see kubectl kscheduler {view} --help)")
    given = vars(namespace)
    nodes = tuple(given.pop("nodes", ()))
    if len(nodes) > MOST_NODES:
        raise ConfigError(f"nodes: expected {MOST_NODES} names at most, got {len(nodes)}")
    return ViewOptions(**given, nodes=nodes)


# --- what the scheduler answers ---


def _event(endpoint: SchedulerEndpoint, view: str, name: str) -> dict[str, Any]:
    """Return the first event of that name of a view's stream."""
    with endpoint.open(f"{STREAM}?view={view}") as answer:
        for event, data in _events(answer):
            document: dict[str, Any] = decode_loosely(data)
            if event == name:
                return document
            if event == "end":
                raise APIError(f"{endpoint.shown}: {document['message']}")
    raise APIError(f"{endpoint.shown}: expected an event {name!r}, and the stream ended")


def _events(answer: Answer) -> Iterable[tuple[str, bytes]]:
    """Yield (event, data) of server-sent events as they arrive."""
    kept = b""
    while chunk := answer.read_some(_CHUNK):
        kept += chunk
        while b"\n\n" in kept:
            block, _, kept = kept.partition(b"\n\n")
            fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if b": " in line and line[:1] != b":")
            if b"event" in fields:
                yield fields[b"event"].decode(), fields.get(b"data", b"")
        if len(kept) > MAX_ANSWER:
            raise ValueError(f"an event of more than {MAX_ANSWER} bytes")


def _nodes(endpoint: SchedulerEndpoint, names: Sequence[str]) -> tuple[list[dict[str, Any]], int]:
    """Return documents about these nodes, or the first ones by name, and how many are left out."""
    chosen, left_out = list(names), 0
    if not chosen:
        known = sorted(name for name in _event(endpoint, "nodes", "nodes")["names"] if name)
        chosen, left_out = known[:MOST_NODES], len(known[MOST_NODES:])
    found = [decode_loosely(endpoint.get(f"{NODE}?{urllib.parse.urlencode({'node': name})}")) for name in chosen]
    return found, left_out


# --- texts ---


def queue_text(document: Mapping[str, Any], now: float) -> str:
    """Return the queue as a table. `now`: seconds since the Unix epoch."""
    counts = ", ".join(f"{count} {pool}" for pool, count in document["counts"].items())
    rows = [["POOL", "TURN", "POD", "PRIORITY", "ATTEMPTS", "WAITS", "WHY"]]
    for row in document["rows"]:
        turn = "" if row["position"] is None else str(row["position"])
        waits = _seconds(now - row["since"])
        rows.append([row["pool"], turn, row["pod"], str(row["priority"]), str(row["attempts"]), waits, _why(row, now)])
    lines = [counts]
    if len(rows) > 1:
        lines += _table(rows)
    elif document["all"]:
        lines.append("no pod waits")
    left_out = sum(document["counts"].values()) - len(document["rows"])
    if not document["all"]:
        lines.append("only pods of namespaces in which you may list pods are shown")
    elif left_out > 0:
        lines.append(f"and {left_out} more")
    return "\n".join(lines) + "\n"


def _why(row: Mapping[str, Any], now: float) -> str:
    reason, plugins = row["reason"], ", ".join(row["plugins"])
    parts = [f"{plugins}:" if plugins and reason else plugins]
    parts.append(reason if len(reason) <= SHOWN_REASON else reason[: SHOWN_REASON - 1] + "…")
    if row["retryAt"] is not None and row["retryAt"] > now:
        parts.append(f"(tried again within {_seconds(row['retryAt'] - now)})")
    return " ".join(part for part in parts if part)


def nodes_text(nodes: Sequence[Mapping[str, Any]], left_out: int) -> str:
    """Return nodes as a table: allocated/allocatable of pods, cpu (cores), memory (GiB) and all other resources."""
    rows = [["NODE", "PODS", "CPU", "MEMORY", "OTHER"]]
    for node in nodes:
        amounts = dict(node["amounts"])
        known = [_share(name, amounts.pop(name, None)) for name in ("pods", "cpu", "memory")]
        others = [f"{name} {_share(name, amount)}" for name, amount in sorted(amounts.items())]
        if node["unschedulable"]:
            others.append("unschedulable")
        rows.append([node["name"], *known, ", ".join(others)])
    lines = _table(rows) if len(rows) > 1 else ["there are no nodes"]
    if left_out:
        lines.append(f"and {left_out} more; name those that you want to see")
    return "\n".join(lines) + "\n"


def _share(name: str, amount: Mapping[str, int] | None) -> str:
    if amount is None:
        return "-"
    return "/".join(_amount(name, amount[key]) for key in ("requested", "allocatable"))


def _amount(name: str, value: int) -> str:
    if name == "cpu":
        return f"{value / 1000:g}"
    if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-"):
        return f"{value / _GIB:.1f}Gi"
    return str(value)


def _seconds(value: float) -> str:
    value = max(value, 0.0)
    if value < 120:
        return f"{value:.0f}s"
    return f"{value / 60:.0f}m" if value < 7200 else f"{value / 3600:.0f}h"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _json(document: object) -> str:
    return json.dumps(document, indent=2) + "\n"
