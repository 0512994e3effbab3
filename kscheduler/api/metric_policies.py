"""Objects that hold policies over live metrics: MetricPolicy (ours), and TASPolicy of telemetry-aware scheduling.

The spec stays undecoded: the reader of the objects decodes it strictly, so that a fault is reported by its field
and does not make the object unreadable.
"""

from __future__ import annotations

from typing import Any

from kscheduler.api.objects import NamespacedObject


class MetricPolicyObject(NamespacedObject, frozen=True):
    """kscheduler.io/v1alpha1 MetricPolicy."""

    spec: Any = None
    status: Any = None


class TASPolicyObject(NamespacedObject, frozen=True):
    """telemetry.intel.com/v1alpha1 TASPolicy. Nobody writes its status, and it is not read."""

    spec: Any = None


PolicyObject = MetricPolicyObject | TASPolicyObject
