"""A configuration file as a plain document: YAML or JSON, one mapping, no key twice.

YAML is read as Kubernetes reads it in what matters here: dates stay text, keys are text, a repeated key is an error.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml
from yaml.reader import ReaderError

from kscheduler.config.decode import describe_kind, strict_error
from kscheduler.errors import ConfigError
from kscheduler.redaction import HIDDEN

MAX_BYTES = 1 << 20  # an etcd object ends here too; a longer file is not a configuration


class _Loader(yaml.SafeLoader):
    """SafeLoader that notes repeated keys and leaves dates alone."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.repeated: list[str] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode):
                if key_node.value in seen:
                    line = key_node.start_mark.line + 1
                    self.repeated.append(f'line {line}: key "{key_node.value}" already set in map')
                seen.add(key_node.value)
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_document(path: str) -> dict[str, Any]:
    """The mapping in the file at `path`; ConfigError, naming the file, if there is none."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    return parse_document(data, path)


def parse_document(data: bytes, source: str) -> dict[str, Any]:
    """The mapping in `data`, which came from `source`; ConfigError if it is none."""
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{source}: expected a configuration of at most {MAX_BYTES} bytes")
    try:
        document, repeated = _parse(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source}: expected UTF-8 text: byte {error.start} is no part of it") from error
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{source}: expected YAML or JSON: {yaml_fault(error)}") from None
    except RecursionError as error:
        raise ConfigError(f"{source}: nested too deeply") from error
    if repeated:
        raise ConfigError(f"{source}: {strict_error(repeated)}")
    if not isinstance(document, dict):
        raise ConfigError(f"{source}: expected a mapping with apiVersion and kind, got {describe_kind(document)}")
    return document


def _parse(text: str) -> tuple[Any, list[str]]:
    loader = _Loader(text)
    try:
        return loader.get_single_data(), loader.repeated
    finally:
        loader.dispose()


def yaml_fault(error: Exception) -> str:
    """What is wrong and where, without what stands there: a password may begin like an alias or a tag."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        problem = _QUOTED.sub(HIDDEN, error.problem or error.context or "malformed")
        return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
    if isinstance(error, ReaderError):
        return f"a character that is not allowed: position {error.position}"
    return "malformed"


_QUOTED = re.compile(r"(['\"])(?!<)[^'\"]{2,}.*\1")  # 'abc', but not '<block end>' or ':' of the parser's own
