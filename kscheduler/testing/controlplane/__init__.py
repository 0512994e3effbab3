"""A real Kubernetes control plane for tests and benchmarks: etcd, kube-apiserver, and other processes beside them.

Nothing here imports the scheduler. tests/controlplane/README.md says how to start one.
"""

from __future__ import annotations

from kscheduler.testing.controlplane.api import Api
from kscheduler.testing.controlplane.apiserver import ApiserverOptions
from kscheduler.testing.controlplane.binaries import Binaries, ensure
from kscheduler.testing.controlplane.cluster import ControlPlane
from kscheduler.testing.controlplane.faults import HarnessError, MissingTool, RequestFailed, StartFailed
from kscheduler.testing.controlplane.kubeconfig import Credentials
from kscheduler.testing.controlplane.kubescheduler import KubeScheduler
from kscheduler.testing.controlplane.kwok import Kwok
from kscheduler.testing.controlplane.process import Process, Usage
from kscheduler.testing.controlplane.verify import Placement, verify
from kscheduler.testing.controlplane.watch import BindWatch

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
