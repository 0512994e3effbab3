"""The schema of Queue is about the kind that is followed, and refuses the amounts that we cannot read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kscheduler.api.manifest import load_manifests
from kscheduler.api.objects import ObjectMeta
from kscheduler.api.share_queues import QueueObject, QueueResource, QueueSpec, QueueStatus
from kscheduler.client.kinds import SHARE_QUEUES
from kscheduler.errors import DecodeError
from kscheduler.quotas.queue_tree import build_tree, check_queue
from tests.deploy.manifests import DEPLOY, find, own_objects

CRD = find(own_objects("queues"), "CustomResourceDefinition", "queues.kscheduler.io")
[VERSION] = CRD["spec"]["versions"]
PROPERTIES = VERSION["schema"]["openAPIV3Schema"]["properties"]
TERMS = PROPERTIES["spec"]["properties"]["resources"]["additionalProperties"]["properties"]


def names(struct: type[QueueSpec | QueueStatus | QueueResource]) -> set[str]:
    return set(struct.__struct_encode_fields__)


def test_the_kind_is_the_one_that_is_followed() -> None:
    kind = CRD["spec"]["names"]
    assert (kind["kind"], kind["plural"]) == (SHARE_QUEUES.kind, SHARE_QUEUES.plural)
    assert f"{CRD['spec']['group']}/{VERSION['name']}" == SHARE_QUEUES.group_version
    assert CRD["spec"]["scope"] == "Cluster"
    assert VERSION["subresources"] == {"status": {}}


def test_the_fields_are_those_that_are_read_and_written() -> None:
    assert set(PROPERTIES["spec"]["properties"]) == names(QueueSpec)
    assert set(TERMS) == names(QueueResource)
    assert set(PROPERTIES["status"]["properties"]) == names(QueueStatus)
    assert PROPERTIES["spec"]["properties"]["priority"]["default"] == QueueSpec().priority


@pytest.mark.parametrize("field", ["deserved", "limit", "weight"])
@pytest.mark.parametrize(
    "quantity",
    ["1", "1500m", "2Gi", "1e3", "1E-2", ".5", "7.", "+3", "unlimited", "x", "", "-1", "1 Gi", "1Ki2", "unlimitedx"],
)
def test_amounts_are_accepted_that_can_be_read(field: str, quantity: str) -> None:
    item = QueueObject(ObjectMeta(name="a"), QueueSpec(resources={"cpu": QueueResource(**{field: quantity})}))
    try:
        check_queue(item)
        is_readable = True
    except DecodeError:
        is_readable = False
    assert (re.search(TERMS[field]["pattern"], quantity) is not None) is is_readable


def test_the_example_of_the_readme_is_a_tree(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (DEPLOY / "README.md").read_text(), re.DOTALL)
    [example] = (block for block in blocks if "kind: Queue\n" in block)
    file = tmp_path / "queues.yaml"
    file.write_text(example)
    tree = build_tree(load_manifests(file).queues)
    assert tree.faults == {}
    assert {leaf.name for leaf in tree.leaves} == {"train", "notebooks", "team-b"}
