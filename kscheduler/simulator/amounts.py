"""Amounts of resources as the simulator counts them: by name, cpu in thousandths, all else in whole units."""

from __future__ import annotations

from kscheduler.api.objects import Node, Pod, RawQuantity
from kscheduler.api.quantity import parse_milli
from kscheduler.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, node_allocatable, pod_resources
from kscheduler.errors import ConfigError, DecodeError

Amounts = dict[str, int]  # resource name -> amount


def check_quantity(where: str, value: RawQuantity) -> None:
    """Raise ConfigError unless the value is a quantity of zero or more."""
    try:
        amount = parse_milli(value, where)
    except DecodeError as error:
        raise ConfigError(str(error)) from error
    if amount < 0:
        raise ConfigError(f'{where}: expected an amount of 0 or more, got "{value}"')


def pod_amounts(pod: Pod) -> Amounts:
    """Return what a pod takes up on its node, itself included. Raises DecodeError for an unreadable quantity."""
    return {**_named(pod_resources(pod).total), PODS: 1}


def node_amounts(node: Node) -> Amounts:
    """Return a node's allocatable amounts. Raises DecodeError for an unreadable quantity."""
    offered = node_allocatable(node)
    return {**_named(offered.resources), PODS: offered.pods}


def _named(resources: Resources) -> Amounts:
    native = {CPU: resources.cpu_milli, MEMORY: resources.memory, EPHEMERAL_STORAGE: resources.ephemeral_storage}
    return {name: amount for name, amount in native.items() if amount} | dict(resources.scalars)
