"""Routing rules as a file has them, and admission reviews as an apiserver sends them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kscheduler.config.routing import RoutingConfig, load_routing
from kscheduler.config.types import Profile
from tests.config.documents import config_of, read

HEAD = "apiVersion: kscheduler.io/v1alpha1\nkind: RoutingConfiguration\ncertFile: c\nkeyFile: k\n"
PROFILES = read(config_of("{}")).profiles  # default-scheduler, with metric policies


def parse_routing(text: str, profiles: Sequence[Profile] | None = None) -> RoutingConfig:
    """As from a file r.yaml."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "r.yaml")
        path.write_text(text)
        return load_routing(str(path), profiles)


def review(**changes: Any) -> dict[str, Any]:
    request = {
        "uid": "u1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "shop",
        "operation": "CREATE",
        "dryRun": False,
        "object": {
            "kind": "Pod",
            "metadata": {"generateName": "web-", "labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {"schedulerName": "default-scheduler", "containers": []},
        },
        **changes,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
