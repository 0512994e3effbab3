"""What .ci/ prepares fits what the tests use."""

from __future__ import annotations

import re
from pathlib import Path

from kscheduler.testing.controlplane.binaries import kubernetes_version

ROOT = Path(__file__).parents[1]
STAGING = re.compile(r"^\s*(k8s\.io/\S+) v0\.(\S+)$", re.MULTILINE)  # v0.36.3 is that of Kubernetes v1.36.3


def test_kubectl_is_of_the_control_planes_release() -> None:
    required = dict(STAGING.findall((ROOT / ".ci" / "kubectl" / "go.mod").read_text()))
    assert {"k8s.io/kubectl", "k8s.io/client-go", "k8s.io/component-base"} <= required.keys()
    assert {f"v1.{release}" for release in required.values()} == {kubernetes_version()}
