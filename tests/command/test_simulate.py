"""`kscheduler simulate` from its arguments to its files, with the scheduler of this program."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from kscheduler.client.kinds import PERSISTENT_VOLUME_CLAIMS, RESOURCE_CLAIMS
from kscheduler.command.simulate import run, simulate
from kscheduler.config.load import default_config, parse_config
from kscheduler.errors import ConfigError
from kscheduler.scheduler import Options
from kscheduler.simulator.inputs import build_scenario
from kscheduler.simulator.options import SimulateArguments, read_arguments
from kscheduler.simulator.progress import PlainProgress, progress_on
from kscheduler.simulator.progress_bar import BarProgress
from kscheduler.simulator.real_scheduler import real_scheduler
from kscheduler.simulator.report import Report
from kscheduler.simulator.report_text import to_text
from kscheduler.simulator.run import RunSettings, simulate_scenario
from tests.config.documents import read
from tests.simulator.reports import namespace
from tests.simulator.trace_files import NODES, PODS

LIST = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: n0}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
- apiVersion: v1
  kind: Pod
  metadata: {name: bound, namespace: default}
  spec: {nodeName: n0, containers: [{name: c, resources: {requests: {cpu: "3"}}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: fits, namespace: default}
  spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: waits, namespace: default}
  spec: {containers: [{name: c, resources: {requests: {cpu: "2"}}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: over, namespace: default}
  spec: {nodeName: n0, containers: [{name: c}]}
  status: {phase: Succeeded}
"""

STORAGE = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n0, labels: {zone: a}}, status: {allocatable: {cpu: "4", pods: "9"}}}
- {apiVersion: v1, kind: Node, metadata: {name: n1, labels: {zone: b}}, status: {allocatable: {cpu: "4", pods: "9"}}}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata: {name: chosen, namespace: default}
  spec: {storageClassName: local, resources: {requests: {storage: 1Gi}}}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata: {name: made, namespace: default}
  spec: {resources: {requests: {storage: 1Gi}}}
- apiVersion: storage.k8s.io/v1
  kind: StorageClass
  metadata: {name: local}
  provisioner: kubernetes.io/no-provisioner
  volumeBindingMode: WaitForFirstConsumer
- apiVersion: storage.k8s.io/v1
  kind: StorageClass
  metadata: {name: disks, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
  provisioner: disk.example.com
  volumeBindingMode: WaitForFirstConsumer
- apiVersion: v1
  kind: PersistentVolume
  metadata: {name: on-n1}
  spec:
    capacity: {storage: 5Gi}
    storageClassName: local
    nodeAffinity:
      required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [b]}]}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: chosen, namespace: default}
  spec: {containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: chosen}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: made, namespace: default}
  spec: {containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: made}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: own, namespace: default}
  spec:
    containers: [{name: c}]
    volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {resources: {requests: {storage: 1Gi}}}}}}]
- apiVersion: v1
  kind: Pod
  metadata: {name: none, namespace: default}
  spec: {containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: none}}]}
"""


def arguments(*flags: str) -> SimulateArguments:
    return read_arguments(namespace(*flags))


def write(tmp_path: Path, name: str, text: str) -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_a_generated_workload_is_placed_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output, page = tmp_path / "report.json", tmp_path / "report.html"
    code = simulate(namespace("--nodes", "60", "--pods", "50", "--output", str(output), "--html", str(page)))
    assert code == 0
    report = json.loads(output.read_bytes())
    assert report["pods"]["placed"] == 50
    assert report["attempts"] == {"scheduled": 50}
    assert report["violations"] == []
    assert "placed 50 of 50 pods (100.00 %)" in capsys.readouterr().out
    assert page.read_text().startswith("<!doctype html>")


def test_a_kubernetes_list_is_played_on_its_own_nodes(tmp_path: Path) -> None:
    path, output = write(tmp_path, "all.yaml", LIST), tmp_path / "report.json"
    assert simulate(namespace("--nodes", path, "--pods", path, "--quiet", "--output", str(output))) == 0
    report = json.loads(output.read_bytes())
    assert report["pods"] == {
        "total": 3,
        "existing": 1,
        "placed": 1,
        "unplaced": 1,
        "left_unplaced": 0,
        "finished": 0,
        "running": 2,
    }
    [reason] = report["reasons"]
    assert reason["examples"] == ["default/waits"]
    assert reason["kind"] == "Insufficient cpu"
    assert reason["sample"].startswith("0/1 nodes are available: 1 Insufficient cpu")


def test_where_each_pod_went_is_written_as_a_table(tmp_path: Path) -> None:
    path, table = write(tmp_path, "all.yaml", LIST), tmp_path / "placements.csv"
    assert simulate(namespace("--nodes", path, "--pods", path, "--quiet", "--placements", str(table))) == 0
    rows = {row["pod"]: row for row in csv.DictReader(io.StringIO(table.read_text()))}
    assert {pod: row["node"] for pod, row in rows.items()} == {
        "default/bound": "n0",
        "default/fits": "n0",
        "default/waits": "",
    }
    assert rows["default/waits"]["bound_s"] == ""
    assert rows["default/waits"]["reason"].startswith("0/1 nodes are available: 1 Insufficient cpu")
    assert float(rows["default/fits"]["bound_s"]) >= float(rows["default/fits"]["created_s"])
    assert rows["default/fits"]["reason"] == ""


class ClosedPipe(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_reports_are_written_though_nobody_reads_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "report.json"
    monkeypatch.setattr(sys, "stdout", ClosedPipe())
    with pytest.raises(BrokenPipeError):
        simulate(namespace("--nodes", "1", "--pods", "1", "--output", str(output)))
    assert json.loads(output.read_bytes())["pods"]["placed"] == 1


# A limit on the size of files stands for a full disk.
SMALL_DISK = """
import resource, sys
from kscheduler.command.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
sys.exit(main(sys.argv[1:]))
"""


def test_a_report_for_which_there_is_no_space_is_named_and_no_half_of_it_is_left(tmp_path: Path) -> None:
    output = tmp_path / "report.json"
    arguments = ["simulate", "--nodes", "1", "--pods", "1", "--quiet", "--output", str(output)]
    ended = subprocess.run(
        [sys.executable, "-c", SMALL_DISK, *arguments], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"kscheduler: error: {output}: cannot be written: File too large\n"
    assert not output.exists()


def test_a_table_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    for path, got in ((str(tmp_path), "this is a directory"), ("", "got an empty name")):
        with pytest.raises(ConfigError, match=f"expected a file to write, {got}"):
            simulate(namespace("--nodes", "1", "--pods", "1", "--quiet", "--placements", path))


def test_a_run_may_be_over_in_less_than_any_time_that_can_be_inverted() -> None:
    assert simulate(namespace("--nodes", "1", "--pods", "1", "--bind-latency", "1e-320", "--quiet")) == 0


def test_a_report_below_a_file_is_refused_before_the_run(tmp_path: Path) -> None:
    notes = write(tmp_path, "notes.txt", "")
    with pytest.raises(
        ConfigError, match=rf"report\.json: cannot be written: expected a directory {notes}, there is none"
    ):
        simulate(namespace("--nodes", "nowhere.csv", "--pods", "1", "--quiet", "--output", f"{notes}/report.json"))


def test_a_report_whose_name_no_file_can_have_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written: File name too long"):
        simulate(namespace("--nodes", "nowhere.csv", "--pods", "1", "--quiet", "--html", str(tmp_path / ("x" * 300))))


def test_storage_in_a_list_is_bound_and_made_for_the_pods(tmp_path: Path) -> None:
    path = write(tmp_path, "all.yaml", STORAGE)
    scenario = build_scenario(arguments("--nodes", path, "--pods", path))
    assert scenario.parameters["storage"] == "1 PersistentVolume, 2 PersistentVolumeClaim, 2 StorageClass"
    outcome = simulate_scenario(scenario, real_scheduler(default_config(), Options()), RunSettings())
    assert not outcome.violations
    nodes = {pod.metadata.name: pod.spec.node_name for pod in outcome.cluster.pods.values()}
    assert nodes["chosen"] == "n1"
    assert {name for name, node in nodes.items() if not node} == {"none"}
    claims = outcome.cluster.store(PERSISTENT_VOLUME_CLAIMS).objects
    assert {name: claim.status.phase for name, claim in claims.items()} == dict.fromkeys(
        ("default/chosen", "default/made", "default/own-v"), "Bound"
    )
    assert claims["default/chosen"].spec.volume_name == "on-n1"
    assert claims["default/made"].spec.storage_class_name == "disks"


def test_storage_in_two_files_must_agree(tmp_path: Path) -> None:
    path = write(tmp_path, "all.yaml", STORAGE)
    other = write(tmp_path, "other.yaml", STORAGE.replace("5Gi", "6Gi"))
    assert len(build_scenario(arguments("--nodes", path, "--pods", path)).storage) == 5
    with pytest.raises(ConfigError, match='PersistentVolume "on-n1": the name is used twice'):
        build_scenario(arguments("--nodes", path, "--pods", other))


DEVICES = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n0}, status: {allocatable: {cpu: "4", pods: "9"}}}
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "4", pods: "9"}}}
- apiVersion: resource.k8s.io/v1
  kind: ResourceClaim
  metadata: {name: used, namespace: default}
  spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
  status:
    allocation:
      devices: {results: [{request: gpu, driver: gpu.example.com, pool: n1, device: g1}]}
    reservedFor: [{resource: pods, name: left-out, uid: 0f0f}]
- apiVersion: resource.k8s.io/v1
  kind: ResourceClaimTemplate
  metadata: {name: large, namespace: default}
  spec:
    spec:
      devices:
        requests:
        - name: gpu
          exactly:
            deviceClassName: gpu
            selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].model == "large"'}}]
- apiVersion: resource.k8s.io/v1
  kind: DeviceClass
  metadata: {name: gpu}
  spec:
    selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]
    extendedResourceName: example.com/gpu
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  metadata: {name: n0}
  spec:
    driver: gpu.example.com
    nodeName: n0
    pool: {name: n0, generation: 1, resourceSliceCount: 1}
    devices: [{name: g0, attributes: {model: {string: small}}}]
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  metadata: {name: n1}
  spec:
    driver: gpu.example.com
    nodeName: n1
    pool: {name: n1, generation: 1, resourceSliceCount: 1}
    devices:
    - {name: g0, attributes: {model: {string: large}}}
    - {name: g1, attributes: {model: {string: large}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: a, namespace: default}
  spec: {containers: [{name: c}], resourceClaims: [{name: gpu, resourceClaimTemplateName: large}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: b, namespace: default}
  spec: {containers: [{name: c}], resourceClaims: [{name: gpu, resourceClaimTemplateName: large}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: c, namespace: default}
  spec: {containers: [{name: c}], resourceClaims: [{name: gpu, resourceClaimTemplateName: large}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: d, namespace: default}
  spec: {containers: [{name: c, resources: {requests: {example.com/gpu: 1}, limits: {example.com/gpu: 1}}}]}
"""


def test_devices_in_a_list_are_allocated_to_the_claims_of_the_pods(tmp_path: Path) -> None:
    path = write(tmp_path, "all.yaml", DEVICES)
    scenario = build_scenario(arguments("--nodes", path, "--pods", path))
    counted = "1 DeviceClass, 1 ResourceClaim, 1 ResourceClaimTemplate, 2 ResourceSlice"
    assert scenario.parameters["devices"] == counted
    outcome = simulate_scenario(scenario, real_scheduler(default_config(), Options()), RunSettings())
    # The extended resource of the last one is backed by a device; the claim whose pod is left out holds none.
    assert not outcome.violations
    nodes = {pod.metadata.name: pod.spec.node_name for pod in outcome.cluster.pods.values()}
    assert nodes == {"a": "n1", "b": "n1", "c": "", "d": "n0"}
    claims = outcome.cluster.store(RESOURCE_CLAIMS).objects
    generated = {key.rpartition("-")[0] for key, claim in claims.items() if claim.metadata.owner_references}
    assert generated == {"default/a-gpu", "default/b-gpu", "default/c-gpu", "default/d-extended-resources"}


QUOTAS = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n0}, status: {allocatable: {cpu: "8", memory: 8Gi, pods: "110"}}}
- apiVersion: scheduling.x-k8s.io/v1alpha1
  kind: ElasticQuota
  metadata: {name: quota, namespace: shop}
  spec: {min: {cpu: 2}, max: {cpu: 3}}
- apiVersion: scheduling.x-k8s.io/v1alpha1
  kind: ElasticQuota
  metadata: {name: quota, namespace: lab}
  spec: {min: {cpu: 2}}
"""
KEEPS_QUOTAS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    preFilter: {enabled: [{name: CapacityScheduling}]}
    postFilter: {enabled: [{name: CapacityScheduling}], disabled: [{name: "*"}]}
    reserve: {enabled: [{name: CapacityScheduling}]}
"""


def quota_pods(namespace: str, count: int) -> str:
    return "".join(
        f"- {{apiVersion: v1, kind: Pod, metadata: {{name: p{number}, namespace: {namespace}}}, spec: {{containers: "
        f'[{{name: c, resources: {{requests: {{cpu: "1"}}}}}}], terminationGracePeriodSeconds: 0}}}}\n'
        for number in range(count)
    )


def test_quotas_in_a_list_are_kept_and_what_was_lent_is_taken_back(tmp_path: Path) -> None:
    path = write(tmp_path, "all.yaml", QUOTAS + quota_pods("shop", 4) + quota_pods("lab", 2))
    scenario = build_scenario(arguments("--nodes", path, "--pods", path, "--arrival", "constant:1"))
    assert scenario.parameters["quotas"] == "2 ElasticQuota"
    outcome = simulate_scenario(scenario, real_scheduler(parse_config(KEEPS_QUOTAS), Options()), RunSettings())
    assert not outcome.violations
    bound = sorted(pod.key for pod in outcome.cluster.pods.values() if pod.spec.node_name)
    assert [key.partition("/")[0] for key in bound] == ["lab", "lab", "shop", "shop"]
    unkept, _ = run(arguments("--nodes", path, "--pods", path, "--arrival", "constant:1"))
    assert unkept.notes[-1] == "ElasticQuotas are not kept: no profile enables the plugin CapacityScheduling."
    assert unkept.pods.placed == 6


QUEUES = """
kind: List
apiVersion: v1
items:
- apiVersion: kscheduler.io/v1alpha1
  kind: Queue
  metadata: {name: shop}
  spec: {resources: {cpu: {deserved: 1}}}
- apiVersion: scheduling.run.ai/v2
  kind: Queue
  metadata: {name: lab}
  spec: {resources: {cpu: {quota: 3000, limit: -1}, memory: {limit: -1}, gpu: {limit: -1}}}
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 20}}}
"""
SHARES_BY_QUEUES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    preFilter: {enabled: [{name: Queues}]}
    postFilter: {enabled: [{name: Queues}], disabled: [{name: "*"}]}
"""


BUDGET = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: n0, labels: {kubernetes.io/hostname: n0}}
  status: {allocatable: {cpu: 2, memory: 8Gi, pods: 20}}
- {apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: shop}}}
- apiVersion: policy/v1
  kind: PodDisruptionBudget
  metadata: {name: web, namespace: shop}
  spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
  status: {disruptionsAllowed: 0}
- apiVersion: v1
  kind: Pod
  metadata: {name: web, namespace: shop, labels: {app: web}}
  spec: {nodeName: n0, priority: 0, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
  status: {startTime: "2026-01-02T00:00:00Z"}
- apiVersion: v1
  kind: Pod
  metadata: {name: older, namespace: shop}
  spec: {nodeName: n0, priority: 0, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
  status: {startTime: "2026-01-01T00:00:00Z"}
- apiVersion: v1
  kind: Pod
  metadata: {name: high, namespace: front}
  spec: {priority: 10, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: near-web, namespace: front}
  spec:
    containers: [{name: c}]
    affinity:
      podAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
        - topologyKey: kubernetes.io/hostname
          labelSelector: {matchLabels: {app: web}}
          namespaceSelector: {matchLabels: {team: shop}}
"""


def test_budgets_and_namespaces_in_a_list_are_there(tmp_path: Path) -> None:
    """Of equal pods the younger would be evicted, if a budget did not keep it."""
    path = write(tmp_path, "all.yaml", BUDGET)
    scenario = build_scenario(arguments("--nodes", path, "--pods", path))
    assert scenario.parameters["other objects"] == "1 Namespace, 1 PodDisruptionBudget"
    assert [note.split(" ")[0] for note in scenario.notes] == ["PodDisruptionBudgets"]
    outcome = simulate_scenario(scenario, real_scheduler(default_config(), Options()), RunSettings())
    assert {key: pod.spec.node_name for key, pod in outcome.cluster.pods.items()} == {
        "shop/web": "n0",
        "front/high": "n0",
        "front/near-web": "n0",
    }
    other = write(tmp_path, "other.yaml", BUDGET.replace("team: shop}}", "team: store}}", 1))
    with pytest.raises(ConfigError, match='Namespace "shop": the name is used twice'):
        build_scenario(arguments("--nodes", path, "--pods", other))


def queue_pods(queue: str, count: int) -> str:
    return "".join(
        f"- {{apiVersion: v1, kind: Pod, metadata: {{name: {queue}-{number}, "
        f"labels: {{kscheduler.io/queue: {queue}}}}}, "
        "spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}], terminationGracePeriodSeconds: 0}}\n"
        for number in range(count)
    )


def test_queues_in_a_list_divide_the_nodes(tmp_path: Path) -> None:
    path = write(tmp_path, "all.yaml", QUEUES + queue_pods("shop", 4) + queue_pods("lab", 4))
    scenario = build_scenario(arguments("--nodes", path, "--pods", path, "--arrival", "constant:1"))
    assert scenario.parameters["queues"] == "2"
    outcome = simulate_scenario(scenario, real_scheduler(parse_config(SHARES_BY_QUEUES), Options()), RunSettings())
    assert not outcome.violations
    bound = sorted(pod.metadata.name for pod in outcome.cluster.pods.values() if pod.spec.node_name)
    assert [name.partition("-")[0] for name in bound] == ["lab", "lab", "lab", "shop"]
    unshared, _ = run(arguments("--nodes", path, "--pods", path, "--arrival", "constant:1"))
    assert unshared.notes[-1] == "Queues share nothing: no profile enables the plugin Queues."


def test_a_queue_that_cannot_be_read_is_named_and_one_without_a_place_noted(tmp_path: Path) -> None:
    path = write(tmp_path, "all.yaml", QUEUES.replace("deserved: 1", "deserved: lots"))
    with pytest.raises(ConfigError, match=r'queue shop: spec.resources\[cpu\].deserved: expected .* got "lots"'):
        build_scenario(arguments("--nodes", path, "--pods", "0"))
    path = write(
        tmp_path,
        "all.yaml",
        QUEUES.replace("spec: {resources: {cpu: {des", "spec: {parent: gone, resources: {cpu: {des"),
    )
    config = write(tmp_path, "config.yaml", SHARES_BY_QUEUES)
    report, _ = run(arguments("--nodes", path, "--pods", "0", "--config", config))
    assert any(note.startswith("A queue cannot be used: queue shop: ") for note in report.notes)


def test_a_quota_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "all.yaml", QUOTAS.replace("max: {cpu: 3}", "max: {cpu: lots}"))
    with pytest.raises(ConfigError, match=r'ElasticQuota "shop/quota": spec.max\[cpu\]: expected a quantity'):
        build_scenario(arguments("--nodes", path, "--pods", "0"))


def test_a_pod_that_ends_leaves_its_devices_to_the_next(tmp_path: Path) -> None:
    path = write(tmp_path, "all.yaml", DEVICES)
    scenario = build_scenario(arguments("--nodes", path, "--pods", path, "--duration", "constant:60"))
    outcome = simulate_scenario(scenario, real_scheduler(default_config(), Options()), RunSettings())
    assert not outcome.violations
    assert outcome.accounting.bound == 4
    assert list(outcome.cluster.store(RESOURCE_CLAIMS).objects) == ["default/used"]


POLICIES = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n0, labels: {heat: "9"}}, status: {allocatable: {pods: "9"}}}
- {apiVersion: v1, kind: Node, metadata: {name: n1, labels: {heat: "1"}}, status: {allocatable: {pods: "9"}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2, labels: {heat: "5"}}, status: {allocatable: {pods: "9"}}}
- apiVersion: kscheduler.io/v1alpha1
  kind: MetricPolicy
  metadata: {name: hot}
  spec: {filter: [{metric: heat, operator: GreaterThan, value: 8}]}
- apiVersion: telemetry.intel.com/v1alpha1
  kind: TASPolicy
  metadata: {name: cool, namespace: default}
  spec: {strategies: {dontschedule: {rules: [{metricname: heat, operator: GreaterThan, target: 4}]}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: hot, labels: {kscheduler.io/metric-policy: hot}}
  spec: {containers: [{name: c}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: cool, labels: {telemetry-policy: cool}}
  spec: {containers: [{name: c}]}
"""
FOLLOWS = """
profiles:
- plugins: {multiPoint: {enabled: [{name: MetricPolicy}]}}
  pluginConfig:
  - name: MetricPolicy
    args:
      sources: [{name: nodes, nodeFields: {}}]
      metrics: [{name: heat, source: nodes, label: heat}]
      policyObjects: true
      tasPolicies: true
"""


def test_policies_in_a_list_are_objects_in_the_cluster(tmp_path: Path) -> None:
    path = write(tmp_path, "all.yaml", POLICIES)
    scenario = build_scenario(arguments("--nodes", path, "--pods", path))
    assert scenario.parameters["policies"] == "1 MetricPolicy, 1 TASPolicy"
    outcome = simulate_scenario(scenario, real_scheduler(read(FOLLOWS), Options()), RunSettings())
    assert {pod.metadata.name: pod.spec.node_name for pod in outcome.cluster.pods.values()} == {
        "hot": "n0",
        "cool": "n1",
    }


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("value: 8", "value: much", r'MetricPolicy "/hot": spec\.filter\[0\]\.value: .*much'),
        ("operator: GreaterThan, target: 4", "operator: Above, target: 4", r'TASPolicy "default/cool": spec\..*Above'),
        ("name: hot}\n  spec: {filter", "namespace: x}\n  spec: {filter", r"metadata\.name: expected a name"),
    ],
)
def test_an_invalid_policy_in_a_list_is_refused_by_field(tmp_path: Path, before: str, after: str, fault: str) -> None:
    path = write(tmp_path, "all.yaml", POLICIES.replace(before, after))
    with pytest.raises(ConfigError, match=fault):
        build_scenario(arguments("--nodes", path, "--pods", "1"))


def test_a_trace_is_played_with_its_gpus(tmp_path: Path) -> None:
    nodes, pods = write(tmp_path, "nodes.csv", NODES), write(tmp_path, "pods.csv", PODS)
    output = tmp_path / "report.json"
    assert simulate(namespace("--nodes", nodes, "--pods", pods, "--quiet", "--output", str(output))) == 0
    report = json.loads(output.read_bytes())
    assert (report["pods"]["placed"], report["pods"]["finished"], report["simulated_s"]) == (3, 2, 800.0)
    gpu = next(each for each in report["resources"] if each["name"] == "alibabacloud.com/gpu-milli")
    assert (gpu["capacity"], gpu["peak"]) == (8000.0, 2460 / 8000)
    assert any("a share must fit into a single device is not modelled" in note for note in report["notes"])


def test_numbers_and_files_may_be_mixed(tmp_path: Path) -> None:
    nodes = write(tmp_path, "nodes.csv", NODES)
    scenario = build_scenario(arguments("--nodes", nodes, "--pods", "5", "--arrival", "constant:1", "--seed", "4"))
    assert (len(scenario.nodes), len(scenario.arrivals), scenario.arrivals[4].at_s) == (2, 5, 4.0)
    assert scenario.parameters["nodes"] == "2 from nodes.csv"


def test_flags_beat_the_workload_file(tmp_path: Path) -> None:
    workload = write(tmp_path, "w.yaml", "{seed: 1, nodes: {count: 3}, pods: {count: 4, arrival: 'constant:1'}}")
    from_file = build_scenario(arguments("--workload", workload))
    assert (len(from_file.nodes), len(from_file.arrivals), from_file.arrivals[3].at_s) == (3, 4, 3.0)
    beaten = build_scenario(arguments("--workload", workload, "--pods", "2", "--arrival", "constant:10"))
    assert (len(beaten.nodes), len(beaten.arrivals), beaten.arrivals[1].at_s) == (3, 2, 0.1)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--nodes", "many"], '--nodes: expected a whole number of zero or more, or a file named .*, got "many"'),
        (["--nodes", "99999999999999999999"], "--nodes: expected at most 1,000,000 nodes, got 99,999,"),
        (["--pods", "-3"], '--pods: expected a whole number of zero or more, .*, got "-3"'),
        (["--nodes", "nowhere.csv"], "nowhere.csv: cannot be read"),
        (["--pods", "nowhere.yaml"], "nowhere.yaml: expected a readable file"),
        (["--arrival", "sometimes"], "--arrival: expected now, constant:RATE"),
        (["--speedup", "0"], "--speedup: expected a number above 0, got 0"),
        (["--max-time", "nan"], "--max-time: expected a number above 0, got nan"),
        (["--bind-latency", "-1"], "--bind-latency: expected a number of at least 0, got -1"),
        (["--bind-latency", "31"], "--bind-latency: expected a number of at most 30, got 31"),
        (["--bind-concurrency", "0"], "--bind-concurrency: expected a number of at least 1, got 0"),
        (["--html", "/nowhere/at/all.html"], "/nowhere/at/all.html: cannot be written"),
        (["--config", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
    ],
)
def test_a_wrong_flag_is_named_with_what_was_expected(flags: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        simulate(namespace("--nodes", "1", "--pods", "1", *flags))


def test_a_trace_brings_its_own_times(tmp_path: Path) -> None:
    pods = write(tmp_path, "pods.csv", PODS)
    with pytest.raises(ConfigError, match="--arrival: a trace brings its own times"):
        build_scenario(arguments("--pods", pods, "--arrival", "now"))


def test_a_pod_on_a_node_that_is_not_there_is_named(tmp_path: Path) -> None:
    pods = write(tmp_path, "all.yaml", LIST)
    with pytest.raises(ConfigError, match=r'pod "default/bound": spec\.nodeName: "n0" is none'):
        build_scenario(arguments("--nodes", "2", "--pods", pods))


@pytest.mark.slow
def test_two_processes_with_different_hash_seeds_write_the_same_report(tmp_path: Path) -> None:
    reports = []
    for hash_seed in ("1", "2"):
        output = tmp_path / f"{hash_seed}.json"
        flags = ["simulate", "--nodes", "30", "--pods", "600", "--arrival", "poisson:50", "--duration", "exp:60"]
        subprocess.run(
            [sys.executable, "-m", "kscheduler", *flags, "--quiet", "--output", str(output)],
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        report = json.loads(output.read_bytes())
        del report["machine"]
        reports.append(json.dumps(report))
    assert reports[0] == reports[1]


# --- progress -----------------------------------------------------------------------------------------------------


def test_progress_is_plain_lines_away_from_a_terminal() -> None:
    out = io.StringIO()
    progress = progress_on(10, out)
    assert isinstance(progress, PlainProgress)
    progress._next_s = 0.0
    progress.update(arrived=4, bound=3, pending=1, virtual_s=60.0)
    progress.update(arrived=5, bound=4, pending=1, virtual_s=61.0)
    assert out.getvalue() == "simulating: 4 of 10 pods arrived, 3 placed, 1 waiting, 1 min of virtual time\n"


def test_progress_is_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # a dumb one, as in CI, cannot move its cursor
    out = io.StringIO()
    with BarProgress(10, Console(file=out, force_terminal=True, width=100)) as progress:
        progress.update(arrived=4, bound=3, pending=1, virtual_s=60.0)
    assert "3/10" in out.getvalue()


def test_a_plugin_that_cannot_be_made_is_a_fault_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing_plugin.py").write_text(
        "class P:\n name = 'P'\n def __init__(self, args, handle): raise RuntimeError('no licence')\n"
        " def score(self, state, pod, node): return 0, None\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    config = tmp_path / "scheduler.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {score: {enabled: [{name: 'failing_plugin:P'}]}}}]\n"
    )
    with pytest.raises(ConfigError, match=rf'{config}: .*plugin "failing_plugin:P": RuntimeError: no licence'):
        simulate(namespace("--config", str(config), "--nodes", "1", "--pods", "1"))


def run_with_plugin(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    """Simulate two pods with a plugin from outside, whose methods `body` defines."""
    methods = "".join(f" {line}\n" for line in body.splitlines())
    (tmp_path / "plugin_of_a_run.py").write_text(
        f"from kscheduler.framework import unschedulable\n"
        f"class P:\n name = 'P'\n def __init__(self, args, handle): pass\n{methods}"
    )
    monkeypatch.delitem(sys.modules, "plugin_of_a_run", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = tmp_path / "scheduler.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {multiPoint: {enabled: [{name: 'plugin_of_a_run:P'}]}}}]\n"
    )
    report, _ = run(arguments("--config", str(config), "--nodes", "1", "--pods", "2"))
    return report


@pytest.mark.parametrize("answer", ["unschedulable('later')", "5"])
def test_pods_that_a_pre_enqueue_plugin_holds_back_have_that_as_their_reason(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = run_with_plugin(f"def pre_enqueue(self, pod): return {answer}", tmp_path, monkeypatch)
    assert report.violations == []
    [reason] = report.reasons
    assert (reason.pods, reason.kind) == (2, 'held back by PreEnqueue plugin "P"')


def test_a_simulation_whose_bindings_all_fail_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "async def pre_bind(self, state, pod, node_name): raise ValueError('no')"
    report = run_with_plugin(body, tmp_path, monkeypatch)
    [reason] = report.reasons
    assert (reason.pods, reason.kind) == (2, 'running PreBind plugin "P": ValueError: no')


def test_control_characters_of_a_plugins_reason_are_shown_as_escapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "def filter(self, state, pod, node): return unschedulable('\\x1b[2Jgone\\nnext')"
    assert "\\u001b[2Jgone\\u000anext" in to_text(run_with_plugin(body, tmp_path, monkeypatch))


def test_a_usage_that_cannot_be_read_is_named_before_anything_runs(tmp_path: Path) -> None:
    text = """
kind: Pod
apiVersion: v1
metadata: {name: a, annotations: {kscheduler.io/usage-cpu: lots}}
spec: {containers: [{name: c}]}
"""
    with pytest.raises(ConfigError, match=r'annotation kscheduler.io/usage-cpu: .* got "lots"'):
        build_scenario(arguments("--nodes", "1", "--pods", write(tmp_path, "pods.yaml", text)))
