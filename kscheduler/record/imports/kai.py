"""A snapshot of KAI-Scheduler: a zip file with all objects of a moment in `snapshot.json`.

Pods wait for the scheduler that they name, `kai-scheduler` mostly: a profile of that name places them. Pod groups
and bind requests of KAI are left out.
"""

from __future__ import annotations

import lzma
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from kscheduler.client.kinds import KAI_QUEUES
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.input.decoding import json_decoder
from kscheduler.record.entries import OBJECTS_ONLY, Header, Readable, Synced
from kscheduler.record.imports.objects import MAX_BYTES, change_of, read_object, too_large
from kscheduler.record.recorded_kinds import KINDS

FILE = "snapshot.json"

Objects = list[dict[str, Any]]


class _Objects(msgspec.Struct, frozen=True, rename="camel"):
    nodes: Objects | None = None
    storage_classes: Objects | None = None
    csi_drivers: Objects | None = msgspec.field(default=None, name="csiDrivers")
    csi_storage_capacities: Objects | None = msgspec.field(default=None, name="csiStorageCapacities")
    persistent_volume_claims: Objects | None = None
    queues: Objects | None = None
    pods: Objects | None = None


class _Snapshot(msgspec.Struct, frozen=True, rename="camel"):
    raw_objects: _Objects


_decode = json_decoder(_Snapshot)

# What reading a zip file raises, with the errors of the libraries that decompress.
_DAMAGED = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, zlib.error, lzma.LZMAError)


class KaiSnapshot:
    """One snapshot; an `AnyRecord` in which everything is there from the start."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises ConfigError if it is no snapshot, or too large."""
        self.path = path
        self.is_cut = False
        self.header = Header(OBJECTS_ONLY, "KAI-Scheduler", 0.0)
        self._objects = self._read()

    def _read(self) -> _Objects:
        try:
            with zipfile.ZipFile(self.path) as archive:
                size = archive.getinfo(FILE).file_size
                if size > MAX_BYTES:
                    raise too_large(f"{self.path}: {FILE}", size)
                with archive.open(FILE) as file:
                    text = file.read(MAX_BYTES)
            return _decode(text).raw_objects
        except KeyError:
            raise ConfigError(f"{self.path}: expected {FILE} in a snapshot of KAI-Scheduler, there is none") from None
        except DecodeError as error:
            raise ConfigError(f"{self.path}: {FILE}: expected a snapshot of KAI-Scheduler: {error}") from None
        except _DAMAGED as error:
            raise ConfigError(f"{self.path}: expected a snapshot of KAI-Scheduler: {error}") from None

    def __iter__(self) -> Iterator[Readable]:
        """Yield the objects, pods last. Raises ConfigError, naming the object, for one that cannot be read."""
        for field in _Objects.__struct_fields__:
            resource = KAI_QUEUES if field == "queues" else KINDS[field.replace("_", "")]
            for number, document in enumerate(getattr(self._objects, field) or ()):
                obj = read_object(f"{self.path}: {FILE}: {resource.plural}[{number}]", resource, document)
                yield change_of(0.0, resource, "ADDED", obj)
        yield Synced(0.0)
