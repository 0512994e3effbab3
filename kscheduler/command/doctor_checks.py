"""The checks of `kscheduler doctor` that ask an apiserver or a metric source: each returns what it found as a line."""

from __future__ import annotations

import asyncio
import email.utils
import enum
import math
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import NamedTuple, Protocol

from kscheduler.api.objects import Lease
from kscheduler.client.reviews import AccessReview, Right, User
from kscheduler.client.times import unix_seconds
from kscheduler.clock import Clock
from kscheduler.command.doctor_kinds import Needed
from kscheduler.command.doctor_rights import CLUSTER_RIGHTS, in_words, lease_rights
from kscheduler.command.emulation import Choice, VersionSource, served_version
from kscheduler.config.metric_policy import Metric, Source
from kscheduler.config.releases import RELEASES, is_newer, major_and_minor
from kscheduler.config.types import LeaderElection, SchedulerConfig
from kscheduler.counted import counted
from kscheduler.errors import APIError, ConfigError, DecodeError, Forbidden, KSchedulerError, NotFound
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.telemetry.live_metrics import source_maker
from kscheduler.telemetry.settings import telemetry_settings
from kscheduler.telemetry.sources.aggregated import AggregatedAPI

REVIEWS_AT_ONCE = 8
CLOCK_WARN_S, CLOCK_FAIL_S = 2.0, 10.0  # a Lease of 15 s is renewed every 2 s, and expires by the reader's clock
# What perf/memory.py measures: the process, and what a node and a bound pod add to it, in bytes.
BASE_BYTES, NODE_BYTES, POD_BYTES = 64 << 20, 8 << 10, 1200
SPARE = 2  # a limit of so many times what is needed
CGROUP = Path("/sys/fs/cgroup/memory.max")  # of version 2
MEMINFO = Path("/proc/meminfo")
_MIB = 1 << 20
# Only the roles: applying the whole base would replace the image and the number of replicas that a user has set.
ROLES = "kubectl apply -f deploy/base/rbac.yaml"
LEASE_ROLES = {"kube-system": "kubectl apply -f deploy/replace-kube-scheduler/rbac.yaml"}  # by the Lease's namespace


class Level(enum.Enum):
    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"


class Finding(NamedTuple):
    """What a check found, and the command that mends it; "": nothing to mend."""

    level: Level
    check: str
    text: str
    mend: str = ""

    def document(self) -> dict[str, str]:
        """Return the finding for JSON."""
        return {"check": self.check, "level": self.level.value.lower(), "text": self.text, "mend": self.mend}


class Reviews(Protocol):
    async def may_i(self, right: Right) -> AccessReview: ...
    async def may_user(self, right: Right, user: User) -> AccessReview: ...


class Dates(Protocol):
    async def date(self) -> str: ...


class Leases(Protocol):
    async def get_lease(self, namespace: str, name: str) -> Lease: ...


class Counts(Protocol):
    async def count(self, path: str) -> int: ...


class Served(VersionSource, Protocol):
    @property
    def host(self) -> str: ...


async def apiserver(client: Served) -> tuple[str | None, Finding]:
    """Ask for the version; return it, or None if there is no answer, and what was found."""
    try:
        served = served_version(await client.version())
    except (APIError, DecodeError, ConfigError) as error:
        return None, Finding(Level.FAIL, "apiserver", str(error), "kubectl cluster-info")
    return served, Finding(Level.OK, "apiserver", f"{client.host} answers, {served}")


def skew(choice: Choice, served: str) -> Finding:
    """Judge whether the emulated release suits the apiserver: it may be its own, or the one before."""
    release = choice.emulation.config.release
    text = f"emulates kube-scheduler {release.version}: {choice.reason}"
    if is_newer(release, served):
        oldest = next(iter(RELEASES))
        mend = f"kscheduler run --emulated-version {oldest}" if release.version != oldest else "upgrade the cluster"
        return Finding(Level.WARN, "release", f"{text}; no scheduler should be newer than its apiserver", mend)
    behind = major_and_minor(served)[1] - major_and_minor(release.version)[1]
    if behind > 1:
        text = f"{text}, which is {behind} releases older than the apiserver; kube-scheduler may be 1 older"
        return Finding(Level.WARN, "release", text, "pip install --upgrade kscheduler")
    return Finding(Level.OK if choice.is_as_expected else Level.WARN, "release", text)


async def clocks(client: Dates, clock: Clock) -> Finding:
    """Compare this machine's clock with the apiserver's Date, which has whole seconds."""
    before_s = clock.wall()
    try:
        text = await client.date()
    except APIError as error:
        return Finding(Level.FAIL, "clock", str(error), "kubectl get --raw /version")
    there_s = _http_date(text)
    if math.isnan(there_s):
        return Finding(Level.WARN, "clock", f"the apiserver's answers have no Date: {text!r:.50}")
    # The Date was cut to whole seconds at some moment between the request and its answer.
    ahead_s = max(before_s - (there_s + 1), 0.0) + min(clock.wall() - there_s, 0.0)
    found = f"this machine's clock and the apiserver's differ by {abs(ahead_s):.1f} s"
    if abs(ahead_s) < CLOCK_WARN_S:
        return Finding(Level.OK, "clock", found)
    level = Level.WARN if abs(ahead_s) < CLOCK_FAIL_S else Level.FAIL
    return Finding(level, "clock", f"{found}: a Lease may expire too early", "timedatectl set-ntp true")


def _http_date(text: str) -> float:
    """Return a Date in Unix seconds; NaN if it is none."""
    try:
        return email.utils.parsedate_to_datetime(text).replace(tzinfo=UTC).timestamp()
    except (TypeError, ValueError):
        return math.nan


async def rights(client: Reviews, election: LeaderElection, account: str | None = None) -> Finding:
    """Ask for each right that deploy/base grants: of the kubeconfig's user, or of a ServiceAccount NAMESPACE/NAME."""
    wanted = (*CLUSTER_RIGHTS, *lease_rights(election))
    who = _whose(account)
    try:
        missing = await _missing(client, wanted, account)
    except (APIError, DecodeError) as error:
        mend = "kubectl auth can-i create subjectaccessreviews.authorization.k8s.io"
        return Finding(Level.FAIL, "rights", f"not known: {error}", mend)
    if not missing:
        return Finding(Level.OK, "rights", f"{who} has all {len(wanted)} that a scheduler needs")
    return Finding(Level.FAIL, "rights", f"{who} may not {in_words(missing)}", ROLES)


async def rights_of_component(client: Reviews, component: str, needed: Needed, account: str | None = None) -> Finding:
    """Ask for the rights that a component of deploy/ grants, and of which the configuration makes use."""
    who, mend = _whose(account), f"kubectl apply -f deploy/{component}/rbac.yaml"
    try:
        missing = await _missing(client, (*needed.to_read, *needed.to_write), account)
    except (APIError, DecodeError) as error:
        return Finding(Level.FAIL, component, f"rights not known: {error}", mend)
    if not missing:
        count = len(needed.to_read) + len(needed.to_write)
        return Finding(Level.OK, component, f"{who} has all {count} rights that it needs for them")
    text = f"{who} may not {in_words(missing)}"
    if not set(missing) & set(needed.to_read):
        return Finding(Level.WARN, component, f"{text}: their status is not kept", mend)
    return Finding(Level.FAIL, component, f"{text}: nothing is scheduled before it may read them", mend)


async def _missing(client: Reviews, wanted: Sequence[Right], account: str | None) -> list[Right]:
    user = _service_account(account) if account else None
    limit = asyncio.Semaphore(REVIEWS_AT_ONCE)

    async def ask(right: Right) -> bool:
        async with limit:
            return (await (client.may_i(right) if user is None else client.may_user(right, user))).allowed

    allowed = await asyncio.gather(*map(ask, wanted))
    return [right for right, is_allowed in zip(wanted, allowed, strict=True) if not is_allowed]


def _whose(account: str | None) -> str:
    return f"the ServiceAccount {account}" if account else "the user of the kubeconfig"


def _service_account(account: str) -> User:
    namespace, _, name = account.partition("/")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{name}", groups=groups)


async def lease(client: Leases, election: LeaderElection, clock: Clock) -> Finding:
    """Say who holds the Lease, and whether it is renewed."""
    if not election.leader_elect:
        return Finding(Level.OK, "lease", "no leader election: there must be one replica only")
    namespace, name = election.resource_namespace, election.resource_name
    shown = f"{namespace}/{name}"
    try:
        spec = (await client.get_lease(namespace, name)).spec
    except NotFound:
        return Finding(Level.OK, "lease", f"{shown} does not exist yet: the first scheduler makes it")
    except Forbidden as error:
        return Finding(Level.FAIL, "lease", str(error), LEASE_ROLES.get(namespace, ROLES))
    except (APIError, DecodeError) as error:
        return Finding(Level.FAIL, "lease", str(error), f"kubectl get lease {name} -n {namespace} -o yaml")
    if not spec.holder_identity:
        return Finding(Level.OK, "lease", f"{shown} is free: its last holder has released it")
    age_s = clock.wall() - unix_seconds(spec.renew_time or "")
    if not age_s <= (spec.lease_duration_seconds or 0):  # NaN: it was never renewed
        text = f"{shown} is held by {spec.holder_identity}, which has not renewed it for {age_s:,.0f} s"
        return Finding(Level.WARN, "lease", f"{text}: no scheduler runs", f"kubectl get pods -n {namespace} -o wide")
    return Finding(Level.OK, "lease", f"{shown} is held by {spec.holder_identity}, renewed {max(age_s, 0):.0f} s ago")


async def metric_sources(config: SchedulerConfig, client: AggregatedAPI, clock: Clock) -> list[Finding]:
    """Ask each metric source of the configuration once for all its metrics."""
    settings = telemetry_settings(config)
    make = source_maker(client, NodeTable(), clock)
    found = []
    for source in settings.sources:
        metrics = [metric for metric in settings.metrics if metric.source == source.name]
        if not metrics:  # the scheduler does not ask it either
            text = f"{source.name} is not asked, since no metric is taken from it"
            found.append(Finding(Level.OK, "metric source", text))
            continue
        try:
            asked = make(source)
            try:
                failed = (await asked.fetch(metrics)).failed
            finally:
                await asked.close()
        except KSchedulerError as error:
            failed = dict.fromkeys((metric.name for metric in metrics), str(error))
        found.append(_of_source(source, metrics, failed))
    return found


def _of_source(source: Source, metrics: Sequence[Metric], failed: dict[str, str]) -> Finding:
    if failed:
        reasons = "; ".join(dict.fromkeys(failed.values()))
        text = f"{source.name}: {len(failed)} of {counted(len(metrics), 'metric')} cannot be read: {reasons}"
        return Finding(Level.FAIL, "metric source", text, _how_to_ask(source))
    names = ", ".join(metric.name for metric in metrics)
    return Finding(Level.OK, "metric source", f"{source.name} answers: {names}")


def _how_to_ask(source: Source) -> str:
    if source.prometheus is not None:
        return f"curl '{source.prometheus.url}/-/ready'"
    if source.load_watcher is not None:
        return f"curl '{source.load_watcher.url}/watcher'"
    return "kubectl get apiservices | grep metrics.k8s.io; kubectl apply -k deploy/live-metrics"


async def memory(client: Counts, limit: int | None = None) -> Finding:
    """Estimate the memory that a scheduler of this cluster takes, and compare it with what there is.

    `limit`: bytes that there are; None: those of the control group, or what is free on the machine.
    """
    try:
        nodes, pods = await client.count("/api/v1/nodes"), await client.count("/api/v1/pods")
    except (APIError, DecodeError) as error:
        return Finding(Level.FAIL, "resources", str(error), "kubectl auth can-i list pods -A")
    needed = BASE_BYTES + nodes * NODE_BYTES + pods * POD_BYTES
    there = limit or available_bytes()
    text = f"{counted(nodes, 'node')} and {counted(pods, 'pod')} take some {needed // _MIB:,} MiB"
    if there is None:
        return Finding(Level.OK, "resources", text)
    text += f", and {there // _MIB:,} MiB are here"
    if there >= needed * SPARE:
        return Finding(Level.OK, "resources", text)
    wanted = f"{needed * SPARE // _MIB:,}Mi".replace(",", "")
    mend = f"kubectl set resources deployment/kscheduler -n kscheduler --limits=memory={wanted}"
    return Finding(Level.WARN if there >= needed else Level.FAIL, "resources", text, mend)


def available_bytes(cgroup: Path = CGROUP, meminfo: Path = MEMINFO) -> int | None:
    """Return the limit of this process's control group, or else the machine's available memory; None: not known."""
    try:
        text = cgroup.read_text().strip()
        if text.isdigit():
            return int(text)
    except OSError:
        pass
    try:
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None
