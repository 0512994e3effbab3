"""Reads workload files and makes plans of them, with every number and object filled in, so that runs cannot fail.

A file is a list of cases; a case has operations and sizes (`workloads`), and a size gives the parameters. Unknown
content is an error that names the file, the place and the field. Nothing is started here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kscheduler.config.gate_settings import with_settings
from kscheduler.config.releases import DEFAULT_RELEASE, Release, release_of
from kscheduler.errors import ConfigError
from perf.workloads.faults import WorkloadError
from perf.workloads.object_template import BadObject, ObjectTemplate
from perf.workloads.operations import (
    OPCODES,
    AnyOperation,
    Barrier,
    Churn,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePodGroups,
    CreatePods,
    CreatePodSets,
    CreateResourceClaims,
    CreateResourceDriver,
    DeletePods,
    Parameter,
    Sleep,
    StartCollectingMetrics,
    StopCollectingMetrics,
    UpdateAny,
)

FOLDER = Path(__file__).parent

DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

CLAIM_KINDS = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass")


class Size(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One size of a case: the values of its parameters."""

    name: str
    params: dict[str, Parameter] = {}
    labels: tuple[str, ...] = ()
    feature_gates: dict[str, bool] = {}
    threshold: float | dict[str, float] = 0.0  # accepted, but not used: both schedulers are compared in one run
    threshold_metric_selector: dict[str, Any] = {}


class Case(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A list of operations, and the sizes in which they can be run."""

    name: str
    workload_template: tuple[AnyOperation, ...]
    workloads: tuple[Size, ...]
    default_pod_template_path: str = ""
    labels: tuple[str, ...] = ()
    feature_gates: dict[str, bool] = {}
    scheduler_config_path: str = ""
    kubernetes: str = DEFAULT_RELEASE.version  # the oldest release that has what the case needs
    metrics_collector_config: dict[str, Any] = {}  # accepted, but not used: what is measured here is fixed
    default_threshold_metric_selector: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Plan:
    """A case in one size, ready to be run."""

    case: str
    size: str
    operations: tuple[AnyOperation, ...]  # with all parameters, pod sets and namespaces resolved
    templates: Mapping[str, ObjectTemplate]  # path, as written in an operation -> its template
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    kubernetes: str = DEFAULT_RELEASE.version
    scheduler_config: Mapping[str, Any] = field(default_factory=dict)  # fields of KubeSchedulerConfiguration
    rate_per_s: float | None = None  # rate of creating the measured pods; None: as fast as possible
    load: str = "peak"  # that rate in words

    @property
    def name(self) -> str:
        """Case and size."""
        return f"{self.case}/{self.size}"

    @property
    def full_name(self) -> str:
        """With the rate, if it is not the highest possible."""
        return self.name if self.rate_per_s is None else f"{self.name} at {self.load}"

    @property
    def release(self) -> Release:
        """The release of Kubernetes that it is run with, with its feature gates."""
        return with_settings(release_of(self.kubernetes), self.feature_gates)[0]

    @property
    def needs_claims(self) -> bool:
        """Whether a controller has to make claims for pods from templates, and to release them."""
        return any(template.kind in CLAIM_KINDS for template in self.templates.values())

    def at_rate(self, rate_per_s: float, load: str) -> Plan:
        """The same with the measured pods evenly spaced."""
        return replace(self, rate_per_s=rate_per_s, load=load)


class Suite:
    """The cases of one or more files."""

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self._cases: dict[str, tuple[Path, Case]] = {}  # case -> the file it is in
        for path in paths or sorted(FOLDER.glob("*.yaml")):
            for case in read(path):
                if case.name in self._cases:
                    raise WorkloadError(f"{path}: case {case.name} is also in {self._cases[case.name][0]}")
                self._cases[case.name] = (path, case)

    @property
    def cases(self) -> list[Case]:
        """All, in the order of the files."""
        return [case for _, case in self._cases.values()]

    def plan(self, case: str, size: str) -> Plan:
        """The case in a size, which is given by its name or by a label."""
        if case not in self._cases:
            raise WorkloadError(f"there is no workload {case!r}, expected one of {', '.join(self._cases)}")
        path, found = self._cases[case]
        for each in found.workloads:
            if size == each.name or size in each.labels:
                return _plan(path, found, each)
        sizes = ", ".join(" ".join([each.name, *(f"[{label}]" for label in each.labels)]) for each in found.workloads)
        raise WorkloadError(f"{path}: {case} has no size {size!r}, expected one of {sizes}")


def read(path: Path) -> list[Case]:
    """The cases of a file, each of which makes sense in each of its sizes."""
    document = _yaml(path)
    _check_opcodes(path, document)
    try:
        cases = msgspec.convert(document, list[Case])
    except msgspec.ValidationError as error:
        raise WorkloadError(f"{path}: {error}") from None
    for case in cases:
        for size in case.workloads:
            _plan(path, case, size)
    return cases


def _yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text())
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise WorkloadError(f"{path}: no YAML: {error}") from None


def _check_opcodes(path: Path, document: Any) -> None:
    """A better word for an unknown operation than that its tag is invalid. Other faults are found by the types."""
    for case in document if isinstance(document, list) else ():
        operations = case.get("workloadTemplate") if isinstance(case, dict) else None
        for index, operation in enumerate(operations if isinstance(operations, list) else ()):
            opcode = operation.get("opcode") if isinstance(operation, dict) else None
            if opcode is None or opcode in OPCODES:
                continue
            where = f"{path}: {case.get('name')}.workloadTemplate[{index}].opcode"
            raise WorkloadError(f"{where}: {opcode!r} is not known, expected one of {', '.join(OPCODES)}")


def _plan(path: Path, case: Case, size: Size) -> Plan:
    templates = _Templates(path.parent)
    operations: list[AnyOperation] = []
    for index, operation in enumerate(case.workload_template):
        where = f"{path}: {case.name}/{size.name}: workloadTemplate[{index}]"
        try:
            for filled_in in _filled_in(operation, index, case, size.params):
                for template in _template_paths(filled_in):
                    templates.read(template, _given(filled_in))
                operations.append(filled_in)
        except (_Wrong, BadObject) as wrong:
            raise WorkloadError(f"{where}.{wrong}") from None
    _check_order(f"{path}: {case.name}", operations)
    configuration = _yaml(path.parent / case.scheduler_config_path) if case.scheduler_config_path else {}
    if not isinstance(configuration, dict):
        raise WorkloadError(f"{path.parent / case.scheduler_config_path}: expected a KubeSchedulerConfiguration")
    plan = Plan(
        case.name,
        size.name,
        tuple(operations),
        templates.found,
        feature_gates={**case.feature_gates, **size.feature_gates},
        kubernetes=case.kubernetes,
        scheduler_config=configuration,
    )
    try:
        _ = plan.release
    except ConfigError as error:
        raise WorkloadError(f"{path}: {case.name}/{size.name}: kubernetes {case.kubernetes}: {error}") from None
    return plan


class _Wrong(Exception):
    """A field is invalid; the caller adds in which file and case."""


def _filled_in(
    operation: AnyOperation, index: int, case: Case, parameters: Mapping[str, Parameter]
) -> Iterator[AnyOperation]:
    """The operation with numbers in place of parameters and a namespace, if it needs one; sets one by one."""
    own_namespace = f"namespace-{index}"
    if isinstance(operation, CreatePodSets):
        for number in range(_count(operation, parameters)):
            pods = msgspec.structs.replace(operation.create_pods_op, namespace=f"{operation.namespace_prefix}-{number}")
            yield _pods(pods, own_namespace, case, parameters)
    elif isinstance(operation, CreatePods):
        yield _pods(operation, own_namespace, case, parameters)
    elif isinstance(operation, CreateNodes | CreateNamespaces):
        yield msgspec.structs.replace(operation, count=_count(operation, parameters), count_param="")
    elif isinstance(operation, CreateAny | UpdateAny):
        count = _count(operation, parameters) if operation.count_param or operation.count else 1
        if isinstance(operation, CreateAny):
            if isinstance(operation, CreatePodGroups | CreateResourceClaims) and not operation.namespace:
                raise _Wrong("namespace: expected one")
            operation = msgspec.structs.replace(operation, template_params=_template_params(operation, parameters))
        yield msgspec.structs.replace(operation, count=count, count_param="")
    elif isinstance(operation, DeletePods) and operation.delete_pods_per_second < 0:
        raise _Wrong(f"deletePodsPerSecond: expected no negative number, got {operation.delete_pods_per_second}")
    elif isinstance(operation, Churn):
        yield _churn(operation, own_namespace)
    elif isinstance(operation, CreateResourceDriver):
        yield _driver(operation, parameters)
    elif isinstance(operation, Sleep):
        written = _duration(operation, parameters)
        seconds(written)
        yield msgspec.structs.replace(operation, duration=written, duration_param="")
    else:
        yield operation


def _count(
    operation: CreateNodes | CreateNamespaces | CreatePods | CreatePodSets | CreateAny | UpdateAny,
    parameters: Mapping[str, Parameter],
) -> int:
    if operation.count_param:
        count = _whole_number("countParam", _parameter("countParam", operation.count_param, parameters))
    else:
        count = operation.count
    if count < (0 if operation.count_param else 1):
        raise _Wrong(f"count: expected at least 1, or countParam, got {count}")
    return count


def _pod_count(operation: CreatePods, parameters: Mapping[str, Parameter]) -> int:
    count = _count(operation, parameters)
    if operation.count_multiplier_param:
        given = _parameter("countMultiplierParam", operation.count_multiplier_param, parameters)
        count *= _whole_number("countMultiplierParam", given)
    return count


def _pods(operation: CreatePods, own_namespace: str, case: Case, parameters: Mapping[str, Parameter]) -> CreatePods:
    if operation.collect_metrics and operation.skip_wait_to_completion:
        raise _Wrong("collectMetrics: pods that nobody waits for cannot be measured (skipWaitToCompletion)")
    steady, duration = _steady_state(operation, parameters)
    if steady and operation.skip_wait_to_completion:
        raise _Wrong("steadyState: pods that nobody waits for cannot be replaced when they are bound")
    if bool(operation.persistent_volume_template_path) != bool(operation.persistent_volume_claim_template_path):
        raise _Wrong("persistentVolumeTemplatePath: expected with persistentVolumeClaimTemplatePath, or neither")
    return msgspec.structs.replace(
        operation,
        count=_pod_count(operation, parameters),
        count_param="",
        count_multiplier_param="",
        namespace=operation.namespace or own_namespace,
        pod_template_path=operation.pod_template_path or case.default_pod_template_path,
        template_params=_template_params(operation, parameters),
        steady_state=steady,
        steady_state_param="",
        duration=duration,
        duration_param="",
    )


def _template_params(operation: CreateAny | CreatePods, parameters: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """The values of a template's parameters, with those of the size in place of their names."""
    return {
        name: _parameter(f"templateParams.{name}", value, parameters)
        if isinstance(value, str) and value.startswith("$")
        else value
        for name, value in operation.template_params.items()
    }


def _steady_state(operation: CreatePods, parameters: Mapping[str, Parameter]) -> tuple[bool, str]:
    """Whether pods are replaced once they are bound, and for how long; "" if not."""
    steady: Parameter = operation.steady_state
    if operation.steady_state_param:
        steady = _parameter("steadyStateParam", operation.steady_state_param, parameters)
        if not isinstance(steady, bool):
            raise _Wrong(f"steadyStateParam: expected a parameter that is true or false, got {steady!r}")
    if not steady:
        return False, ""
    duration = _duration(operation, parameters)
    if not seconds(duration):
        raise _Wrong(f"duration: expected some time in which pods are replaced, got {duration!r}")
    return True, duration


def _driver(operation: CreateResourceDriver, parameters: Mapping[str, Parameter]) -> CreateResourceDriver:
    count = operation.max_claims_per_node
    if operation.max_claims_per_node_param:
        given = _parameter("maxClaimsPerNodeParam", operation.max_claims_per_node_param, parameters)
        count = _whole_number("maxClaimsPerNodeParam", given)
    if count < 1:
        raise _Wrong(f"maxClaimsPerNode: expected at least 1, or maxClaimsPerNodeParam, got {count}")
    return msgspec.structs.replace(operation, max_claims_per_node=count, max_claims_per_node_param="")


def _churn(operation: Churn, own_namespace: str) -> Churn:
    if not operation.template_paths:
        raise _Wrong("templatePaths: expected at least one")
    if operation.number < (1 if operation.mode == "recreate" else 0):
        raise _Wrong(f"number: {operation.number} is too small with mode {operation.mode}")
    if operation.interval_milliseconds < 1:
        raise _Wrong(f"intervalMilliseconds: expected at least 1, got {operation.interval_milliseconds}")
    return msgspec.structs.replace(operation, namespace=operation.namespace or own_namespace)


def _duration(operation: Sleep | CreatePods, parameters: Mapping[str, Parameter]) -> str:
    if operation.duration_param:
        return str(_parameter("durationParam", operation.duration_param, parameters))
    return operation.duration


def _parameter(field: str, name: str, parameters: Mapping[str, Parameter]) -> Parameter:
    if not name.startswith("$"):
        raise _Wrong(f"{field}: expected $ and the name of a parameter, got {name!r}")
    if name[1:] not in parameters:
        raise _Wrong(f"{field}: no parameter {name[1:]!r}, the size has {', '.join(parameters) or 'none'}")
    return parameters[name[1:]]


def _whole_number(field: str, given: Parameter) -> int:
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    raise _Wrong(f"{field}: expected a parameter that is a whole number, got {given!r}")


def seconds(written: str) -> float:
    """A duration as Go writes it, such as 1m30s."""
    parts = DURATION.findall(written)
    if not parts or "".join(number + unit for number, unit in parts) != written:
        raise _Wrong(f"duration: expected one such as 500ms or 1m30s, got {written!r}")
    return sum(float(number) * SECONDS[unit] for number, unit in parts)


def _check_order(where: str, operations: Iterable[AnyOperation]) -> None:
    """Exactly one measurement, and waits only for namespaces that have pods by then."""
    began = ended = 0
    namespaces: set[str] = set()
    for index, operation in enumerate(operations):
        if isinstance(operation, CreatePods):
            namespaces.add(operation.namespace)
            began, ended = began + operation.collect_metrics, ended + operation.collect_metrics
        elif isinstance(operation, StartCollectingMetrics):
            began += 1
        elif isinstance(operation, StopCollectingMetrics):
            ended += 1
        named = {operation.namespace} if isinstance(operation, DeletePods) else set()
        named |= set(operation.namespaces) if isinstance(operation, Barrier) else set()
        for unknown in sorted(named - namespaces):
            raise WorkloadError(f"{where}: workloadTemplate[{index}]: no pods were created in namespace {unknown!r}")
        if not 0 <= began - ended <= 1:
            raise WorkloadError(f"{where}: workloadTemplate[{index}]: measurements overlap, or end before they begin")
    if (began, ended) != (1, 1):
        raise WorkloadError(f"{where}: expected one measurement (collectMetrics, or start and stop), got {began}")


def _template_paths(operation: AnyOperation) -> tuple[tuple[str, str], ...]:
    """The files an operation names: path, and the kind that is expected there ("" for any)."""
    if isinstance(operation, CreateNodes):
        found = [(operation.node_template_path, "Node")]
    elif isinstance(operation, CreateNamespaces):
        found = [(operation.namespace_template_path, "Namespace")]
    elif isinstance(operation, CreatePods):
        found = [
            (operation.pod_template_path, "Pod"),
            (operation.persistent_volume_template_path, "PersistentVolume"),
            (operation.persistent_volume_claim_template_path, "PersistentVolumeClaim"),
        ]
    elif isinstance(operation, CreateAny | UpdateAny):
        if not operation.template_path:
            raise _Wrong("templatePath: expected a path")
        found = [(operation.template_path, "")]
    else:
        found = [(path, "") for path in operation.template_paths] if isinstance(operation, Churn) else []
    return tuple((path, kind) for path, kind in found if path)


def _given(operation: AnyOperation) -> Mapping[str, Parameter]:
    """The parameters of the operation's templates."""
    return operation.template_params if isinstance(operation, CreateAny | CreatePods) else {}


class _Templates:
    """The templates of a plan, whose paths are relative to the file of the case."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._given: dict[str, Mapping[str, Parameter]] = {}
        self.found: dict[str, ObjectTemplate] = {}

    def read(self, wanted: tuple[str, str], parameters: Mapping[str, Parameter]) -> None:
        written, kind = wanted
        if written not in self.found:
            self.found[written] = ObjectTemplate(self._folder / written, parameters)
            self._given[written] = parameters
        elif parameters != self._given[written]:
            raise _Wrong(f"templateParams: {written} is used with others in this case")
        got = self.found[written].kind
        if kind and got != kind:
            raise BadObject(f"template {self._folder / written}: expected kind {kind}, got {got}")
