"""Implements `kscheduler ui FILE [FILE]`: serves reports, comparisons and what-ifs, and records by simulating them."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import uvloop

from kscheduler.command.flags.ui import UiOptions
from kscheduler.errors import ConfigError
from kscheduler.input.input_files import check_regular
from kscheduler.record.kinds import BEGINNING_BYTES, is_record
from kscheduler.ui.documents import Document, DocumentKind, read_document
from kscheduler.ui.server import PageServer

DECISIONS = 500  # pods of a record whose decisions the page shows


def ui(options: UiOptions) -> int:
    """Serve the page until Ctrl-C or SIGTERM, and return the exit code.

    Raises ConfigError if a file is neither a document for the page nor a record, or the port cannot be used.
    """
    documents = [_document(Path(file)) for file in options.files]
    two_runs = [each for each in documents if each.kind is not DocumentKind.REPORT]
    if len(documents) > 1 and two_runs:
        name, kind = two_runs[0].name, two_runs[0].kind
        raise ConfigError(f"{name}: expected a report or a record, as two are given; this is a {kind}")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(documents, options))


def _document(path: Path) -> Document:
    try:
        check_regular(path)
        with path.open("rb") as file:
            beginning = file.read(BEGINNING_BYTES)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    return _simulated(path) if is_record(beginning) else read_document(path)


def _simulated(path: Path) -> Document:
    """Replay a record with the configuration in it, or else the default one, and return the report."""
    from kscheduler.command.simulate import run
    from kscheduler.simulator.options import add_arguments, read_arguments
    from kscheduler.simulator.report import to_compact_json

    print(f"simulating {path}", file=sys.stderr)
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    report, _ = run(read_arguments(parser.parse_args([f"--record={path}", "--quiet", f"--decisions={DECISIONS}"])))
    return Document(path.name, to_compact_json(report))


async def _serve(documents: Sequence[Document], options: UiOptions) -> int:
    server = PageServer(documents)
    await server.start(options.port)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    print(f"the page is at {server.url} until Ctrl-C", flush=True)
    if options.browser and _has_display():
        await asyncio.to_thread(webbrowser.open, server.url)
    try:
        await stopped.wait()
    finally:
        await server.stop()
    return 0


def _has_display() -> bool:
    """Return True if a browser can have a window; else one in the terminal would take it over."""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
