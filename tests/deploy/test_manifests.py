"""What deploy/ says fits together: names, labels, ports, probes, rights, and the scheduler's own configuration."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kscheduler import __version__
from kscheduler.api.pod_groups import COSCHEDULING_GROUP, KUBERNETES_GROUP
from kscheduler.command.flags.commands import parse
from kscheduler.command.flags.record import RECORD_PATH
from kscheduler.command.flags.run_options import RunOptions
from kscheduler.command.replica import EVENTS_DRAIN_S, SETTLE_S
from kscheduler.config.load import load_config, parse_config
from kscheduler.config.routing import load_routing
from kscheduler.config.types import SchedulerConfig
from kscheduler.explain.options import PATH as EXPLAIN_PATH
from kscheduler.gangs.phase_writer import LEASE_NAME
from kscheduler.scheduler import DRAIN_S
from kscheduler.serving.health import Health
from kscheduler.serving.routing.webhook import PATH as WEBHOOK_PATH
from tests.deploy.manifests import (
    CHECKSUM,
    COMPONENTS,
    DEPLOY,
    KUSTOMIZATIONS,
    Object,
    checksum,
    documents,
    find,
    own_objects,
    pod_template,
    render,
    scheduler_config,
)
from tests.deploy.rules import bound_roles, rights
from tests.support.skips import program


@pytest.fixture(params=KUSTOMIZATIONS)
def objects(request: pytest.FixtureRequest) -> list[Object]:
    return render(request.param)


@pytest.fixture
def pod(objects: list[Object]) -> Object:
    """The spec of the Deployment's pods."""
    spec: Object = pod_template(objects)["spec"]
    return spec


@pytest.fixture
def container(pod: Object) -> Object:
    assert len(pod["containers"]) == 1
    assert "initContainers" not in pod
    only: Object = pod["containers"][0]
    return only


@pytest.fixture
def config(objects: list[Object]) -> SchedulerConfig:
    return parse_config(scheduler_config(objects))


@pytest.fixture
def options(container: Object) -> RunOptions:
    """The container's arguments, read by the command itself."""
    options = parse(container["args"])
    assert isinstance(options, RunOptions)
    return options


# --- files ------------------------------------------------------------------------------------------------------


def test_every_manifest_is_yaml_and_every_object_says_what_it_is() -> None:
    files = sorted(set(DEPLOY.rglob("*.yaml")) - set((DEPLOY / "chart").glob("**/*")))
    assert files
    for path in files:
        for document in documents(path.read_text()):
            assert {"apiVersion", "kind"} <= set(document), path


@pytest.mark.parametrize("name", KUSTOMIZATIONS)
def test_every_manifest_is_listed_in_its_kustomization(name: str) -> None:
    kustomization = yaml.safe_load((DEPLOY / name / "kustomization.yaml").read_text())
    listed = {*kustomization["resources"], *(entry.get("path") for entry in kustomization.get("patches", ()))}
    there = {path.name for path in (DEPLOY / name).iterdir()} - {"kustomization.yaml"}
    assert there <= listed


def test_objects_are_named_once(objects: list[Object]) -> None:
    names = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
    assert len(names) == len(set(names))


def test_every_namespace_used_is_made_or_the_systems_own(objects: list[Object]) -> None:
    made = {each["metadata"]["name"] for each in objects if each["kind"] == "Namespace"}
    used = {each["metadata"]["namespace"] for each in objects if "namespace" in each["metadata"]}
    assert used <= made | {"kube-system"}


def test_the_namespace_comes_before_what_is_in_it(objects: list[Object]) -> None:
    assert objects[0]["kind"] == "Namespace"


@pytest.mark.slow
@pytest.mark.parametrize("name", KUSTOMIZATIONS)
def test_kubectl_renders_the_same_objects(name: str) -> None:
    kubectl = program("kubectl", "`.ci/run` builds it; Kubernetes 1.21 or newer")
    command = [kubectl, "kustomize", str(DEPLOY / name)]
    rendered = subprocess.run(command, capture_output=True, text=True, check=True)
    assert _by_name(documents(rendered.stdout)) == _by_name(render(name))


def _by_name(objects: list[Object]) -> dict[tuple[str, ...], Object]:
    return {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in objects}


# --- configuration ----------------------------------------------------------------------------------------------


def test_the_configuration_is_valid_and_elects_a_leader(config: SchedulerConfig) -> None:
    assert config.leader_election.leader_elect
    assert config.client_connection.kubeconfig == "", "in a pod the credentials are the ServiceAccount's"


def test_the_base_leaves_other_schedulers_alone() -> None:
    config = parse_config(scheduler_config(render("base")))
    assert [profile.scheduler_name for profile in config.profiles] == ["kscheduler"]
    election = config.leader_election
    assert (election.resource_namespace, election.resource_name) != ("kube-system", "kube-scheduler")


def test_the_replacement_takes_kube_schedulers_pods_under_kube_schedulers_lease() -> None:
    config = parse_config(scheduler_config(render("replace-kube-scheduler")))
    assert "default-scheduler" in [profile.scheduler_name for profile in config.profiles]
    election = config.leader_election
    assert (election.resource_namespace, election.resource_name) == ("kube-system", "kube-scheduler")


def test_a_changed_configuration_starts_new_pods(objects: list[Object]) -> None:
    expected = checksum(scheduler_config(objects))
    found = pod_template(objects)["metadata"]["annotations"][CHECKSUM]
    assert found == expected, f"the configuration has changed: set the annotation {CHECKSUM} to {expected}"


def test_the_configuration_is_read_from_where_it_is_mounted(
    tmp_path: Path, objects: list[Object], pod: Object, container: Object, options: RunOptions
) -> None:
    path = Path(options.config)
    mount = next(each for each in container["volumeMounts"] if Path(each["mountPath"]) == path.parent)
    volume = next(each for each in pod["volumes"] if each["name"] == mount["name"])
    data = find(objects, "ConfigMap", volume["configMap"]["name"])["data"]
    file = tmp_path / path.name
    file.write_text(data[path.name])
    assert load_config(str(file)) == parse_config(scheduler_config(objects))


def test_every_volume_is_mounted_and_every_mount_has_its_volume(pod: Object, container: Object) -> None:
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}


def test_no_flag_of_the_container_is_without_effect(options: RunOptions) -> None:
    assert options.warnings == ()


# --- the pods ---------------------------------------------------------------------------------------------------


def test_the_pod_is_restricted(pod: Object, container: Object) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    context = container["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert {key for volume in pod["volumes"] for key in volume} <= {"name", "configMap", "emptyDir", "secret"}


def test_tmp_is_writable(pod: Object, container: Object) -> None:
    mount = next(each for each in container["volumeMounts"] if each["mountPath"] == "/tmp")
    volume = next(each for each in pod["volumes"] if each["name"] == mount["name"])
    assert "emptyDir" in volume
    assert not mount.get("readOnly")


def test_the_namespace_enforces_the_restricted_level(objects: list[Object]) -> None:
    labels = find(objects, "Namespace", "kscheduler")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_pods_are_scheduled_by_someone_else_or_by_the_replacement_itself(pod: Object) -> None:
    assert "schedulerName" not in pod


def test_our_own_pods_ask_for_nothing_we_refuse(pod: Object) -> None:
    """In kube-scheduler's place this scheduler places its own replicas."""
    assert all(each["whenUnsatisfiable"] == "ScheduleAnyway" for each in pod["topologySpreadConstraints"])
    assert "affinity" not in pod


def test_selectors_match_the_labels_of_the_pods(objects: list[Object]) -> None:
    labels = pod_template(objects)["metadata"]["labels"]
    selectors = [
        find(objects, "Deployment", "kscheduler")["spec"]["selector"]["matchLabels"],
        find(objects, "PodDisruptionBudget", "kscheduler")["spec"]["selector"]["matchLabels"],
        find(objects, "Service", "kscheduler-metrics")["spec"]["selector"],
        *(each["labelSelector"]["matchLabels"] for each in pod_template(objects)["spec"]["topologySpreadConstraints"]),
    ]
    for selector in selectors:
        assert selector
        assert selector.items() <= labels.items()


def test_a_drain_leaves_a_replica(objects: list[Object]) -> None:
    replicas = find(objects, "Deployment", "kscheduler")["spec"]["replicas"]
    assert replicas > find(objects, "PodDisruptionBudget", "kscheduler")["spec"]["minAvailable"] >= 1


def test_the_grace_period_covers_draining_and_releasing(pod: Object, config: SchedulerConfig) -> None:
    longest_s = DRAIN_S + EVENTS_DRAIN_S + SETTLE_S + config.leader_election.renew_deadline.seconds
    assert pod["terminationGracePeriodSeconds"] > longest_s


# --- the endpoint -----------------------------------------------------------------------------------------------


def test_the_container_port_is_the_one_that_is_served(container: Object, options: RunOptions) -> None:
    assert {each["name"]: each["containerPort"] for each in container["ports"]} == {"https": options.secure_port}
    assert options.bind_address == "0.0.0.0"


@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe", "readinessProbe"])
def test_probes_ask_an_endpoint_of_the_server_that_needs_no_token(
    container: Object, options: RunOptions, probe: str
) -> None:
    request = container[probe]["httpGet"]
    assert request["scheme"] == "HTTPS"
    assert request["port"] in {each["name"] for each in container["ports"]}
    assert request["path"].strip("/") in Health().endpoints
    assert request["path"] in options.always_allow_paths


def test_the_process_is_restarted_only_for_what_a_restart_may_help(container: Object) -> None:
    """/livez depends neither on leadership nor on the apiserver; /readyz does not decide about life."""
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert container["startupProbe"]["httpGet"]["path"] == "/livez"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_the_service_leads_to_the_port(objects: list[Object], container: Object) -> None:
    ports = {each["name"] for each in container["ports"]}
    assert {each["targetPort"] for each in find(objects, "Service", "kscheduler-metrics")["spec"]["ports"]} <= ports


# --- rights -----------------------------------------------------------------------------------------------------


def test_the_pods_run_as_the_account_that_has_the_rights(objects: list[Object], pod: Object) -> None:
    find(objects, "ServiceAccount", pod["serviceAccountName"], "kscheduler")
    assert pod["automountServiceAccountToken"] is True
    assert bound_roles(objects, pod["serviceAccountName"])


def test_the_lease_role_names_the_configured_lease(objects: list[Object], config: SchedulerConfig) -> None:
    election = config.leader_election
    for role in bound_roles(objects):
        for rule in role["rules"]:
            if rule["resources"] != ["leases"]:
                continue
            assert role["metadata"]["namespace"] == election.resource_namespace
            assert rule.get("resourceNames") == (None if rule["verbs"] == ["create"] else [election.resource_name])


def test_the_election_has_its_share_of_the_apiserver(objects: list[Object], config: SchedulerConfig) -> None:
    schema = find(objects, "FlowSchema", "kscheduler-leader-election")
    [rule] = schema["spec"]["rules"][0]["resourceRules"]
    assert rule["namespaces"] == [config.leader_election.resource_namespace]


def test_rights_are_written_out(objects: list[Object]) -> None:
    granted = rights(bound_roles(objects))
    assert granted
    assert not [right for right in granted if "*" in right]


def test_secrets_are_never_read_and_pods_never_made_or_changed(objects: list[Object]) -> None:
    granted = {(right.resource, right.verb) for right in rights(bound_roles(objects))}
    assert not [right for right in granted if right[0] in ("secrets", "configmaps")]
    assert not [right for right in granted if right[0] == "pods" and right[1] not in ("delete", "get", "list", "watch")]
    assert {right[0] for right in granted if right[1] == "delete"} == {"pods", "resourceclaims"}


def test_nobody_reads_the_metrics_by_default(objects: list[Object]) -> None:
    reader = find(objects, "ClusterRole", "kscheduler-metrics-reader")
    assert reader["rules"] == [
        {"nonResourceURLs": ["/metrics", "/metrics/slis", "/metrics/resources"], "verbs": ["get"]}
    ]
    bindings: list[Any] = [each["roleRef"]["name"] for each in objects if "roleRef" in each]
    assert "kscheduler-metrics-reader" not in bindings


def test_nobody_reads_explanations_by_default(objects: list[Object]) -> None:
    reader = find(objects, "ClusterRole", "kscheduler-explain-reader")
    assert reader["rules"] == [{"nonResourceURLs": [EXPLAIN_PATH], "verbs": ["get"]}]
    bindings: list[Any] = [each["roleRef"]["name"] for each in objects if "roleRef" in each]
    assert "kscheduler-explain-reader" not in bindings


def test_nobody_reads_records_by_default(objects: list[Object]) -> None:
    reader = find(objects, "ClusterRole", "kscheduler-record-reader")
    assert reader["rules"] == [{"nonResourceURLs": [RECORD_PATH, f"{RECORD_PATH}/*"], "verbs": ["get"]}]
    bindings: list[Any] = [each["roleRef"]["name"] for each in objects if "roleRef" in each]
    assert "kscheduler-record-reader" not in bindings


def test_the_component_for_records_writes_to_a_volume_of_the_pod() -> None:
    spec = pod_template(render("base", "record"))["spec"]
    [container] = spec["containers"]
    options = parse(container["args"])
    assert isinstance(options, RunOptions)
    assert 0 < options.record_part_bytes * options.record_keep_parts <= 1 << 30
    [mount] = [each for each in container["volumeMounts"] if each["mountPath"] == str(Path(options.record).parent)]
    assert {"name": mount["name"], "emptyDir": {}} in spec["volumes"]


def test_the_component_for_annotations_adds_their_flag_and_the_right_to_patch_pods(container: Object) -> None:
    folder = DEPLOY / "explain-annotations"
    component = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert component["resources"] == ["rbac.yaml"]
    [entry] = component["patches"]
    [step] = yaml.safe_load(entry["patch"])
    assert (entry["target"], step["op"]) == ({"kind": "Deployment", "name": "kscheduler"}, "add")
    assert step["path"] == "/spec/template/spec/containers/0/args/-"
    options = parse([*container["args"], step["value"]])
    assert isinstance(options, RunOptions)
    assert options.explain.annotate
    granted = rights(bound_roles(documents((folder / "rbac.yaml").read_text())))
    assert [(right.resource, right.verb) for right in granted] == [("pods", "patch")]


def test_the_component_for_live_metrics_only_reads_metrics() -> None:
    folder = DEPLOY / "live-metrics"
    component = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert component["resources"] == ["rbac.yaml"]
    assert "patches" not in component
    granted = rights(bound_roles(documents((folder / "rbac.yaml").read_text())))
    assert [(right.group, right.resource, right.verb) for right in granted] == [
        ("metrics.k8s.io", "nodes", "list"),
        ("custom.metrics.k8s.io", "*", "get"),
        ("external.metrics.k8s.io", "*", "list"),
    ]


def test_the_component_for_the_page_adds_its_flag_and_no_right(container: Object) -> None:
    component = yaml.safe_load((DEPLOY / "ui" / "kustomization.yaml").read_text())
    [entry] = component["patches"]
    [step] = yaml.safe_load(entry["patch"])
    assert (entry["target"], step["path"]) == (
        {"kind": "Deployment", "name": "kscheduler"},
        "/spec/template/spec/containers/0/args/-",
    )
    options = parse([*container["args"], step["value"]])
    assert isinstance(options, RunOptions)
    assert options.ui
    viewer, node_viewer = own_objects("ui")
    assert viewer["rules"] == [{"nonResourceURLs": ["/ui/*"], "verbs": ["get"]}]
    assert node_viewer["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
    assert {viewer["kind"], node_viewer["kind"]} == {"ClusterRole"}, "nobody has them by default"


# --- components -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMPONENTS)
def test_every_file_of_a_component_is_listed_in_it(name: str) -> None:
    kustomization = yaml.safe_load((DEPLOY / name / "kustomization.yaml").read_text())
    there = {path.name for path in (DEPLOY / name).iterdir()} - {"kustomization.yaml"}
    assert there == set(kustomization.get("resources", ()))


def test_quick_takeover_asks_for_shorter_leases_and_the_pod_says_who_it_is() -> None:
    [container] = pod_template(render("base", "quick-takeover"))["spec"]["containers"]
    arguments = parse(container["args"])
    assert isinstance(arguments, RunOptions)
    election = arguments.leader_election
    durations = (election.lease_duration, election.renew_deadline, election.retry_period)
    assert [None if each is None else each.seconds for each in durations] == [5.0, 3.0, 1.0]
    assert arguments.replace_ended_holder
    # What kscheduler.client.gone_holder reads.
    fields = {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in container["env"]}
    assert fields == {"POD_NAMESPACE": "metadata.namespace", "POD_NAME": "metadata.name", "POD_UID": "metadata.uid"}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPONENTS)
def test_kubectl_renders_the_same_objects_with_a_component(name: str, tmp_path: Path) -> None:
    kubectl = program("kubectl", "`.ci/run` builds it; Kubernetes 1.21 or newer")
    deploy = tmp_path / "deploy"
    shutil.copytree(DEPLOY, deploy)
    own = {"resources": ["../deploy/base"], "components": [f"../deploy/{name}"]}
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "kustomization.yaml").write_text(yaml.safe_dump(own))
    command = [kubectl, "kustomize", str(tmp_path / "own")]
    rendered = subprocess.run(command, capture_output=True, text=True, check=True)
    assert _by_name(documents(rendered.stdout)) == _by_name(render("base", name))


def test_the_network_policy_is_of_the_pods_and_opens_their_ports_alone() -> None:
    objects = render("base", "routing", "network-policy")
    spec = find(objects, "NetworkPolicy", "kscheduler", "kscheduler")["spec"]
    template = pod_template(objects)
    assert spec["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert sorted(spec["policyTypes"]) == ["Egress", "Ingress"]
    served = {each["name"] for each in template["spec"]["containers"][0]["ports"]}
    assert {port["port"] for rule in spec["ingress"] for port in rule["ports"]} == served
    assert {port["port"] for rule in spec["egress"] for port in rule["ports"]} == {53, 443, 6443}


def test_policies_are_read_and_their_status_is_written() -> None:
    granted = rights(bound_roles(own_objects("metric-policies")))
    assert [(right.group, right.resource, right.verb) for right in granted] == [
        ("kscheduler.io", "metricpolicies", "list"),
        ("kscheduler.io", "metricpolicies", "watch"),
        ("kscheduler.io", "metricpolicies/status", "patch"),
        ("telemetry.intel.com", "taspolicies", "list"),
        ("telemetry.intel.com", "taspolicies", "watch"),
    ]


def test_quotas_are_read_and_their_status_is_written() -> None:
    granted = rights(bound_roles(own_objects("quotas")))
    assert [(right.group, right.resource, right.verb) for right in granted] == [
        ("scheduling.x-k8s.io", "elasticquotas", "list"),
        ("scheduling.x-k8s.io", "elasticquotas", "watch"),
        ("scheduling.x-k8s.io", "elasticquotas/status", "patch"),
    ]


def test_podgroups_are_read_with_their_status_written_and_one_lease_is_read() -> None:
    objects = own_objects("gangs")
    granted = rights(bound_roles(objects))
    assert sorted((right.group, right.resource, right.verb, right.namespace) for right in granted) == [
        ("coordination.k8s.io", "leases", "get", "kube-system"),
        (KUBERNETES_GROUP, "compositepodgroups", "list", ""),
        (KUBERNETES_GROUP, "compositepodgroups", "watch", ""),
        *(
            (group, resource, verb, "")
            for group in (KUBERNETES_GROUP, COSCHEDULING_GROUP)
            for resource, verb in (("podgroups", "list"), ("podgroups", "watch"), ("podgroups/status", "patch"))
        ),
    ]
    [role] = [each for each in objects if each["kind"] == "Role"]
    assert role["rules"][0]["resourceNames"] == [LEASE_NAME]


def test_queues_are_read_and_the_status_of_ours_is_written() -> None:
    granted = rights(bound_roles(own_objects("queues")))
    assert [(right.group, right.resource, right.verb) for right in granted] == [
        ("kscheduler.io", "queues", "list"),
        ("kscheduler.io", "queues", "watch"),
        ("kscheduler.io", "queues/status", "patch"),
        ("scheduling.run.ai", "queues", "list"),
        ("scheduling.run.ai", "queues", "watch"),
    ]


def test_the_webhook_is_served_where_the_apiserver_looks_for_it(tmp_path: Path) -> None:
    objects = render("base", "routing")
    options = parse(pod_template(objects)["spec"]["containers"][0]["args"])
    assert isinstance(options, RunOptions)
    assert options.warnings == ()
    data = find(objects, "ConfigMap", "kscheduler-routing")["data"]
    path = Path(options.routing_config)
    file = tmp_path / path.name
    file.write_text(data[path.name])
    routing = load_routing(str(file), parse_config(scheduler_config(objects)).profiles)
    container = pod_template(objects)["spec"]["containers"][0]
    service = find(objects, "Service", "kscheduler-routing")
    [port] = service["spec"]["ports"]
    assert {each["name"]: each["containerPort"] for each in container["ports"]}[port["targetPort"]] == routing.port
    [webhook] = find(objects, "MutatingWebhookConfiguration", "kscheduler-routing")["webhooks"]
    assert webhook["clientConfig"]["service"] == {
        "namespace": service["metadata"]["namespace"],
        "name": service["metadata"]["name"],
        "path": WEBHOOK_PATH,
        "port": port["port"],
    }
    assert service["spec"]["selector"].items() <= pod_template(objects)["metadata"]["labels"].items()
    mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    volumes = {each["name"]: each for each in pod_template(objects)["spec"]["volumes"]}
    assert volumes[mounts[str(path.parent)]]["configMap"]["name"] == "kscheduler-routing"
    for tls in (routing.cert_file, routing.key_file):
        assert "secret" in volumes[mounts[str(Path(tls).parent)]]


def test_the_webhook_never_keeps_a_pod_from_being_created() -> None:
    [webhook] = find(own_objects("routing"), "MutatingWebhookConfiguration", "kscheduler-routing")["webhooks"]
    assert webhook["failurePolicy"] == "Ignore"
    assert webhook["timeoutSeconds"] <= 2
    [term] = webhook["namespaceSelector"]["matchExpressions"]
    assert (term["key"], term["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
    assert set(term["values"]) == {"kube-system", "kscheduler"}
    [rule] = webhook["rules"]
    assert (rule["resources"], rule["operations"]) == (["pods"], ["CREATE"])


# --- the image --------------------------------------------------------------------------------------------------


def test_the_image_is_of_this_version(container: Object) -> None:
    assert container["image"] == f"kscheduler:{__version__}"


def test_the_image_copies_only_what_the_repository_has_and_the_context_lets_through() -> None:
    top = DEPLOY.parent
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    sources = [
        word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    ]
    allowed = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert sources
    for source in sources:
        assert (top / source).exists(), source
        assert f"!{source}" in allowed, source


def test_the_image_does_not_run_as_root_and_runs_as_the_pods_user(pod: Object) -> None:
    stages = (DEPLOY / "Dockerfile").read_text().split("\nFROM ")
    user = next(line.split()[1] for line in stages[-1].splitlines() if line.startswith("USER "))
    context = pod["securityContext"]
    assert user == f"{context['runAsUser']}:{context['runAsGroup']}"


# --- what the README says ---------------------------------------------------------------------------------------


def test_the_readme_explains_every_right() -> None:
    table = (DEPLOY / "README.md").read_text().partition("What each right is for")[2]
    explained = set()
    for line in table.splitlines():
        cell = line.split("|")[1].strip() if line.startswith("|") else ""
        resources, colon, verbs = cell.partition(":")
        if colon:
            names = [name.split()[0] for name in resources.split(",")]  # "events (events.k8s.io)" is events
            explained |= {(name, verb.strip()) for name in names for verb in verbs.split(",")}
    granted = {(right.resource, right.verb) for right in rights(bound_roles(render("base")))}
    assert explained == granted


def test_the_readme_names_files_that_are_there() -> None:
    text = (DEPLOY / "README.md").read_text()
    for name in ("base/", "replace-kube-scheduler/", "Dockerfile", "configmap.yaml", "deployment.yaml"):
        assert f"`{name}`" in text
        assert list(DEPLOY.rglob(name.rstrip("/"))), name
