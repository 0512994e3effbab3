"""Pod groups of every served version are decoded as an apiserver writes them; unknown fields do no harm."""

from __future__ import annotations

import json

import pytest

from kscheduler.api.decode import decode_object
from kscheduler.api.pod_groups import (
    CompositeGangPolicy,
    CompositePodGroup,
    CoschedulingPodGroup,
    CoschedulingPodGroupStatus,
    DisruptionMode,
    Empty,
    GangPolicy,
    GroupCondition,
    PodGroup,
    TopologyConstraint,
)
from kscheduler.errors import DecodeError

METADATA = {"name": "train", "namespace": "ml", "uid": "u1", "generation": 3, "resourceVersion": "7"}


def test_a_group_of_1_36_is_decoded() -> None:
    group = decode_object(
        json.dumps(
            {
                "apiVersion": "scheduling.k8s.io/v1alpha2",
                "kind": "PodGroup",
                "metadata": METADATA,
                "spec": {
                    "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
                    "schedulingPolicy": {"gang": {"minCount": 4}},
                    "schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/zone"}]},
                    "disruptionMode": "PodGroup",
                    "priorityClassName": "high",
                    "priority": 1000,
                },
            }
        ).encode(),
        PodGroup,
    )
    assert group.key == "ml/train"
    assert group.metadata.generation == 3
    assert group.spec.scheduling_policy.gang == GangPolicy(4)
    assert group.spec.scheduling_policy.basic is None
    assert group.spec.scheduling_constraints is not None
    assert group.spec.scheduling_constraints.topology == [TopologyConstraint("topology.kubernetes.io/zone")]
    assert group.spec.disruption_mode == "PodGroup"
    assert group.spec.priority == 1000


def test_a_group_of_1_37_is_decoded() -> None:
    group = decode_object(
        json.dumps(
            {
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "kind": "PodGroup",
                "metadata": METADATA,
                "spec": {
                    "parentCompositePodGroupName": "job",
                    "workloadRef": {"workloadName": "w", "templateName": "t"},
                    "schedulingPolicy": {"basic": {}},
                    "disruptionMode": {"all": {}},
                    "preemptionPolicy": "Never",
                    "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "gpu"}],
                },
                "status": {
                    "conditions": [
                        {
                            "type": "PodGroupInitiallyScheduled",
                            "status": "True",
                            "reason": "Scheduled",
                            "message": "",
                            "lastTransitionTime": "2026-01-01T00:00:00Z",
                            "observedGeneration": 2,
                        }
                    ]
                },
            }
        ).encode(),
        PodGroup,
    )
    assert group.spec.parent_composite_pod_group_name == "job"
    assert group.spec.scheduling_policy.basic == Empty()
    assert group.spec.scheduling_policy.gang is None
    assert group.spec.disruption_mode == DisruptionMode(all=Empty())
    assert group.spec.preemption_policy == "Never"
    assert group.spec.resource_claims is not None
    assert group.spec.resource_claims[0].resource_claim_template_name == "gpu"
    assert group.status.conditions == [
        GroupCondition("PodGroupInitiallyScheduled", "True", "Scheduled", "", "2026-01-01T00:00:00Z", 2)
    ]


def test_a_group_of_groups_is_decoded() -> None:
    document = {
        "metadata": METADATA,
        "spec": {
            "schedulingPolicy": {"gang": {"minGroupCount": 2}},
            "parentCompositePodGroupName": "all",
            "disruptionMode": {"single": {}},
        },
    }
    group = decode_object(json.dumps(document).encode(), CompositePodGroup)
    assert group.spec.scheduling_policy.gang == CompositeGangPolicy(2)
    assert group.spec.parent_composite_pod_group_name == "all"
    assert group.spec.disruption_mode == DisruptionMode(single=Empty())


def test_a_group_of_coscheduling_is_decoded() -> None:
    group = decode_object(
        json.dumps(
            {
                "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                "kind": "PodGroup",
                "metadata": METADATA,
                "spec": {"minMember": 3, "minResources": {"cpu": "3", "memory": 1024}, "scheduleTimeoutSeconds": 10},
                "status": {"phase": "Scheduling", "occupiedBy": "ml/job", "running": 1, "scheduleStartTime": None},
            }
        ).encode(),
        CoschedulingPodGroup,
    )
    assert group.spec.min_member == 3
    assert group.spec.min_resources == {"cpu": "3", "memory": 1024}
    assert group.spec.schedule_timeout_seconds == 10
    assert group.status == CoschedulingPodGroupStatus(phase="Scheduling", occupied_by="ml/job", running=1)


def test_a_group_that_cannot_be_decoded_names_the_field() -> None:
    raw = b'{"metadata": {"name": "train", "namespace": "ml"}, "spec": {"minMember": "three"}}'
    with pytest.raises(DecodeError, match=r'ml/train: spec.minMember: expected int, got "three"'):
        decode_object(raw, CoschedulingPodGroup)
