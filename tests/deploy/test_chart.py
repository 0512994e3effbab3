"""The Helm chart says what kustomize says, is sound under other values, and refuses bad ones in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from deploy.release.chart import SHARED, copy, differences
from kscheduler import __version__
from kscheduler.command.flags.commands import parse
from kscheduler.command.flags.run_options import RunOptions
from kscheduler.config.load import parse_config
from kscheduler.config.routing import load_routing
from kscheduler.testing.controlplane.binaries import MODULE as CONTROL_PLANE_MODULE
from tests.deploy.chart import CHART, KEEP, ROUTING_CHECKSUM, VALUES_OF_COMPONENTS, comparable, render_chart
from tests.deploy.manifests import COMPONENTS, DEPLOY, Object, documents, find, pod_template, render, scheduler_config
from tests.deploy.rules import bound_roles, rights
from tests.support.helm import MODULE, Helm, HelmFailed, build

ALL_ON = tuple(setting for settings in VALUES_OF_COMPONENTS.values() for setting in settings)
MONITORING = ("serviceMonitor.enabled=true", "prometheusRule.enabled=true", "dashboard.enabled=true")


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(build(), tmp_path_factory.mktemp("helm"))


# --- files ------------------------------------------------------------------------------------------------------


def test_the_charts_copies_are_what_kustomize_uses() -> None:
    assert list(differences()) == [], "run `make chart`"


def test_copies_that_differ_are_named_and_mended(tmp_path: Path) -> None:
    copy(tmp_path)
    (tmp_path / "base" / "rbac.yaml").write_text("changed")
    (tmp_path / "base" / "stray.yaml").write_text("")
    (tmp_path / "gangs" / "crd.yaml").unlink()
    assert list(differences(tmp_path)) == ["base/rbac.yaml", "gangs/crd.yaml", "base/stray.yaml"]
    copy(tmp_path)
    assert list(differences(tmp_path)) == []


def test_every_copy_is_used_by_a_template() -> None:
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    for name in SHARED:
        folder, _, file = name.partition("/")
        assert name in templates or (folder == "base" and f'"{file.removesuffix(".yaml")}"' in templates), name


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__


def test_each_component_is_a_value() -> None:
    assert VALUES_OF_COMPONENTS.keys() == set(COMPONENTS)


def test_helm_has_the_modules_of_the_control_plane() -> None:
    """Otherwise building it takes seven minutes instead of one."""
    own, theirs = _modules(MODULE / "go.mod"), _modules(CONTROL_PLANE_MODULE / "go-1.37.mod")
    assert "k8s.io/client-go" in own.keys() & theirs.keys()
    different = {name for name in own.keys() & theirs.keys() if own[name] != theirs[name]}
    assert different <= {"github.com/Masterminds/semver/v3"}


# --- the same as kustomize --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_default_is_kustomizes_base_but_for_the_namespace(helm: Helm) -> None:
    expected = comparable(render("base"))
    del expected["Namespace", "", "kscheduler"]
    assert comparable(render_chart(helm)) == expected


@pytest.mark.slow
def test_with_the_namespace_it_is_kustomizes_base(helm: Helm) -> None:
    assert comparable(render_chart(helm, "namespace.create=true")) == comparable(render("base"))


@pytest.mark.slow
def test_in_kube_schedulers_place_it_is_kustomizes_too(helm: Helm) -> None:
    objects = render_chart(helm, "namespace.create=true", values=CHART / "replace-kube-scheduler.yaml")
    assert comparable(objects) == comparable(render("replace-kube-scheduler"))


@pytest.mark.slow
@pytest.mark.parametrize("component", VALUES_OF_COMPONENTS)
def test_a_part_that_is_switched_on_is_kustomizes_component(helm: Helm, component: str) -> None:
    objects = render_chart(helm, "namespace.create=true", *VALUES_OF_COMPONENTS[component])
    assert comparable(objects) == comparable(render("base", component))


@pytest.mark.slow
def test_monitoring_is_kustomizes(helm: Helm) -> None:
    objects = comparable(render_chart(helm, *MONITORING))
    for name in ("servicemonitor.yaml", "rules.yaml"):
        [expected] = documents((DEPLOY / "monitoring" / name).read_text())
        assert objects[expected["kind"], "kscheduler", "kscheduler"] == expected
    dashboard = objects["ConfigMap", "kscheduler", "kscheduler-dashboard"]
    assert dashboard["metadata"]["labels"] == {"app.kubernetes.io/name": "kscheduler", "grafana_dashboard": "1"}
    assert dashboard["data"] == {"dashboard.json": (DEPLOY / "monitoring" / "dashboard.json").read_text()}


@pytest.mark.slow
def test_a_difference_is_seen(helm: Helm) -> None:
    expected = comparable(render("base"))
    for setting in ("replicas=3", "resources.limits.memory=1Gi", "config.clientConnection.qps=1", "podLabels.a=b"):
        assert comparable(render_chart(helm, "namespace.create=true", setting)) != expected, setting


# --- other values -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_helm_finds_nothing_to_complain_about(helm: Helm) -> None:
    settings = [part for setting in (*ALL_ON, *MONITORING) for part in ("--set", setting)]
    for more in ([], settings):
        assert "0 chart(s) failed" in helm.run("lint", "--strict", CHART, *more)


@pytest.mark.slow
def test_another_release_shares_no_name_and_selects_only_its_own_pods(helm: Helm) -> None:
    settings = ("config.profiles[0].schedulerName=batch", *MONITORING)
    first, second = (render_chart(helm, *settings, release=name, namespace="one") for name in ("kscheduler", "batch"))
    assert comparable(first).keys().isdisjoint(comparable(second, "batch-kscheduler").keys())
    deployment = find(second, "Deployment", "batch-kscheduler")
    selector = deployment["spec"]["selector"]["matchLabels"]
    assert selector["app.kubernetes.io/name"] == "batch-kscheduler"
    assert not selector.items() <= pod_template(first)["metadata"]["labels"].items()
    config = parse_config(scheduler_config(second, "batch-kscheduler"))
    assert (config.leader_election.resource_namespace, config.leader_election.resource_name) == (
        "one",
        "batch-kscheduler",
    )
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    assert len(rights(bound_roles(second, account, "one"))) == len(rights(bound_roles(render("base"))))
    assert 'job="kscheduler"' not in str(find(second, "PrometheusRule", "batch-kscheduler"))


@pytest.mark.slow
def test_an_account_of_ones_own_gets_the_rights(helm: Helm) -> None:
    objects = render_chart(helm, "serviceAccount.create=false", "serviceAccount.name=mine", *ALL_ON)
    assert "ServiceAccount" not in {each["kind"] for each in objects}
    assert pod_template(objects)["spec"]["serviceAccountName"] == "mine"
    assert len(rights(bound_roles(objects, "mine"))) > len(rights(bound_roles(render("base"))))


@pytest.mark.slow
def test_every_flag_is_known_and_every_setting_arrives(helm: Helm) -> None:
    objects = render_chart(
        helm,
        *ALL_ON,
        "extraArgs={--v=4}",
        "logFormat=text",
        "image.repository=registry.example/ks",
        f"image.digest=sha256:{'0' * 64}",
        "networkPolicy.extraEgress[0].ports[0].port=9090",
        "networkPolicy.apiserverPorts={8443}",
        "podDisruptionBudget.minAvailable=2",
        "replicas=3",
        "spreadOver=",
        "nodeSelector.kubernetes\\.io/os=linux",
    )
    spec = pod_template(objects)["spec"]
    [container] = spec["containers"]
    options = parse(container["args"])
    assert isinstance(options, RunOptions)
    assert options.warnings == ()
    assert container["image"] == f"registry.example/ks@sha256:{'0' * 64}"
    assert "topologySpreadConstraints" not in spec
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"}
    egress = find(objects, "NetworkPolicy", "kscheduler")["spec"]["egress"]
    assert [port["port"] for rule in egress for port in rule["ports"]] == [53, 53, 8443, 9090]
    assert find(objects, "PodDisruptionBudget", "kscheduler")["spec"]["minAvailable"] == 2


@pytest.mark.slow
def test_routing_rules_of_another_release_reach_its_own_replicas(helm: Helm, tmp_path: Path) -> None:
    def routed(scheduler_name: str, *more: str) -> list[Object]:
        named = f"schedulerName={scheduler_name}"
        settings = ("routing.enabled=true", "routing.rules[0].name=all", f"routing.rules[0].{named}")
        return render_chart(helm, *settings, f"config.profiles[0].{named}", *more, release="batch", namespace="one")

    objects, name = routed("batch"), "batch-kscheduler-routing"
    path = tmp_path / "routing.yaml"
    path.write_text(find(objects, "ConfigMap", name)["data"]["routing.yaml"])
    [rule] = load_routing(str(path)).rules
    assert (rule.name, rule.scheduler_name) == ("all", "batch")
    configuration = find(objects, "MutatingWebhookConfiguration", name)
    assert configuration["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": f"one/{name}"}
    [webhook] = configuration["webhooks"]
    assert webhook["clientConfig"] == {"service": {"namespace": "one", "name": name, "path": "/mutate", "port": 443}}
    assert webhook["namespaceSelector"]["matchExpressions"][0]["values"] == ["kube-system", "one"]
    labels = pod_template(objects, "batch-kscheduler")["metadata"]["labels"]
    assert find(objects, "Service", name)["spec"]["selector"].items() <= labels.items()

    own = routed("other", "routing.secretName=mine", "routing.caBundle=QUJD")
    [webhook] = find(own, "MutatingWebhookConfiguration", name)["webhooks"]
    assert webhook["clientConfig"]["caBundle"] == "QUJD"
    assert "annotations" not in find(own, "MutatingWebhookConfiguration", name)["metadata"]
    pods, before = (pod_template(each, "batch-kscheduler") for each in (own, objects))
    assert {"name": "routing-tls", "secret": {"secretName": "mine"}} in pods["spec"]["volumes"]
    # Other rules start new pods: a replica reads them once.
    seen = [each["metadata"]["annotations"][ROUTING_CHECKSUM] for each in (pods, before)]
    assert seen[0] != seen[1]


@pytest.mark.slow
def test_large_numbers_of_a_values_file_stay_whole(helm: Helm, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("config: {clientConnection: {qps: 1000000, burst: 20000000}}\n")
    client = parse_config(scheduler_config(render_chart(helm, values=values))).client_connection
    assert (client.qps, client.burst) == (1_000_000, 20_000_000)


@pytest.mark.slow
def test_kinds_outlive_the_release_and_may_be_left_to_others(helm: Helm) -> None:
    kinds = [each for each in render_chart(helm, *ALL_ON) if each["kind"] == "CustomResourceDefinition"]
    assert len(kinds) == 4
    assert {each["metadata"]["annotations"][KEEP] for each in kinds} == {"keep"}
    without = [f"{part}.crd=false" for part in ("gangs", "metricPolicies", "queues", "quotas")]
    assert not [each for each in render_chart(helm, *ALL_ON, *without) if each["kind"] == "CustomResourceDefinition"]


@pytest.mark.slow
def test_a_single_replica_can_be_evicted(helm: Helm) -> None:
    assert "PodDisruptionBudget" not in _kinds(render_chart(helm, "replicas=1"))


@pytest.mark.slow
def test_without_leader_election_the_old_pod_goes_first(helm: Helm) -> None:
    objects = render_chart(helm, "replicas=1", "config.leaderElection.leaderElect=false")
    assert find(objects, "Deployment", "kscheduler")["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.slow
def test_rights_and_flow_schemas_can_be_left_to_others(helm: Helm) -> None:
    kinds = _kinds(render_chart(helm, "rbac.create=false", "flowSchemas.create=false", *ALL_ON))
    assert not [kind for kind in kinds if "Role" in kind or kind == "FlowSchema"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("replica=3", "replica"),
        ("replicas=many", "/replicas"),
        ("replicas=-1", "/replicas"),
        ("ui.enable=true", "/ui"),
        ("ui.enabled=maybe", "/ui/enabled"),
        ("logFormat=xml", "/logFormat"),
        ("image.digest=latest", "/image/digest"),
        ("config.apiVersion=kubescheduler.config.k8s.io/v1beta3", "/config/apiVersion"),
        ("config.leaderElection.leaseDuration=15", "/config/leaderElection/leaseDuration"),
        ("config.leaderElection.leader=true", "/config/leaderElection"),
        ("resources.limits.memory=lots", "/resources/limits/memory"),
        ("networkPolicy.apiserverPorts={0}", "/networkPolicy/apiserverPorts"),
        ("extraArgs={v=4}", "/extraArgs"),
        ("routing.rules[0].name=all", "/routing/rules/0"),
        ("routing.caBundle=a certificate", "/routing/caBundle"),
        ("config.leaderElection.leaderElect=false", "each replica would schedule every pod"),
        ("podDisruptionBudget.minAvailable=2", "minAvailable must be less than replicas (2)"),
    ],
)
def test_a_bad_value_is_refused_and_named(helm: Helm, setting: str, message: str) -> None:
    with pytest.raises(HelmFailed) as failed:
        render_chart(helm, setting)
    assert message in str(failed.value)


def _kinds(objects: list[Object]) -> set[str]:
    return {each["kind"] for each in objects}


def _modules(file: Path) -> dict[str, str]:
    """Module -> version, of a go.mod; for a module that is replaced, what replaces it."""
    text = file.read_text()
    required = re.findall(r"^\t(\S+) (v\S+)", text, re.MULTILINE)
    replaced = re.findall(r"^\t(\S+) => \S+ (v\S+)", text, re.MULTILINE)
    return dict(required) | dict(replaced)
