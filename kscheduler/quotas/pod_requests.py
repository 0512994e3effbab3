"""What a pod counts for in an ElasticQuota, by CapacityScheduling's rule.

The rule is simpler than the one for room on nodes: containers are added up, each init container by itself may raise the
sum, also one that keeps running, and overhead is added. Pod-level requests and resizes are not considered.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from kscheduler.api.objects import Container, Pod, QuantityMap, RawQuantity
from kscheduler.quotas.amounts import NATIVE, parse_stated

_Items = tuple[tuple[str, RawQuantity], ...]  # resource name, quantity

# Distinct shapes are few; the bound guards against a hostile stream only.
_SHAPES = 16_384


def requested_amounts(pod: Pod) -> Mapping[str, int]:
    """Return what a pod requests, by resource name: cpu in thousandths, others in units. Read it only.

    cpu, memory, ephemeral-storage and pods are always there. A resource of which a container requests zero is named,
    too. Raises DecodeError, naming field and value, for a malformed or negative amount.
    """
    spec = pod.spec
    return _requested(_items_of(spec.containers), _items_of(spec.init_containers or ()), _items(spec.overhead))


def stated_amounts(pod: Pod) -> Mapping[str, int]:
    """Return what a pod requests of the resources that it names, without overhead, in the same units. Read it only."""
    spec = pod.spec
    return _stated(_items_of(spec.containers), _items_of(spec.init_containers or ()))


def _items(quantities: QuantityMap | None) -> _Items:
    return tuple(quantities.items()) if quantities else ()


def _items_of(containers: Iterable[Container]) -> tuple[_Items, ...]:
    return tuple(_items(each.resources.requests) if each.resources else () for each in containers)


@functools.lru_cache(maxsize=_SHAPES)
def _requested(
    containers: tuple[_Items, ...], init_containers: tuple[_Items, ...], overhead: _Items
) -> Mapping[str, int]:
    total = dict.fromkeys(NATIVE, 0)
    for number, items in enumerate(containers):
        _add(total, items, f"spec.containers[{number}].resources.requests")
    for amounts in _of_init_containers(init_containers):
        total |= {name: amount for name, amount in amounts.items() if amount > total.get(name, 0)}
    _add(total, overhead, "spec.overhead")
    return MappingProxyType(total)


@functools.lru_cache(maxsize=_SHAPES)
def _stated(containers: tuple[_Items, ...], init_containers: tuple[_Items, ...]) -> Mapping[str, int]:
    total: dict[str, int] = {}
    for number, items in enumerate(containers):
        _add(total, items, f"spec.containers[{number}].resources.requests")
    for amounts in _of_init_containers(init_containers):
        total |= {name: max(amount, total.get(name, 0)) for name, amount in amounts.items()}
    return MappingProxyType(total)


def _of_init_containers(init_containers: tuple[_Items, ...]) -> Iterator[dict[str, int]]:
    for number, items in enumerate(init_containers):
        yield parse_stated(dict(items), f"spec.initContainers[{number}].resources.requests")


def _add(total: dict[str, int], items: _Items, field: str) -> None:
    for name, amount in parse_stated(dict(items), field).items():
        total[name] = total.get(name, 0) + amount
