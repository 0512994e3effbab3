"""Files of workloads -> cases -> a plan: every number and object filled in, so that a run can trip over none.

A file is a list of cases; a case has operations and sizes (`workloads`), and a size gives the parameters. What is not
understood is an error that names the file, the place and the field. Nothing is started here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from perf.workloads.faults import WorkloadError
from perf.workloads.operations import (
    OPCODES,
    AnyOperation,
    Barrier,
    Churn,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    DeletePods,
    Sleep,
    StartCollectingMetrics,
    StopCollectingMetrics,
)

FOLDER = Path(__file__).parent

DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

Object = dict[str, Any]
Parameter = bool | int | float | str


class Size(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One size of a case: what its parameters are."""

    name: str
    params: dict[str, Parameter] = {}
    labels: tuple[str, ...] = ()


class Case(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Operations, and the sizes they are run in."""

    name: str
    workload_template: tuple[AnyOperation, ...]
    workloads: tuple[Size, ...]
    default_pod_template_path: str = ""
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A case in one size."""

    case: str
    size: str
    operations: tuple[AnyOperation, ...]  # without parameters; every namespace is named
    templates: Mapping[str, Object]  # path, as an operation writes it -> object

    @property
    def name(self) -> str:
        """Case and size."""
        return f"{self.case}/{self.size}"


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
    except yaml.YAMLError as error:
        raise WorkloadError(f"{path}: no YAML: {error}") from None


def _check_opcodes(path: Path, document: Any) -> None:
    """A better word for an unknown operation than that its tag is invalid. Other faults are found by the types."""
    for case in document if isinstance(document, list) else ():
        operations = case.get("workloadTemplate") if isinstance(case, dict) else None
        for index, operation in enumerate(operations if isinstance(operations, list) else ()):
            opcode = operation.get("opcode") if isinstance(operation, dict) else None
            if opcode is not None and opcode not in OPCODES:
                where = f"{case.get('name')}.workloadTemplate[{index}].opcode"
                raise WorkloadError(f"{path}: {where}: {opcode!r} is not known, expected one of {', '.join(OPCODES)}")


def _plan(path: Path, case: Case, size: Size) -> Plan:
    templates = _Templates(path)
    operations = []
    for index, operation in enumerate(case.workload_template):
        where = f"{path}: {case.name}/{size.name}: workloadTemplate[{index}]"
        try:
            operations.append(_filled_in(operation, index, case, size.params))
            for template in _template_paths(operations[-1]):
                templates.read(template)
        except _Wrong as wrong:
            raise WorkloadError(f"{where}.{wrong}") from None
    _check_order(f"{path}: {case.name}", operations)
    return Plan(case.name, size.name, tuple(operations), templates.objects)


class _Wrong(Exception):
    """Field and fault; the caller knows where."""


def _filled_in(operation: AnyOperation, index: int, case: Case, parameters: Mapping[str, Parameter]) -> AnyOperation:
    """The operation with numbers in place of parameters and with its own namespace, if it needs one."""
    own_namespace = f"namespace-{index}"
    if isinstance(operation, CreateNodes | CreateNamespaces | CreatePods):
        count = operation.count
        if operation.count_param:
            count = _whole_number("countParam", _parameter("countParam", operation.count_param, parameters))
        if count < (0 if operation.count_param else 1):
            raise _Wrong(f"count: expected at least 1, or countParam, got {count}")
        operation = msgspec.structs.replace(operation, count=count, count_param="")
    if isinstance(operation, CreatePods):
        if operation.collect_metrics and operation.skip_wait_to_completion:
            raise _Wrong("collectMetrics: pods that nobody waits for cannot be measured (skipWaitToCompletion)")
        return msgspec.structs.replace(
            operation,
            namespace=operation.namespace or own_namespace,
            pod_template_path=operation.pod_template_path or case.default_pod_template_path,
        )
    if isinstance(operation, DeletePods) and operation.delete_pods_per_second < 0:
        raise _Wrong(f"deletePodsPerSecond: expected no negative number, got {operation.delete_pods_per_second}")
    if isinstance(operation, Churn):
        return _churn(operation, own_namespace)
    if isinstance(operation, Sleep):
        written = operation.duration
        if operation.duration_param:
            written = str(_parameter("durationParam", operation.duration_param, parameters))
        seconds(written)
        return msgspec.structs.replace(operation, duration=written, duration_param="")
    return operation


def _churn(operation: Churn, own_namespace: str) -> Churn:
    if not operation.template_paths:
        raise _Wrong("templatePaths: expected at least one")
    if operation.number < (1 if operation.mode == "recreate" else 0):
        raise _Wrong(f"number: {operation.number} is too small with mode {operation.mode}")
    if operation.interval_milliseconds < 1:
        raise _Wrong(f"intervalMilliseconds: expected at least 1, got {operation.interval_milliseconds}")
    return msgspec.structs.replace(operation, namespace=operation.namespace or own_namespace)


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


def _template_paths(operation: AnyOperation) -> Iterable[str]:
    if isinstance(operation, CreateNodes):
        return filter(None, (operation.node_template_path,))
    if isinstance(operation, CreatePods):
        return filter(None, (operation.pod_template_path,))
    return operation.template_paths if isinstance(operation, Churn) else ()


class _Templates:
    """The objects of a plan, read from paths that are relative to the file of the case."""

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        self.objects: dict[str, Object] = {}

    def read(self, written: str) -> None:
        path = self._folder / written
        try:
            text = path.read_text()
            template = yaml.safe_load(text)
        except OSError as error:
            raise _Wrong(f"template {path}: {error.strerror}") from None
        except yaml.YAMLError as error:
            raise _Wrong(f"template {path}: no YAML: {error}") from None
        if "{{" in text:
            raise _Wrong(f"template {path}: actions of Go templates ({{{{ }}}}) are not supported")
        if not isinstance(template, dict) or not isinstance(template.get("metadata"), dict):
            raise _Wrong(f"template {path}: expected an object with apiVersion, kind and metadata")
        for field in ("apiVersion", "kind"):
            if not isinstance(template.get(field), str):
                raise _Wrong(f"template {path}: {field} is missing")
        if not template["metadata"].keys() & {"name", "generateName"}:
            raise _Wrong(f"template {path}: metadata.name or metadata.generateName is missing")
        self.objects[written] = template
