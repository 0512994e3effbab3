"""Makes objects from a template file: YAML, with Go template actions where one object differs from the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from perf.workloads.go_template import BadTemplate, GoTemplate, Values

Object = dict[str, Any]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in Python, some thousand objects take minutes

# Kinds that the run names itself, as scheduler_perf does.
NAMED_BY_RUN = ("Namespace", "PersistentVolume", "PersistentVolumeClaim")


class BadObject(ValueError):
    """A template is invalid; the message includes the field's path."""


class ObjectTemplate:
    """A template of objects of one kind; `parameters` are what its actions can name besides `.Index` and `.Count`."""

    def __init__(self, path: Path, parameters: Values | None = None) -> None:
        self._path = path
        try:
            self._template = GoTemplate(path.read_text(), parameters)
        except OSError as error:
            raise BadObject(f"template {path}: {error.strerror}") from None
        except BadTemplate as error:
            raise BadObject(f"template {path}: {error}") from None
        self._first = self._made(0, 1)

    @property
    def api_version(self) -> str:
        return str(self._first["apiVersion"])

    @property
    def kind(self) -> str:
        return str(self._first["kind"])

    @property
    def priority(self) -> int:
        """That of a pod."""
        return int(self._first.get("spec", {}).get("priority", 0))

    @property
    def has_actions(self) -> bool:
        """Whether one object differs from the next."""
        return self._template.has_actions

    def object(self, index: int = 0, count: int = 1) -> Object:
        """One of so many; not to be changed."""
        return self._made(index, count) if self.has_actions else self._first

    def objects(self, count: int) -> list[Object]:
        """All of so many, or the one that all are like."""
        return [self.object(index, count) for index in range(count)] if self.has_actions else [self._first]

    def _made(self, index: int, count: int) -> Object:
        try:
            made = yaml.load(self._template.render(index, count), Loader=_LOADER)
        except BadTemplate as error:
            raise BadObject(f"template {self._path}: {error}") from None
        except yaml.YAMLError as error:
            raise BadObject(f"template {self._path}: no YAML: {error}") from None
        _check(self._path, made)
        return dict(made)


def _check(path: Path, made: object) -> None:
    if not isinstance(made, dict):
        raise BadObject(f"template {path}: expected an object with apiVersion, kind and metadata")
    for field in ("apiVersion", "kind"):
        if not isinstance(made.get(field), str):
            raise BadObject(f"template {path}: {field} is missing")
    if made["kind"] in NAMED_BY_RUN:
        made.setdefault("metadata", {})
    if not isinstance(made.get("metadata"), dict):
        raise BadObject(f"template {path}: expected an object with apiVersion, kind and metadata")
    if made["kind"] not in NAMED_BY_RUN and not made["metadata"].keys() & {"name", "generateName"}:
        raise BadObject(f"template {path}: metadata.name or metadata.generateName is missing")
