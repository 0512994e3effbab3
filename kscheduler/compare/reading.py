"""Finds out what the two arguments of a comparison are, and reads them. Nothing is simulated yet."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kscheduler.compare.options import CompareArguments
from kscheduler.compare.report_side import MAX_BYTES, read_report
from kscheduler.compare.sides import Side, SimulatedSide
from kscheduler.config.load import default_config
from kscheduler.config.releases import Release
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.input.decoding import json_decoder
from kscheduler.input.input_files import read_input
from kscheduler.record.kinds import is_record
from kscheduler.simulator.configuration import load_simulated, recorded_config, simulated_release, warnings_on_gates
from kscheduler.simulator.inputs import build_scenario
from kscheduler.simulator.options import SimulateArguments, settings_of
from kscheduler.simulator.scenario import Scenario, with_warnings
from kscheduler.wasm.plugins import GuestPlugins

DEFAULT: Final = "default"  # in place of a file: the default configuration
RECORD, REPORT, CONFIGURATION = "record", "report", "configuration"

_decode_object = json_decoder(dict[str, Any])


def read_sides(arguments: CompareArguments) -> tuple[Side, Side]:
    """Read both sides. Raises ConfigError if one is unreadable, or if they cannot be compared."""
    # 1. What are they?
    paths = (arguments.a, arguments.b)
    kinds = [_kind(path) for path in paths]
    guests = GuestPlugins(cache_dir=None, reloads=False)
    release = simulated_release(_with_record(arguments, kinds))
    configs = {
        path: _configuration(path, guests, release)
        for path, kind in dict(zip(paths, kinds, strict=True)).items()
        if kind == CONFIGURATION
    }
    # 2. What are configurations simulated on?
    simulate = _input(arguments, kinds)
    scenarios = _Scenarios(simulate)
    # 3. Read the others.
    sides: list[Side] = []
    for path, kind, name in zip(paths, kinds, _names(*paths), strict=True):
        if kind == REPORT:
            sides.append(read_report(Path(path), _content(path)))
        elif kind == RECORD:
            sides.append(_record(path, guests, simulated_release(replace(simulate, record=path))))
        else:
            config = configs[path]
            parameters = {"configuration": name, **settings_of(simulate, config.release)}
            sides.append(SimulatedSide(name, scenarios.of(config), config, simulate, guests, parameters=parameters))
    return sides[0], sides[1]


def _names(a: str, b: str) -> tuple[str, str]:
    """Return different names for the two: those of the files, or the paths if these are equal."""
    short = Path(a).name, Path(b).name
    return short if short[0] != short[1] else (a, b)


def _kind(path: str) -> str:
    if path == DEFAULT and not Path(path).exists():
        return CONFIGURATION
    if stat.S_ISFIFO(_mode(path)):
        return CONFIGURATION  # a pipe can be read once only
    try:
        begin = _beginning(Path(path))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    if is_record(begin):
        return RECORD
    if not begin.lstrip().startswith(b"{"):
        return CONFIGURATION
    try:
        document = _decode_object(_content(path))
    except DecodeError as error:
        raise ConfigError(f"{path}: expected {_EXPECTED}: {error}") from error
    if "apiVersion" in document:
        return CONFIGURATION
    if "latency" in document:
        return REPORT
    if "differences" in document:
        raise ConfigError(f"{path}: expected {_EXPECTED}, got a comparison or the report of a sweep")
    raise ConfigError(f"{path}: expected {_EXPECTED}, got another JSON object")


def _with_record(arguments: CompareArguments, kinds: list[str]) -> SimulateArguments:
    """Return the arguments of the simulation; the input is a record that is compared, if there is no other."""
    if arguments.has_input or RECORD not in kinds:
        return arguments.simulate
    return replace(arguments.simulate, record=(arguments.a, arguments.b)[kinds.index(RECORD)])


_EXPECTED = "a record, a report of `kscheduler simulate --output`, or a KubeSchedulerConfiguration"


def _mode(path: str) -> int:
    try:
        return os.stat(path).st_mode
    except (OSError, ValueError):
        return 0  # reading it says what is wrong


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(64)


def _content(path: str) -> bytes:
    try:
        content = read_input(path, MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{path}: expected a report of at most {MAX_BYTES:,} bytes")
    return content


def _input(arguments: CompareArguments, kinds: list[str]) -> SimulateArguments:
    """Return the arguments with the common input of configurations."""
    simulate = arguments.simulate
    if CONFIGURATION not in kinds:
        if arguments.has_input:
            raise ConfigError(
                f"expected no input beside a {kinds[0]} and a {kinds[1]}: only configurations are simulated on one"
            )
        return simulate
    if arguments.has_input or RECORD in kinds:
        return _with_record(arguments, kinds)
    raise ConfigError("expected an input to simulate configurations on: --record, --workload, --nodes or --pods")


def _record(path: str, guests: GuestPlugins, release: Release) -> Side:
    from kscheduler.compare.recorded_side import RecordedSide  # records need an extra

    return RecordedSide(path, recorded_config(path, guests, release) or default_config(release), guests)


def _configuration(path: str, guests: GuestPlugins, release: Release) -> SchedulerConfig:
    if path == DEFAULT and not Path(path).exists():
        return default_config(release)
    return load_simulated(path, guests, release)


class _Scenarios:
    """The common input, read once for all configurations with equal names of schedulers."""

    def __init__(self, arguments: SimulateArguments) -> None:
        self._arguments = arguments
        self._kept: dict[frozenset[str], Scenario] = {}

    def of(self, config: SchedulerConfig) -> Scenario:
        """Return the scenario for a configuration. Raises ConfigError if the input cannot be read."""
        record = self._arguments.record
        names = frozenset(profile.scheduler_name for profile in config.profiles) if record else frozenset()
        if names not in self._kept:
            read = build_scenario(self._arguments) if record is None else self._recorded(record, names)
            self._kept[names] = with_warnings(read, warnings_on_gates(self._arguments))
        return self._kept[names]

    def _recorded(self, record: str, schedulers: frozenset[str]) -> Scenario:
        from kscheduler.simulator.recorded import read_recorded

        return read_recorded(record, schedulers, self._arguments.max_pods).scenario
