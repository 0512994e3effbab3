"""How tests give flags."""

from __future__ import annotations

import pytest

from kscheduler.command.flags.commands import parse
from kscheduler.command.flags.run_options import RunOptions
from kscheduler.errors import ConfigError


def run(*argv: str) -> RunOptions:
    options = parse(["run", *argv])
    assert isinstance(options, RunOptions)
    return options


def refusal(*argv: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(argv)
    return str(caught.value)
