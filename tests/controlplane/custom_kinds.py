"""Custom kinds of a real apiserver: defined for tests, waited for, and taken away so that they can be made again."""

from __future__ import annotations

from kscheduler.testing.controlplane import RequestFailed
from kscheduler.testing.controlplane.api import Api, Object
from kscheduler.testing.controlplane.patience import eventually

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(group: str, version: str, kind: str, plural: str, scope: str) -> Object:
    """Return the definition of a kind whose spec may be anything. `scope`: Namespaced or Cluster."""
    open_spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": open_spec}}}
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": names,
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


def serves(api: Api, *paths: str) -> bool:
    """Return whether the apiserver answers at each path of a kind; it does so some time after the definition came."""
    try:
        for path in paths:
            api.get(path)
    except RequestFailed:
        return False
    return True


def remove_kind(api: Api, name: str) -> None:
    """Delete the definition `plural.group` with all its objects, if it is there, and wait until it is gone.

    The apiserver marks a definition as deleted, removes its objects, and then the definition. One that is applied
    meanwhile changes the old one and vanishes with it.
    """
    api.delete(f"{DEFINITIONS}/{name}", missing_ok=True)
    eventually(lambda: not _is_there(api, name), f"the kind {name} is gone")


def _is_there(api: Api, name: str) -> bool:
    try:
        api.get(f"{DEFINITIONS}/{name}")
    except RequestFailed as error:
        if error.status == 404:
            return False
        raise
    return True
