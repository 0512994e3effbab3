"""The custom resources of metric policies, on a real apiserver."""

from __future__ import annotations

from tests.controlplane.custom_kinds import definition

GROUP_VERSION = "kscheduler.io/v1alpha1"
# Telemetry-aware scheduling's own, as far as a scheduler is concerned.
TAS_CRD = definition("telemetry.intel.com", "v1alpha1", "TASPolicy", "taspolicies", "Namespaced")
SERVED = (f"/apis/{GROUP_VERSION}/metricpolicies", "/apis/telemetry.intel.com/v1alpha1/taspolicies")
