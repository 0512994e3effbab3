"""deploy/ on a real apiserver: it is accepted, it suffices for the scheduler, and it is no more than that needs."""

from __future__ import annotations

import copy
import http.client
import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.harness import (
    ApiserverOptions,
    Binaries,
    ControlPlane,
    Credentials,
    RequestFailed,
    verify,
    workload,
)
from tests.controlplane.harness.patience import eventually
from tests.controlplane.harness.ports import free_port
from tests.deploy.audit import AuditLog
from tests.deploy.lossy_proxy import LossyProxy
from tests.deploy.manifests import KUSTOMIZATIONS, Object, pod_template, render, scheduler_config
from tests.deploy.rules import Right, bound_roles, rights, without
from tests.deploy.trial import LOST, STUCK, Trial, asked_for, is_ours

BASE = render("base")
RIGHTS = rights(bound_roles(BASE))
NODES = 4
SHORT_RETRY = "--leader-elect-retry-period=500ms"


class Stage:
    """A control plane with audit, nodes, the base applied, and a ServiceAccount that may read the metrics."""

    def __init__(self, control_plane: ControlPlane, proxy: LossyProxy) -> None:
        self.control_plane = control_plane
        self.api = control_plane.api
        self.proxy = proxy
        self.audit = AuditLog(control_plane.directory / "audit.log")
        self.api.apply(*BASE)
        for index in range(NODES):
            self.api.create("/api/v1/nodes", workload.node(f"node-{index}"))
        self.reader = control_plane.service_account_token("default", "collector")
        self.api.apply(_metrics_binding("collector"))

    def trial_with_all(self) -> Trial:
        """The ConfigMap's own configuration, the ServiceAccount's own rights; pods are elsewhere, as in life."""
        self.control_plane.create_namespace("workload")
        return Trial(
            self.control_plane,
            self.audit,
            namespace="kscheduler",
            pods_namespace="workload",
            config=self._config_file("kscheduler", scheduler_config(BASE)),
            scheduler_name="kscheduler",
            server=self.proxy.url,
            reader=self.reader,
            pods=20,
        )

    def trial_without(self, right: Right) -> Trial:
        """The same in a namespace of its own, less one right."""
        name = f"without-{re.sub('[^a-z]+', '-', str(right))}"
        self.control_plane.create_namespace(name)
        self.api.apply(*_roles_without(right, name))
        config = scheduler_config(BASE).replace("schedulerName: kscheduler", f"schedulerName: {name}")
        assert name in config
        return Trial(
            self.control_plane,
            self.audit,
            namespace=name,
            pods_namespace=name,
            config=self._config_file(name, config),
            scheduler_name=name,
            server=self.proxy.url,
            reader=self.reader,
            flags=[f"--leader-elect-resource-namespace={name}", SHORT_RETRY],
        )

    def _config_file(self, name: str, text: str) -> Path:
        path = self.control_plane.directory / f"{name}-config.yaml"
        path.write_text(text)
        return path


def _roles_without(right: Right, namespace: str) -> list[Object]:
    """The roles of the base and their bindings, renamed and moved, less one right."""
    moved = []
    for role in bound_roles(BASE):
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
    with ControlPlane(ApiserverOptions(audit=True, priority_and_fairness=True), binaries) as control_plane:
        serving = control_plane.authority.server("proxy")
        with LossyProxy(control_plane.credentials, serving, free_port(), LOST) as proxy:
            yield Stage(control_plane, proxy)


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


def test_its_rights_suffice_for_all_it_does(stage: Stage) -> None:
    trial = stage.trial_with_all()
    try:
        trial.exercise()
        assert is_ours(trial.lease()["spec"]["holderIdentity"])
        assert trial.is_ready()
        assert trial.scrape(None)[0] == 403
        assert trial.scrape(trial.token)[0] == 403, "its own account may not read the metrics"
        assert "scheduler_schedule_attempts_total" in trial.scrape(stage.reader)[1]
        [failed] = trial.events(STUCK, "FailedScheduling")
        assert failed["reportingController"] == "kscheduler"
        assert failed["series"]["count"] >= 2
        placement = verify(stage.api, "workload")
        assert placement.problems == [f"workload/{STUCK} is not bound"]
        assert trial.end() == 0
        assert trial.lease()["spec"]["holderIdentity"] == "", "the lease is released"
        assert trial.refused() == []
        assert [right for right in RIGHTS if not asked_for(trial.requests(), right)] == [], "rights nobody uses"
    finally:
        trial.clean()


# --- what it is no more than ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("right", RIGHTS, ids=str)
def test_each_right_is_missed_when_it_is_taken_away(stage: Stage, right: Right) -> None:
    trial = stage.trial_without(right)
    try:
        trial.exercise(is_enough=lambda: asked_for(trial.refused(), right))
        refused = trial.refused()
        assert asked_for(refused, right), "nothing is refused: this right is superfluous"
        assert [request for request in refused if not request.needs(right)] == [], "other rights are missing too"
        assert trial.process.is_running, "a missing right must not end the scheduler"
    finally:
        trial.clean()
