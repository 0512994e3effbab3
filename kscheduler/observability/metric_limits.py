"""Parses the flags that disable metrics or restrict label values, to bound the number of time series.

The rules are those of Kubernetes' component-base. A disabled metric is given by its full name. A value that is not
allowed for its label is exposed as "unexpected".
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kscheduler.errors import ConfigError, DecodeError
from kscheduler.input.input_files import read_input

MAX_MANIFEST_BYTES = 1 << 20
_METRIC, _LABEL = "[a-zA-Z_:][a-zA-Z0-9_:]*", "[a-zA-Z_][a-zA-Z0-9_]*"


@dataclass(frozen=True, slots=True)
class MetricLimits:
    disabled: frozenset[str] = frozenset()
    allowed: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)  # metric -> label -> its values


def metric_limits(disabled: Sequence[str], mappings: Sequence[str], manifest: str) -> MetricLimits:
    """Parse `--disabled-metrics`, `--allow-metric-labels` and `--allow-metric-labels-manifest`. Raises ConfigError."""
    for name in disabled:
        if not re.fullmatch(_METRIC, name):
            raise ConfigError(
                f'--disabled-metrics: must be fully qualified metric names matching "^{_METRIC}$", got "{name}"'
            )
    if mappings and manifest:
        raise ConfigError(
            "--allow-metric-labels, --allow-metric-labels-manifest: "
            "cannot specify both allowListMapping and allowListMappingManifest"
        )
    texts = _read_manifest(manifest) if manifest else {}
    for mapping in mappings:
        texts |= _parse_mapping(mapping)
    flag = f"--allow-metric-labels-manifest {manifest}" if manifest else "--allow-metric-labels"
    return MetricLimits(frozenset(disabled), _allowed(texts, flag))


def _allowed(texts: Mapping[str, str], flag: str) -> dict[str, dict[str, frozenset[str]]]:
    allowed: dict[str, dict[str, frozenset[str]]] = {}
    for key, values in texts.items():
        if not re.fullmatch(f"{_METRIC},{_LABEL}", key):
            raise ConfigError(
                f"{flag}: must have keys with format `metricName,labelName` where metricName matches "
                f'"{_METRIC}" and labelName matches "{_LABEL}", got "{key}"'
            )
        metric, _, label = key.partition(",")
        allowed.setdefault(metric, {})[label] = frozenset(values.split(","))
    return allowed


def _parse_mapping(text: str) -> dict[str, str]:
    """Parse key=value pairs like pflag's StringToString: a single pair is taken literally, several are read as CSV.

    Raises ConfigError.
    """
    pairs = [text.strip('"')] if text.count("=") == 1 else next(csv.reader([text]), [])
    parsed = {}
    for pair in pairs:
        key, equals, values = pair.partition("=")
        if not equals:
            raise ConfigError(f"--allow-metric-labels: {pair} must be formatted as key=value")
        parsed[key] = values
    return parsed


def _read_manifest(path: str) -> dict[str, str]:
    from kscheduler.input.yaml_documents import read_one_yaml

    flag = f"--allow-metric-labels-manifest {path}"
    try:
        document = read_one_yaml(read_input(path, MAX_MANIFEST_BYTES)).value
    except OSError as error:
        raise ConfigError(f"{flag}: failed to read allow list manifest: {error.strerror or error}") from error
    except DecodeError as error:
        raise ConfigError(f"{flag}: failed to parse allow list manifest: {error}") from error
    if isinstance(document, dict) and list(document) == ["allowListMapping"]:
        document = document["allowListMapping"]  # the form in kube-scheduler's --help
    document = document or {}
    if not isinstance(document, dict) or not all(isinstance(one, str) for pair in document.items() for one in pair):
        raise ConfigError(f"{flag}: failed to parse allow list manifest: expected a mapping of texts to texts")
    return document
