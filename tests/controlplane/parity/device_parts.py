"""The parts of scenarios of devices: classes, slices and claims in few words, and what happens to claims.

No driver runs: scenarios publish its ResourceSlices, and report how devices are prepared. The
controller that makes claims from templates and releases them runs beside the schedulers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kscheduler.testing.controlplane.api import Object
from tests.controlplane.parity.outcome import Placements, exact
from tests.controlplane.parity.scenario import Scenario
from tests.controlplane.parity.stage import MAIN, Stage
from tests.controlplane.parity.steps import MERGE, Step, change_thing, is_decided, node, thing

GROUP, DRIVER = "resource.k8s.io/v1", "gpu.example.com"
RULES_GROUP = "resource.k8s.io/v1beta2"
SLICES = f"/apis/{GROUP}/resourceslices"
RULES = f"/apis/{RULES_GROUP}/devicetaintrules"
WRITTEN_AT = "2026-01-01T00:00:00Z"
FINALIZER = "resource.kubernetes.io/delete-protection"
NO_ROOM = "cannot allocate all claims"


def scenario(name: str, *steps: Step | list[Step], placements: Placements = exact, **options: Any) -> Scenario:
    return Scenario(name, steps, placements, needs=frozenset({"DynamicResources"}), **options)


# --- objects --------------------------------------------------------------------------------------------------------


def device_class(name: str = "gpu", expression: str = f'device.driver == "{DRIVER}"', **spec: Any) -> Step:
    selectors = [{"cel": {"expression": expression}}]
    return thing(_object("DeviceClass", name, {"selectors": selectors, **spec}))


def devices(node_name: str, *found: Object | str, pool: Object | None = None, name: str = "", **spec: Any) -> Step:
    """A slice of a node's pool, with devices by name or as objects."""
    listed = [{"name": each} if isinstance(each, str) else each for each in found]
    known = {"name": node_name, "generation": 1, "resourceSliceCount": 1, **(pool or {})}
    made = {"driver": DRIVER, "nodeName": node_name, "pool": known, **({"devices": listed} if listed else {}), **spec}
    return thing(_object("ResourceSlice", name or f"{node_name}-gpus", made))


def device(name: str, **fields: Any) -> Object:
    return {"name": name, **fields}


def model(name: str, value: str) -> Object:
    return device(name, attributes={"model": {"string": value}})


def request(name: str = "gpu", device_class_name: str = "gpu", selector: str = "", **fields: Any) -> Object:
    selectors = {"selectors": [{"cel": {"expression": selector}}]} if selector else {}
    return {"name": name, "exactly": {"deviceClassName": device_class_name, **selectors, **fields}}


def claim(name: str, *requests: Object, namespace: str = MAIN, **more: Any) -> Step:
    return thing(_object("ResourceClaim", name, _claim_spec(requests, more)), namespace)


def template(name: str, *requests: Object, **more: Any) -> Step:
    return thing(_object("ResourceClaimTemplate", name, {"spec": _claim_spec(requests, more)}))


def uses(*claims: str, **spec: Any) -> dict[str, Any]:
    """A pod's spec that names claims."""
    return {**spec, "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims]}


def makes(*templates: str, **spec: Any) -> dict[str, Any]:
    """A pod's spec with a claim of its own from each template."""
    return {**spec, "resourceClaims": [{"name": each, "resourceClaimTemplateName": each} for each in templates]}


def is_model(value: str) -> str:
    """An expression that selects a model."""
    return f'device.attributes["{DRIVER}"].model == "{value}"'


def first_available(*device_class_names: str | Object, name: str = "gpu") -> Object:
    """A request with alternatives, the best one first: classes, or requests of `request`'s shape."""
    listed = [each if isinstance(each, dict) else {"deviceClassName": each} for each in device_class_names]
    return {"name": name, "firstAvailable": [{"name": f"try-{index}", **each} for index, each in enumerate(listed)]}


def taint_rule(name: str, *, effect: str = "NoSchedule", **spec: Any) -> Step:
    """A rule that taints devices as `broken`. Both releases serve this version of the API."""
    document = _object("DeviceTaintRule", name, {"taint": {"key": "broken", "effect": effect}, **spec})
    return thing({**document, "apiVersion": RULES_GROUP})


def change_slice(name: str, patch: Object) -> Step:
    return change_thing(f"{SLICES}/{name}", {"spec": patch})


def _claim_spec(requests: tuple[Object, ...], more: dict[str, Any]) -> Object:
    return {"devices": {"requests": list(requests) or [request()], **more}}


def _object(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": spec}


# --- what happens to claims ---


def write_claim(
    name: str, *found: str, on: str = "", reserved_for: Iterable[str] = (), at: str | None = WRITTEN_AT
) -> Step:
    """A claim is written as a scheduler does that dies before it binds the pod.

    Its finalizer comes first, and is all without `found`: the devices, of the pool that is named as the node `on`.
    `at`: the time of the allocation, None as of a scheduler that does not write it.
    """

    def play(stage: Stage) -> None:
        stage.change("resourceclaims")
        path = _claim_path(stage, name)
        written = stage.api.patch(path, {"metadata": {"finalizers": [FINALIZER]}}, MERGE)
        if not found:
            return
        requests = [each["name"] for each in written["spec"]["devices"]["requests"]]
        users = [stage.api.get(stage.path("pods", each))["metadata"] for each in reserved_for]
        status = {
            "allocation": _allocation(zip(requests, found, strict=True), on, at),
            "reservedFor": [{"resource": "pods", "name": each["name"], "uid": each["uid"]} for each in users],
        }
        stage.api.patch(f"{path}/status", {"status": status}, MERGE)

    return play


def claim_of_resources(name: str, pod_name: str, found: str, *, on: str) -> Step:
    """A claim for a pod's extended resources, written as a scheduler does that dies before it binds the pod."""

    def play(stage: Stage) -> None:
        owner = stage.api.get(stage.path("pods", pod_name))["metadata"]
        made = _object("ResourceClaim", name, _claim_spec((request("container-0-request-0"),), {}))
        made["metadata"] |= {
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": pod_name, "uid": owner["uid"], "controller": True}
            ],
        }
        stage.create(made)
        write_claim(name, found, on=on, reserved_for=[pod_name])(stage)

    return play


def report(name: str, **conditions: str) -> Step:
    """The driver reports conditions of all devices of a claim: `Ready="True"`."""

    def play(stage: Stage) -> None:
        stage.change("resourceclaims")
        path = _claim_path(stage, name)
        results = stage.api.get(path)["status"]["allocation"]["devices"]["results"]
        known = {"reason": "Reported", "message": "as the driver says", "lastTransitionTime": WRITTEN_AT}
        listed = [{"type": kind, "status": value, **known} for kind, value in conditions.items()]
        reported = [
            {**{key: each[key] for key in ("driver", "pool", "device")}, "conditions": listed} for each in results
        ]
        stage.api.patch(f"{path}/status", {"status": {"devices": reported}}, MERGE)

    return play


def preparing(name: str) -> Step:
    """The last pod's devices are allocated, and the scheduler waits for their binding conditions and says so."""

    def play(stage: Stage) -> None:
        stage.wait(lambda: _is_preparing(stage, name), f"devices of {name} are prepared")
        stage.pods_are_seen()

    return play


def preparing_or_refused(name: str) -> Step:
    """The pod's devices are prepared, or it gets none: what of these is compared, and not expected."""

    def play(stage: Stage) -> None:
        stage.wait(lambda: _is_preparing(stage, name) or is_decided(stage.pod(name)), f"{name} has devices or none")

    return play


def remove_devices_claim(name: str) -> Step:
    """Somebody deletes a claim for devices. While it is used it stays, and says that it is being deleted."""

    def play(stage: Stage) -> None:
        stage.change("resourceclaims")
        stage.api.delete(_claim_path(stage, name))

    return play


def claim_gone(name: str) -> Step:
    """The claim is no more."""

    def play(stage: Stage) -> None:
        stage.wait(lambda: f"{MAIN}/{name}" not in stage.resource_claims(), f"claim {name} is gone")

    return play


def scheduler_dies(stage: Stage) -> None:
    """The scheduler ends at once, without taking anything back."""
    stage.kill_scheduler()


def scheduler_starts(stage: Stage) -> None:
    """The scheduler that has died is started again."""
    stage.start_scheduler()


def _is_preparing(stage: Stage, pod_name: str) -> bool:
    uid = stage.pod(pod_name).get("metadata", {}).get("uid")
    reasons = {event["reason"] for event in stage.events() if event["regarding"].get("uid") == uid}
    return "BindingConditionsPending" in reasons


def _claim_path(stage: Stage, name: str) -> str:
    return stage.path("resourceclaims", name, group=f"apis/{GROUP}")


def _allocation(results: Iterable[tuple[str, str]], node_name: str, at: str | None) -> Object:
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    named = {"driver": DRIVER, "pool": node_name}
    return {
        "devices": {"results": [{"request": one, "device": other, **named} for one, other in results]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        "allocationTimestamp": at,
    }


# --- what most scenarios begin with ---

ONE: list[Step | list[Step]] = [node("a"), device_class()]
TWO: list[Step | list[Step]] = [node("a"), node("b"), device_class()]
