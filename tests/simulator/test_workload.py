"""Generated workloads follow their seed and their shapes; workload files are read strictly."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from kscheduler.api.devices import DeviceClass, ResourceClaimTemplate, ResourceSlice
from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.config.load import default_config
from kscheduler.errors import ConfigError
from kscheduler.scheduler import Options
from kscheduler.simulator.metrics_plan import MetricsPlan, Outage
from kscheduler.simulator.real_scheduler import real_scheduler
from kscheduler.simulator.run import RunSettings, simulate_scenario
from kscheduler.simulator.usage import USAGE_CPU, USAGE_RAMP
from kscheduler.simulator.usage_laws import UsageLaw, parse_share
from kscheduler.simulator.workload import default_workload, generate
from kscheduler.simulator.workload_file import read_workload

COMPLETE = """
seed: 7
nodes:
  count: 40
  zones: [a, b]
  shapes:
  - {name: small, weight: 3, capacity: {cpu: 16, memory: 64Gi}}
  - name: gpu
    capacity: {cpu: "96", memory: 768Gi, example.com/gpu: 8, pods: 30}
    labels: {kind: gpu}
    taints: [{key: gpu, value: "yes", effect: NoSchedule}]
    unschedulable: true
pods:
  count: 500
  arrival: constant:10
  duration: constant:60
  namespace: work
  shapes:
  - {name: web, weight: 9, requests: {cpu: 500m, memory: 1Gi}, priority: 1000, duration: forever}
  - name: job
    requests: {cpu: 4, memory: 0.5Gi}
    nodeSelector: {kind: gpu}
    tolerations: [{key: gpu, operator: Exists}]
"""

USED = """
nodes: {count: 1, shapes: [{name: small, capacity: {cpu: 16}, usage: {cpu: 300m}}]}
pods:
  count: 20
  shapes:
  - {name: job, requests: {cpu: 1}, limits: {cpu: 1500m}, usage: {cpu: 1.8, ramp: 30}}
  - {name: honest, requests: {cpu: 1}}
metrics:
  interval: 20
  outages: [{kind: hang, from: 60, until: 90}]
"""


WITH_DEVICES = """
nodes:
  count: 4
  shapes:
  - name: gpu
    capacity: {cpu: 16}
    devices:
    - {driver: gpu.example.com, count: 2, attributes: {model: large, index: 1, sparse: true}, capacity: {memory: 80Gi}}
    - {driver: gpu.example.com, attributes: {model: small}}
    - {driver: net.example.com}
pods:
  count: 8
  namespace: work
  shapes:
  - {name: web, requests: {cpu: 1}}
  - name: job
    requests: {cpu: 1}
    devices:
    - {driver: gpu.example.com, count: 2, selector: 'device.attributes["gpu.example.com"].model == "large"'}
    - {driver: net.example.com}
"""


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "workload.yaml"
    path.write_text(text)
    return str(path)


def test_the_same_seed_makes_the_same_scenario_and_another_seed_another_one() -> None:
    spec = default_workload(nodes=50, pods=500, arrival="poisson:10", duration="exp:60", seed=1)
    assert generate(spec) == generate(spec)
    assert generate(spec).arrivals != generate(replace(spec, seed=2)).arrivals


def test_more_nodes_do_not_change_the_pods() -> None:
    few = generate(default_workload(nodes=5, pods=100, arrival="poisson:10"))
    many = generate(default_workload(nodes=500, pods=100, arrival="poisson:10"))
    assert few.arrivals == many.arrivals


def test_devices_become_slices_of_each_node_and_claims_of_each_pod(tmp_path: Path) -> None:
    scenario = generate(read_workload(write(tmp_path, WITH_DEVICES)))
    classes = [item.metadata.name for item in scenario.devices if isinstance(item, DeviceClass)]
    assert classes == ["gpu.example.com", "net.example.com"]
    slices = [item for item in scenario.devices if isinstance(item, ResourceSlice)]
    assert Counter(item.spec.node_name for item in slices) == {node.metadata.name: 2 for node in scenario.nodes}
    [gpus, *_] = [item.spec.devices or [] for item in slices]
    assert [device.name for device in gpus] == ["device-0", "device-1", "device-2"]
    assert [sorted(device.attributes or {}) for device in gpus] == [["index", "model", "sparse"]] * 2 + [["model"]]
    assert [list(device.capacity or {}) for device in gpus] == [["memory"], ["memory"], []]
    [template] = [item for item in scenario.devices if isinstance(item, ResourceClaimTemplate)]
    assert (template.key, len(template.spec.spec.devices.requests or [])) == ("work/job", 2)
    entries = {arrival.pod.metadata.name[:3]: arrival.pod.spec.resource_claims for arrival in scenario.arrivals}
    assert entries["web"] is None
    assert [each.resource_claim_template_name for each in entries["job"] or []] == ["job"]


def test_pods_with_devices_are_placed_where_there_are_some(tmp_path: Path) -> None:
    text = WITH_DEVICES.replace("shapes:\n  - {name: web, requests: {cpu: 1}}", "shapes:")
    outcome = simulate_scenario(
        generate(read_workload(write(tmp_path, text))), real_scheduler(default_config(), Options()), RunSettings()
    )
    assert not outcome.violations
    # Two of the large GPUs on each of four nodes: four pods of eight.
    assert outcome.accounting.bound == 4


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "driver: net.example.com}\npods",
            "driver: Net}\npods",
            "devices\\[2\\].driver: expected the name of a driver",
        ),
        ("count: 2, attr", "count: 200, attr", r"devices\[0\].count: expected 1 to 128 devices, got 200"),
        ("count: 2, attr", "count: 128, attr", "devices: expected at most 128 devices of gpu.example.com"),
        ('model == "large"', "model ==", r"devices\[0\].selector: expected a CEL expression"),
        ("memory: 80Gi", "memory: much", r"devices\[0\].capacity\[memory\]"),
    ],
)
def test_mistakes_in_devices_name_their_place(tmp_path: Path, before: str, after: str, message: str) -> None:
    assert before in WITH_DEVICES
    with pytest.raises(ConfigError, match=message):
        read_workload(write(tmp_path, WITH_DEVICES.replace(before, after, 1)))


def test_each_arrival_of_a_shape_with_a_gang_is_a_whole_gang(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "pods: {count: 9, shapes: [{name: train, requests: {cpu: 1}, gang: {size: 4, minimum: 3, within: 6}}]}",
    )
    scenario = generate(read_workload(path))
    assert [(each.key, getattr(each.spec, "min_member", None)) for each in scenario.pod_groups] == [
        ("default/train-0", 3),
        ("default/train-4", 3),
        ("default/train-8", 3),
    ]
    assert [each.at_s for each in scenario.arrivals] == [float(2 * member) for member in range(4) for _ in range(3)]
    first = [each.pod for each in scenario.arrivals if (each.pod.metadata.labels or {})[POD_GROUP_LABEL] == "train-4"]
    assert [pod.metadata.name for pod in first] == [f"train-4-{member}" for member in range(4)]


@pytest.mark.parametrize(
    ("gang", "message"),
    [
        ("{}", "size: expected 1 to 10000 pods, got 0"),
        ("{size: 4, minimum: 5}", "minimum: expected 1 to 4, the gang's size, got 5"),
        ("{size: 4, within: -1}", "within: expected seconds, 0 or more, got -1"),
    ],
)
def test_mistakes_in_gangs_name_their_place(tmp_path: Path, gang: str, message: str) -> None:
    path = write(tmp_path, f"pods: {{shapes: [{{name: train, gang: {gang}}}]}}")
    with pytest.raises(ConfigError) as raised:
        read_workload(path)
    assert str(raised.value) == f"{path}: pods.shapes[0].gang.{message}"


def test_shapes_come_by_their_weights_and_zones_in_turn() -> None:
    nodes = generate(default_workload(nodes=6_000, pods=0)).nodes
    shapes = Counter((node.metadata.labels or {})["node-shape"] for node in nodes)
    assert shapes["general-16"] / 6_000 == pytest.approx(0.55, abs=0.03)
    zones = Counter((node.metadata.labels or {})["topology.kubernetes.io/zone"] for node in nodes)
    assert set(zones.values()) == {2_000}


def test_pods_of_one_shape_share_their_spec() -> None:
    arrivals = generate(default_workload(nodes=1, pods=1_000)).arrivals
    assert len({id(arrival.pod.spec) for arrival in arrivals}) == 8


def test_a_file_says_everything_about_nodes_and_pods(tmp_path: Path) -> None:
    scenario = generate(read_workload(write(tmp_path, COMPLETE)))
    assert len(scenario.nodes) == 40
    gpu = next(node for node in scenario.nodes if (node.metadata.labels or {})["node-shape"] == "gpu")
    assert gpu.spec.unschedulable
    assert gpu.spec.taints is not None
    assert gpu.spec.taints[0].value == "yes"
    assert gpu.status.capacity == {"pods": 30, "cpu": "96", "memory": "768Gi", "example.com/gpu": 8}
    by_shape = {(arrival.pod.metadata.labels or {})["app"]: arrival for arrival in scenario.arrivals}
    web, job = by_shape["web"], by_shape["job"]
    assert (web.runs_s, job.runs_s) == (None, 60.0)
    assert web.pod.spec.priority == 1000
    assert web.pod.metadata.namespace == "work"
    assert job.pod.spec.node_selector == {"kind": "gpu"}
    assert scenario.arrivals[10].at_s == 1.0


def test_a_file_says_what_is_really_used_and_when_no_metrics_are_answered(tmp_path: Path) -> None:
    scenario = generate(read_workload(write(tmp_path, USED)))
    assert scenario.nodes[0].metadata.annotations == {USAGE_CPU: "300m"}
    by_shape = {(arrival.pod.metadata.labels or {})["app"]: arrival.pod for arrival in scenario.arrivals}
    job, honest = by_shape["job"], by_shape["honest"]
    assert job.metadata.annotations == {USAGE_CPU: "1500m", USAGE_RAMP: "30"}
    assert job.spec.containers[0].resources is not None
    assert job.spec.containers[0].resources.limits == {"cpu": "1500m"}
    assert honest.metadata.annotations is None
    assert scenario.metrics == MetricsPlan(20.0, [Outage("hang", 60.0, 90.0)])


def test_what_pods_use_changes_neither_which_come_nor_when() -> None:
    plain = default_workload(pods=200, arrival="poisson:1", duration="exp:60", seed=3)
    law = UsageLaw(cpu=parse_share("uniform:0,2", "cpu"))
    used = replace(plain, pods=replace(plain.pods, shapes=[replace(shape, usage=law) for shape in plain.pods.shapes]))
    pairs = zip(generate(plain).arrivals, generate(used).arrivals, strict=True)
    assert all((a.at_s, a.runs_s, a.pod.key) == (b.at_s, b.runs_s, b.pod.key) for a, b in pairs)


def test_what_a_file_leaves_out_takes_the_defaults(tmp_path: Path) -> None:
    spec = read_workload(write(tmp_path, "pods: {count: 3}"))
    assert (spec.nodes.count, spec.pods.count, spec.pods.arrival.text, spec.seed) == (100, 3, "now", 0)
    assert spec.nodes.zones == ["zone-a", "zone-b", "zone-c"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodez: {}", 'unknown field "nodez"'),
        ("nodes: {count: many}", r'nodes\.count: expected an integer, got the string "many"'),
        ("nodes: {count: -1}", r"nodes\.count: expected zero or more, got -1"),
        ("nodes: {shapes: [{name: a, capacity: {cpu: 1x}}]}", r'nodes\.shapes\[0\]\.capacity\[cpu\]: .*got "1x"'),
        (
            "nodes: {shapes: [{name: a, capacity: {cpu: -1}}]}",
            r'capacity\[cpu\]: expected an amount of 0 or more, got "-1"',
        ),
        ("nodes: {shapes: [{name: a, capacity: {cpu: true}}]}", r"capacity\[cpu\]: expected a quantity.*got true"),
        ("nodes: {shapes: [{name: a, taints: [{key: k, effect: Never}]}]}", r'taints\[0\]\.effect: .*got "Never"'),
        ("nodes: {shapes: [{weight: 2}]}", r"nodes\.shapes\[0\]\.name: expected a name"),
        (
            "pods: {shapes: [{name: a, weight: 0}]}",
            r"pods\.shapes\[0\]\.weight: expected a number above zero, .*, got 0",
        ),
        ("nodes: {shapes: [{name: a, weight: 1e308}]}", r"shapes\[0\]\.weight: .* of at most 1e\+15, got 1e\+308"),
        ("pods: {shapes: [{name: a}, {name: a}]}", r'pods\.shapes\[1\]\.name: "a" is taken by an earlier shape'),
        ("pods: {shapes: [{name: a, nodeselector: {}}]}", r'unknown field "pods\.shapes\[0\]\.nodeselector"'),
        ("pods: {shapes: [{name: a, requests: {cpu: 1}, duration: soon}]}", r"shapes\[0\]\.duration: expected forever"),
        ("pods: {arrival: poison:5}", r'pods\.arrival: expected now.*got "poison:5"'),
        ("nodes: {shapes: [{name: a, usage: {gpu: 1}}]}", r'shapes\[0\]\.usage: expected cpu or memory, got "gpu"'),
        ("nodes: {shapes: [{name: a, usage: {cpu: -1}}]}", r"usage\[cpu\]: expected an amount of 0 or more"),
        ("pods: {shapes: [{name: a, usage: {cpu: high}}]}", r'shapes\[0\]\.usage\.cpu: expected NUMBER.*got "high"'),
        ("pods: {shapes: [{name: a, usage: {ramp: -1}}]}", r"shapes\[0\]\.usage\.ramp: expected seconds.*got -1"),
        ("pods: {shapes: [{name: a, usage: {disk: 1}}]}", r'unknown field "pods\.shapes\[0\]\.usage\.disk"'),
        ("pods: {shapes: [{name: a, limits: {cpu: 1x}}]}", r'shapes\[0\]\.limits\[cpu\]: .*got "1x"'),
        ("metrics: {interval: 0}", r"metrics\.interval: expected seconds above zero, got 0"),
        ("metrics: {outages: [{kind: slow, until: 1}]}", r"outages\[0\]\.kind: expected one of unavailable, hang"),
        ("metrics: {outages: [{kind: hang, from: 2, until: 1}]}", r"outages\[0\]: expected until after from.*from 2"),
        ("pods: [", "expected YAML or JSON"),
        ("- a", "expected a mapping with nodes, pods and seed, got a list"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_by_file_path_and_value(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=message) as caught:
        read_workload(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: cannot be read"):
        read_workload("/tmp/nowhere.yaml")
