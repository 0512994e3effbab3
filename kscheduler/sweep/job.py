"""Describes a sweep as an Indexed Job: index i carries out runs i, i + N, i + 2N... and prints a line for each.

The packed plan is in ConfigMaps, which the pods mount as one directory. The image must be of this version, which is
part of every run's key. The pods need no rights on the cluster.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from kscheduler import __version__
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.input.decoding import json_decoder
from kscheduler.sweep.executing import in_this_process
from kscheduler.sweep.packing import unpack
from kscheduler.sweep.results import Finished

MOUNTED_AT = "/etc/kscheduler-sweep"
CONTAINER = "sweep"
JOB_LABEL = "batch.kubernetes.io/job-name"  # set by the Job controller
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"  # set by the Job controller
DEFAULT_IMAGE = f"kscheduler:{__version__}"
PART_BYTES = 700_000  # of one ConfigMap, in which they are written as base64: the apiserver takes 1 MiB
MAX_PARTS = 16

Manifest = dict[str, Any]


class _Line(msgspec.Struct, frozen=True):
    """One line on a pod's standard output."""

    sweep: Finished


_decode_line = json_decoder(_Line)


# --- what is written to the cluster ---------------------------------------------------------------------------------


def job_manifests(name: str, namespace: str, image: str, indexes: int, packed: bytes) -> list[Manifest]:
    """Return the Job, and the ConfigMaps with the packed plan. Raises ConfigError if it is too large for them."""
    parts = [packed[start : start + PART_BYTES] for start in range(0, len(packed), PART_BYTES)]
    if len(parts) > MAX_PARTS:
        raise ConfigError(
            f"--on job: expected files of at most {MAX_PARTS * PART_BYTES / 1e6:.0f} MB when compressed, "
            f"got {len(packed) / 1e6:.0f} MB: take shorter traces, or --on local"
        )
    names = [f"{name}-plan-{number}" for number in range(len(parts))]
    return [
        _job(name, namespace, image, indexes, names),
        *(
            _config_map(map_name, namespace, number, part)
            for number, (map_name, part) in enumerate(zip(names, parts, strict=True))
        ),
    ]


def owned_by(manifest: Manifest, job: Mapping[str, Any]) -> Manifest:
    """Return the manifest as a dependent of a created Job, so that it is deleted with the Job."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [owner]}}


def _config_map(name: str, namespace: str, number: int, part: bytes) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "immutable": True,
        "binaryData": {f"plan.{number:03}": base64.b64encode(part).decode()},
    }


def _job(name: str, namespace: str, image: str, indexes: int, config_maps: Iterable[str]) -> Manifest:
    container = {
        "name": CONTAINER,
        "image": image,
        "command": ["kscheduler", "sweep", "index", "--plan", MOUNTED_AT, "--indexes", str(indexes)],
        "resources": {"requests": {"cpu": "1", "memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "plan", "mountPath": MOUNTED_AT, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [
            {"name": "plan", "projected": {"sources": [{"configMap": {"name": each}} for each in config_maps]}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/name": "kscheduler-sweep"}},
        "spec": {
            "completionMode": "Indexed",
            "completions": indexes,
            "parallelism": indexes,
            "backoffLimitPerIndex": 1,
            "template": {"metadata": {"labels": {"app.kubernetes.io/name": "kscheduler-sweep"}}, "spec": pod},
        },
    }


# --- what runs in a pod ---------------------------------------------------------------------------------------------


def run_index(directory: str, index: int, indexes: int) -> Iterator[bytes]:
    """Carry out the runs of one index, and yield a line for each. Raises ConfigError if the plan cannot be read."""
    try:
        parts = [path.read_bytes() for path in sorted(Path(directory).glob("plan.*"))]
    except OSError as error:
        raise ConfigError(f"{directory}: cannot be read: {error.strerror}") from error
    if not parts:
        raise ConfigError(f"{directory}: expected the files plan.000, plan.001... of a sweep, found none")
    tasks = islice(unpack(b"".join(parts), directory), index, None, indexes)
    for finished in in_this_process(tasks):
        yield msgspec.json.encode(_Line(finished)) + b"\n"


def read_lines(log: bytes) -> tuple[list[Finished], int]:
    """Return the finished runs in a pod's log, and how many lines of it are something else."""
    found, others = [], 0
    for line in log.split(b"\n"):
        if not line.strip():
            continue
        try:
            found.append(_decode_line(line).sweep)
        except DecodeError:
            others += 1
    return found, others
