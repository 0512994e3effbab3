"""Objects that hold policies over live metrics: MetricPolicy (ours), and TASPolicy of telemetry-aware scheduling.

The spec stays undecoded: the reader of the objects decodes it strictly, so that a fault is reported by its field
and does not make the object unreadable.
"""

from __future__ import annotations

from typing import Any

from kscheduler.api.objects import APIStruct, ObjectMeta


class MetricPolicyObject(APIStruct, frozen=True):
    """kscheduler.io/v1alpha1 MetricPolicy."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None
    status: Any = None

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"


class TASPolicyObject(APIStruct, frozen=True):
    """telemetry.intel.com/v1alpha1 TASPolicy. Nobody writes its status, and it is not read."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"


PolicyObject = MetricPolicyObject | TASPolicyObject
