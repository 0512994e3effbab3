"""Implements `kscheduler doctor`: checks whether a scheduler can work on a cluster, and says what mends what it finds.

Nothing is written to the cluster. The configuration is loaded as `run` loads it, so wasm plugins are downloaded, and
each metric source is asked for its metrics once.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import uvloop

from kscheduler.client.kube import KubeClient
from kscheduler.clock import Clock
from kscheduler.command import doctor_checks as checks
from kscheduler.command.doctor_checks import Finding, Level
from kscheduler.command.doctor_kinds import rights_of_components
from kscheduler.command.emulation import Choice, Emulations, releases_of
from kscheduler.command.flags.doctor import DoctorOptions
from kscheduler.config.load import config_reader, default_config
from kscheduler.errors import ConfigError, KSchedulerError
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.input.redaction import hide_urls
from kscheduler.wasm.plugins import GuestPlugins

EXIT_SICK = 1  # a check failed
_COLOURS = {Level.OK: "\x1b[32m", Level.WARN: "\x1b[33m", Level.FAIL: "\x1b[31m"}
_PLAIN = "\x1b[0m"


class Loaded(NamedTuple):
    """A configuration for all releases that can be emulated, and its wasm plugins."""

    emulations: Emulations
    guests: GuestPlugins


def doctor(options: DoctorOptions, clock: Clock) -> int:
    """Run all checks, print a line for each, and return the exit code: 1 if one failed."""
    loaded, findings = _load(options)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        findings += runner.run(_of_cluster(options, loaded, clock))
    if options.output == "json":
        print(json.dumps([finding.document() for finding in findings], indent=2))
    else:
        print(to_text(findings, coloured=sys.stdout.isatty()), end="")
    return EXIT_SICK if any(finding.level is Level.FAIL for finding in findings) else 0


def to_text(findings: Iterable[Finding], *, coloured: bool = False) -> str:
    """Return a line for each finding, and the command that mends it on the next."""
    lines = []
    for level, check, text, mend in findings:
        word = f"{level.value:<4}"
        lines.append(f"{_COLOURS[level] + word + _PLAIN if coloured else word}  {check:<13}  {text}")
        if mend:
            lines.append(f"      {'':<13}  mend: {mend}")
    return "\n".join([*lines, ""])


# --- the configuration ---


def _load(options: DoctorOptions) -> tuple[Loaded | None, list[Finding]]:
    guests = GuestPlugins(cache_dir=None, reloads=False)
    shown = options.config or "the default one"
    try:
        read = config_reader(options.config, partial(find_plugins, guests=guests))
        emulations = Emulations(read, {}, releases_of(options.emulated_version))
    except KSchedulerError as error:
        mend = f"kscheduler config validate {options.config}"
        return None, [Finding(Level.FAIL, "configuration", hide_urls(str(error)), mend)]
    names = ", ".join(profile.scheduler_name for profile in emulations.first.config.profiles)
    findings = [Finding(Level.OK, "configuration", f"{shown} is valid, profiles: {names}")]
    for guest in guests.guests:
        text = f"{guest.name}: {guest.arguments.guest_url} has a module, sha256 {guest.sha256[:12]}"
        findings.append(Finding(Level.OK, "plugin", text))
    return Loaded(emulations, guests), findings


# --- the cluster ---


async def _of_cluster(options: DoctorOptions, loaded: Loaded | None, clock: Clock) -> list[Finding]:
    """Check what the apiserver has to say; if it does not answer, nothing else is asked of it."""
    config = loaded.emulations.first.config if loaded else default_config()
    kubeconfig = options.kubeconfig or config.client_connection.kubeconfig
    try:
        client = await KubeClient.connect(clock, kubeconfig=kubeconfig, context=options.context)
    except ConfigError as error:
        return [Finding(Level.FAIL, "apiserver", str(error), "kubectl config view --minify")]
    try:
        served, finding = await checks.apiserver(client)
        if served is None:
            return [finding]
        findings = [finding]
        if loaded is not None:
            choice = _chosen(options, loaded.emulations, served)
            findings.append(checks.skew(choice, served) if isinstance(choice, Choice) else choice)
        findings.append(await checks.clocks(client, clock))
        findings.append(await checks.rights(client.reviews, config.leader_election, options.service_account))
        for component, needed in rights_of_components(config).items():
            account = options.service_account
            findings.append(await checks.rights_of_component(client.reviews, component, needed, account))
        findings.append(await checks.lease(client, config.leader_election, clock))
        if loaded is not None:
            findings += await checks.metric_sources(config, client, clock)
        findings.append(await checks.memory(client))
        return findings
    finally:
        await client.close()


def _chosen(options: DoctorOptions, emulations: Emulations, served: str) -> Choice | Finding:
    if options.emulated_version is not None:
        return Choice(emulations.first, "--emulated-version says so")
    try:
        return emulations.choose(served)
    except ConfigError as error:
        return Finding(Level.FAIL, "release", str(error), "kscheduler doctor --emulated-version 1.36")
