"""The Helm chart on a real apiserver: accepted, installed, upgraded, rolled back and removed by helm itself.

Nothing runs the Deployment's pods, so that these tests are about objects.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kscheduler.testing.controlplane import Binaries, ControlPlane, RequestFailed
from kscheduler.testing.controlplane.api import KeptApi
from tests.deploy.chart import CHART, RELEASE, VALUES_OF_COMPONENTS, render_chart
from tests.deploy.manifests import CHECKSUM, Object, find, pod_template, render
from tests.support.helm import Helm, HelmFailed, build
from tests.support.skips import program

pytestmark = pytest.mark.slow

ALL_ON = tuple(setting for settings in VALUES_OF_COMPONENTS.values() for setting in settings)
CHANGED = (
    "replicas=3",
    "networkPolicy.enabled=true",
    "quotas.enabled=true",
    "ui.enabled=true",
    "config.clientConnection.qps=500",
)


class Cluster:
    """A control plane with the namespace of the release, and helm for it."""

    def __init__(self, control_plane: ControlPlane, api: KeptApi, program: Path, directory: Path) -> None:
        self.api = api
        self._helm = Helm(program, directory, control_plane.kubeconfig_for_user("admin", ["system:masters"]))
        self.api.apply(find(render("base"), "Namespace", RELEASE))

    def helm(self, command: str, *arguments: str | Path) -> str:
        return self._helm.run(command, RELEASE, *arguments, "--namespace", RELEASE)

    def revision(self) -> int:
        """The number of the release that is in force."""
        version: int = json.loads(self.helm("status", "--output", "json"))["version"]
        return version

    def rendered(self, *settings: str, release: str = RELEASE) -> list[Object]:
        return render_chart(self._helm, *settings, release=release)

    def live(self, document: Object) -> Object | None:
        """The object of that kind and name as the apiserver has it."""
        try:
            found: Object = self.api.get(self.api.path_of(document))
        except RequestFailed as error:
            if error.status == 404:
                return None
            raise
        return found

    def differences(self, objects: list[Object]) -> list[str]:
        """What of the objects the apiserver does not have as they say."""
        return [
            f"{document['kind']} {document['metadata']['name']}"
            for document in objects
            if not _includes(self.live(document), document)
        ]


def _includes(live: Any, stated: Any) -> bool:
    """Whether an object has all that is stated of it; defaults may be added to maps, not to lists."""
    if isinstance(stated, dict):
        return isinstance(live, dict) and all(_includes(live.get(key), value) for key, value in stated.items())
    if isinstance(stated, list):
        return isinstance(live, list) and len(live) == len(stated) and all(map(_includes, live, stated))
    return bool(live == stated)


def _set(settings: tuple[str, ...]) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


@pytest.fixture(scope="module")
def own_control_plane(binaries: Binaries) -> Iterator[ControlPlane]:
    """One whose names are free: the objects of a release belong to nobody else."""
    with ControlPlane(binaries=binaries) as own:
        yield own


@pytest.fixture
def cluster(own_control_plane: ControlPlane, tmp_path: Path) -> Iterator[Cluster]:
    with contextlib.closing(KeptApi(own_control_plane.api.credentials)) as api:
        cluster = Cluster(own_control_plane, api, build(), tmp_path)
        yield cluster
        cluster.helm("uninstall")


@pytest.mark.parametrize("settings", [(), CHANGED, ALL_ON], ids=["default", "changed", "all"])
def test_the_apiserver_accepts_what_is_rendered(
    control_plane: ControlPlane, tmp_path: Path, settings: tuple[str, ...]
) -> None:
    objects = render_chart(Helm(build(), tmp_path), *settings, namespace="default")
    accepted = control_plane.api.apply(*objects, dry_run=True)
    assert [_includes(*pair) for pair in zip(accepted, objects, strict=True)] == [True] * len(objects)


def test_a_release_is_installed_upgraded_rolled_back_and_removed(cluster: Cluster) -> None:
    default, changed = cluster.rendered(), cluster.rendered(*CHANGED)
    added = [each for each in changed if not any(_same(each, other) for other in default)]
    assert {each["kind"] for each in added} >= {"NetworkPolicy", "ClusterRole", "CustomResourceDefinition"}

    printed = cluster.helm("install", CHART)
    assert "kubectl --namespace kscheduler get lease kscheduler" in printed
    assert "It schedules pods whose spec.schedulerName is kscheduler.\n" in printed
    assert cluster.differences(default) == []
    assert cluster.differences(changed) != []

    cluster.helm("upgrade", CHART, "--reset-then-reuse-values", *_set(CHANGED))
    assert cluster.revision() == 2
    assert cluster.differences(changed) == []
    assert _checksum(changed) != _checksum(default), "other pods are to read the other configuration"

    with pytest.raises(HelmFailed, match="replicas"):
        cluster.helm("upgrade", CHART, "--set", "replicas=none")
    assert cluster.revision() == 2
    assert cluster.differences(changed) == []

    cluster.helm("rollback", "1")
    assert cluster.revision() == 3
    assert cluster.differences(default) == []
    kinds = [each for each in added if each["kind"] == "CustomResourceDefinition"]
    assert all(cluster.live(each) is None for each in added if each not in kinds)

    cluster.helm("uninstall")
    assert [each for each in default if cluster.live(each) is not None] == []
    assert cluster.differences(kinds) == [], "its objects are the users'"

    cluster.helm("install", CHART, *_set(CHANGED))  # which takes the kinds that were left
    assert cluster.differences(changed) == []


def test_what_kustomize_installed_can_become_a_release(cluster: Cluster) -> None:
    cluster.api.apply(*render("base"))
    before = cluster.live(find(render("base"), "Deployment", RELEASE))
    assert before is not None
    with pytest.raises(HelmFailed, match="cannot be imported into the current release"):
        cluster.helm("install", CHART)
    cluster.helm("install", CHART, "--take-ownership", "--force-conflicts")
    objects = cluster.rendered()
    assert cluster.differences(objects) == []
    after = cluster.live(find(objects, "Deployment", RELEASE))
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"], "it was updated, not replaced"


def test_what_kubectl_applied_is_upgraded_only_if_conflicts_are_forced(
    cluster: Cluster, own_control_plane: ControlPlane, tmp_path: Path
) -> None:
    kubectl = program("kubectl", "install kubectl")
    manifests = tmp_path / "base.yaml"
    manifests.write_text(yaml.safe_dump_all(render("base")))
    kubeconfig = own_control_plane.kubeconfig_for_user("admin", ["system:masters"])
    subprocess.run([kubectl, "--kubeconfig", kubeconfig, "apply", "-f", manifests], check=True, capture_output=True)
    cluster.helm("install", CHART, "--take-ownership", "--force-conflicts")
    upgrade = ("upgrade", CHART, "--reset-then-reuse-values", "--set", "replicas=3")
    with pytest.raises(HelmFailed, match='conflict with "kubectl-client-side-apply"'):
        cluster.helm(*upgrade)
    cluster.helm(*upgrade, "--force-conflicts")
    assert cluster.differences(cluster.rendered("replicas=3")) == []
    cluster.helm("upgrade", CHART, "--reset-then-reuse-values", "--set", "replicas=2")  # Helm alone has set it now


def _same(one: Object, other: Object) -> bool:
    """Whether both are about the same object."""
    return all(
        (one["kind"], one["metadata"].get(key)) == (other["kind"], other["metadata"].get(key))
        for key in ("name", "namespace")
    )


def _checksum(objects: list[Object]) -> str:
    value: str = pod_template(objects)["metadata"]["annotations"][CHECKSUM]
    return value
