"""The custom resources of metric policies, on a real apiserver."""

from __future__ import annotations

from kscheduler.testing.controlplane import RequestFailed
from kscheduler.testing.controlplane.api import Api

GROUP_VERSION = "kscheduler.io/v1alpha1"
# Telemetry-aware scheduling's own, as far as a scheduler is concerned.
TAS_CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: taspolicies.telemetry.intel.com}
spec:
  group: telemetry.intel.com
  scope: Namespaced
  names: {kind: TASPolicy, listKind: TASPolicyList, plural: taspolicies, singular: taspolicy}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""


def serves_policies(api: Api) -> bool:
    """Whether the kinds that were applied can be used yet."""
    try:
        api.get(f"/apis/{GROUP_VERSION}/metricpolicies")
        api.get("/apis/telemetry.intel.com/v1alpha1/taspolicies")
    except RequestFailed:
        return False
    return True
