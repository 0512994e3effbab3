"""The flags of `kscheduler ui`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from kscheduler.command.flags.values import port


@dataclass(frozen=True, slots=True)
class UiOptions:
    """The options of `kscheduler ui FILE [FILE]`."""

    files: tuple[str, ...]  # one report or record, or two to compare
    port: int = 0  # 0: a free one
    browser: bool = True  # open a browser, if there is a display


def add_ui(parser: argparse.ArgumentParser) -> None:
    kinds = "a report of simulate --output, what compare or whatif print as JSON, or a record, which is simulated"
    parser.add_argument("file", metavar="FILE", help=kinds)
    parser.add_argument("other", metavar="FILE2", nargs="?", help="another one, to compare")
    parser.add_argument("--port", type=port, default=0, metavar="PORT", help="on 127.0.0.1 (default 0: a free one)")
    parser.add_argument("--no-browser", action="store_true", help="only print the page's address")
    parser.set_defaults(make=_ui_options)


def _ui_options(namespace: argparse.Namespace) -> UiOptions:
    files = (namespace.file,) if namespace.other is None else (namespace.file, namespace.other)
    return UiOptions(files, namespace.port, not namespace.no_browser)
