"""From a configuration to extenders, and what it takes away from NodeResourcesFit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kscheduler.config.load import parse_config
from kscheduler.config.types import NodeResourcesFitArgs, SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.extenders.build import build_extenders, without_ignored_resources
from kscheduler.extenders.chain import ExtenderChain
from kscheduler.observability.measurements import Measurements
from kscheduler.testing import make_pod

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def config(*extenders: dict[str, Any], **fields: Any) -> SchedulerConfig:
    return parse_config(json.dumps({**HEAD, "extenders": extenders, **fields}))


def chain(*extenders: dict[str, Any]) -> ExtenderChain:
    built = build_extenders(config(*extenders), Measurements(), lambda: 0.0)
    return ExtenderChain(built, {}, lambda node: None)


def of(resource: str, *, ignored: bool = False, **fields: Any) -> dict[str, Any]:
    managed = [{"name": resource, "ignoredByScheduler": ignored}]
    return {"urlPrefix": "http://host", "filterVerb": "f", "managedResources": managed, **fields}


def test_ignored_resources_take_the_place_of_those_in_the_arguments_of_the_fit() -> None:
    args = {"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/other"]}}
    profiles = [{"schedulerName": "one", "pluginConfig": [args]}, {"schedulerName": "two"}]
    found = without_ignored_resources(config(of("example.com/a", ignored=True), of("example.com/b"), profiles=profiles))
    for profile in found.profiles:
        assert profile.args("NodeResourcesFit", NodeResourcesFitArgs).ignored_resources == ("example.com/a",)


def test_without_ignored_resources_the_fit_stays_as_it_is() -> None:
    given = config(of("example.com/a"))
    assert without_ignored_resources(given) is given


def test_the_field_that_is_wrong_is_named_by_its_place() -> None:
    with pytest.raises(ConfigError, match=r"^extenders\[1\].urlPrefix"):
        chain(of("example.com/a"), of("example.com/b", urlPrefix="host"))


def test_a_pod_is_of_interest_for_what_any_container_asks_for() -> None:
    one = chain(of("example.com/a"), {"urlPrefix": "http://b", "bindVerb": "b"})
    assert one.lane_of(make_pod("plain").req(cpu="1").obj()) == ()
    assert one.lane_of(make_pod("asks").req(**{"example.com/a": "1"}).obj()) == (0,)
    assert len(one.binders) == 1


def test_an_extender_without_managed_resources_is_interested_in_all_pods() -> None:
    every = {"urlPrefix": "http://b", "prioritizeVerb": "p", "weight": 1, "ignorable": True}
    one = chain(every, of("example.com/a"))
    assert one.lane_of(make_pod("plain").obj()) == (1,)
    assert one.lane_of(make_pod("asks").req(**{"example.com/a": "1"}).obj()) == (0, 1)


def test_nodes_are_kept_whole_only_for_extenders_that_are_shown_them() -> None:
    assert chain(of("example.com/a")).needs_nodes
    assert not chain(of("example.com/a", nodeCacheCapable=True)).needs_nodes
    assert not chain({"urlPrefix": "http://b", "bindVerb": "b", "preemptVerb": "p"}).needs_nodes
