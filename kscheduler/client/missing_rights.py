"""Logs which kinds may not be listed and watched: one line for all whose rights are missing for one cause.

A role that is taken away is missed by each kind at the next watch that it opens, by the last one after most of a
minute. So the first kinds are named together after a moment, and what has been found missing since then in a line that
names all of them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from kscheduler.client.kinds import Resource

log = logging.getLogger(__name__)

GATHER_S = 1.0  # an apiserver that has just been started forbids everything for as long
AGAIN_S = 60.0


class MissingRights:
    """The informers that are refused with 403. All of one apiserver share one object; use it from one event loop."""

    def __init__(self) -> None:
        self._missing: dict[object, Resource[Any]] = {}  # informer -> what it may not list or watch
        self._logged: set[object] = set()  # informers, since the first was refused
        self._kinds = 0  # that were logged at once at most
        self._error = ""  # the first
        self._timer: asyncio.TimerHandle | None = None  # of the next line

    def refused(self, informer: object, resource: Resource[Any], error: str) -> None:
        """Note that an informer was refused; it may have been before."""
        if informer in self._missing:
            return
        if not self._missing:
            self._error = error
        self._missing[informer] = resource
        if self._timer is None:
            delay_s = AGAIN_S if self._logged else GATHER_S
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._log)

    def allows(self, informer: object) -> bool:
        """Note that an informer lists and watches; return whether it was refused before."""
        if self._missing.pop(informer, None) is None:
            return False
        if not self._missing:
            if self._logged:
                log.info("allowed to list and watch again", extra={"kinds": self._kinds})
            self._end()
        return True

    def forget(self, informer: object) -> None:
        """Note that an informer was stopped: what it may not list or watch is of no interest any more."""
        if self._missing.pop(informer, None) is not None and not self._missing:
            self._end()

    def _end(self) -> None:
        """Forget all, as if none had ever been refused."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._logged.clear()
        self._kinds = 0

    def _log(self) -> None:
        self._timer = None
        if self._missing.keys() <= self._logged:
            return
        self._logged.update(self._missing)
        self._kinds = max(self._kinds, len(self._missing))
        log.error(
            "not allowed to list and watch",
            extra={"kinds": len(self._missing), "needs": self._needs(), "err": self._error},
        )

    def _needs(self) -> str:
        by_group: dict[str, list[str]] = {}
        for resource in self._missing.values():
            by_group.setdefault(resource.group_version, []).append(resource.plural)
        return "list and watch on " + "; ".join(
            f"{', '.join(sorted(plurals))} in {group}" for group, plurals in sorted(by_group.items())
        )
