"""Validates the arguments of the plugin MetricPolicy, by field: sources, metrics, and the policies that use them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from kscheduler.config.duration import Duration
from kscheduler.config.field_errors import duplicate, forbidden, invalid, not_supported, required, wrong_name
from kscheduler.config.metric_policy import Clamp, Endpoint, Metric, MetricPolicyArgs, Source
from kscheduler.config.metric_policy_validation import (
    MAX_FACTOR,
    in_range,
    not_negative,
    positive,
    quantity_faults,
    validate_policy,
)
from kscheduler.config.quantity import parse_exact
from kscheduler.config.selector_text import selector_text_fault
from kscheduler.input.names import qualified_name_faults
from kscheduler.input.redaction import SecretURL

LEAST_INTERVAL = Duration.of_seconds(0.1)  # a source is no worse off than with a busy dashboard
WATCHER_METRICS = ("CPU", "Memory", "Bandwidth", "Storage", "Energy")
WATCHER_OPERATORS = ("AVG", "STD", "Latest")
NODE_RESOURCES = ("cpu", "memory")

_ALLOWED: Mapping[str, tuple[str, ...]] = {  # kind of a source -> the fields that its metrics may have
    "prometheus": ("query", "node_label"),
    "load_watcher": ("metric", "operator"),
    "resource_metrics": ("resource",),
    "custom_metrics": ("metric", "selector"),
    "external_metrics": ("metric", "selector", "namespace", "node_label"),
    "node_fields": ("label", "annotation", "is_time"),
}
# Fields -> their names in the file: the kinds of a source, and what only metrics of some kinds have.
KINDS: Mapping[str, str] = {
    field.name: field.encode_name for field in msgspec.structs.fields(Source) if field.name in _ALLOWED
}
_FIELDS: Mapping[str, str] = {
    field.name: field.encode_name
    for field in msgspec.structs.fields(Metric)
    if any(field.name in allowed for allowed in _ALLOWED.values())
}
_METRIC_NAME = re.compile(r"[A-Za-z0-9_]([-A-Za-z0-9_.:/]{0,251}[A-Za-z0-9_])?", re.ASCII)
_METRIC_NAME_RULE = "must be letters, digits, '_', and within also '-', '.', ':' and '/', at most 253 of them"
_PROMETHEUS_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_HEADER_NAME = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[ \t!-~\x80-\uffff]*")


def validate_metric_policy_args(path: str, args: MetricPolicyArgs) -> list[str]:
    kinds = {source.name: kind_of(source) for source in args.sources}  # name of a source -> its kind, "" if unclear
    metrics = {metric.name for metric in args.metrics}
    faults = _once(f"{path}.sources", [source.name for source in args.sources])
    for index, source in enumerate(args.sources):
        faults += _validate_source(f"{path}.sources[{index}]", source)
    faults += _once(f"{path}.metrics", [metric.name for metric in args.metrics])
    for index, metric in enumerate(args.metrics):
        faults += _validate_metric(f"{path}.metrics[{index}]", metric, kinds)
    faults += _once(f"{path}.policies", [policy.name for policy in args.policies])
    for index, policy in enumerate(args.policies):
        child = f"{path}.policies[{index}]"
        faults += wrong_name(f"{child}.name", policy.name)
        faults += validate_policy(child, policy, metrics=metrics)
    return faults + _validate_default(path, args)


def kind_of(source: Source) -> str:
    """Return the name of the one field that sets a source's kind; "" if none or several are set."""
    given = [field for field in KINDS if getattr(source, field) is not None]
    return given[0] if len(given) == 1 else ""


def _once(path: str, names: Sequence[str]) -> list[str]:
    return [
        duplicate(f"{path}[{index}].name", name) for index, name in enumerate(names) if name and name in names[:index]
    ]


def _validate_default(path: str, args: MetricPolicyArgs) -> list[str]:
    """Return the errors of the default policy; with policy objects it may exist in some namespaces only."""
    name = args.default_policy
    if not name or args.policy_objects or name in {policy.name for policy in args.policies}:
        return []
    return [invalid(f"{path}.defaultPolicy", name, "no policy of that name is configured")]


# --- sources --------------------------------------------------------------------------------------------------------


def _validate_source(path: str, source: Source) -> list[str]:
    faults = wrong_name(f"{path}.name", source.name)
    kinds = ", ".join(KINDS.values())
    given = [field for field in KINDS if getattr(source, field) is not None]
    if not given:
        faults.append(required(path, f"exactly one of {kinds}"))
    elif len(given) > 1:
        faults.append(forbidden(f"{path}.{KINDS[given[1]]}", f"exactly one of {kinds}"))
    for field in given:
        value = getattr(source, field)
        if isinstance(value, Endpoint):
            faults += _validate_endpoint(f"{path}.{KINDS[field]}", value)
        else:
            faults += [forbidden(f"{path}.{KINDS[field]}.{key}", "there is nothing to set here") for key in value]
    if source.interval < LEAST_INTERVAL:
        faults.append(invalid(f"{path}.interval", source.interval, f"must be at least {LEAST_INTERVAL}"))
    faults += positive(f"{path}.timeout", source.timeout)
    if source.breaker.failures < 1:
        faults.append(invalid(f"{path}.breaker.failures", source.breaker.failures, "must be greater than zero"))
    return faults + positive(f"{path}.breaker.openFor", source.breaker.open_for)


def _validate_endpoint(path: str, endpoint: Endpoint) -> list[str]:
    faults = url_faults(f"{path}.url", endpoint.url)
    if endpoint.bearer_token_file and endpoint.username:
        faults.append(forbidden(f"{path}.username", "must not be given beside bearerTokenFile"))
    if endpoint.password_file and not endpoint.username:
        faults.append(required(f"{path}.username", "with passwordFile"))
    if bool(endpoint.cert_file) != bool(endpoint.key_file):
        missing = "keyFile" if endpoint.cert_file else "certFile"
        faults.append(required(f"{path}.{missing}", "certFile and keyFile go together"))
    return faults + _header_faults(path, endpoint)


def _header_faults(path: str, endpoint: Endpoint) -> list[str]:
    faults: list[str] = []
    given = {name.lower() for name in endpoint.headers}
    for name, value in endpoint.headers.items():
        child = f"{path}.headers[{name}]"
        faults += _header_name_faults(child, name, endpoint)
        if not _HEADER_VALUE.fullmatch(value.reveal()):
            faults.append(forbidden(child, "must not have control characters"))  # the value may be a secret
    for name, file in endpoint.header_files.items():
        child = f"{path}.headerFiles[{name}]"
        faults += _header_name_faults(child, name, endpoint)
        if not file:
            faults.append(required(child, "the path of a file"))
        if name.lower() in given:
            faults.append(forbidden(child, "must not be given beside headers of that name"))
    return faults


def _header_name_faults(path: str, name: str, endpoint: Endpoint) -> list[str]:
    if not _HEADER_NAME.fullmatch(name):
        return [invalid(path, name, "must be the name of an HTTP header")]
    if name.lower() == "authorization" and (endpoint.bearer_token_file or endpoint.username):
        return [forbidden(path, "must not be given beside bearerTokenFile and username")]
    return []


def url_faults(path: str, url: SecretURL) -> list[str]:
    if not url:
        return [required(path)]
    text = url.reveal()
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return [invalid(path, url, "must have a host, and a port that is a number up to 65535")]
    if parts.username is not None or parts.password is not None:
        return [f"{path}: Invalid value: must not have a user or a password: use username and passwordFile"]
    if parts.scheme not in ("http", "https") or not parts.hostname or any(char.isspace() for char in text):
        return [invalid(path, url, "must be a URL such as https://prometheus.monitoring.svc:9090")]
    if parts.query or parts.fragment:
        return [invalid(path, url, "must have no query and no fragment")]
    return []


# --- metrics --------------------------------------------------------------------------------------------------------


def _validate_metric(path: str, metric: Metric, kinds: Mapping[str, str]) -> list[str]:
    faults = []
    if not metric.name:
        faults.append(required(f"{path}.name"))
    elif not _METRIC_NAME.fullmatch(metric.name):
        faults.append(invalid(f"{path}.name", metric.name, _METRIC_NAME_RULE))
    if not metric.source:
        faults.append(required(f"{path}.source"))
    elif metric.source not in kinds:
        faults.append(invalid(f"{path}.source", metric.source, "no source of that name is configured"))
    elif kind := kinds[metric.source]:
        faults += _foreign_fields(path, metric, kind)
        faults += _OF_KIND[kind](path, metric)
    faults += not_negative(f"{path}.window", metric.window)
    faults += _validate_clamp(f"{path}.clamp", metric.clamp)
    if not 0 <= metric.smoothing < 1:
        faults.append(invalid(f"{path}.smoothing", metric.smoothing, "not in valid range [0, 1)"))
    return faults


def _foreign_fields(path: str, metric: Metric, kind: str) -> list[str]:
    return [
        forbidden(f"{path}.{name}", f"not for a source of kind {KINDS[kind]}")
        for field, name in _FIELDS.items()
        if field not in _ALLOWED[kind] and getattr(metric, field)
    ]


def _validate_prometheus(path: str, metric: Metric) -> list[str]:
    faults = [] if metric.query.strip() else [required(f"{path}.query")]
    return faults + _node_label(path, metric)


def _validate_load_watcher(path: str, metric: Metric) -> list[str]:
    faults = _one_of(f"{path}.metric", metric.metric, WATCHER_METRICS)
    return faults + (_one_of(f"{path}.operator", metric.operator, WATCHER_OPERATORS) if metric.operator else [])


def _validate_resource(path: str, metric: Metric) -> list[str]:
    return _one_of(f"{path}.resource", metric.resource, NODE_RESOURCES)


def _validate_custom(path: str, metric: Metric) -> list[str]:
    faults = _path_segment(f"{path}.metric", metric.metric)
    fault = selector_text_fault(metric.selector)
    return [*faults, invalid(f"{path}.selector", metric.selector, fault)] if fault else faults


def _validate_external(path: str, metric: Metric) -> list[str]:
    return (
        wrong_name(f"{path}.namespace", metric.namespace) + _validate_custom(path, metric) + _node_label(path, metric)
    )


def _validate_node_fields(path: str, metric: Metric) -> list[str]:
    if bool(metric.label) == bool(metric.annotation):
        return [required(path, "exactly one of label and annotation")]
    field, key = ("label", metric.label) if metric.label else ("annotation", metric.annotation)
    return [invalid(f"{path}.{field}", key, message) for message in qualified_name_faults(key)]


_OF_KIND = {
    "prometheus": _validate_prometheus,
    "load_watcher": _validate_load_watcher,
    "resource_metrics": _validate_resource,
    "custom_metrics": _validate_custom,
    "external_metrics": _validate_external,
    "node_fields": _validate_node_fields,
}


def _node_label(path: str, metric: Metric) -> list[str]:
    if not metric.node_label or _PROMETHEUS_LABEL.fullmatch(metric.node_label):
        return []
    return [invalid(f"{path}.nodeLabel", metric.node_label, "must be the name of a label of a series")]


def _one_of(path: str, value: str, allowed: Collection[str]) -> list[str]:
    if not value:
        return [required(path)]
    return [] if value in allowed else [not_supported(path, value, allowed)]


def _path_segment(path: str, value: str) -> list[str]:
    """Return the errors of a name that becomes a part of a URL's path."""
    if not value:
        return [required(path)]
    if value in (".", "..") or "/" in value or "%" in value:
        return [invalid(path, value, "must have no '/' and no '%', and be no '.' or '..'")]
    return []


def _validate_clamp(path: str, clamp: Clamp) -> list[str]:
    faults = quantity_faults(f"{path}.min", clamp.min) if clamp.min is not None else []
    faults += quantity_faults(f"{path}.max", clamp.max) if clamp.max is not None else []
    if (
        not faults
        and clamp.min is not None
        and clamp.max is not None
        and parse_exact(clamp.max) < parse_exact(clamp.min)
    ):
        faults.append(invalid(f"{path}.max", clamp.max, "must not be less than min"))
    if clamp.outliers is not None:
        faults += in_range(f"{path}.outliers", clamp.outliers, 1, MAX_FACTOR)
    return faults
