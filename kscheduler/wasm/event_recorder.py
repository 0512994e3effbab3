"""What guests need of an Event recorder."""

from __future__ import annotations

from typing import Protocol

from kscheduler.api.objects import Pod
from kscheduler.client.protocol import Regarding


class Recorder(Protocol):
    """The part of `client.recorder.EventRecorder` that guests use."""

    def record(
        self,
        regarding: Pod | Regarding,
        *,
        type: str,
        reason: str,
        action: str,
        note: str,
        controller: str = "",
        related: Regarding | None = None,
    ) -> None: ...
