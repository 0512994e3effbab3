"""Reads a configuration file as a plain document: YAML or JSON with one mapping, and without duplicate keys."""

from __future__ import annotations

from typing import Any

from kscheduler.config.decode import describe_kind, strict_error
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.input.input_files import read_input
from kscheduler.input.yaml_documents import read_one_yaml

MAX_BYTES = 1 << 20  # an etcd object ends here too; a longer file is not a configuration
OF_KUBERNETES = "apiVersion and kind"  # the fields by which one knows a document of Kubernetes


def read_document(path: str, fields: str = OF_KUBERNETES) -> dict[str, Any]:
    """Return the mapping in the file at `path`. Raises ConfigError with the file's name if there is none.

    `fields` says in that message what the mapping has.
    """
    try:
        data = read_input(path, MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    return parse_document(data, path, fields)


def parse_document(data: bytes, source: str, fields: str = OF_KUBERNETES) -> dict[str, Any]:
    """Return the mapping in `data`; `source` names its origin in messages, and `fields` what the mapping has.

    Raises ConfigError if it is not a mapping.
    """
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{source}: expected a configuration of at most {MAX_BYTES} bytes")
    try:
        document, repeated = read_one_yaml(data)
    except DecodeError as error:
        raise ConfigError(f"{source}: expected YAML or JSON: {error}") from None
    if repeated:
        raise ConfigError(f"{source}: {strict_error(repeated)}")
    if not isinstance(document, dict):
        raise ConfigError(f"{source}: expected a mapping with {fields}, got {describe_kind(document)}")
    return document
