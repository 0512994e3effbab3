"""The environments in which releases of Kubernetes evaluate selectors of devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kscheduler.cel import types
from kscheduler.cel.functions import Function, merged
from kscheduler.cel.library import (
    conversions,
    formats,
    lists,
    networks,
    operators,
    optionals,
    quantities,
    regex,
    semvers,
    strings,
    times,
    urls,
)
from kscheduler.cel.types import Type, map_of
from kscheduler.config.releases import Release

_LIBRARIES = (
    operators.FUNCTIONS,
    conversions.FUNCTIONS,
    strings.FUNCTIONS,
    regex.FUNCTIONS,
    times.FUNCTIONS,
    urls.FUNCTIONS,
    lists.FUNCTIONS,
    optionals.FUNCTIONS,
    quantities.FUNCTIONS,
    networks.FUNCTIONS,
    formats.FUNCTIONS,
    semvers.FUNCTIONS,
)

TYPE_NAMES: Final[Mapping[str, Type]] = {
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "google.protobuf.Duration": types.DURATION,
    "google.protobuf.Timestamp": types.TIMESTAMP,
    "int": types.INT,
    "list": types.list_of(types.parameter("A")),
    "map": types.map_of(types.parameter("A"), types.parameter("B")),
    "net.CIDR": types.CIDR,
    "net.IP": types.IP,
    "null_type": types.NULL,
    "optional_type": types.OPTIONAL,
    "string": types.STRING,
    "type": types.TYPE,
    "uint": types.UINT,
}


@dataclass(frozen=True, slots=True, eq=False)
class Environment:
    """What an expression can use, and what the device is made of."""

    functions: Mapping[str, Function]
    fields: Mapping[str, Type]  # of the device
    attribute: Type  # of values of attributes; they are only known when a selector is evaluated
    has_list_attributes: bool  # whether an attribute may have several values
    checks_optionals: bool  # whether or and orValue refuse what is no optional, instead of returning it
    has_later_costs: bool  # of cel-go 0.29

    @property
    def variables(self) -> Mapping[str, Type]:
        return {"device": types.DEVICE}


def _environment(attribute: Type, *functions: Function, has_lists: bool, is_newer: bool) -> Environment:
    nested = map_of(types.STRING, map_of(types.STRING, attribute))
    return Environment(
        functions=merged((*_LIBRARIES, functions)),
        fields={
            "driver": types.STRING,
            "allowMultipleAllocations": types.BOOL,
            "attributes": nested,
            "capacity": map_of(types.STRING, map_of(types.STRING, types.QUANTITY)),
        },
        attribute=attribute,
        has_list_attributes=has_lists,
        checks_optionals=is_newer,
        has_later_costs=is_newer,
    )


_FUNCTIONS_1_36 = lists.INCLUDES_FEW, lists.UNLIMITED_RANGE
KUBERNETES_1_36: Final = _environment(types.ANY, *_FUNCTIONS_1_36, has_lists=False, is_newer=False)
KUBERNETES_1_36_WITH_LISTS: Final = _environment(types.DYN, *_FUNCTIONS_1_36, has_lists=True, is_newer=False)
KUBERNETES_1_37: Final = _environment(types.DYN, lists.INCLUDES, lists.LIMITED_RANGE, has_lists=True, is_newer=True)


def environment_of(release: Release) -> Environment:
    """Return the environment of a release."""
    if release.selects_by_list_attributes:
        return KUBERNETES_1_37
    return KUBERNETES_1_36_WITH_LISTS if release.has("DRAListTypeAttributes") else KUBERNETES_1_36
