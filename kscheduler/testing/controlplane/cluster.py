"""A whole control plane: etcd and kube-apiserver in a temporary directory, always stopped in the right order.

    with ControlPlane() as control_plane:
        control_plane.api.create("/api/v1/nodes", node)
        control_plane.admin_kubeconfig  # for programs that take a kubeconfig

It has no controller manager, kubelet or scheduler: a test starts those that it needs.
"""

from __future__ import annotations

import atexit
import contextlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kscheduler.testing.controlplane.api import Api, Object
from kscheduler.testing.controlplane.apiserver import Apiserver, ApiserverOptions
from kscheduler.testing.controlplane.binaries import DEFAULT_RELEASE, Binaries, ensure
from kscheduler.testing.controlplane.certificates import CertificateAuthority
from kscheduler.testing.controlplane.etcd import Etcd
from kscheduler.testing.controlplane.faults import RequestFailed
from kscheduler.testing.controlplane.kubeconfig import Credentials, write_kubeconfig
from kscheduler.testing.controlplane.process import Process


class ControlPlane:
    """A running etcd and apiserver with an admin user.

    A context manager, and stopped at the program's exit in any case. `release`: of Kubernetes, such as "1.37"; with
    `binaries` it is theirs.
    """

    def __init__(
        self,
        options: ApiserverOptions | None = None,
        binaries: Binaries | None = None,
        *,
        release: str = DEFAULT_RELEASE,
    ) -> None:
        # Nothing is started here, but missing binaries are built.
        self.binaries = binaries or ensure(release=release)
        self.directory = Path(tempfile.mkdtemp(prefix="kscheduler-controlplane-"))
        self.authority = CertificateAuthority(self._subdirectory("certificates"))
        self.etcd = Etcd(self.binaries, self.directory)
        self.apiserver = Apiserver(
            self.binaries, self.directory, self.etcd, self.authority, options or ApiserverOptions()
        )
        self.api: Api = self.apiserver.api  # as system:masters
        self.credentials: Credentials = self.apiserver.credentials  # as system:masters
        self.url = self.apiserver.url
        self.admin_kubeconfig = write_kubeconfig(self.directory / "admin.kubeconfig", self.credentials)
        self._processes: list[Process] = []  # other components, in the order in which they were started

    def __enter__(self) -> ControlPlane:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start etcd, then the apiserver, and wait until it is ready. If one fails, both are stopped."""
        atexit.register(self.stop)
        try:
            self.etcd.start()
            self.apiserver.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all processes in reverse order, etcd last, and remove the directory."""
        atexit.unregister(self.stop)
        with contextlib.ExitStack() as ends:  # runs them in reverse, all of them, whatever one raises
            ends.callback(shutil.rmtree, self.directory, ignore_errors=True)
            ends.callback(self.etcd.stop)
            ends.callback(self.apiserver.stop)
            ends.callback(self.stop_processes)

    def start_process(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: dict[str, str] | None = None,
        directory: Path | None = None,
    ) -> Process:
        """Start a program beside the control plane, which is stopped before the apiserver.

        Its log is `<name>.log` in the control plane's directory; a number is appended to a name that was used before.
        """
        used = sum(1 for other in self._processes if other.name.partition("#")[0] == name)
        name = f"{name}#{used + 1}" if used else name
        log = self.directory / f"{name}.log"
        process = Process(name, command, log=log, environment=environment, directory=directory)
        self._processes.append(process)
        process.start()
        return process

    @property
    def processes(self) -> list[Process]:
        """The processes started by `start_process`, in order, whether they still run or not."""
        return list(self._processes)

    def stop_processes(self, keep: int = 0) -> None:
        """Stop the processes started by `start_process`, in reverse order, except the first `keep`."""
        for process in reversed(self._processes[keep:]):
            process.stop()

    def kubeconfig_for_user(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig with a client certificate.

        The user has the rights that RBAC gives to it and its groups.
        """
        credentials = Credentials(self.url, self.authority.path, client=self.authority.client(user, groups))
        return write_kubeconfig(self._kubeconfig_path(user), credentials)

    def service_account_token(self, namespace: str, name: str, *, expiration_s: int = 3600) -> str:
        """Return a token of the ServiceAccount, issued by the apiserver (TokenRequest).

        The account is created if missing.
        """
        self._ensure_service_account(namespace, name)
        answer = self.api.create(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": expiration_s},
            },
        )
        return str(answer["status"]["token"])

    def service_account_credentials(self, namespace: str, name: str) -> Credentials:
        """Return credentials with a new token of the ServiceAccount."""
        return Credentials(self.url, self.authority.path, token=self.service_account_token(namespace, name))

    def kubeconfig_for_service_account(self, namespace: str, name: str) -> Path:
        """Write a kubeconfig with a new token of the ServiceAccount."""
        credentials = self.service_account_credentials(namespace, name)
        return write_kubeconfig(self._kubeconfig_path(f"{namespace}-{name}"), credentials, namespace=namespace)

    def service_account_directory(self, namespace: str, name: str) -> Path:
        """Write what a pod finds in /var/run/secrets/kubernetes.io/serviceaccount (token, ca.crt, namespace).

        Return where.
        """
        directory = self._subdirectory(f"serviceaccount-{namespace}-{name}")
        (directory / "token").write_text(self.service_account_token(namespace, name))
        (directory / "ca.crt").write_bytes(self.authority.path.read_bytes())
        (directory / "namespace").write_text(namespace)
        return directory

    def create_namespace(self, name: str) -> None:
        """Create a namespace. Raises RequestFailed if it exists."""
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace and its pods, including the part of it that the controller manager would do."""
        path = f"/api/v1/namespaces/{name}"
        self.api.delete(f"{path}/pods")
        self.api.delete(path)
        namespace = self.api.get(path)
        namespace["spec"]["finalizers"] = []
        self.api.replace(f"{path}/finalize", namespace)

    def _ensure_service_account(self, namespace: str, name: str) -> None:
        account: Object = {"metadata": {"name": name}}
        try:
            self.api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
        except RequestFailed as error:
            if error.reason != "AlreadyExists":
                raise

    def _kubeconfig_path(self, name: str) -> Path:
        return self.directory / f"{name.replace(':', '-')}.kubeconfig"

    def _subdirectory(self, name: str) -> Path:
        path = self.directory / name
        path.mkdir(exist_ok=True)
        return path
