"""What the sources ask of APIs behind a real apiserver: allowed by the component's rights, each by one of them.

Nothing serves these APIs here. An authorized request is answered with 404, an unauthorized one with 403.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator

import pytest

from kscheduler.client.kube import KubeClient
from kscheduler.config.metric_policy import Metric, Source
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.telemetry.live_metrics import source_maker
from kscheduler.telemetry.source import SourceError
from kscheduler.testing.controlplane.patience import Patience
from kscheduler.testing.controlplane.workspace import Workspace
from tests.deploy.manifests import DEPLOY, Object, documents
from tests.support.clocks import CLOCK

ACCOUNT = "asks-for-metrics"
SOURCES = {
    "metrics.k8s.io": (Source(name="s", resource_metrics={}), Metric(name="m", source="s", resource="cpu")),
    "custom.metrics.k8s.io": (
        Source(name="s", custom_metrics={}),
        Metric(name="m", source="s", metric="temperature", selector="sensor=cpu"),
    ),
    "external.metrics.k8s.io": (
        Source(name="s", external_metrics={}),
        Metric(name="m", source="s", metric="spot_price", namespace="default", selector="cloud=x"),
    ),
}


@pytest.fixture
async def client(workspace: Workspace) -> AsyncIterator[KubeClient]:
    kubeconfig = workspace.control_plane.kubeconfig_for_service_account(workspace.namespace, ACCOUNT)
    client = await KubeClient.connect(CLOCK, kubeconfig=str(kubeconfig))
    yield client
    await client.close()


def rights(workspace: Workspace, groups: set[str]) -> list[Object]:
    """The component's, as far as they are about these API groups, for the account of this test."""
    role, binding = copy.deepcopy(documents((DEPLOY / "live-metrics" / "rbac.yaml").read_text()))
    role["metadata"]["name"] = binding["metadata"]["name"] = binding["roleRef"]["name"] = workspace.namespace
    role["rules"] = [rule for rule in role["rules"] if set(rule["apiGroups"]) <= groups]
    binding["subjects"] = [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": workspace.namespace}]
    return [role, binding]


async def answer(client: KubeClient, group: str) -> str:
    """Why there is no reading."""
    config, metric = SOURCES[group]
    source = source_maker(client, NodeTable(), CLOCK)(config)
    try:
        return (await source.fetch([metric])).failed["m"]
    except SourceError as error:
        return str(error)


@pytest.mark.parametrize("group", SOURCES)
async def test_a_source_needs_the_right_of_its_group_and_no_other(
    workspace: Workspace, client: KubeClient, group: str
) -> None:
    api = workspace.control_plane.api
    api.apply(*rights(workspace, set(SOURCES) - {group}))
    assert "forbidden" in (await answer(client, group)).lower()
    api.apply(*rights(workspace, {group}))
    patience = Patience("the apiserver's authorizer follows")
    while "forbidden" in (found := await answer(client, group)).lower():
        await patience.pause_loop()
    assert "could not find the requested resource" in found or "not found" in found.lower(), found
