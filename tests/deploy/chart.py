"""The Helm chart as `helm template` renders it, in a form that can be compared with kustomize's objects."""

from __future__ import annotations

import copy
from pathlib import Path

import yaml

from tests.deploy.manifests import CHECKSUM, DEPLOY, Object, checksum, documents, find, pod_template, scheduler_config
from tests.support.helm import Helm

CHART = DEPLOY / "chart"
RELEASE = "kscheduler"  # under this name, and in the namespace of this name, the objects are called as kustomize's
HELMS_LABELS = frozenset(
    {"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart"}
)
ROUTING_CHECKSUM = "kscheduler/routing-checksum"
KEEP = "helm.sh/resource-policy"  # the annotation of what stays when a release is uninstalled

# Of kustomize's component -> the values that switch the same on.
VALUES_OF_COMPONENTS = {
    "explain-annotations": ("explainAnnotations.enabled=true",),
    "gangs": ("gangs.enabled=true",),
    "live-metrics": ("liveMetrics.enabled=true",),
    "metric-policies": ("metricPolicies.enabled=true",),
    "network-policy": ("networkPolicy.enabled=true",),
    "queues": ("queues.enabled=true",),
    "quick-takeover": ("quickTakeover.enabled=true",),
    "quotas": ("quotas.enabled=true",),
    "record": ("record.enabled=true",),
    "routing": ("routing.enabled=true",),
    "ui": ("ui.enabled=true",),
}

Key = tuple[str, str, str]  # kind, namespace, name


def render_chart(
    helm: Helm, *settings: str, release: str = RELEASE, namespace: str = RELEASE, values: Path | None = None
) -> list[Object]:
    """Return the chart's objects; `settings` are such as `replicas=3`, and `values` a file of them."""
    line: list[str | Path] = ["template", release, CHART, "--namespace", namespace]
    line += [part for setting in settings for part in ("--set", setting)]
    if values is not None:
        line += ["--values", values]
    return documents(helm.run(*line))


def comparable(objects: list[Object], name: str = RELEASE) -> dict[Key, Object]:
    """Return the objects by name, without what only Helm says, and with the configuration as what it means.

    `name`: of the Deployment and the configuration. The two sides write the same configuration as different texts, each
    of which has its checksum on the pods.
    """
    objects = copy.deepcopy(objects)
    text = scheduler_config(objects, name)
    find(objects, "ConfigMap", name)["data"]["config.yaml"] = yaml.safe_load(text)
    assert pod_template(objects, name)["metadata"]["annotations"].pop(CHECKSUM) == checksum(text)
    for each in objects:
        if each["metadata"]["name"] == f"{name}-routing" and each["kind"] == "ConfigMap":
            rules = each["data"]["routing.yaml"]
            each["data"]["routing.yaml"] = yaml.safe_load(rules)
            # Only the chart says it: kustomize's users write the rules into a file of theirs.
            assert pod_template(objects, name)["metadata"]["annotations"].pop(ROUTING_CHECKSUM, None) in (
                checksum(rules),
                None,
            )
        metadata = each["metadata"]
        metadata["labels"] = {label: value for label, value in metadata["labels"].items() if label not in HELMS_LABELS}
        if KEEP in metadata.get("annotations", {}):
            del metadata["annotations"][KEEP]
            if not metadata["annotations"]:
                del metadata["annotations"]
    found = {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in objects}
    assert len(found) == len(objects), "two objects have one name"
    return found
