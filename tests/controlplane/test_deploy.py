"""deploy/ on a real apiserver: it is accepted, it suffices for the scheduler, and it is no more than that needs."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import http.client
import itertools
import re
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kscheduler.testing.controlplane import (
    ApiserverOptions,
    Binaries,
    ControlPlane,
    Credentials,
    KubeScheduler,
    RequestFailed,
    verify,
    workload,
)
from kscheduler.testing.controlplane.certificates import KeyPair
from kscheduler.testing.controlplane.kubeconfig import write_kubeconfig
from kscheduler.testing.controlplane.patience import eventually
from tests.controlplane.followed_kinds import COMPONENTS, POLICIES, QUEUES, QUOTAS, Component
from tests.deploy.audit import AuditLog
from tests.deploy.manifests import (
    KUSTOMIZATIONS,
    Object,
    pod_template,
    render,
    scheduler_config,
)
from tests.deploy.replica import Replica, is_ours
from tests.deploy.rules import Right, bound_roles, rights, without
from tests.deploy.trial import LOST, STUCK, Account, LeaseName, Trial, asked_for
from tests.support.faultproxy import FaultProxy, Reset

pytestmark = pytest.mark.slow

BASE = render("base")
# Without pods that claim devices, nothing of resource.k8s.io is written; and 1.36 has no taint rules by default.
RIGHTS = [
    right
    for right in rights(bound_roles(BASE))
    if right.group != "resource.k8s.io" or (right.verb in ("list", "watch") and right.resource != "devicetaintrules")
]
NODES = 4
SHORT_RETRY = "--leader-elect-retry-period=500ms"
KUBE_SCHEDULER_LEASE = LeaseName("kube-system", "kube-scheduler")
KUBE_SCHEDULER_LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"

_numbers = itertools.count(1)  # of files


class Stage:
    """A control plane with audit, nodes, the base applied, and a ServiceAccount that may read the metrics."""

    def __init__(self, control_plane: ControlPlane, ends: contextlib.ExitStack) -> None:
        self.control_plane = control_plane
        self.api = control_plane.api
        self.audit = AuditLog(control_plane.directory / "audit.log")
        self._ends = ends
        self._proxy = self._new_proxy()
        self.api.apply(*BASE)
        for index in range(NODES):
            self.api.create("/api/v1/nodes", workload.node(f"node-{index}"))
        self.reader = control_plane.service_account_token("default", "collector")
        self.api.apply(_metrics_binding("collector"))

    def service_account(self, namespace: str) -> Account:
        """The ServiceAccount `kscheduler` of a namespace, with a token of its own, by way of the proxy."""
        token = self.control_plane.service_account_token(namespace, "kscheduler")
        credentials = Credentials(self._proxy.url, self.control_plane.authority.path, token=token)
        return Account(f"system:serviceaccount:{namespace}:kscheduler", self._kubeconfig(credentials))

    def user(self, name: str) -> Account:
        """A user with a client certificate. Certificates do not pass a proxy, so it has one that shows his."""
        authority = self.control_plane.authority
        proxy = self._new_proxy(authority.client(name))
        return Account(name, self._kubeconfig(Credentials(proxy.url, authority.path)))

    def trial(self, name: str, case: Case, *, pods: int = 3) -> Trial:
        """Let a replica stand by, with pods waiting for it."""
        return Trial(
            self.control_plane,
            self.audit,
            name,
            account=case.account,
            lease=case.lease,
            scheduler_name=case.scheduler_name,
            flags=case.flags,
            reader=self.reader,
            pods=pods,
            kinds=None if case.component is None else case.component.kinds,
        )

    def install(self, component: Component) -> None:
        """A component, with its kinds served."""
        self.api.apply(*component.objects, *component.foreign)
        eventually(lambda: component.is_served(self.api), "the kinds are served")

    def config_flag(self, config: str) -> str:
        """The flag that names a file with this configuration."""
        path = self._file("config.yaml")
        path.write_text(config)
        return f"--config={path}"

    def _new_proxy(self, client: KeyPair | None = None) -> FaultProxy:
        """One that loses the answer to the first binding of each pod LOST."""
        name, authority = f"proxy-{next(_numbers)}", self.control_plane.authority
        proxy = self._ends.enter_context(FaultProxy(self.control_plane.url, authority, name=name, client=client))
        proxy.add(Reset(verb="create", resource="pods/binding", name=LOST, arrived=True, end=1))
        return proxy

    def _kubeconfig(self, credentials: Credentials) -> Path:
        return write_kubeconfig(self._file("kubeconfig"), credentials)

    def _file(self, suffix: str) -> Path:
        return self.control_plane.directory / f"deploy-{next(_numbers)}.{suffix}"


@dataclass(frozen=True, slots=True)
class Case:
    """How a replica is started."""

    account: Account
    lease: LeaseName
    scheduler_name: str
    flags: tuple[str, ...]
    component: Component | None = None  # whose kinds it follows


def as_in_base(stage: Stage) -> Case:
    """The ConfigMap's own configuration, the ServiceAccount's own rights."""
    stage.api.apply(*BASE)
    config = stage.config_flag(scheduler_config(BASE))
    return Case(stage.service_account("kscheduler"), LeaseName("kscheduler", "kscheduler"), "kscheduler", (config,))


def as_with(component: Component, stage: Stage) -> Case:
    """The same with a component, and a configuration that follows its kinds."""
    stage.install(component)
    case = as_in_base(stage)
    config = stage.config_flag(component.followed_by(scheduler_config(BASE)))
    return dataclasses.replace(case, flags=(config,), component=component)


def as_with_policies(stage: Stage) -> Case:
    return as_with(POLICIES, stage)


def as_with_quotas(stage: Stage) -> Case:
    return as_with(QUOTAS, stage)


def as_with_queues(stage: Stage) -> Case:
    return as_with(QUEUES, stage)


def as_in_replacement(stage: Stage) -> Case:
    """The same of the other kustomization."""
    objects = render("replace-kube-scheduler")
    stage.api.apply(*objects)
    config = stage.config_flag(scheduler_config(objects))
    return Case(stage.service_account("kscheduler"), KUBE_SCHEDULER_LEASE, "default-scheduler", (config,))


def as_static_pod(stage: Stage) -> Case:
    """With kube-scheduler's account, and the flags of kubeadm's manifest."""
    account = stage.user("system:kube-scheduler")
    flags = (
        f"--authentication-kubeconfig={account.kubeconfig}",
        f"--authorization-kubeconfig={account.kubeconfig}",
        "--leader-elect=true",
    )
    return Case(account, KUBE_SCHEDULER_LEASE, "default-scheduler", flags)


def without_right(stage: Stage, right: Right, namespace: str, component: Component | None = None) -> Case:
    """As in the base, with a component, but in another namespace, and less one right."""
    stage.control_plane.create_namespace(namespace)
    objects = BASE if component is None else BASE + component.objects
    stage.api.apply(*_roles_without(right, namespace, objects))
    config = scheduler_config(BASE).replace("schedulerName: kscheduler", f"schedulerName: {namespace}")
    assert namespace in config
    if component is not None:
        config = component.followed_by(config)
    flags = (stage.config_flag(config), f"--leader-elect-resource-namespace={namespace}", SHORT_RETRY)
    lease = LeaseName(namespace, "kscheduler")
    return Case(stage.service_account(namespace), lease, namespace, flags, component)


def _roles_without(right: Right, namespace: str, objects: list[Object]) -> list[Object]:
    """The roles and their bindings, renamed and moved, less one right."""
    moved = []
    for role in bound_roles(objects):
        reduced = without(role, right)
        kind = reduced["kind"]
        metadata: Object = {"name": f"{namespace}-{role['metadata']['name']}"}
        if kind == "Role":
            metadata["namespace"] = namespace
        version = reduced["apiVersion"]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": metadata["name"]}
        account = {"kind": "ServiceAccount", "name": "kscheduler", "namespace": namespace}
        moved += [
            {"apiVersion": version, "kind": kind, "metadata": metadata, "rules": reduced["rules"]},
            {
                "apiVersion": version,
                "kind": f"{kind}Binding",
                "metadata": metadata,
                "roleRef": reference,
                "subjects": [account],
            },
        ]
    account = {"kind": "ServiceAccount", "name": "kscheduler", "namespace": namespace}
    # Bindings to roles that Kubernetes has itself are kept as they are, but for the account.
    known = {role["metadata"]["name"] for role in objects if role["kind"] in ("Role", "ClusterRole")}
    for binding in objects:
        if binding["kind"] == "RoleBinding" and binding["roleRef"]["name"] not in known:
            metadata = {"name": f"{namespace}-reader", "namespace": binding["metadata"]["namespace"]}
            moved.append({**binding, "metadata": metadata, "subjects": [account]})
    return moved


def _metrics_binding(account: str) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "collector-reads-metrics"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "kscheduler-metrics-reader",
        },
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
    }


@pytest.fixture(scope="module")
def stage(binaries: Binaries) -> Iterator[Stage]:
    options = ApiserverOptions(audit=True, priority_and_fairness=True)
    with ControlPlane(options, binaries) as control_plane, contextlib.ExitStack() as ends:
        yield Stage(control_plane, ends)


# --- what is applied --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KUSTOMIZATIONS)
def test_every_manifest_is_accepted_and_again_without_a_change(stage: Stage, name: str) -> None:
    objects = render(name)
    first = [each["metadata"]["resourceVersion"] for each in stage.api.apply(*objects)]
    again = [each["metadata"]["resourceVersion"] for each in stage.api.apply(*objects)]
    stage.api.apply(*BASE)
    assert first == again


def test_the_pod_passes_the_restricted_level_that_its_namespace_enforces(stage: Stage) -> None:
    created = _try_pod(stage, pod_template(BASE))
    assert created["spec"]["priority"] == 2_000_000_000  # system-cluster-critical
    privileged = copy.deepcopy(pod_template(BASE))
    privileged["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(RequestFailed, match="violates PodSecurity"):
        _try_pod(stage, privileged)


def _try_pod(stage: Stage, template: Object) -> Object:
    """What the apiserver makes of a pod of that template; nothing is kept."""
    pod = {"metadata": {**template["metadata"], "generateName": "kscheduler-"}, "spec": template["spec"]}
    created: Object = stage.api.create("/api/v1/namespaces/kscheduler/pods?dryRun=All", pod)
    return created


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("/api/v1/pods?limit=1", "kscheduler"),
        ("/apis/coordination.k8s.io/v1/namespaces/kscheduler/leases/kscheduler", "kscheduler-leader-election"),
    ],
)
def test_its_requests_do_not_wait_behind_those_of_workloads(stage: Stage, path: str, schema: str) -> None:
    expected = stage.api.get(f"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/{schema}")["metadata"]["uid"]
    credentials = stage.control_plane.service_account_credentials("kscheduler", "kscheduler")
    eventually(lambda: _flow_schema(credentials, path) == expected, f"{path} is of the flow schema {schema}")


def _flow_schema(credentials: Credentials, path: str) -> str | None:
    """The uid of the FlowSchema that a request was counted under."""
    address = urllib.parse.urlsplit(credentials.server)
    connection = http.client.HTTPSConnection(
        address.hostname or "", address.port, context=credentials.ssl_context(), timeout=30
    )
    try:
        connection.request("GET", path, headers=credentials.headers())
        return connection.getresponse().getheader("X-Kubernetes-PF-FlowSchema-UID")
    finally:
        connection.close()


# --- what it suffices for ---------------------------------------------------------------------------------------


CASES = (as_in_base, as_with_policies, as_with_quotas, as_with_queues, as_in_replacement, as_static_pod)


@pytest.mark.parametrize("case_of", CASES)
def test_its_rights_suffice_for_all_it_does(stage: Stage, case_of: Callable[[Stage], Case]) -> None:
    case = case_of(stage)
    trial = stage.trial(case_of.__name__.replace("_", "-"), case, pods=20)
    try:
        trial.exercise()
        assert is_ours(trial.holder())
        reported = trial.events(STUCK, "FailedScheduling")
        assert {event["reportingController"] for event in reported} == {case.scheduler_name}
        assert max(event["series"]["count"] for event in reported if event.get("series")) >= 2
        only = [f"{trial.namespace}/{STUCK} is not bound"]
        eventually(lambda: verify(stage.api, trial.namespace).problems == only, "the others have one Event each")
        assert trial.end() == 0
        assert trial.holder() == "", "the lease is released"
        assert trial.refused() == []
        granted = RIGHTS + ([] if case.component is None else case.component.rights())
        assert [right for right in granted if not asked_for(trial.requests(), right)] == [], "rights nobody uses"
    finally:
        trial.clean()


def test_metrics_are_for_those_who_may_read_them_and_health_for_anybody(stage: Stage) -> None:
    case = as_in_base(stage)
    own = stage.control_plane.service_account_token("kscheduler", "kscheduler")
    replica = Replica(stage.control_plane, "serving", case.account.kubeconfig, case.flags)
    try:
        replica.process.wait_ready(replica.is_ready)
        assert [replica.get(path)[0] for path in ("/livez", "/healthz")] == [200, 200]
        assert replica.get("/metrics")[0] == 403
        assert replica.get("/metrics", "no-token-at-all")[0] == 401
        assert replica.get("/metrics", own)[0] == 403, "not even its own account may"
        assert replica.get("/configz", stage.reader)[0] == 403
        status, body = replica.get("/metrics", stage.reader)
        assert status == 200
        assert "scheduler_pending_pods" in body
    finally:
        replica.process.stop()


# --- in kube-scheduler's place ----------------------------------------------------------------------------------


def test_kube_scheduler_hands_over_and_takes_back(stage: Stage) -> None:
    """The README's order of steps: nobody places pods twice, and there is always somebody who does."""
    case = as_in_replacement(stage)
    user = case.account.user
    asked_before = len(stage.audit.of(user))
    stage.control_plane.create_namespace("handover")
    with contextlib.ExitStack() as ends:
        kube_scheduler = KubeScheduler(stage.control_plane, leader_elect=True, name="kube-scheduler-before")
        ends.callback(kube_scheduler.stop)
        eventually(lambda: _holder(stage), "kube-scheduler leads")
        replica = Replica(stage.control_plane, "handover", case.account.kubeconfig, case.flags)
        ends.callback(replica.process.stop)
        replica.process.wait_ready(replica.is_ready)
        eventually(
            lambda: "leases" in {request.resource for request in stage.audit.of(user)[asked_before:]}, "a standby"
        )
        assert _who_places(stage, "first").startswith("default-scheduler-")

        kube_scheduler.stop()
        assert _who_places(stage, "second") == _holder(stage)

        kube_scheduler = KubeScheduler(stage.control_plane, leader_elect=True, name="kube-scheduler-after")
        ends.callback(kube_scheduler.stop)
        assert replica.process.stop() == 0
        assert _who_places(stage, "third").startswith("default-scheduler-")
    assert [request for request in stage.audit.of(user)[asked_before:] if request.refused] == []
    stage.api.delete(KUBE_SCHEDULER_LEASE_PATH)


def _holder(stage: Stage) -> str:
    try:
        return str(stage.api.get(KUBE_SCHEDULER_LEASE_PATH)["spec"].get("holderIdentity", ""))
    except RequestFailed as error:
        if error.status == 404:
            return ""
        raise


def _who_places(stage: Stage, name: str) -> str:
    """The reporting instance in the event of a new pod: for us the holder's identity, for kube-scheduler its name."""
    stage.api.create("/api/v1/namespaces/handover/pods", workload.pod(name))
    found: list[str] = []

    def is_reported() -> bool:
        events = stage.api.list_all(
            "/apis/events.k8s.io/v1/namespaces/handover/events", fieldSelector="reason=Scheduled"
        )
        found.extend(event["reportingInstance"] for event in events if event["regarding"]["name"] == name)
        return bool(found)

    eventually(is_reported, f"pod {name} is placed")
    return found[0]


# --- what it is no more than ------------------------------------------------------------------------------------


@pytest.mark.parametrize("right", RIGHTS, ids=str)
def test_each_right_is_missed_when_it_is_taken_away(stage: Stage, right: Right) -> None:
    _miss(stage, right)


@pytest.mark.parametrize(
    ("component", "right"),
    [
        pytest.param(component, right, id=f"{right} of {right.group}")
        for component in COMPONENTS
        for right in component.rights()
    ],
)
def test_each_right_of_a_component_is_missed_when_it_is_taken_away(
    stage: Stage, component: Component, right: Right
) -> None:
    stage.install(component)
    _miss(stage, right, component)


def _miss(stage: Stage, right: Right, component: Component | None = None) -> None:
    group = "" if component is None else f" {right.group}"  # two components may have a resource of one name
    name = f"without-{re.sub('[^a-z0-9]+', '-', str(right) + group)}"
    trial = stage.trial(name, without_right(stage, right, name, component))
    try:
        trial.exercise(is_enough=lambda: asked_for(trial.refused(), right))
        refused = trial.refused()
        assert asked_for(refused, right), "nothing is refused: this right is superfluous"
        assert [request for request in refused if not request.needs(right)] == [], "other rights are missing too"
        assert trial.replica.process.is_running, "a missing right must not end the scheduler"
    finally:
        trial.clean()
