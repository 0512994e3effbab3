"""Objects of resource.k8s.io are decoded from what an apiserver sends, and encoded to the same."""

from __future__ import annotations

import json

import msgspec

from kscheduler.api.devices import ResourceClaim, ResourceSlice

SLICE = {
    "metadata": {"name": "node-1-gpus"},
    "spec": {
        "driver": "gpu.example.com",
        "pool": {"name": "node-1", "generation": 2, "resourceSliceCount": 1},
        "nodeName": "node-1",
        "devices": [
            {
                "name": "gpu-0",
                "attributes": {
                    "cores": {"int": 64},
                    "ecc": {"bool": False},
                    "model": {"string": "A"},
                    "driverVersion": {"version": "1.2.3"},
                },
                "capacity": {
                    "memory": {"value": "40Gi", "requestPolicy": {"validRange": {"min": "1Gi", "step": "1Gi"}}}
                },
                "consumesCounters": [{"counterSet": "all", "counters": {"slots": {"value": "2"}}}],
                "allowMultipleAllocations": True,
            }
        ],
        "sharedCounters": [{"name": "all", "counters": {"slots": {"value": "7"}}}],
    },
}

CLAIM = {
    "metadata": {"name": "gpu", "namespace": "default", "finalizers": ["resource.kubernetes.io/delete-protection"]},
    "spec": {
        "devices": {
            "requests": [
                {
                    "name": "big",
                    "exactly": {
                        "deviceClassName": "gpu",
                        "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
                        "count": 2,
                    },
                }
            ],
            "constraints": [{"requests": ["big"], "matchAttribute": "gpu.example.com/model"}],
        }
    },
    "status": {
        "allocation": {
            "devices": {
                "results": [
                    {
                        "request": "big",
                        "driver": "gpu.example.com",
                        "pool": "node-1",
                        "device": "gpu-0",
                        "shareID": "6f5a",
                        "consumedCapacity": {"memory": "1Gi"},
                    }
                ],
                "config": [
                    {"source": "FromClass", "opaque": {"driver": "gpu.example.com", "parameters": {"a": {"b": [1]}}}}
                ],
            }
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
    },
}


def test_a_slice_keeps_all_that_scheduling_reads() -> None:
    decoded = msgspec.json.decode(json.dumps(SLICE), type=ResourceSlice)
    assert decoded.spec.devices is not None
    attributes = decoded.spec.devices[0].attributes
    assert attributes is not None
    assert attributes["cores"].int_value == 64
    assert attributes["ecc"].bool_value is False
    assert json.loads(msgspec.json.encode(decoded)) == SLICE


def test_a_claim_keeps_all_that_scheduling_reads() -> None:
    decoded = msgspec.json.decode(json.dumps(CLAIM), type=ResourceClaim)
    assert decoded.key == "default/gpu"
    assert json.loads(msgspec.json.encode(decoded)) == CLAIM
