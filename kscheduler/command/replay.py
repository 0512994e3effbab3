"""Implements `kscheduler replay RECORD`: decides again what was recorded, and prints what differs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kscheduler.api.manifest import load_manifests
from kscheduler.api.objects import Node
from kscheduler.command.flags.replay import ReplayOptions
from kscheduler.command.report_files import indented_json
from kscheduler.config.gate_flag import with_gates
from kscheduler.config.load import default_config, in_release, load_config, parse_config
from kscheduler.config.releases import Release, release_of
from kscheduler.config.types import SchedulerConfig
from kscheduler.counted import counted
from kscheduler.errors import ConfigError
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.record.emulation import recorded_release
from kscheduler.record.entries import OBJECTS_ONLY, Decision
from kscheduler.record.reader import RecordReader
from kscheduler.replay.replay import Difference, RecordedInputs, Replay
from kscheduler.replay.replay import replay as decide_again
from kscheduler.wasm.plugins import GuestPlugins

if TYPE_CHECKING:
    from kscheduler.replay.placements import Judgement

EXIT_DIFFERS = 1


def replay(options: ReplayOptions) -> tuple[str, int]:
    """Return what to print, and the exit code: 1 if any decision differs. Raises ConfigError."""
    path, guests = Path(options.record), GuestPlugins(cache_dir=None, reloads=False)
    header = RecordReader(path).header
    own = recorded_release(header, options.record)
    release = own if options.emulated_version is None else release_of(options.emulated_version)
    release, warnings = with_gates(release, options.feature_gates)
    for warning in warnings:
        print(f"kscheduler: {warning}", file=sys.stderr)
    config = _configuration(options, header.configuration, guests, own, release)
    if header.format == OBJECTS_ONLY:
        return _judge(options, path, config)
    inputs = RecordedInputs(path)
    nodes = _nodes(options.nodes)
    is_same = not options.config and not nodes and release == own
    found = asyncio.run(decide_again(inputs, config, guests=guests, is_same=is_same, nodes=nodes))
    text = to_json(found, options.shown) if options.output == "json" else "".join(to_text(found, options.shown))
    return text, 0 if found.is_equal else EXIT_DIFFERS


def _judge(options: ReplayOptions, path: Path, config: SchedulerConfig) -> tuple[str, int]:
    """Return how the placements in a record of objects are explained; the exit code is 1 if some are not."""
    from kscheduler.replay.placements import judge

    if options.nodes:
        raise ConfigError(f"--nodes: expected a record of kscheduler run --record, {path} has no decisions")
    found = judge(path, config)
    text = judged_json(found, options.shown) if options.output == "json" else "".join(judged_text(found, options.shown))
    return text, 0 if found.is_explained else EXIT_DIFFERS


def _configuration(
    options: ReplayOptions, recorded: str, guests: GuestPlugins, own: Release, release: Release
) -> SchedulerConfig:
    find = partial(find_plugins, guests=guests)
    if options.config:
        return load_config(options.config, find_plugins=find, release=release)
    if recorded:
        source = f"{options.record}: configuration"
        return in_release(parse_config(recorded, source, find_plugins=find, release=own), release, source, find)
    return default_config(release)


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
    yield f"{found.equal:,} of {counted(found.decisions, 'decision')} equal\n"
    if found.is_cut:
        yield "The record has no end: its scheduler was killed, or is still running.\n"
    for kind, number in sorted(found.kinds.items(), key=lambda item: -item[1]):
        yield f"{number:,} {kind}\n"
    if found.equal_requests < found.requests and not found.kinds:
        yield f"{found.equal_requests:,} of {counted(found.requests, 'request')} of tasks equal\n"
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
        return f"{decision.node}, one of {counted(decision.feasible, 'feasible node')}"
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
    return indented_json(document)


def judged_text(found: Judgement, shown: int) -> Iterator[str]:
    """Yield lines that say how many placements are explained in which way, and show some that are not."""
    yield f"{counted(found.placements, 'placement')} in the record\n"
    for explanation, number in found.counts.items():
        if number:
            yield f"{number:,} {explanation.value}\n"
    for each in found.unexplained[:shown]:
        yield f"\n{each.at_s:.6f} s, pod {each.pod}: {each.explanation.value}\n"
        yield f"  record: {each.node}: {each.why}\n"
        yield f"  kscheduler: {each.best or 'no node'}\n"


def judged_json(found: Judgement, shown: int) -> str:
    document = {
        "placements": found.placements,
        "counts": {each.name.lower(): number for each, number in found.counts.items()},
        "unexplained": [
            {"at": each.at_s, "pod": each.pod, "node": each.node, "best": each.best, "why": each.why}
            for each in found.unexplained[:shown]
        ],
    }
    return indented_json(document)
