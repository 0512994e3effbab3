"""Changes made from objects of other programs, with only what a record may contain."""

from __future__ import annotations

from typing import Any

from kscheduler.api.objects import APIObject
from kscheduler.client.kinds import Resource
from kscheduler.config.releases import RELEASES
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.input.decoding import convert
from kscheduler.record.entries import Change, ChangeType
from kscheduler.record.kept_fields import encoded
from kscheduler.record.recorded_kinds import KINDS, name_of, recorded_kinds

MAX_BYTES = 256 << 20  # of a file that must be in memory as a whole

# (group and version, kind) -> the kind, of all that a record contains
RESOURCES: dict[tuple[str, str], Resource[Any]] = {
    (each.group_version, each.kind): KINDS[name_of(each)]
    for release in RELEASES.values()
    for each in recorded_kinds(release)
}


def kind_of(document: object) -> Resource[Any] | None:
    """Return the kind of an object as dicts; None if a record has no objects of this kind."""
    if not isinstance(document, dict):
        return None
    version, kind = document.get("apiVersion"), document.get("kind")
    return RESOURCES.get((version, kind)) if isinstance(version, str) and isinstance(kind, str) else None


def read_object(where: str, resource: Resource[Any], document: object) -> APIObject:
    """Return an object from dicts. Raises ConfigError, which names `where`."""
    try:
        obj: APIObject = convert(document, resource.type)
    except DecodeError as error:
        raise ConfigError(f"{where}: expected an object of {resource.plural}: {error}") from None
    if not obj.metadata.name:
        raise ConfigError(f"{where}: expected an object of {resource.plural} with a name, got none")
    return obj


def change_of(at: float, resource: Resource[Any], kind: ChangeType, obj: APIObject) -> Change:
    return Change(at, name_of(resource), kind, encoded(obj))


def too_large(path: object, size: int) -> ConfigError:
    return ConfigError(f"{path}: expected at most {MAX_BYTES >> 20} MiB, got {size >> 20:,} MiB")
