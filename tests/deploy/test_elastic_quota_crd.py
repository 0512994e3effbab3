"""The schema of ElasticQuota is about the kind that is followed, and refuses the amounts that we cannot read."""

from __future__ import annotations

import re

import pytest

from kscheduler.client.kinds import ELASTIC_QUOTAS
from kscheduler.errors import DecodeError
from kscheduler.quotas.amounts import parse_stated
from tests.deploy.manifests import find, own_objects

CRD = find(own_objects("quotas"), "CustomResourceDefinition", "elasticquotas.scheduling.x-k8s.io")
[VERSION] = CRD["spec"]["versions"]
PROPERTIES = VERSION["schema"]["openAPIV3Schema"]["properties"]


def test_the_kind_is_the_one_that_is_followed() -> None:
    names = CRD["spec"]["names"]
    assert (names["kind"], names["plural"]) == (ELASTIC_QUOTAS.kind, ELASTIC_QUOTAS.plural)
    assert f"{CRD['spec']['group']}/{VERSION['name']}" == ELASTIC_QUOTAS.group_version
    assert CRD["spec"]["scope"] == "Namespaced"
    assert VERSION["subresources"] == {"status": {}}


@pytest.mark.parametrize("field", ["min", "max"])
@pytest.mark.parametrize(
    "quantity", ["1", "1500m", "2Gi", "1e3", "1E-2", ".5", "7.", "+3", "x", "", "-1", "1 Gi", "1Ki2"]
)
def test_amounts_are_accepted_that_can_be_read(field: str, quantity: str) -> None:
    pattern = PROPERTIES["spec"]["properties"][field]["additionalProperties"]["pattern"]
    try:
        parse_stated({"cpu": quantity}, "spec")
        is_readable = True
    except DecodeError:
        is_readable = False
    assert (re.search(pattern, quantity) is not None) is is_readable
