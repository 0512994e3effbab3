"""Runs one kube-apiserver: with TLS, RBAC, client certificates, and ServiceAccount tokens that it signs itself.

What would disturb benchmarks is off by default: priority and fairness, limits of requests in flight, profiling. What
needs a kubelet or controller manager is off, too: the taint of new nodes, and the ServiceAccount admission plugin,
which waits for default ServiceAccounts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kscheduler.testing.controlplane.api import Api
from kscheduler.testing.controlplane.binaries import Binaries
from kscheduler.testing.controlplane.certificates import CertificateAuthority
from kscheduler.testing.controlplane.etcd import Etcd
from kscheduler.testing.controlplane.faults import RequestFailed
from kscheduler.testing.controlplane.kubeconfig import Credentials
from kscheduler.testing.controlplane.ports import free_port
from kscheduler.testing.controlplane.process import Process

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request  # a binding's body says to which node
  resources: [{group: "", resources: [pods/binding]}]
- level: Metadata
"""


@dataclass(frozen=True, slots=True)
class ApiserverOptions:
    """The settings of an apiserver that tests may change."""

    priority_and_fairness: bool = False
    audit: bool = False  # write an audit log of all requests, see Apiserver.audit_events
    extra_flags: tuple[str, ...] = ()  # further flags, which override the default ones


class Apiserver:
    """A kube-apiserver process and its admin user. Its certificates and logs are in `directory`."""

    def __init__(
        self,
        binaries: Binaries,
        directory: Path,
        etcd: Etcd,
        authority: CertificateAuthority,
        options: ApiserverOptions,
    ) -> None:
        self._directory = directory
        self._port = free_port()
        self.url = f"https://127.0.0.1:{self._port}"
        admin = authority.client("admin", ["system:masters"])
        self.credentials = Credentials(self.url, authority.path, client=admin)
        self.api = Api(self.credentials)
        flags = {**self._addresses(etcd), **self._authentication(authority), **_behaviour(options)}
        if options.audit:
            flags |= self._audit()
        command = [*binaries.component("kube-apiserver"), *(f"--{name}={value}" for name, value in flags.items())]
        self.process = Process("kube-apiserver", [*command, *options.extra_flags], log=directory / "kube-apiserver.log")

    def start(self) -> None:
        """Start the apiserver, on the same port each time, and wait until it is ready and its bootstrap roles exist."""
        self.process.start()
        self.process.wait_ready(self._is_ready)

    def stop(self) -> None:
        """Stop the apiserver by SIGTERM. Its etcd must still run, otherwise stopping takes a minute."""
        self.process.stop()

    def kill(self) -> None:
        """Kill the apiserver, as in a crash."""
        self.process.kill()

    def audit_events(self) -> list[dict[str, Any]]:
        """Return the requests answered so far, each an audit.k8s.io/v1 Event; [] without `audit=True`."""
        path = self._directory / "audit.log"
        if not path.exists():
            return []
        # A line that is just being written is left for the next call.
        whole = path.read_bytes().rpartition(b"\n")[0]
        return [msgspec.json.decode(line) for line in whole.split(b"\n") if line]

    def _is_ready(self) -> bool:
        try:
            return self.api.text("/readyz") == "ok"
        except (OSError, RequestFailed):
            return False

    def _addresses(self, etcd: Etcd) -> dict[str, object]:
        return {
            "etcd-servers": etcd.url,
            "bind-address": "127.0.0.1",
            "secure-port": self._port,
            "service-cluster-ip-range": "10.0.0.0/16",
            # The kubernetes Service has no endpoints: loopback is no address it could have.
            "endpoint-reconciler-type": "none",
        }

    def _authentication(self, authority: CertificateAuthority) -> dict[str, object]:
        serving, tokens = authority.server("kube-apiserver"), authority.token_keys()
        return {
            "tls-cert-file": serving.public,
            "tls-private-key-file": serving.key,
            "client-ca-file": authority.path,
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": tokens.public,
            "service-account-signing-key-file": tokens.key,
            "authorization-mode": "Node,RBAC",
        }

    def _audit(self) -> dict[str, object]:
        policy = self._directory / "audit-policy.yaml"
        policy.write_text(AUDIT_POLICY)
        return {"audit-policy-file": policy, "audit-log-path": self._directory / "audit.log"}


def _behaviour(options: ApiserverOptions) -> dict[str, object]:
    return {
        "enable-priority-and-fairness": str(options.priority_and_fairness).lower(),
        "max-requests-inflight": 10_000,
        "max-mutating-requests-inflight": 10_000,
        "profiling": "false",
        "allow-privileged": "true",
        "delete-collection-workers": 16,
        "disable-admission-plugins": "TaintNodesByCondition,ServiceAccount",
    }
