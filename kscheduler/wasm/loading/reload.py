"""Replaces a guest by a new version while the scheduler runs; the old version is used until the new one has passed.

The steps are:
1. Check the source for new contents.
2. Compile the new version.
3. Run a trial with a few made-up pods (canary.py).
4. Let each plugin object try it out.
5. Switch to it, in one step of the event loop.

A version that fails at 2, 3 or 4 is refused: the old one stays, and this digest is not tried again. A failure at 1 is
tried again after the interval. No step blocks the event loop or delays a pod.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from kscheduler.errors import KSchedulerError
from kscheduler.wasm.loading.apart import begin_apart
from kscheduler.wasm.loading.compiling import Version
from kscheduler.wasm.loading.fetch import Fetched, LoadError
from kscheduler.wasm.loading.guest import Follower, Guest

log = logging.getLogger(__name__)

Sleep = Callable[[float], Awaitable[object]]
Canary = Callable[[Version], None]  # raises if a version fails its trial calls; called in a worker thread


class Outcome(enum.Enum):
    """The outcome of one check of a guest's source; the values are the `result` label of the metric."""

    UNCHANGED = "unchanged"
    REPLACED = "replaced"
    REFUSED = "refused"  # the new version cannot be used
    UNREACHABLE = "unreachable"  # the source could not be read


class ReloadObserver(Protocol):
    """Counts checks of guests' sources by outcome; called on the event loop's thread."""

    def looked_for_guest(self, plugin: str, result: str, *, is_replaced: bool) -> None:
        """Count one check of a guest's source. `result` is the value of an Outcome."""
        ...


class ReloadRecorder(Protocol):
    """Records Events about new versions of guests; called on the event loop's thread."""

    def record_refusal(self, plugin: str, why: str) -> None: ...
    def record_replacement(self, plugin: str, sha256: str) -> None: ...


class Reloader:
    """Checks one guest for new versions, and replaces it."""

    def __init__(
        self,
        guest: Guest,
        observer: ReloadObserver,
        sleep: Sleep = asyncio.sleep,
        *,
        canary: Canary | None = None,
        recorder: ReloadRecorder | None = None,
        keeps_nodes: bool = True,
        keeps_pods: bool = True,
    ) -> None:
        """Prepare to check a guest's source. `keeps_nodes` and `keeps_pods`: whether complete objects are stored.

        That is decided at the start, by the guests that there are then.
        """
        self._guest = guest
        self._is_kept = {"nodes": keeps_nodes, "pods": keeps_pods}
        self._observer = observer
        self._canary = canary
        self._recorder = recorder
        self._sleep = sleep
        self._refused = ""  # digest of the refused version, which is not tried again
        self._complaint = ""  # the last failure, so that it is logged once

    async def run(self) -> None:
        """Check for a new version after each interval, until cancelled."""
        while True:
            await self._sleep(self._guest.arguments.reload_interval.seconds)
            await self.look()

    async def look(self) -> Outcome:
        """Check the source once, and replace the guest if there is a usable new version; return the outcome."""
        try:
            outcome, why = await self._look()
        except LoadError as error:
            outcome, why = Outcome.UNREACHABLE, str(error)
        except Exception as error:  # a bug here must not end the watch
            log.exception("looking for a new version of a guest failed", extra={"plugin": self._guest.name})
            outcome, why = Outcome.UNREACHABLE, f"{type(error).__name__}: {error}"
        self._report(outcome, why)
        return outcome

    async def _look(self) -> tuple[Outcome, str]:
        guest = self._guest
        # 1. Ask the source.
        fetched = await guest.fetcher.fetch_if_changed(guest.mark)
        if fetched is None or fetched.sha256 in (guest.sha256, self._refused):
            guest.mark = guest.mark if fetched is None else fetched.mark
            return Outcome.UNCHANGED, ""
        guest.mark = fetched.mark
        try:
            # 2. Compile the new version; apart, since the end of the program would wait for `asyncio.to_thread`.
            version = await asyncio.wrap_future(begin_apart(partial(guest.compile_aside, fetched), "guest-reload"))
            self._check_points(version)
            # 3. Run a trial with a few made-up pods.
            if self._canary is not None:
                await asyncio.to_thread(self._canary, version)
            # 4. Let each plugin object try it out.
            tried: list[Follower] = []
            while waiting := [follower for follower in guest.followers if follower not in tried]:
                await asyncio.to_thread(waiting[0].try_out, version)
                tried.append(waiting[0])
        except Exception as error:
            self._refused = fetched.sha256
            return Outcome.REFUSED, _reason(error, fetched)
        # 5. Change to it. Nothing is awaited from here on, so no plugin object is made meanwhile.
        guest.adopt(version)
        self._refused = ""
        for follower in tried:
            try:
                follower.replace(version)
            except Exception:
                log.exception("a plugin could not change to a new version", extra={"plugin": guest.name})
        return Outcome.REPLACED, f"sha256 {version.sha256}"

    def _check_points(self, version: Version) -> None:
        """Raise LoadError if the version needs what a running scheduler cannot give it.

        That is another ABI or other extension points than those in use by the profile, or complete objects that are not
        stored: of these the guest would see no more than decisions read.
        """
        before, now = self._guest.interface, version.interface
        if (before.abi, before.points) != (now.abi, now.points):
            raise LoadError(
                f"expected a guest of {before.abi} with the extension points {', '.join(before.points)}, got one of "
                f"{now.abi} with {', '.join(now.points)}: that takes a restart"
            )
        for what, is_seen in (("nodes", now.sees_nodes), ("pods", now.sees_pods)):
            if is_seen and not self._is_kept[what]:
                raise LoadError(
                    f"expected a guest that reads no complete {what}, since none did at the start, got one that does: "
                    "that takes a restart"
                )

    def _report(self, outcome: Outcome, why: str) -> None:
        fields = {"plugin": self._guest.name, "url": self._guest.fetcher.shown}
        if outcome is Outcome.REPLACED:
            log.info("wasm plugin has been replaced", extra={**fields, "sha256": self._guest.sha256})
        elif outcome is Outcome.REFUSED:
            log.error("new version of a wasm plugin is refused; the old one goes on", extra={**fields, "err": why})
        elif outcome is Outcome.UNREACHABLE and why != self._complaint:
            log.warning("the source of a wasm plugin could not be checked", extra={**fields, "err": why})
        self._complaint = why if outcome is Outcome.UNREACHABLE else ""
        if self._recorder is not None and outcome is Outcome.REPLACED:
            self._recorder.record_replacement(self._guest.name, self._guest.sha256)
        elif self._recorder is not None and outcome is Outcome.REFUSED:
            self._recorder.record_refusal(self._guest.name, why)
        self._observer.looked_for_guest(self._guest.name, outcome.value, is_replaced=outcome is Outcome.REPLACED)


def _reason(error: Exception, fetched: Fetched) -> str:
    what = str(error) if isinstance(error, KSchedulerError) else f"{type(error).__name__}: {error}"
    return f"sha256 {fetched.sha256}: {what}"
