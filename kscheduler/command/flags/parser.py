"""An argument parser with the errors of this program."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from kscheduler.command.flags.values import number, whole_number
from kscheduler.errors import ConfigError

OptionsT = TypeVar("OptionsT")


def from_flags(kind: Callable[..., OptionsT], namespace: argparse.Namespace, **others: object) -> OptionsT:
    """Return options of class `kind`: each field has the value of the flag of its name, or that in `others`."""
    names = [name for name in inspect.signature(kind).parameters if name not in others]
    return kind(**{name: getattr(namespace, name) for name in names}, **others)


class Parser(argparse.ArgumentParser):
    """An argument parser that raises ConfigError for errors, and accepts no abbreviated flags."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, **kwargs)
        # In place of argparse's own messages, which call a wrong value an "invalid int value".
        self.register("type", int, whole_number)
        self.register("type", float, number)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; what is not known is an error of the command at hand, so that it names that command's help."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._nearest(unknown[0])}")
        return found, unknown

    def _nearest(self, word: str) -> str:
        """Return a question about the flag that is spelt nearly like a word, "" if there is none."""
        import difflib  # only where somebody mistypes

        flags = [flag for action in self._actions for flag in action.option_strings]
        near = difflib.get_close_matches(word.partition("=")[0], flags, n=1, cutoff=0.75)
        return f"; did you mean {near[0]}?" if near else ""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message} (see {self.prog} --help)")

    def print_help(self, file: Any = None) -> None:
        """Print all flags. Raises OSError if that fails, which argparse's own method hides."""
        print(self.format_help(), end="", file=file)


def describe(commands: argparse._SubParsersAction[Any]) -> None:
    """Have the help of each command that has no description begin with what its parent's help says of it."""
    for choice in commands._choices_actions:
        parser = commands.choices[choice.dest]
        if choice.help and parser.description is None:
            parser.description = f"{choice.help[0].upper()}{choice.help[1:]}."
