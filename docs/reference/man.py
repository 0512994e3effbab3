"""The man page kscheduler(1), from the argument parsers.

python -m docs.reference.man     # writes docs/man/kscheduler.1, which wheels contain: `make man`
"""

from __future__ import annotations

from pathlib import Path

from docs.reference import cli
from kscheduler import __version__

FILE = Path(__file__).parents[1] / "man" / "kscheduler.1"
DESCRIPTION = """\
A Kubernetes scheduler that reads kube-scheduler's configuration and makes its decisions, and a simulator of one.
Every command prints its flags with --help."""


def page() -> str:
    """Return the man page as roff."""
    lines = [
        f'.TH KSCHEDULER 1 "" "kscheduler {__version__}" "User Commands"',
        ".ad l",
        ".SH NAME",
        r"kscheduler \- schedule the pods of a Kubernetes cluster, or simulate it",
        ".SH SYNOPSIS",
        ".B kscheduler",
        r".I COMMAND",
        r"[flags]",
        ".SH DESCRIPTION",
        *map(_text, DESCRIPTION.splitlines()),
        ".SH COMMANDS",
    ]
    for command, parser in cli.all_parsers().items():
        if not command:
            continue
        lines += [f".SS {_text(parser.prog)}", _text(cli.summary(command))]
        for title, actions in cli.groups(parser):
            if title:
                lines += [".PP", rf"\fI{_text(title)}\fR"]
            for action in actions:
                lines += [".TP", rf"\fB{_text(cli.names(action))}\fR", _text(cli.help_text(action)) or r"\&"]
    lines += [
        ".SH EXIT STATUS",
        "0 done, 1 a failure at run time, 2 wrong flags or configuration, 130 interrupted by Ctrl-C.",
        ".SH SEE ALSO",
        ".BR kubectl (1)",
    ]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    """Return text in which roff finds no commands."""
    text = " ".join(text.split()).replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
