"""Components of deploy/ that bring custom kinds: what is served, and the arguments of a replica that follows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from kscheduler.testing.controlplane.api import Api
from tests.controlplane.custom_kinds import definition, serves
from tests.controlplane.policy_kinds import SERVED, TAS_CRD
from tests.deploy.manifests import Object, own_objects
from tests.deploy.rules import Right, bound_roles, rights
from tests.deploy.trial import CustomKinds

# KAI-Scheduler's own, as far as a scheduler is concerned.
KAI_CRD = definition("scheduling.run.ai", "v2", "Queue", "queues", "Cluster")


@dataclass(frozen=True, slots=True)
class Component:
    """A component with custom kinds. `profile`: what the profile of a scheduler that follows them says besides."""

    name: str
    kinds: CustomKinds
    profile: Mapping[str, Any]
    served: tuple[str, ...]  # paths of the kinds
    foreign: tuple[Object, ...] = ()  # definitions of kinds that others bring
    objects: list[Object] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "objects", own_objects(self.name))

    def __str__(self) -> str:
        return self.name

    def rights(self) -> list[Right]:
        return rights(bound_roles(self.objects))

    def is_served(self, api: Api) -> bool:
        """Whether the kinds that were applied can be used yet."""
        return serves(api, *self.served)

    def followed_by(self, config: str) -> str:
        """A configuration of one profile that follows the kinds."""
        document = yaml.safe_load(config)
        [profile] = document["profiles"]
        profile |= self.profile
        return yaml.safe_dump(document)


POLICIES = Component(
    "metric-policies",
    CustomKinds(
        watched=(("kscheduler.io", "metricpolicies"), ("telemetry.intel.com", "taspolicies")),
        status="metricpolicies/status",
        path="/apis/kscheduler.io/v1alpha1/namespaces/{namespace}/metricpolicies",
        body={"apiVersion": "kscheduler.io/v1alpha1", "kind": "MetricPolicy", "spec": {}},
    ),
    {
        "plugins": {"multiPoint": {"enabled": [{"name": "MetricPolicy"}]}},
        "pluginConfig": [{"name": "MetricPolicy", "args": {"policyObjects": True, "tasPolicies": True}}],
    },
    SERVED,
    (TAS_CRD,),
)
QUOTAS = Component(
    "quotas",
    CustomKinds(
        watched=(("scheduling.x-k8s.io", "elasticquotas"),),
        status="elasticquotas/status",
        path="/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/elasticquotas",
        body={
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "spec": {"min": {"cpu": "100k", "memory": "1Pi"}},  # so that it limits nothing
        },
    ),
    # Room is made by DefaultPreemption: a namespace within its `min` takes none from itself.
    {"plugins": {point: {"enabled": [{"name": "CapacityScheduling"}]} for point in ("preFilter", "reserve")}},
    ("/apis/scheduling.x-k8s.io/v1alpha1/elasticquotas",),
)
QUEUES = Component(
    "queues",
    CustomKinds(
        watched=(("kscheduler.io", "queues"), ("scheduling.run.ai", "queues")),
        status="queues/status",
        path="/apis/kscheduler.io/v1alpha1/queues",
        body={"apiVersion": "kscheduler.io/v1alpha1", "kind": "Queue", "spec": {"resources": {"cpu": {}}}},
    ),
    {
        "plugins": {
            "preFilter": {"enabled": [{"name": "Queues"}]},
            "postFilter": {"enabled": [{"name": "Queues"}], "disabled": [{"name": "*"}]},
        }
    },
    ("/apis/kscheduler.io/v1alpha1/queues", "/apis/scheduling.run.ai/v2/queues"),
    (KAI_CRD,),
)
COMPONENTS = (POLICIES, QUOTAS, QUEUES)
