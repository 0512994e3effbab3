"""The case tables of upstream's own allocator tests, as data.

They are Go code in an internal package, so a program reads them: the module k8s.io/dynamic-resource-allocation is
copied from the cache of Go modules, the files of the folder upstream are added to the copy, and a test run there writes
each case with the allocator's answer. The answers are kept in the cache directory of the control plane's builds, one
file for each release and version of these files; nothing of upstream's is in this repository.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kscheduler.testing.controlplane.binaries import MODULE, cache_directory
from kscheduler.testing.controlplane.faults import HarnessError, MissingTool
from tests.parity.devices.case import DeviceCase, Object
from tests.parity.devices.gates import DEFAULTS
from tests.parity.devices.oracle import Decision, DeviceAnswer

SOURCES = Path(__file__).with_name("upstream")
GO_MODULE = "k8s.io/dynamic-resource-allocation"
PACKAGE = "structured/internal/allocatortesting"
MOD_FILES = {"1.36": "go.mod", "1.37": "go-1.37.mod"}  # of the control plane's module

# Upstream's features -> the gates behind each.
GATES = {
    "AdminAccess": ("DRAAdminAccess",),
    "ConsumableCapacity": ("DRAConsumableCapacity",),
    "DeviceBindingAndStatus": ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"),
    "DeviceTaints": ("DRADeviceTaints",),
    "FractionalCapacityRange": ("DRAFractionalCapacityRange",),
    "PartitionableDevices": ("DRAPartitionableDevices",),
    "PrioritizedList": ("DRAPrioritizedList",),
}


@dataclass(frozen=True)
class TableCase:
    """A case of a table, with upstream's answers."""

    name: str
    release: str
    needs: frozenset[str]  # the gates that the case is about
    cluster: dict[str, list[Object]]
    claims: list[Object]
    own: Decision  # with no other gates
    default: Decision  # with the gates that are on by default

    def with_own_gates(self) -> tuple[DeviceCase, DeviceAnswer]:
        gates = {name: name in self.needs for name in DEFAULTS[self.release]}
        return self._case({"gates": gates}), DeviceAnswer(pods=[[self.own]])

    def with_default_gates(self) -> tuple[DeviceCase, DeviceAnswer]:
        return self._case({}), DeviceAnswer(pods=[[self.default]])

    def _case(self, config: Object) -> DeviceCase:
        return DeviceCase(0, self.release, config, self.cluster, [{"claims": self.claims}])


def upstream_tables(release: str) -> list[TableCase]:
    """Return all cases, after running upstream's tests where the cache lacks them, which takes minutes."""
    return [_table_case(json.loads(line), release) for line in _dump(release).read_text().splitlines()]


def _table_case(dumped: Object, release: str) -> TableCase:
    cluster = {
        "nodes": [dumped["node"]],
        "deviceClasses": dumped["classes"] or [],
        "resourceSlices": dumped["slices"] or [],
        "deviceTaintRules": [],
        "allocated": [
            *(_result(device) for device in dumped["allocated"] or ()),
            *(_result(share[:3]) | {"shareID": share[3]} for share in dumped["shares"] or ()),
            *(
                _result(each["device"]) | {"shareID": f"sum-{number}", "consumedCapacity": each["capacity"]}
                for number, each in enumerate(dumped["consumed"] or ())
            ),
        ],
    }
    needs = {gate for feature in dumped["features"] or () for gate in feature.split("+")}
    own, default = (msgspec.convert(dumped[name], Decision) for name in ("own", "default"))
    return TableCase(dumped["name"], release, frozenset(needs), cluster, dumped["claims"] or [], own, default)


def _result(device: list[str]) -> Object:
    driver, pool, name = device
    return {"request": "r", "driver": driver, "pool": pool, "device": name}


# --- the dump ---


def _dump(release: str) -> Path:
    digest = hashlib.sha256()
    for path in [MODULE / MOD_FILES[release], *sorted(SOURCES.iterdir())]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    target = cache_directory() / f"device-tables-{release}-{digest.hexdigest()[:16]}.jsonl"
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            print(f"upstream's tables of {release}: running its tests (minutes when cold)", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(prefix="tables-", dir=target.parent) as scratch:
                _run_upstream(Path(scratch), release).rename(target)
    return target


def _run_upstream(scratch: Path, release: str) -> Path:
    """Run upstream's tests in a copy of the module; the file that they wrote."""
    module = _go(["mod", "download", "-json", f"{GO_MODULE}@{_version(release)}"], scratch)
    copy = scratch / "copy"
    shutil.copytree(json.loads(module)["Dir"], copy, copy_function=_copy_writable)
    for folder, _, _ in os.walk(copy):
        Path(folder).chmod(0o755)
    package = copy / PACKAGE
    for source in SOURCES.iterdir():
        shutil.copy(source, package)
    tables = package / "allocator_testing.go"
    tables.write_text(tables.read_text().replace("func RunTestAllocator(", "func upstreamsRunTestAllocator("))

    # The modules are those of the control plane, so that most packages have been compiled already.
    requirements = (MODULE / MOD_FILES[release]).read_text()
    replaced = f"{GO_MODULE} => {GO_MODULE} {_version(release)}"
    if replaced not in requirements:
        raise HarnessError(f"{MOD_FILES[release]}: expected a replace line {replaced!r}, found none")
    (scratch / "go.mod").write_text(requirements.replace(replaced, f"{GO_MODULE} => {copy}"))
    sums = (MODULE / MOD_FILES[release]).with_suffix(".sum").read_text() + (copy / "go.sum").read_text()
    (scratch / "go.sum").write_text("".join(f"{line}\n" for line in sorted(set(sums.splitlines()))))

    dump = scratch / "dump.jsonl"
    features = {feature: all(DEFAULTS[release].get(gate) for gate in gates) for feature, gates in GATES.items()}
    environment = {"TABLES_TO": str(dump), "TABLES_FEATURES": json.dumps(features)}
    test = ["test", "-p", "2", "-trimpath", "-vet=off", "-count=1", "-run=^TestDump$", f"{GO_MODULE}/{PACKAGE}"]
    _go(test, scratch, GOFLAGS="-mod=mod -buildvcs=false", **environment)
    return dump


def _copy_writable(source: str, target: str) -> None:
    shutil.copyfile(source, target)  # without the mode, which forbids writing


def _version(release: str) -> str:
    for line in (MODULE / MOD_FILES[release]).read_text().splitlines():
        if line.strip().startswith(f"{GO_MODULE} =>"):
            return line.split()[-1]
    raise HarnessError(f"{MOD_FILES[release]}: expected a replace line of {GO_MODULE}, found none")


def _go(arguments: list[str], folder: Path, **environment: str) -> str:
    go = shutil.which("go")
    if go is None:
        raise MissingTool("'go' is not on PATH: reading upstream's tables needs it")
    done = subprocess.run(
        [go, *arguments], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        shown = (done.stdout + done.stderr)[-4000:]
        raise HarnessError(f"go {' '.join(arguments)} failed with exit code {done.returncode}:\n{shown}")
    return done.stdout
