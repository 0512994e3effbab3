"""The commands with their flags, from the argument parsers; as a page, and as a man page."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator

from docs.reference.markdown import code, escaped, sentence, table
from kscheduler.command.flags.commands import parsers_of_commands
from kscheduler.command.flags.ineffective import IGNORED_FLAGS
from kscheduler.command.kubectl_plugin import drain_parser
from kscheduler.command.live_views import VIEWS, view_parser

INTRODUCTION = """\
# Command line

Every command prints its flags with `--help`. Exit codes: 0 done, 1 a failure at run time, 2 wrong flags or
configuration, 130 interrupted by Ctrl-C. `kubectl kscheduler COMMAND` runs the same commands, if
`kubectl-kscheduler` is on `PATH`; it adds `drain`, `queue` and `nodes`.

This page is made from the program's own argument parsers.
"""


def page() -> str:
    """Return the page: a section for each command, and the flags that are accepted without effect."""
    parts = [INTRODUCTION]
    for command, parser in all_parsers().items():
        if command == "":
            parts.append(_overview())
            continue
        parts.append(f"## {_title(command)}\n\n{sentence(escaped(summary(command)))}\n\n{_usage(parser)}")
        for title, actions in groups(parser):
            rows = [(code(names(action)), meaning(action)) for action in actions]
            heading = f"### {sentence(title).rstrip('.')} {{: #{_anchor(command, title)} }}\n\n" if title else ""
            parts.append(heading + table(("Argument", "Meaning"), rows))
    parts.append(
        "## Flags without effect\n\nkube-scheduler has them, and `kscheduler run` accepts them with a warning.\n"
    )
    parts.append(table(("Flag", "Why"), [(code(flag), sentence(why)) for flag, why in sorted(IGNORED_FLAGS.items())]))
    return "\n".join(parts)


@functools.cache
def all_parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command; those that only kubectl's plugin has as "kubectl drain" and so on."""
    views = {f"kubectl {view}": view_parser(view) for view in VIEWS}
    return {**parsers_of_commands(), "kubectl drain": drain_parser(), **views}


def groups(parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[argparse.Action]]]:
    """Yield (title, actions) of each group with something to show; "" for arguments and flags without a group."""
    plain: list[argparse.Action] = []
    titled: list[tuple[str, list[argparse.Action]]] = []
    for group in parser._action_groups:
        shown = [action for action in group._group_actions if _is_shown(action)]
        if group.title in ("positional arguments", "options", "optional arguments"):
            plain += shown
        elif shown:
            titled.append((group.title or "", shown))
    if plain:
        yield "", plain
    yield from titled


def names(action: argparse.Action) -> str:
    """Return the flag with its other names and its value, such as `-o, --output text|json`; or the argument."""
    value = _value(action)
    if not action.option_strings:
        return value or action.dest
    return ", ".join(action.option_strings) + (f" {value}" if value else "")


def meaning(action: argparse.Action) -> str:
    """Return what the flag does, as Markdown, with its default where the help text does not say it."""
    text = escaped(help_text(action))
    default = action.default
    is_plain = isinstance(default, (str, int, float)) and not isinstance(default, bool)
    if is_plain and default not in ("", 0, argparse.SUPPRESS) and "default" not in text.lower():
        text = f"{sentence(text)} Default: {code(str(default))}."
    if action.option_strings and (isinstance(action, argparse._AppendAction) or action.nargs in ("+", "*")):
        text = f"{sentence(text)} May be given more than once."
    return sentence(text)


def help_text(action: argparse.Action) -> str:
    """Return the help text with argparse's own placeholders filled in."""
    text = (action.help or "").replace("%%", "%").replace("%(default)s", str(action.default))
    return text.replace("%(prog)s", "kscheduler")


def summary(command: str) -> str:
    """Return the line about a command in its parent's help."""
    if command.startswith("kubectl "):
        return all_parsers()[command].description or ""
    parent, _, name = command.rpartition(" ")
    for action in all_parsers()[parent]._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                if choice.dest == name:
                    return choice.help or ""
    return all_parsers()[command].description or ""


def _overview() -> str:
    commands = [command for command in all_parsers() if command]
    rows = [
        (f"[{code(_title(command))}](#{_anchor(command)})", sentence(escaped(summary(command)))) for command in commands
    ]
    return table(("Command", "What it does"), rows)


def _title(command: str) -> str:
    kubectl, _, name = command.partition(" ")
    return f"kubectl kscheduler {name}" if kubectl == "kubectl" else f"kscheduler {command}"


def _anchor(command: str, group: str = "") -> str:
    words = f"{_title(command)} {group}".lower()
    return "-".join("".join(letter if letter.isalnum() else " " for letter in words).split())


def _usage(parser: argparse.ArgumentParser) -> str:
    arguments = " ".join(names(action) for action in parser._actions if not action.option_strings and _is_shown(action))
    return f"```text\n{parser.prog} [flags] {arguments}".rstrip() + "\n```\n"


def _is_shown(action: argparse.Action) -> bool:
    return action.help != argparse.SUPPRESS and not isinstance(
        action, (argparse._HelpAction, argparse._SubParsersAction)
    )


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    if isinstance(action.metavar, tuple):
        value = " ".join(action.metavar)
    elif action.metavar:
        value = action.metavar
    elif action.choices is not None:
        value = "|".join(map(str, action.choices))
    else:
        value = action.dest.upper()
    if action.nargs == "?":
        return f"[{value}]" if not action.option_strings else f"[={value}]"
    return f"{value}..." if action.nargs in ("+", "*") else value
