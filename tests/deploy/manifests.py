"""deploy/ as a user's `kubectl apply -k` would send it: the objects of a kustomization, in order.

Of kustomize only what deploy/ uses is known: `resources` (files and directories), and `patches` that merge maps,
replace lists and delete; in components also such that add to lists. Anything else in a kustomization is an error, so
that no test judges what is never applied.
"""

from __future__ import annotations

import copy
import hashlib
from pathlib import Path
from typing import Any, cast

import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
KUSTOMIZATIONS = ("base", "replace-kube-scheduler")
COMPONENTS = (
    "explain-annotations",
    "gangs",
    "live-metrics",
    "metric-policies",
    "network-policy",
    "queues",
    "quick-takeover",
    "quotas",
    "record",
    "routing",
    "ui",
)
CHECKSUM = "kscheduler/config-checksum"

Object = dict[str, Any]
_KNOWN = {"apiVersion", "kind", "resources", "patches"}


def render(name: str, *components: str) -> list[Object]:
    """Every object of deploy/<name>, with these components."""
    objects = _render(DEPLOY / name)
    for component in components:
        _add_component(objects, DEPLOY / component)
    return objects


def own_objects(component: str) -> list[Object]:
    """What a component adds, without what it patches."""
    return _resources(DEPLOY / component, _kustomization(DEPLOY / component))


def find(objects: list[Object], kind: str, name: str, namespace: str | None = None) -> Object:
    """The one object of that kind and name; `namespace` may be left out where it is clear."""
    found = [
        each
        for each in objects
        if each["kind"] == kind
        and each["metadata"]["name"] == name
        and namespace in (None, each["metadata"].get("namespace"))
    ]
    assert len(found) == 1, f"expected one {kind} {name}, found {len(found)}"
    return found[0]


def scheduler_config(objects: list[Object], name: str = "kscheduler") -> str:
    """The text of the scheduler's configuration file."""
    return cast(str, find(objects, "ConfigMap", name)["data"]["config.yaml"])


def checksum(config: str) -> str:
    """What the Deployment's annotation must say of a configuration, so that a change starts new pods."""
    return hashlib.sha256(config.encode()).hexdigest()[:16]


def pod_template(objects: list[Object], name: str = "kscheduler") -> Object:
    """The Deployment's pods: metadata and spec."""
    return cast(Object, find(objects, "Deployment", name)["spec"]["template"])


def _kustomization(directory: Path) -> Object:
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text())
    assert set(kustomization) <= _KNOWN, f"{directory}: this renderer knows {sorted(_KNOWN)} only"
    return cast(Object, kustomization)


def _resources(directory: Path, kustomization: Object) -> list[Object]:
    objects: list[Object] = []
    for entry in kustomization.get("resources", ()):
        path = directory / entry
        objects += _render(path) if path.is_dir() else documents(path.read_text())
    return objects


def _add_component(objects: list[Object], directory: Path) -> None:
    kustomization = _kustomization(directory)
    assert kustomization["kind"] == "Component"
    objects += _resources(directory, kustomization)
    for entry in kustomization.get("patches", ()):
        target = find(objects, entry["target"]["kind"], entry["target"]["name"])
        for step in yaml.safe_load(entry["patch"]):
            _add_to_list(target, step)


def _add_to_list(target: Object, step: Object) -> None:
    """A step of a JSON patch (RFC 6902), of the one form that components use."""
    *parents, last = step["path"].strip("/").split("/")
    assert (step["op"], last) == ("add", "-"), f"this renderer adds to the ends of lists only, not {step}"
    place: Any = target
    for part in parents:
        place = place[int(part) if isinstance(place, list) else part]
    place.append(copy.deepcopy(step["value"]))


def _render(directory: Path) -> list[Object]:
    kustomization = _kustomization(directory)
    objects = _resources(directory, kustomization)
    for entry in kustomization.get("patches", ()):
        text = entry["patch"] if "patch" in entry else (directory / entry["path"]).read_text()
        for patch in documents(text):
            _patch(objects, patch)
    return objects


def documents(text: str) -> list[Object]:
    """The objects of a YAML text."""
    # The pure Python loader takes half a second for the custom resource definitions.
    return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document is not None]


def _patch(objects: list[Object], patch: Object) -> None:
    metadata = patch["metadata"]
    target = find(objects, patch["kind"], metadata["name"], metadata.get("namespace"))
    if patch.get("$patch") == "delete":
        objects.remove(target)
    else:
        _merge(target, patch)


def _merge(target: Object, patch: Object) -> None:
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = copy.deepcopy(value)
