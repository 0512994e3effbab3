"""Expands the configurations of a grid, and checks that a result can be kept by their content.

A guest needs its digest, and of a plugin in Python the source is part of the key. Extenders are refused: what they
answer depends on another program.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kscheduler.config.document import parse_document, read_document
from kscheduler.config.dump import to_v1
from kscheduler.config.emulated_version import parse_emulated_version
from kscheduler.config.gate_flag import with_gates
from kscheduler.config.load import in_release, parse_config
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.config.types import API_VERSION, DEFAULT_SCHEDULER_NAME, KIND, SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.framework.out_of_tree import find_plugins, load_plugins
from kscheduler.simulator.configuration import check_simulated, release_in
from kscheduler.sweep.grid import ConfigEntry, TraceEntry
from kscheduler.sweep.patches import choice_name, choices, patched
from kscheduler.wasm.plugins import GuestPlugins

Code = dict[str, str]  # a plugin's name -> digest of its source file


class Emulated(NamedTuple):
    """Which kube-scheduler a run emulates, as the arguments of a simulation say it."""

    version: str | None  # None: that of the record, or else the default one
    gates: tuple[tuple[str, bool], ...]  # sorted (name, is on)


class Configurations:
    """All configurations of a grid. Each distinct one is checked once."""

    def __init__(self, entries: Sequence[ConfigEntry]) -> None:
        self._entries = entries or (ConfigEntry("default"),)
        self._guests = GuestPlugins(cache_dir=None, reloads=False)
        self._checked: dict[tuple[str, str, Release], Code] = {}
        self._warnings: dict[str, None] = {}  # in the order of the entries

    @property
    def warnings(self) -> list[str]:
        """Warnings about feature gates of the configurations yielded so far that do less than they seem to."""
        return list(self._warnings)

    def of(self, trace: TraceEntry) -> Iterator[tuple[str, str, Emulated, Code]]:
        """Yield (name, text as JSON, what is emulated, plugins' code) of each configuration for a trace.

        The text "" is the default configuration. Without a base it depends on the trace: a record has its own. Raises
        ConfigError with the name of a wrong one.
        """
        for entry in self._entries:
            release, warnings = _release(entry, trace)
            self._warnings.update(dict.fromkeys(warnings))
            base = _base(entry, trace, release, self._guests)
            emulated = Emulated(
                None if entry.emulated_version is None else release.version, tuple(sorted(entry.feature_gates.items()))
            )
            for choice in choices(entry.patches):
                name = choice_name(entry.name, entry.patches, choice)
                try:
                    document = patched(base or _empty(), choice) if choice else base
                except ConfigError as error:
                    raise ConfigError(f'config "{entry.name}": {error}') from None
                text = msgspec.json.encode(document, order="deterministic").decode() if document else ""
                key = name, text, release
                if key not in self._checked:
                    self._checked[key] = self._check(f'config "{name}"', text, document, release)
                yield name, text, emulated, self._checked[key]

    def _check(self, source: str, text: str, document: Any, release: Release) -> Code:
        if not text:
            return {}
        _check_guests(source, document)
        find = functools.partial(find_plugins, guests=self._guests)
        config = parse_config(text, source, find_plugins=find, release=release)
        check_simulated(config, source, self._guests)
        if config.extenders:
            raise ConfigError(f"{source}: expected no extenders: a result is kept by its content, and they have none")
        return self._code(config)

    def _code(self, config: SchedulerConfig) -> Code:
        """Return the digests of the source files of plugins in Python."""
        code: Code = {}
        for index, profile in enumerate(config.profiles):
            for name, loaded in load_plugins(profile, f"profiles[{index}]", self._guests).items():
                path = None if loaded.is_guest else inspect.getsourcefile(loaded.kind)
                if path is not None:
                    code[name] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        return code


def _release(entry: ConfigEntry, trace: TraceEntry) -> tuple[Release, tuple[str, ...]]:
    """Return the release with the entry's gates, and warnings about those that do less than they seem to."""
    if entry.emulated_version is not None:
        release = parse_emulated_version(entry.emulated_version)
    else:
        release = DEFAULT_RELEASE if trace.record is None else release_in(trace.record)
    return with_gates(release, entry.feature_gates, f'config "{entry.name}": featureGates')


def _base(entry: ConfigEntry, trace: TraceEntry, release: Release, guests: GuestPlugins) -> dict[str, Any]:
    """Return the document that patches are applied to; {} for the default configuration."""
    if entry.base is not None:
        return read_document(entry.base)
    return {} if trace.record is None else _recorded(trace.record, release, guests)


def _recorded(record: str, release: Release, guests: GuestPlugins) -> dict[str, Any]:
    """Return the configuration in a record, as it is in a release; {} if the record has none."""
    from kscheduler.simulator.recorded import recorded_header  # records need an extra

    text, source = recorded_header(record).configuration, f"{record}: configuration"
    own = release_in(record)
    if not text or own == release:
        return parse_document(text.encode(), source) if text else {}
    find = functools.partial(find_plugins, guests=guests)
    return to_v1(in_release(parse_config(text, source, find_plugins=find, release=own), release, source, find))


def _empty() -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"schedulerName": DEFAULT_SCHEDULER_NAME}]}


def _check_guests(source: str, document: Any) -> None:
    """Raise ConfigError for a guest without a digest: its content would not be in the keys of runs."""
    if isinstance(document, list):
        for item in document:
            _check_guests(source, item)
    elif isinstance(document, dict):
        if "guestURL" in document and not document.get("sha256"):
            raise ConfigError(f"{source}: expected sha256 beside guestURL: a result is kept by the content it is of")
        for item in document.values():
            _check_guests(source, item)
