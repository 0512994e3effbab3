"""Defines the kinds of objects that a record contains, and the name of each in a record.

A kind of Kubernetes goes by its plural, such as `pods`. The others go by plural and group, such as
`queues.kscheduler.io`, as kubectl prints them, since their plurals are not unique.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kscheduler.client.kinds import (
    DEVICES,
    ELASTIC_QUOTAS,
    GROUPS,
    KAI_QUEUES,
    NODES,
    PODS,
    SHARE_QUEUES,
    STORAGE,
    Resource,
)
from kscheduler.client.pod_group_kinds import COMPOSITE_POD_GROUPS, COSCHEDULING_POD_GROUPS, pod_groups
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.input.decoding import json_decoder

_PLURALS = frozenset(each.plural for each in (NODES, *GROUPS, *STORAGE, *DEVICES, PODS))


def recorded_kinds(release: Release) -> tuple[Resource[Any], ...]:
    """Return all kinds in the order in which they are written: pods last, since they refer to the others."""
    groups = (COSCHEDULING_POD_GROUPS, COMPOSITE_POD_GROUPS, pod_groups(release))
    shares = (ELASTIC_QUOTAS, SHARE_QUEUES, KAI_QUEUES)
    return (NODES, *GROUPS, *STORAGE, *DEVICES, *shares, *groups, PODS)


def may_be_unknown(resource: Resource[Any]) -> bool:
    """Return True for a kind that an apiserver need not serve: a custom resource, or one behind a feature gate."""
    return resource in DEVICES or resource.plural not in _PLURALS


def name_of(resource: Resource[Any]) -> str:
    """Return the name of a kind in records, which is the same in all versions of its API."""
    if resource.plural in _PLURALS:
        return resource.plural
    return f"{resource.plural}.{resource.group_version.partition('/')[0]}"


KINDS: dict[str, Resource[Any]] = {name_of(each): each for each in recorded_kinds(DEFAULT_RELEASE)}
DECODERS: dict[str, Callable[[Any], Any]] = {name: json_decoder(each.type) for name, each in KINDS.items()}
