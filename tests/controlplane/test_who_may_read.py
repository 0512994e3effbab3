"""Who may read /metrics on a cluster set up as kubeadm sets one up: the same answers from kube-scheduler and from ours.

The apiserver has authorities for client certificates and for its front proxy, and publishes both in the ConfigMap
that schedulers read. Neither scheduler is given a file of them.
"""

from __future__ import annotations

import http.client
import signal
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kscheduler.testing.controlplane import Binaries, ControlPlane
from kscheduler.testing.controlplane.apiserver import ApiserverOptions
from kscheduler.testing.controlplane.certificates import CertificateAuthority, KeyPair
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.kubescheduler import USER, KubeScheduler
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.scheduler_process import SchedulerProcess
from tests.serving.authority import DAY, SERVER, Authority

SCRAPER, PROXY = "kubelet-client", "front-proxy-client"


HEALTH = "/healthz,/livez,/readyz"


class GuardedKubeScheduler(KubeScheduler):
    open_paths = HEALTH


class GuardedKScheduler(KScheduler):
    open_paths = HEALTH


class Stage:
    """A control plane whose apiserver publishes two authorities, and both schedulers on it."""

    def __init__(self, binaries: Binaries, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority("published clients")
        proxies = directory / "proxies"
        proxies.mkdir()
        self.proxies = CertificateAuthority(proxies)
        self.clients_file = directory / "clients.crt"
        flags = (
            f"--requestheader-client-ca-file={self.proxies.path}",
            f"--requestheader-allowed-names={PROXY}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        )
        self.control_plane = ControlPlane(ApiserverOptions(extra_flags=flags), binaries)
        # Both kinds of client certificates: the harness' own, and those of the second authority, good and bad.
        self.clients_file.write_bytes(self.control_plane.authority.path.read_bytes() + self.authority.pem)
        self.control_plane.apiserver.process.command.append(f"--client-ca-file={self.clients_file}")

    def start(self) -> None:
        plane = self.control_plane
        plane.start()
        role: dict[str, Any] = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "metrics-reader"},
            "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        }
        group = "rbac.authorization.k8s.io"
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "metrics-reader"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "metrics-reader"},
            "subjects": [
                {"kind": "User", "apiGroup": group, "name": SCRAPER},
                {"kind": "Group", "apiGroup": group, "name": "scrapers"},
                {"kind": "ServiceAccount", "namespace": "default", "name": "collector"},
            ],
        }
        plane.api.apply(role, binding)
        kubeconfig = plane.kubeconfig_for_user(USER)
        flags = (
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
        )
        self.token = plane.service_account_token("default", "collector")
        self.peer = GuardedKubeScheduler(plane, extra_flags=flags)
        self.ours = GuardedKScheduler(plane, extra_flags=flags, kubeconfig=kubeconfig)

    def client(self, pair: KeyPair | None = None, pem: Path | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if pair is not None:
            context.load_cert_chain(pair.public, pair.key)
        elif pem is not None:
            context.load_cert_chain(pem)
        return context


@pytest.fixture(scope="module")
def stage(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(binaries, tmp_path_factory.mktemp("who"))
    try:
        stage.start()
        yield stage
    finally:
        stage.control_plane.stop()


def status(scheduler: SchedulerProcess, context: ssl.SSLContext, path: str, headers: dict[str, str]) -> int:
    host, _, port = scheduler.url.removeprefix("https://").partition(":")
    connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=120)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


Case = Callable[[Stage], tuple[ssl.SSLContext, str, dict[str, str]]]


def shows(
    issue: Callable[[Stage], Any] = lambda stage: None, path: str = "/metrics", token: str = "", **headers: str
) -> Case:
    """A request with a certificate, a token ("good" is the collector's) and headers."""

    def case(stage: Stage) -> tuple[ssl.SSLContext, str, dict[str, str]]:
        issued = issue(stage)
        if issued is None or isinstance(issued, KeyPair):
            context = stage.client(issued)
        else:
            context = stage.client(pem=issued.write(stage.directory / f"{issued.certificate.serial_number}.pem"))
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            named["Authorization"] = token.replace("good", stage.token)
        return context, path, named

    return case


def scraper(stage: Stage) -> KeyPair:
    return stage.control_plane.authority.client(SCRAPER)


def somebody(stage: Stage) -> KeyPair:
    return stage.control_plane.authority.client("somebody")


def proxy(stage: Stage) -> KeyPair:
    return stage.proxies.client(PROXY)


CASES: dict[str, tuple[Case, int]] = {
    "a certificate of a user with the right": (shows(scraper), 200),
    "a certificate of a group with the right": (shows(lambda s: s.authority.issue("x", ["scrapers"])), 200),
    "a certificate of a user without": (shows(somebody), 403),
    "a certificate of a user with another right": (shows(scraper, "/configz"), 403),
    "a certificate of a master": (shows(lambda s: s.authority.issue("x", ["system:masters"]), "/configz"), 200),
    "nothing": (shows(), 403),
    "nothing, to an open path": (shows(path="/healthz"), 200),
    "an expired certificate": (shows(lambda s: s.authority.issue(SCRAPER, starts=-2 * DAY, ends=-DAY)), 401),
    "a certificate of the future": (shows(lambda s: s.authority.issue(SCRAPER, starts=DAY / 2)), 401),
    "a certificate for servers": (shows(lambda s: s.authority.issue(SCRAPER, usages=(SERVER,))), 401),
    "a certificate for anything": (shows(lambda s: s.authority.issue(SCRAPER, usages=())), 200),
    "a certificate of another authority": (shows(lambda s: Authority().issue(SCRAPER)), 401),
    "the same, to an open path": (shows(lambda s: Authority().issue(SCRAPER), "/healthz"), 401),
    "the same, with a good token": (shows(lambda s: Authority().issue(SCRAPER), token="Bearer good"), 200),
    "a certificate by way of an intermediate authority": (
        shows(lambda s: Authority("middle", parent=s.authority).issue(SCRAPER)),
        200,
    ),
    "a certificate without a user": (shows(lambda s: s.authority.issue("")), 401),
    "a good token": (shows(token="Bearer good"), 200),
    "a bad token": (shows(token="Bearer bad"), 401),
    "a bad token, to an open path": (shows(path="/livez", token="Bearer bad"), 401),
    "a user and a password": (shows(token="Basic Z29vZDpnb29k"), 403),
    "a front proxy, for a user with the right": (shows(proxy, X_Remote_User=SCRAPER), 200),
    "a front proxy, for a group with the right": (shows(proxy, X_Remote_User="x", X_Remote_Group="scrapers"), 200),
    "a front proxy, for a user without": (shows(proxy, X_Remote_User="somebody", X_Remote_Extra_A="b"), 403),
    "a front proxy, for nobody": (shows(proxy), 401),
    "a front proxy under another name": (shows(lambda s: s.proxies.client("another"), X_Remote_User=SCRAPER), 401),
    "forged headers": (shows(X_Remote_User=SCRAPER, X_Remote_Group="system:masters"), 403),
    "forged headers with a certificate": (shows(somebody, X_Remote_User=SCRAPER), 403),
    "forged headers with another authority's certificate": (
        shows(lambda s: Authority().issue(PROXY), X_Remote_User=SCRAPER),
        401,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_kube_scheduler_and_ours_answer_with_the_same_status(stage: Stage, name: str) -> None:
    case, expected = CASES[name]
    context, path, headers = case(stage)
    answers = {
        "kube-scheduler": status(stage.peer, context, path, headers),
        "kscheduler": status(stage.ours, context, path, headers),
    }
    assert answers == {"kube-scheduler": expected, "kscheduler": expected}


def test_an_authority_added_to_the_cluster_counts_without_a_restart(stage: Stage) -> None:
    added = Authority("added")
    ask, path, headers = shows(lambda s: added.issue(SCRAPER))(stage)
    schedulers = (stage.peer, stage.ours)
    assert [status(scheduler, ask, path, headers) for scheduler in schedulers] == [401, 401]
    config_map = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    pem = stage.control_plane.api.get(config_map)["data"]["client-ca-file"]
    stage.control_plane.api.patch(config_map, {"data": {"client-ca-file": pem + added.pem.decode()}})
    for scheduler in schedulers:
        eventually(
            lambda scheduler=scheduler: status(scheduler, ask, path, headers) == 200,  # type: ignore[misc]
            f"{scheduler.process.name} trusts the authority",
        )


def test_an_apiserver_that_hangs_holds_up_no_page_for_ever(stage: Stage) -> None:
    stage.control_plane.apiserver.process.signal(signal.SIGSTOP)
    try:
        fresh, path, headers = shows(token="Bearer never-seen-before")(stage)
        assert status(stage.ours, fresh, path, headers) == 401  # nobody could say whose token it is
        user, path, headers = shows(lambda s: s.authority.issue("never seen before"))(stage)
        assert status(stage.ours, user, path, headers) == 500  # nobody could say what the user may do
        assert status(stage.ours, *shows(path="/healthz")(stage)) == 200
    finally:
        stage.control_plane.apiserver.process.signal(signal.SIGCONT)
