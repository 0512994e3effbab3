"""Objects that hold policies over live metrics: MetricPolicy (ours), and TASPolicy of telemetry-aware scheduling.

The spec stays as it came: it is read strictly by whoever follows the objects, so that a fault is named by its field
and never costs the object.
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
    """telemetry.intel.com/v1alpha1 TASPolicy. Its status is nobody's, and not read."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"


PolicyObject = MetricPolicyObject | TASPolicyObject
