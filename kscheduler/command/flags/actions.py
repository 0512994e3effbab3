"""Parses flags whose values are lists, and which may be given several times."""

from __future__ import annotations

import argparse
import csv
from typing import Any

from kscheduler.errors import ConfigError
from kscheduler.observability.log_modules import parse_vmodule
from kscheduler.serving.tls_policy import tls_policy


class Words(argparse.Action):
    """Parses comma-separated values like pflag's StringSlice.

    The first flag replaces the default, further ones add to it.
    """

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        before = getattr(namespace, self.dest)
        kept = () if before is self.default else before
        setattr(namespace, self.dest, (*kept, *self._read(values)))

    def _read(self, text: str) -> tuple[str, ...]:
        return tuple(word.strip() for word in next(csv.reader([text]), []) if word.strip())


class Strings(Words):
    """Parses comma-separated values, none of which may be empty."""

    def _read(self, text: str) -> tuple[str, ...]:
        if any(not word.strip() for word in next(csv.reader([text]), [])):
            raise argparse.ArgumentError(self, f'empty value in "{self.option_strings[0].removeprefix("--")}"')
        return super()._read(text)


class Suites(Strings):
    """Parses comma-separated names of TLS cipher suites, all of which must be known."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        super().__call__(parser, namespace, values, option)
        try:
            tls_policy("", getattr(namespace, self.dest))
        except ConfigError as error:
            raise argparse.ArgumentError(self, str(error)) from error


class Modules(argparse.Action):
    """Parses comma-separated `pattern=N` settings of --vmodule; further flags add to them."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        try:
            modules = parse_vmodule(values)
        except ValueError as error:
            raise argparse.ArgumentError(self, str(error)) from error
        setattr(namespace, self.dest, (*getattr(namespace, self.dest), *modules))
