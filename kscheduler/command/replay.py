"""Implements `kscheduler replay RECORD`: decides again what was recorded, and prints what differs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec

from kscheduler.api.manifest import load_manifests
from kscheduler.api.objects import Node
from kscheduler.command.flags import ReplayOptions
from kscheduler.config.load import default_config, load_config, parse_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.record.entries import Decision
from kscheduler.replay.replay import Difference, RecordedInputs, Replay
from kscheduler.replay.replay import replay as decide_again
from kscheduler.wasm.loading.plugins import GuestPlugins

EXIT_DIFFERS = 1


def replay(options: ReplayOptions) -> tuple[str, int]:
    """Return what to print, and the exit code: 1 if any decision differs. Raises ConfigError."""
    inputs = RecordedInputs(Path(options.record))
    guests = GuestPlugins(cache_dir=None, reloads=False)
    config = _configuration(options, inputs.header.configuration, guests)
    nodes = _nodes(options.nodes)
    is_same = not options.config and not nodes
    found = asyncio.run(decide_again(inputs, config, guests=guests, is_same=is_same, nodes=nodes))
    text = to_json(found, options.shown) if options.output == "json" else "".join(to_text(found, options.shown))
    return text, 0 if found.is_equal else EXIT_DIFFERS


def _configuration(options: ReplayOptions, recorded: str, guests: GuestPlugins) -> SchedulerConfig:
    find = partial(find_plugins, guests=guests)
    if options.config:
        return load_config(options.config, find_plugins=find)
    if recorded:
        return parse_config(recorded, f"{options.record}: configuration", find_plugins=find)
    return default_config()


def _nodes(path: str) -> list[Node]:
    if not path:
        return []
    nodes = list(load_manifests(path).nodes)
    if not nodes:
        raise ConfigError(f"--nodes: {path}: expected nodes, found none")
    return nodes


# --- the report -------------------------------------------------------------------------------------------------


def to_text(found: Replay, shown: int) -> Iterator[str]:
    """Yield lines that say how many decisions are equal, and what differs."""
    yield f"{found.equal:,} of {found.decisions:,} decisions equal\n"
    if found.is_cut:
        yield "The record has no end: its scheduler was killed, or is still running.\n"
    for kind, number in sorted(found.kinds.items(), key=lambda item: -item[1]):
        yield f"{number:,} {kind}\n"
    if found.equal_requests < found.requests and not found.kinds:
        yield f"{found.equal_requests:,} of {found.requests:,} requests of tasks equal\n"
    for difference in found.differences[:shown]:
        yield from _lines_of(difference)


def _lines_of(difference: Difference) -> Iterator[str]:
    yield f"\n{difference.at_s:.6f} s, pod {_pod_of(difference)}: {difference.kind}\n"
    yield f"  record: {_shown(difference.recorded)}\n"
    yield f"  replay: {_shown(difference.replayed)}\n"


def _pod_of(difference: Difference) -> str:
    decision = difference.recorded or difference.replayed
    assert decision is not None
    return f"{decision.pod} (attempt {decision.attempt})"


def _shown(decision: Decision | None) -> str:
    if decision is None:
        return "not tried"
    if decision.node:
        return f"{decision.node}, one of {decision.feasible:,} feasible nodes"
    preempts = f", preempts {len(decision.victims)} on {decision.nominated}" if decision.victims else ""
    return f"{decision.code}{preempts}: {decision.reason}"


def to_json(found: Replay, shown: int) -> str:
    document = {
        "decisions": found.decisions,
        "equal": found.equal,
        "requests": found.requests,
        "equalRequests": found.equal_requests,
        "isCut": found.is_cut,
        "kinds": found.kinds,
        "differences": [
            {"at": each.at_s, "kind": each.kind, "recorded": each.recorded, "replayed": each.replayed}
            for each in found.differences[:shown]
        ],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
