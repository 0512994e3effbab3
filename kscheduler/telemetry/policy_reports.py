"""Reports the faults of a policy object on the object: the condition Valid in its status, and an Event.

Only the replica that may write does so, and only what has changed. A TASPolicy has no conditions and gets Events only.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

from kscheduler.api.objects import MetricPolicyObject, PolicyObject
from kscheduler.client.kinds import METRIC_POLICIES, TAS_POLICIES, Resource
from kscheduler.client.protocol import Client, Regarding
from kscheduler.client.status_write import Written, write_status, write_when_set
from kscheduler.client.times import rfc3339
from kscheduler.client.write_permission import WritePermission
from kscheduler.clock import Clock
from kscheduler.telemetry.policy_book import Verdict

log = logging.getLogger(__name__)

CONDITION = "Valid"
PAUSE_S = 5.0  # before a failed write is repeated, or the permission to write is asked for again
MAX_MESSAGE = 4096
MAX_RECORDED = 10_000  # objects whose last Event is remembered

_RESOURCES: dict[str, Resource[Any]] = {"MetricPolicy": METRIC_POLICIES, "TASPolicy": TAS_POLICIES}


class Records(Protocol):
    def record(self, regarding: Regarding, *, type: str, reason: str, action: str, note: str) -> None: ...


class PolicyReports:
    """Writes the result of validation to policy objects. `run` is a task; `add` queues a result and never blocks."""

    def __init__(self, client: Client, recorder: Records, clock: Clock, permission: WritePermission) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._permission = permission
        self._waiting: dict[tuple[str, str], Verdict] = {}  # (kind, "namespace/name") -> the newest verdict to write
        self._recorded: dict[str, str] = {}  # uid -> the note of its last Event
        self._work = asyncio.Event()

    def add(self, verdict: Verdict) -> None:
        self._waiting[verdict.kind, verdict.object.key] = verdict
        self._work.set()

    async def run(self) -> None:
        await write_when_set(self._work, self._write_all, pause_s=PAUSE_S)

    async def _write_all(self) -> bool:
        """Write the waiting results, and return whether all of them were written."""
        for key in list(self._waiting):
            if not self._permission.may_write():
                return False
            verdict = self._waiting.pop(key)
            if not await self._write(verdict):
                self._waiting.setdefault(key, verdict)
                return False
        return True

    async def _write(self, verdict: Verdict) -> bool:
        """Write the result for one object, and return False if it must be written again."""
        self._record(verdict)
        item = verdict.object
        if not isinstance(item, MetricPolicyObject):
            return True
        status = status_of(verdict, rfc3339(self._clock.wall()))
        if status is None:
            return True
        write = self._client.patch_policy_status(item, status)
        written = await write_status(write, "condition of a policy", log, policy=item.key)
        return written is not Written.AGAIN

    def _record(self, verdict: Verdict) -> None:
        """Record an Event about new errors or notes, unless the object's condition already has the same message."""
        item = verdict.object
        if verdict.faults:
            reason, note = "InvalidPolicy", message_of(verdict)
        elif verdict.notes:
            reason, note = "PolicyPartlyIgnored", "; ".join(verdict.notes)
        else:
            self._recorded.pop(item.metadata.uid, None)
            return
        if self._recorded.get(item.metadata.uid) == note or _condition(item).get("message") == note:
            return
        if len(self._recorded) >= MAX_RECORDED:
            self._recorded.clear()
        self._recorded[item.metadata.uid] = note
        self._recorder.record(_regarding(verdict), type="Warning", reason=reason, action="Validating", note=note)


def status_of(verdict: Verdict, now: str) -> dict[str, object] | None:
    """Return what to merge into the object's status; None if the object's condition is up to date."""
    item = verdict.object
    before = _condition(item)
    condition: dict[str, object] = {
        "type": CONDITION,
        "status": "False" if verdict.faults else "True",
        "reason": "InvalidSpec" if verdict.faults else "Accepted",
        "message": message_of(verdict),
        "observedGeneration": item.metadata.generation,
    }
    if all(before.get(name) == value for name, value in condition.items()):
        return None
    is_same = before.get("status") == condition["status"]
    condition["lastTransitionTime"] = before.get("lastTransitionTime", now) if is_same else now
    others = [other for other in _conditions(item) if other.get("type") != CONDITION]
    return {"conditions": [*others, condition]}


def message_of(verdict: Verdict) -> str:
    if not verdict.faults:
        return "the policy is in force"
    text = "; ".join(verdict.faults)[:MAX_MESSAGE]
    return f"{text} (the last valid version stays in force)" if verdict.is_in_force else text


def _conditions(item: PolicyObject) -> list[dict[str, Any]]:
    status = item.status if isinstance(item, MetricPolicyObject) else None
    conditions = status.get("conditions") if isinstance(status, dict) else None
    return [one for one in conditions if isinstance(one, dict)] if isinstance(conditions, list) else []


def _condition(item: PolicyObject) -> dict[str, Any]:
    return next((one for one in _conditions(item) if one.get("type") == CONDITION), {})


def _regarding(verdict: Verdict) -> Regarding:
    meta, resource = verdict.object.metadata, _RESOURCES[verdict.kind]
    return Regarding(verdict.kind, resource.group_version, meta.namespace, meta.name, meta.uid, meta.resource_version)
