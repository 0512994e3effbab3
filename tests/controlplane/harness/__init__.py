"""A real Kubernetes control plane for tests and benchmarks: etcd and kube-apiserver, and what works beside them.

Nothing here imports the scheduler. The README beside this package says how to start one.
"""

from __future__ import annotations

from tests.controlplane.harness.api import Api
from tests.controlplane.harness.apiserver import ApiserverOptions
from tests.controlplane.harness.binaries import Binaries, ensure
from tests.controlplane.harness.cluster import ControlPlane
from tests.controlplane.harness.faults import HarnessError, MissingTool, RequestFailed, StartFailed
from tests.controlplane.harness.kubeconfig import Credentials
from tests.controlplane.harness.kubescheduler import KubeScheduler
from tests.controlplane.harness.kwok import Kwok
from tests.controlplane.harness.process import Process, Usage
from tests.controlplane.harness.verify import Placement, verify
from tests.controlplane.harness.watch import BindWatch

__all__ = [
    "Api",
    "ApiserverOptions",
    "Binaries",
    "BindWatch",
    "ControlPlane",
    "Credentials",
    "HarnessError",
    "KubeScheduler",
    "Kwok",
    "MissingTool",
    "Placement",
    "Process",
    "RequestFailed",
    "StartFailed",
    "Usage",
    "ensure",
    "verify",
]
