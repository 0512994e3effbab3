"""The doctor says what is well, and names a command for what is not."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kscheduler.api.objects import Lease, LeaseSpec
from kscheduler.client.credentials import Credentials, Endpoint
from kscheduler.client.kube import KubeClient
from kscheduler.client.reviews import AccessReview, Right, User
from kscheduler.client.times import micro_time
from kscheduler.command import doctor_checks as checks
from kscheduler.command.cli import main
from kscheduler.command.doctor import to_text
from kscheduler.command.doctor_checks import Finding, Level
from kscheduler.command.doctor_kinds import KINDS, rights_of_components, rights_to
from kscheduler.command.doctor_rights import CLUSTER_RIGHTS, in_words, lease_rights
from kscheduler.command.emulation import Choice, Emulation
from kscheduler.config.load import default_config, parse_config
from kscheduler.config.releases import release_of
from kscheduler.config.types import LeaderElection
from kscheduler.errors import Forbidden, NotFound
from tests.client.fake_apiserver import FakeAPIServer
from tests.command.kubeconfigs import kubeconfig
from tests.deploy.manifests import own_objects, render
from tests.deploy.rules import bound_roles
from tests.deploy.rules import rights as rights_of
from tests.telemetry.http_server import Request, answering, http_server

NOW_S = 1_700_000_000.25
FOLLOWS_QUEUES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {preFilter: {enabled: [{name: Queues}]}}}]
"""
ELECTION = LeaderElection(resource_name="kscheduler", resource_namespace="kube-system")


class StandingClock:
    def now(self) -> float:
        return 0.0

    def wall(self) -> float:
        return NOW_S


@dataclass
class Cluster:
    """What the checks ask of a client."""

    forbidden: set[tuple[str, str]] = field(default_factory=set)  # (verb, resource)
    lease: Lease | None = None
    http_date: str = ""
    objects: dict[str, int] = field(default_factory=dict)
    users: set[str] = field(default_factory=set)  # that were asked about
    may_read_leases: bool = True

    async def may_i(self, right: Right) -> AccessReview:
        return AccessReview((right.verb, right.resource) not in self.forbidden)

    async def may_user(self, right: Right, user: User) -> AccessReview:
        self.users.add(user.name)
        return await self.may_i(right)

    async def get_lease(self, namespace: str, name: str) -> Lease:
        if not self.may_read_leases:
            raise Forbidden("leases is forbidden")
        if self.lease is None:
            raise NotFound("there is none")
        return self.lease

    async def date(self) -> str:
        return self.http_date

    async def get_aggregated(self, path: str, *, limit_bytes: int) -> bytes:
        raise NotFound(path)

    async def count(self, path: str) -> int:
        return self.objects[path]


def held(renewed_s: float) -> Lease:
    return Lease(spec=LeaseSpec(holder_identity="one_1", lease_duration_seconds=15, renew_time=micro_time(renewed_s)))


# --- rights ---


def test_the_rights_are_those_that_deploy_grants() -> None:
    granted = {(each.group, each.resource, each.verb) for each in rights_of(bound_roles(render("base")))}
    leases = lease_rights(ELECTION)
    assert {(each.group, each.resource, each.verb) for each in (*CLUSTER_RIGHTS, *leases)} == granted
    assert {each.namespace for each in leases} == {"kube-system"}


async def test_a_user_with_all_rights_is_well() -> None:
    finding = await checks.rights(Cluster(), ELECTION)
    assert finding.level is Level.OK
    assert finding.text.startswith("the user of the kubeconfig has all ")


async def test_missing_rights_are_named_with_what_grants_them() -> None:
    cluster = Cluster(forbidden={("watch", "nodes"), ("list", "nodes"), ("create", "leases")})
    finding = await checks.rights(cluster, ELECTION)
    assert finding.level is Level.FAIL
    assert finding.text.endswith("may not list, watch nodes; create leases in kube-system")
    assert finding.mend == "kubectl apply -f deploy/base/rbac.yaml"


async def test_the_rights_of_a_service_account_are_asked_for_by_its_name() -> None:
    cluster = Cluster()
    finding = await checks.rights(cluster, ELECTION, "kube-system/mine")
    assert cluster.users == {"system:serviceaccount:kube-system:mine"}
    assert finding.text.startswith("the ServiceAccount kube-system/mine has all ")


def test_without_leader_election_no_lease_is_needed() -> None:
    assert lease_rights(LeaderElection(leader_elect=False)) == ()


def test_rights_are_grouped_by_resource() -> None:
    rights = [Right("", "pods", "get"), Right("", "nodes", "list"), Right("", "pods", "list")]
    assert in_words(rights) == "get, list pods; list nodes"


# --- rights to custom kinds ---


@pytest.mark.parametrize("component", sorted({kind.component for kind in KINDS}))
def test_the_rights_to_custom_kinds_are_those_that_their_component_grants(component: str) -> None:
    needed = rights_to(KINDS)[component]
    granted = {(each.group, each.resource, each.verb) for each in rights_of(bound_roles(own_objects(component)))}
    assert {(each.group, each.resource, each.verb) for each in (*needed.to_read, *needed.to_write)} == granted


def test_only_kinds_that_the_configuration_follows_are_asked_about() -> None:
    assert rights_of_components(default_config()) == {}
    queues = FOLLOWS_QUEUES.replace("Queues", "CapacityScheduling")
    assert list(rights_of_components(parse_config(queues, "f"))) == ["quotas"]


async def test_rights_to_read_custom_kinds_are_needed_and_those_to_their_status_are_not() -> None:
    needed = rights_of_components(parse_config(FOLLOWS_QUEUES, "f"))["queues"]
    mend = "kubectl apply -f deploy/queues/rbac.yaml"
    fine = await checks.rights_of_component(Cluster(), "queues", needed)
    assert fine == Finding(Level.OK, "queues", "the user of the kubeconfig has all 5 rights that it needs for them")
    cluster = Cluster(forbidden={("patch", "queues/status")})
    assert await checks.rights_of_component(cluster, "queues", needed, "a/b") == Finding(
        Level.WARN,
        "queues",
        "the ServiceAccount a/b may not patch queues/status of kscheduler.io: their status is not kept",
        mend,
    )
    cluster = Cluster(forbidden={("list", "queues"), ("patch", "queues/status")})
    assert await checks.rights_of_component(cluster, "queues", needed) == Finding(
        Level.FAIL,
        "queues",
        "the user of the kubeconfig may not list queues of kscheduler.io; list queues of scheduling.run.ai; "
        "patch queues/status of kscheduler.io: nothing is scheduled before it may read them",
        mend,
    )


# --- release ---


@pytest.mark.parametrize(
    ("emulated", "served", "level", "words"),
    [
        ("1.37", "v1.37.2", Level.OK, "emulates kube-scheduler 1.37"),
        ("1.37", "v1.38.0", Level.OK, "emulates kube-scheduler 1.37"),
        ("1.37", "v1.36.3", Level.WARN, "newer than its apiserver"),
        ("1.36", "v1.39.1-eks-1", Level.WARN, "3 releases older"),
        ("1.37", "1.37, emulated by v1.38.0", Level.OK, "emulates kube-scheduler 1.37"),
        ("1.36", "1.38, v2.1.0", Level.WARN, "2 releases older"),
    ],
)
def test_the_release_must_be_the_apiservers_or_the_one_before(
    emulated: str, served: str, level: Level, words: str
) -> None:
    finding = checks.skew(Choice(Emulation(default_config(release_of(emulated))), "so it is"), served)
    assert finding.level is level
    assert words in finding.text
    assert bool(finding.mend) is (level is Level.WARN)


# --- metric sources ---

METRICS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {{multiPoint: {{enabled: [{{name: MetricPolicy, weight: 1}}]}}}}
  pluginConfig:
  - name: MetricPolicy
    args:
      sources: [{sources}]
      metrics: [{metrics}]
"""


async def asked(sources: str, metrics: str) -> list[Finding]:
    config = parse_config(METRICS.format(sources=sources, metrics=metrics))
    return await checks.metric_sources(config, Cluster(), StandingClock())


async def test_each_metric_source_is_asked_for_its_own_metrics_and_the_one_that_fails_is_named() -> None:
    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        empty = {"status": "success", "data": {"resultType": "vector", "result": []}}
        await answering(empty, 200 if request.target.startswith("/shop") else 503)(request, writer)

    async with http_server(serve) as server:
        shop, bank = await asked(
            ", ".join(f'{{name: {name}, prometheus: {{url: "{server.url}/{name}"}}}}' for name in ("shop", "bank")),
            "{name: orders, source: shop, query: orders, nodeLabel: node},"
            "{name: credits, source: bank, query: credits, nodeLabel: node}",
        )
    assert shop == Finding(Level.OK, "metric source", "shop answers: orders")
    assert (bank.level, bank.mend) == (Level.FAIL, f"curl '{server.url}/bank/-/ready'")
    assert bank.text.startswith("bank: 1 of 1 metric cannot be read: ")
    targets = sorted(each.target for each in server.requests)
    assert targets == ["/bank/api/v1/query?query=credits", "/shop/api/v1/query?query=orders"]


async def test_all_metrics_of_a_source_that_is_not_there_are_counted() -> None:
    (cluster,) = await asked(
        "{name: cluster, resourceMetrics: {}}",
        "{name: a, source: cluster, resource: cpu}, {name: b, source: cluster, resource: memory}",
    )
    assert cluster.level is Level.FAIL
    assert cluster.text.startswith("cluster: 2 of 2 metrics cannot be read: ")


async def test_a_source_of_which_no_metric_is_taken_is_not_asked() -> None:
    (cluster,) = await asked("{name: cluster, resourceMetrics: {}}", "")
    assert cluster == Finding(Level.OK, "metric source", "cluster is not asked, since no metric is taken from it")


# --- clock ---


@pytest.mark.parametrize(
    ("ahead_s", "level"), [(0, Level.OK), (1, Level.OK), (-5, Level.WARN), (5, Level.WARN), (60, Level.FAIL)]
)
async def test_clocks_that_differ_are_reported(ahead_s: int, level: Level) -> None:
    finding = await checks.clocks(Cluster(http_date=formatdate(NOW_S + ahead_s, usegmt=True)), StandingClock())
    assert finding.level is level


async def test_an_answer_without_a_date_leaves_the_clock_unknown() -> None:
    finding = await checks.clocks(Cluster(http_date="soon"), StandingClock())
    assert finding == Finding(Level.WARN, "clock", "the apiserver's answers have no Date: 'soon'")


# --- Lease ---


@pytest.mark.parametrize(
    ("lease", "level", "words"),
    [
        (None, Level.OK, "does not exist yet"),
        (Lease(), Level.OK, "is free"),
        (held(NOW_S - 3), Level.OK, "held by one_1, renewed 3 s ago"),
        (held(NOW_S - 60), Level.WARN, "not renewed it for 60 s"),
        (Lease(spec=LeaseSpec(holder_identity="one_1")), Level.WARN, "not renewed"),
    ],
)
async def test_the_holder_of_the_lease_is_named(lease: Lease | None, level: Level, words: str) -> None:
    finding = await checks.lease(Cluster(lease=lease), ELECTION, StandingClock())
    assert finding.level is level
    assert words in finding.text


@pytest.mark.parametrize(("namespace", "folder"), [("kscheduler", "base"), ("kube-system", "replace-kube-scheduler")])
async def test_a_lease_that_may_not_be_read_is_a_failure(namespace: str, folder: str) -> None:
    election = msgspec.structs.replace(ELECTION, resource_namespace=namespace)
    finding = await checks.lease(Cluster(may_read_leases=False), election, StandingClock())
    assert (finding.level, finding.mend) == (Level.FAIL, f"kubectl apply -f deploy/{folder}/rbac.yaml")


async def test_without_leader_election_there_is_no_lease() -> None:
    finding = await checks.lease(Cluster(), LeaderElection(leader_elect=False), StandingClock())
    assert finding.level is Level.OK


# --- resources ---


@pytest.mark.parametrize(("limit_mib", "level"), [(2048, Level.OK), (300, Level.WARN), (100, Level.FAIL)])
async def test_memory_is_compared_with_what_the_cluster_takes(limit_mib: int, level: Level) -> None:
    cluster = Cluster(objects={"/api/v1/nodes": 5_000, "/api/v1/pods": 150_000})
    finding = await checks.memory(cluster, limit_mib << 20)
    assert finding.level is level
    assert finding.text.startswith("5,000 nodes and 150,000 pods take some 274 MiB")
    assert ("--limits=memory=549Mi" in finding.mend) is (level is not Level.OK)


def test_the_control_groups_limit_comes_before_the_machines_memory(tmp_path: Path) -> None:
    group, machine = tmp_path / "memory.max", tmp_path / "meminfo"
    assert checks.available_bytes(group, machine) is None
    machine.write_text("MemTotal: 9 kB\nMemAvailable:       4 kB\n")
    assert checks.available_bytes(group, machine) == 4096
    group.write_text("max\n")
    assert checks.available_bytes(group, machine) == 4096
    group.write_text("1000\n")
    assert checks.available_bytes(group, machine) == 1000


# --- the command ---


def test_a_finding_has_its_mending_command_on_the_next_line() -> None:
    findings = [Finding(Level.OK, "clock", "fine"), Finding(Level.FAIL, "rights", "none", "kubectl apply")]
    assert to_text(findings) == (
        "ok    clock          fine\n"
        "FAIL  rights         none\n"
        "                     mend: kubectl apply\n"
    )  # fmt: skip
    assert to_text(findings, coloured=True).startswith("\x1b[32mok  \x1b[0m")


def findings_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the findings by their checks."""
    code = main(["doctor", "--output", "json", *arguments])
    return code, {each["check"]: each for each in json.loads(capsys.readouterr().out)}


@pytest.mark.usefixtures("logging_restored")
def test_an_apiserver_that_is_not_there_is_one_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = findings_of(capsys, "--kubeconfig", kubeconfig(tmp_path, "x", "http://127.0.0.1:1"))
    assert code == 1
    assert {name: each["level"] for name, each in found.items()} == {"configuration": "ok", "apiserver": "fail"}
    assert found["apiserver"]["mend"] == "kubectl cluster-info"


@pytest.mark.usefixtures("logging_restored")
def test_a_wrong_configuration_is_a_failure_and_the_cluster_is_looked_at_nevertheless(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "wrong.yaml"
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nwrong: 1\n")
    server = kubeconfig(tmp_path, "x", "http://127.0.0.1:1")
    code, found = findings_of(capsys, "--config", str(config), "--kubeconfig", server)
    assert code == 1
    assert found["configuration"]["mend"] == f"kscheduler config validate {config}"
    assert "apiserver" in found


async def test_the_client_asks_for_its_own_rights_counts_and_the_date() -> None:
    async with FakeAPIServer().running() as fake:
        client = KubeClient(Credentials(Endpoint(fake.url, None), StandingClock()), StandingClock(), qps=-1)
        try:
            await _ask_all(client, fake)
        finally:
            await client.close()


async def _ask_all(client: KubeClient, fake: FakeAPIServer) -> None:
    fake.fail("POST", "selfsubjectaccessreviews", body=b'{"kind":"X","status":{"allowed":true}}')
    assert (await client.reviews.may_i(Right("apps", "replicasets/status", "get", "shop", "web"))).allowed
    (sent,) = fake.sent("POST", "selfsubjectaccessreviews")
    assert json.loads(sent.body)["spec"] == {
        "resourceAttributes": {
            "verb": "get",
            "namespace": "shop",
            "group": "apps",
            "resource": "replicasets",
            "subresource": "status",
            "name": "web",
        }
    }
    fake.fail("GET", "/nodes", body=b'{"metadata":{"remainingItemCount":41},"items":[{}]}')
    assert await client.count("/api/v1/nodes") == 42
    assert (await client.date()).endswith("GMT")
