"""Files as kubectl prints them are read, and what is wrong in one is named exactly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kscheduler.api.manifest import Manifests, load_manifests
from kscheduler.api.resources import pod_resources
from kscheduler.errors import ConfigError
from kscheduler.testing import make_node, make_pod

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "4"}}}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}


Load = Callable[[str | bytes], Manifests]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Writes a file and reads it; messages name it "cluster"."""

    def write_and_load(text: str | bytes) -> Manifests:
        path = tmp_path / "cluster"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        try:
            return load_manifests(path)
        except ConfigError as error:
            raise ConfigError(str(error).replace(str(path), "cluster")) from error

    return write_and_load


def test_a_list_of_several_kinds_is_read_as_json(load: Load) -> None:
    other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}
    document = {"apiVersion": "v1", "kind": "List", "items": [POD, NODE, SERVICE, other, other], "metadata": {}}
    found = load(msgspec.json.encode(document))
    assert [pod.key for pod in found.pods] == ["shop/p"]
    assert [node.key for node in found.nodes] == ["n1"]
    assert [(kind, item.metadata.name) for kind, item in found.groups] == [("Service", "s")]
    assert found.others_skipped == {"Secret": 2}


def test_the_same_list_is_read_as_yaml(load: Load) -> None:
    document = {"apiVersion": "v1", "kind": "List", "items": [POD, NODE, SERVICE]}
    assert load(msgspec.yaml.encode(document)) == load(msgspec.json.encode(document))


def test_kinds_of_one_struct_are_distinguished(load: Load) -> None:
    items = [
        {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a"}} for kind in ("ReplicaSet", "StatefulSet")
    ]
    found = load(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}))
    assert [kind for kind, _ in found.groups] == ["ReplicaSet", "StatefulSet"]


def test_items_of_a_typed_list_need_no_kind(load: Load) -> None:
    found = load('{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}')
    assert [pod.metadata.name for pod in found.pods] == ["a", "b"]
    assert load('{"apiVersion":"v1","kind":"NodeList","items":null}') == Manifests((), (), {})


def test_documents_follow_each_other_and_empty_ones_are_skipped(load: Load) -> None:
    found = load(
        """
---
# only a comment
---
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Pod
metadata:
  name: p1
  creationTimestamp: 2026-05-01T10:00:00Z
  labels: {day: "2026-05-01"}
spec:
  containers:
  - name: c
    resources: {requests: {cpu: 0.5, memory: 1Gi, example.com/gpu: 1}}
"""
    )
    (pod,) = found.pods
    assert pod.metadata.creation_timestamp == "2026-05-01T10:00:00Z"
    assert pod_resources(pod).total.cpu_milli == 500
    assert [node.key for node in found.nodes] == ["n1"]


def test_an_empty_file_holds_nothing(load: Load) -> None:
    assert load("") == Manifests((), (), {})


def test_kinds_of_the_same_name_in_other_groups_are_others(load: Load) -> None:
    assert load(msgspec.json.encode({**NODE, "apiVersion": "example.com/v1"})).others_skipped == {"Node": 1}


def test_what_is_written_by_us_is_read_back(load: Load) -> None:
    pod = make_pod("p").req(cpu="1").node_affinity_in("zone", ["a"]).toleration("k", operator="Exists").obj()
    node = make_node("n1").capacity(cpu="4", memory="32Gi").taint("k").obj()
    items = [{"apiVersion": "v1", "kind": type(item).__name__, **msgspec.to_builtins(item)} for item in (pod, node)]
    found = load(msgspec.yaml.encode({"apiVersion": "v1", "kind": "List", "items": items}))
    assert (found.pods, found.nodes) == ((pod,), (node,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\napiVersion: v1\nkind: List\nitems:\n"
            "- {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {priority: high}}\n",
            'cluster: document 2, item 0: Pod shop/p: spec.priority: expected int | null, got "high"',
        ),
        (
            "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: many}}}",
            "cluster: expected JSON",
        ),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: many}}",
            'cluster: document 1: Node n1: status.allocatable[cpu]: expected a quantity such as "100m" or "2Gi", '
            'got "many"',
        ),
        ("apiVersion: v1\nkind: Pod\n", "cluster: document 1: Pod (no name): metadata.name: expected a name, got none"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n",
            "cluster: document 1: Pod (no name): metadata.name: expected a name",
        ),
        ("apiVersion: v1\nmetadata: {name: x}", "cluster: document 1: kind: expected a kind such as Pod, Node or List"),
        (
            "kind: Pod\nmetadata: {name: x}",
            "cluster: document 1: apiVersion: expected a version such as v1, got nothing",
        ),
        (
            "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv}\nspec: {capacity: {storage: much}}",
            'cluster: document 1: PersistentVolume pv: spec.capacity[storage]: expected a quantity such as "100m" or '
            '"2Gi", got "much"',
        ),
        (
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: all}",
            'cluster: document 1: PersistentVolumeClaim data: spec.accessModes: expected array | null, got "all"',
        ),
        ("kind: List\napiVersion: v1\nitems: 5", "cluster: document 1: items: expected a list, got 5"),
        ("kind: List\napiVersion: v1\nitems: [7]", "cluster: document 1, item 0: expected a Kubernetes object, got 7"),
        ("kind: List\napiVersion: v1\nitems: [{}]", "cluster: document 1, item 0: kind: expected a kind"),
        ("just text", "cluster: document 1: expected a Kubernetes object, got 'just text'"),
        ("a: [", "cluster: expected YAML: "),
        (b"\xff\xfe\x00", "cluster: expected YAML: "),
        ('{"kind": "Pod",', "cluster: expected JSON: "),
    ],
)
def test_a_fault_is_named_with_file_document_item_object_field_and_value(
    load: Load, text: str | bytes, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert str(caught.value).startswith(message)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: expected a readable file: No such file"):
        load_manifests(tmp_path / "nowhere.yaml")


STORAGE_KINDS = [
    ("v1", "PersistentVolume"),
    ("v1", "PersistentVolumeClaim"),
    ("storage.k8s.io/v1", "StorageClass"),
    ("storage.k8s.io/v1", "CSIDriver"),
    ("storage.k8s.io/v1", "CSINode"),
    ("storage.k8s.io/v1", "CSIStorageCapacity"),
    ("storage.k8s.io/v1", "VolumeAttachment"),
]


def test_storage_is_read_in_the_order_of_the_file(load: Load) -> None:
    items = [{"apiVersion": version, "kind": kind, "metadata": {"name": "x"}} for version, kind in STORAGE_KINDS]
    found = load(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": [POD, *items]}))
    assert [type(item).__name__ for item in found.storage] == [kind for _, kind in STORAGE_KINDS]
    assert {item.metadata.name for item in found.storage} == {"x"}
    assert found.others_skipped == {}


DEVICE_KINDS = ["ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice", "DeviceTaintRule"]


def test_devices_and_claims_are_read_in_the_order_of_the_file(load: Load) -> None:
    version = "resource.k8s.io/v1"
    items = [{"apiVersion": version, "kind": kind, "metadata": {"name": "x"}} for kind in DEVICE_KINDS]
    found = load(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": [POD, *items]}))
    assert [type(item).__name__ for item in found.devices] == DEVICE_KINDS
    assert (found.storage, found.others_skipped) == ((), {})


def test_a_kind_of_another_version_is_skipped(load: Load) -> None:
    found = load('{"apiVersion": "storage.k8s.io/v1beta1", "kind": "CSINode", "metadata": {"name": "n"}}')
    assert (found.storage, found.others_skipped) == ((), {"CSINode": 1})
