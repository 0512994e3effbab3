"""The schema of MetricPolicy says of the spec what our own structs and limits say."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import inspect

from kscheduler.client.kinds import METRIC_POLICIES
from kscheduler.config import metric_policy_validation as limits
from kscheduler.config.duration import Duration
from kscheduler.config.metric_policy import FilterRule, PolicySpec
from kscheduler.config.quantity import MAX_LENGTH, PATTERN
from tests.deploy.manifests import Object, find, own_objects

CRD = find(own_objects("metric-policies"), "CustomResourceDefinition", "metricpolicies.kscheduler.io")
[VERSION] = CRD["spec"]["versions"]
SPEC = VERSION["schema"]["openAPIV3Schema"]["properties"]["spec"]
ITEMS = {"score": 16, "filter": 16, "relaxation": 8, "anyOf": 16, "loosen": 16, "drop": 16}


def test_the_kind_is_the_one_that_is_followed() -> None:
    names = CRD["spec"]["names"]
    assert (names["kind"], names["plural"]) == (METRIC_POLICIES.kind, METRIC_POLICIES.plural)
    assert f"{CRD['spec']['group']}/{VERSION['name']}" == METRIC_POLICIES.group_version
    assert CRD["spec"]["scope"] == "Namespaced"
    assert VERSION["subresources"] == {"status": {}}


def _compare(schema: Object, kind: Any, path: str, *, is_nested: bool = False) -> list[str]:
    """Where they differ: fields that one of them lacks, and types."""
    kind = _without_none(kind)
    if isinstance(kind, inspect.StructType):
        fields = {field.encode_name: field.type for field in kind.fields}
        if is_nested and kind.cls is FilterRule:
            fields.pop("anyOf")  # a schema cannot contain itself; nor is it allowed
        if set(schema["properties"]) != set(fields):
            return [f"{path}: {sorted(set(schema['properties']) ^ set(fields))}"]
        found: list[str] = []
        for name, field in fields.items():
            found += _compare(schema["properties"][name], field, f"{path}.{name}", is_nested=is_nested)
        return found
    if isinstance(kind, inspect.VarTupleType):
        name = path.rpartition(".")[2]
        wrong = [] if schema["maxItems"] == ITEMS[name] else [f"{path}: maxItems"]
        return wrong + _compare(schema["items"], kind.item_type, path, is_nested=name == "anyOf")
    return [] if schema.get("type") == _type_name(kind) else [f"{path}: {schema.get('type')}, not {_type_name(kind)}"]


def _without_none(kind: Any) -> Any:
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        members = [member for member in kind.types if not isinstance(member, inspect.NoneType)]
        return _without_none(members[0]) if len(members) == 1 else kind
    return kind


def _type_name(kind: Any) -> str | None:
    if isinstance(kind, inspect.CustomType):
        assert kind.cls is Duration
        return "string"
    names: dict[Any, str | None] = {inspect.StrType: "string", inspect.IntType: "integer", inspect.FloatType: "number"}
    return {**names, inspect.BoolType: "boolean", inspect.UnionType: None}[type(kind)]  # a quantity has no type


def test_the_schema_has_the_fields_of_the_structs() -> None:
    assert _compare(SPEC, inspect.type_info(PolicySpec), "spec") == []


def test_limits_are_those_of_the_validation() -> None:
    assert ITEMS["score"] == ITEMS["filter"] == ITEMS["anyOf"] == ITEMS["drop"] == limits.MAX_RULES
    assert ITEMS["relaxation"] == limits.MAX_STEPS
    score = SPEC["properties"]["score"]["items"]["properties"]
    assert score["weight"]["maximum"] == limits.MAX_WEIGHT
    assert score["neutralScore"]["maximum"] == limits.MAX_SCORE
    assert score["deviation"]["properties"]["margin"]["maximum"] == limits.MAX_FACTOR


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("score.goal", limits.GOALS),
        ("score.fallback", limits.FALLBACKS),
        ("filter.operator", limits.OPERATORS),
        ("filter.fallback", limits.FALLBACKS),
        ("filter.anyOf.operator", limits.OPERATORS),
        ("planB.action", limits.ACTIONS),
    ],
)
def test_enumerations_are_those_of_the_validation(path: str, values: tuple[str, ...]) -> None:
    schema = SPEC
    for name in path.split("."):
        schema = schema["properties"][name]
        schema = schema.get("items", schema)
    assert tuple(schema["enum"]) == values


def test_quantities_have_our_pattern_everywhere() -> None:
    found = [schema for schema in _all_schemas(SPEC) if schema.get("x-kubernetes-int-or-string")]
    assert len(found) > 5
    assert {(schema["pattern"], schema["maxLength"]) for schema in found} == {(f"^{PATTERN}$", MAX_LENGTH)}


def _all_schemas(schema: Object) -> list[Object]:
    parts = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    return [schema, *(found for part in parts for found in _all_schemas(part))]


def test_every_field_is_described() -> None:
    for name, schema in SPEC["properties"].items():
        assert schema["description"].strip().endswith("."), name
