"""Chooses the release of Kubernetes whose kube-scheduler a scheduler emulates.

The configuration says how to reach the apiserver, and the apiserver's version which release decides how the
configuration is read. So it is read for every release first, and the release is chosen once the apiserver has answered.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kscheduler.client.outages import MOST_CAUSES
from kscheduler.client.retry_pauses import Backoff
from kscheduler.clock import Clock
from kscheduler.config.emulated_version import FLAG
from kscheduler.config.gate_flag import with_gates
from kscheduler.config.releases import RELEASES, Release, is_newer, release_for, release_of
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import APIError, ConfigError, DecodeError

log = logging.getLogger(__name__)

# An apiserver whose answers hold no version for so long is taken for one of the oldest release. One that has just been
# started forbids everything until its RBAC objects are loaded.
ASK_FOR_S = 30.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 4.0

ReadConfig = Callable[[Release], SchedulerConfig]  # the validated configuration in a release; ConfigError


class VersionSource(Protocol):
    async def version(self) -> dict[str, Any]:
        """Return the apiserver's /version. Raises APIError or DecodeError."""
        ...


@dataclass(frozen=True, slots=True)
class Emulation:
    """A configuration, read for the release that it names, and warnings about settings of feature gates."""

    config: SchedulerConfig
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """What is emulated, and why."""

    emulation: Emulation
    reason: str
    is_as_expected: bool = True  # False: the reason is worth a warning

    def log(self) -> None:
        log.log(
            logging.INFO if self.is_as_expected else logging.WARNING,
            "emulating a release of Kubernetes",
            extra={"emulatedVersion": self.emulation.config.release.version, "reason": self.reason},
        )


class Emulations:
    """The releases that can be emulated, each with the configuration in it, or with what is wrong in it."""

    def __init__(self, read: ReadConfig, gates: Mapping[str, bool], releases: Sequence[Release]) -> None:
        """Read the configuration for each of `releases`, oldest first. Raises ConfigError if it is good for none.

        The error is that of the oldest release.
        """
        self._found: dict[str, Emulation] = {}  # version -> what can be emulated
        self._faults: dict[str, ConfigError] = {}  # version -> why not
        for release in releases:
            try:
                changed, warnings = with_gates(release, gates)
                self._found[release.version] = Emulation(read(changed), warnings)
            except ConfigError as error:
                self._faults[release.version] = error
        if not self._found:
            raise next(iter(self._faults.values()))

    @property
    def first(self) -> Emulation:
        """The one of the oldest release that is possible. How to reach the apiserver is the same in all."""
        return next(iter(self._found.values()))

    def choose(self, served: str) -> Choice:
        """Choose the newest release that is not newer than the apiserver, and for which the configuration is good.

        `served`: the apiserver's version, as `served_version` returns it. Raises ConfigError if there is none.
        """
        wanted = release_for(served)
        reason = f"the apiserver is {served}"
        is_old = is_newer(wanted, served)
        if is_old:
            reason += ", older than any release that can be emulated"
        if wanted.version in self._found:
            return Choice(self._found[wanted.version], reason, not is_old)
        older = [emulation for emulation in self._found.values() if not is_newer(emulation.config.release, served)]
        fault = self._faults[wanted.version]
        if not older:
            raise ConfigError(f"for release {wanted.version}, because {reason}: {fault}")
        return Choice(older[-1], f"{reason}, but for release {wanted.version} there is an error: {fault}", False)

    def choose_without(self, error: Exception) -> Choice:
        """Choose the oldest release, because the apiserver's version could not be read."""
        reason = f"the apiserver's version could not be read; if it is newer, set {FLAG}: {error}"
        return Choice(self.first, reason, False)


async def choose(
    emulations: Emulations,
    client: VersionSource,
    clock: Clock,
    rng: random.Random,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> Choice:
    """Ask the apiserver for its version until it answers, and choose what is emulated.

    Answers without a version are asked for again for `ASK_FOR_S` seconds. Raises ConfigError if the configuration is
    good only for releases that are newer than the apiserver.
    """
    try:
        served = await _served(client, clock, rng, sleep)
    except (APIError, DecodeError, ConfigError) as error:
        return emulations.choose_without(error)
    return emulations.choose(served)


async def _served(
    client: VersionSource, clock: Clock, rng: random.Random, sleep: Callable[[float], Awaitable[object]]
) -> str:
    """Return the version. Raises APIError, DecodeError or ConfigError if the apiserver answers without one."""
    until_s: float | None = None  # answers without a version are put up with until then
    logged: set[str] = set()  # causes
    backoff = Backoff(rng, initial_s=FIRST_PAUSE_S, maximum_s=LONGEST_PAUSE_S)
    while True:
        try:
            served = served_version(await client.version())
            release_for(served)
            return served
        except (APIError, DecodeError, ConfigError) as error:
            pause_s = backoff.next_s(error.retry_after_s if isinstance(error, APIError) else None)
            if not _is_outage(error):
                until_s = until_s or clock.now() + ASK_FOR_S
                if clock.now() + pause_s > until_s:
                    raise
            # Nothing else is done meanwhile that could say what is wrong.
            cause = error.cause if isinstance(error, APIError) else str(error)
            if cause not in logged and len(logged) < MOST_CAUSES:
                logged.add(cause)
                log.warning(
                    "the version of the apiserver is not known yet",
                    extra={
                        "err": str(error),
                        "needs": "an answer to GET /version: it is asked on, and nothing begins before",
                    },
                )
        await sleep(pause_s)


def _is_outage(error: Exception) -> bool:
    """Return True if no other request would be answered either: the apiserver is away, or does not know who asks."""
    return isinstance(error, APIError) and (error.is_transient or error.status == 401)


async def warn_if_newer(release: Release, client: VersionSource) -> None:
    """Log a warning if the release is newer than the apiserver, which kube-scheduler does not support."""
    try:
        served = served_version(await client.version())
        newer = is_newer(release, served)
    except (APIError, DecodeError, ConfigError) as error:
        log.info("the apiserver's version could not be read", extra={"err": str(error)})
        return
    if newer:
        log.warning(
            "the emulated release is newer than the apiserver: kube-scheduler supports the apiserver's release and the "
            "one before it",
            extra={"emulatedVersion": release.version, "apiserver": served},
        )


def served_version(document: Mapping[str, Any]) -> str:
    """Return the version in the answer of an apiserver's /version. Raises ConfigError if there is none.

    It begins with the release that is served: that of --emulated-version of the apiserver, if it has the flag, or else
    that of its program. Builds of one's own may have a gitVersion without it.
    """
    git_version = document.get("gitVersion")
    if not isinstance(git_version, str):
        raise ConfigError(f"/version: expected a gitVersion, got {git_version!r:.100}")
    git_version = git_version[:100]
    built, emulated = _minor_version(document, "major", "minor"), _minor_version(document, *_EMULATION)
    if emulated and emulated != built:
        return f"{emulated}, emulated by {git_version}"
    if built and not re.match(rf"v?{re.escape(built)}\b", git_version):
        return f"{built}, {git_version}"
    return git_version


_EMULATION = "emulationMajor", "emulationMinor"


def _minor_version(document: Mapping[str, Any], *keys: str) -> str:
    """Return the numbers under these keys, such as "1.37"; "" if one is absent. Providers write minors like "37+"."""
    found = [re.match(r"\d{1,9}", document[key]) for key in keys if isinstance(document.get(key), str)]
    return ".".join(each[0] for each in found if each) if len(found) == len(keys) and all(found) else ""


def releases_of(given: str | None) -> tuple[Release, ...]:
    """Return the releases that can be chosen: the one of the version that a flag gives, else all."""
    return tuple(RELEASES.values()) if given is None else (release_of(given),)
