"""One campaign: a leader-elected pair in front of a real control plane, a plan of faults, and what the judge found."""

from __future__ import annotations

import contextlib
import gzip
import heapq
import itertools
import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kscheduler.testing.controlplane import ApiserverOptions, Binaries, ControlPlane
from kscheduler.testing.controlplane.patience import eventually
from tests.campaign import judge
from tests.campaign.history import STORED_AS_JSON, History
from tests.campaign.judge import Pause, Violation
from tests.campaign.load import IMPOSSIBLE, NAMESPACE, Load
from tests.campaign.plan import Planned, plan
from tests.campaign.replicas import End, Replica, build_clock
from tests.support.faultproxy import FaultProxy

LOGS = Path("build/campaign")
REPLICAS = 2
BACKENDS = 3
LEASE_S = 6.0
PAUSE_LIMIT_S = 3.0
QUIET_S = 45.0  # no change for so long: nothing more will come. Longer than a hung request (30 s) and a back-off (10 s)
SETTLE_POLL_S = 0.25
NOTED_S = 2.0  # far more than a change takes from the apiserver to the history
CLOCK_JUMPS_S = (-1200, -60, 60, 1200)
TRACEBACKS = ("Traceback (most recent call last)", "Task exception was never retrieved")
LOG_LINES = 12  # around a violation
LOG_CHARS = 400  # of a line


@dataclass(frozen=True, slots=True)
class Done:
    """A fault as it was brought about."""

    planned: str
    kind: str
    replica: int
    began_unix_s: float
    ended_unix_s: float
    blocks: bool


@dataclass(slots=True)
class Report:
    """What a campaign was and what was found."""

    seed: int
    seconds: float
    faults: list[Done]
    bound: int  # bindings carried out for our schedulers
    second_requests: int  # for another node, forgiven ones included
    leaders: int  # terms of leadership
    ends: list[End]
    violations: list[Violation]
    pauses: list[Pause]  # the longest, and all that are over their limit
    logs: dict[str, list[str]] = field(default_factory=dict)  # a violation's text -> log lines around it

    def table(self) -> str:
        """A summary for people."""
        longest: dict[str, Pause] = {}
        for pause in sorted(self.pauses, key=lambda pause: pause.seconds):
            longest[pause.after] = pause
        pauses = (
            f"{pause.seconds:.1f} s after {after or 'nothing'} (allowed {pause.limit_s:.1f})"
            for after, pause in sorted(longest.items())
        )
        lines = [
            f"seed {self.seed}: {len(self.faults)} faults in {self.seconds:.0f} s, {self.bound} pods bound,"
            f" {self.leaders} terms of leadership, {self.second_requests} requests for a second node",
            "  ends: "
            + (", ".join(f"{n} × {code}" for code, n in Counter(e.exit_code for e in self.ends).items()) or "none"),
            "  longest pauses: " + ", ".join(pauses),
        ]
        lines += [f"  {count} × {kind}" for kind, count in Counter(v.kind for v in self.violations).items()]
        for violation in self.violations:
            lines.append(f"  VIOLATION {violation.kind} at {violation.at_unix_s:.3f}: {violation.text}")
            lines += [f"      {line}" for line in self.logs.get(violation.text, ())]
        return "\n".join([*lines, *(f"  PAUSE over its limit: {p}" for p in self.pauses if p.is_too_long)])

    def to_json(self) -> str:
        """Everything, for programs."""
        return json.dumps(asdict(self), indent=1)


def run(
    seed: int,
    duration_s: float,
    per_minute: float,
    *,
    kinds: Sequence[str] | None = None,
    binaries: Binaries | None = None,
    lease_s: float = LEASE_S,
) -> Report:
    """Run a campaign; its faults are `plan(seed, ...)`."""
    options = ApiserverOptions(audit=True, extra_flags=STORED_AS_JSON)
    with contextlib.ExitStack() as ends:
        control_plane = ends.enter_context(ControlPlane(options, binaries))
        history = ends.enter_context(History(control_plane.etcd.url))
        proxies = [
            ends.enter_context(
                FaultProxy(
                    control_plane.url, control_plane.authority, name=f"proxy-{i}", backends=BACKENDS, seed=seed * 10 + i
                )
            )
            for i in range(REPLICAS)
        ]
        clock = build_clock(control_plane.directory)
        replicas = [Replica(control_plane, proxy, i, lease_s, clock) for i, proxy in enumerate(proxies)]
        for replica in replicas:
            ends.callback(replica.end)
        load = Load(control_plane, history, seed)
        ends.callback(load.close)
        load.start()
        eventually(lambda: _bound(history) >= 20, "20 pods are bound", state=lambda: _bound(history))
        return _Campaign(seed, control_plane, history, replicas, load, lease_s).run(
            plan(seed, duration_s, per_minute, REPLICAS, kinds)
        )


class _Campaign:
    def __init__(
        self,
        seed: int,
        control_plane: ControlPlane,
        history: History,
        replicas: Sequence[Replica],
        load: Load,
        lease_s: float,
    ) -> None:
        self._seed = seed
        self._control_plane = control_plane
        self._history = history
        self._replicas = replicas
        self._load = load
        self._lease_s = lease_s
        self._done: list[Done] = []
        self._ending: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._restarts: list[threading.Thread] = []

    def run(self, planned: Sequence[Planned]) -> Report:
        began_s, began_unix_s = time.monotonic(), time.time()
        # 1. Bring the faults about, each at its time.
        for fault in planned:
            self._wait_until(began_s + fault.at_s)
            self._begin(fault)
        # 2. End them all, and let the cluster settle on what there is.
        while self._ending:
            self._wait_until(self._ending[0][0])
        for thread in self._restarts:
            thread.join()
        for replica in self._replicas:
            replica.proxy.clear()
        self._load.stop()
        ended_unix_s = time.time()
        self._load.open_nodes()
        self._settle(lambda: not self._forgotten())
        left = self._forgotten()
        # 3. Everything that can be bound is, once there is room for all.
        self._load.add_room()
        self._settle(lambda: not self._unbound())
        left += [
            Violation("forgotten", time.time(), f"{key} is not bound although there is room") for key in self._unbound()
        ]
        # 4. End the schedulers, and judge.
        for replica in self._replicas:
            replica.end()
            self._keep_log(replica)
        return self._judge(began_unix_s, ended_unix_s, left)

    def _keep_log(self, replica: Replica) -> None:
        LOGS.mkdir(parents=True, exist_ok=True)
        (LOGS / f"seed-{self._seed}-{replica.user}.log").write_text(replica.scheduler.process.log_text())

    def _keep_audit(self, audit: Sequence[dict[str, Any]]) -> None:
        """What the schedulers asked, a line each: when, who, what, and how it was answered."""
        with gzip.open(LOGS / f"seed-{self._seed}-audit.txt.gz", "wt") as file:
            for event in audit:
                if event["user"]["username"].startswith("system:serviceaccount:kube-system:replica-"):
                    code = event.get("responseStatus", {}).get("code", "-")
                    times = f"{event['requestReceivedTimestamp']} {event['stageTimestamp']}"
                    user = event["user"]["username"].rpartition(":")[2]
                    print(times, event["stage"], user, event["verb"], event["requestURI"], code, file=file)

    def _begin(self, fault: Planned) -> None:
        replica = self._replicas[fault.replica]
        now_unix_s = time.time()
        self._done.append(
            Done(str(fault), fault.kind, fault.replica, now_unix_s, now_unix_s + fault.for_s, fault.blocks)
        )
        if fault.fault is not None:
            replica.proxy.add(fault.fault, for_s=fault.for_s)
        elif fault.kind == "kill":
            replica.kill()
        elif fault.kind == "terminate":
            replica.terminate()
        elif fault.kind == "stop":
            replica.stop()
            self._later(fault.for_s, replica.go_on)
        elif fault.kind == "clock":
            replica.set_clock(CLOCK_JUMPS_S[len(self._done) % len(CLOCK_JUMPS_S)])
        elif fault.kind == "apiserver-stop":
            process = self._control_plane.apiserver.process
            process.signal(signal.SIGSTOP)
            self._later(fault.for_s, lambda: process.signal(signal.SIGCONT))
        elif fault.kind == "apiserver-kill":
            self._restart_apiserver()
        else:
            self._load.do(fault.kind)

    def _restart_apiserver(self) -> None:
        if any(thread.is_alive() for thread in self._restarts):
            return
        index = len(self._done) - 1

        def restart() -> None:
            self._control_plane.apiserver.kill()
            self._control_plane.apiserver.start()
            fault = self._done[index]
            self._done[index] = Done(*(fault.planned, fault.kind, fault.replica, fault.began_unix_s, time.time(), True))

        thread = threading.Thread(target=restart, daemon=True)
        self._restarts.append(thread)
        thread.start()

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._ending, (time.monotonic() + seconds, next(self._order), action))

    def _wait_until(self, when_s: float) -> None:
        """Sleep until then; what must end before is ended at its time."""
        while self._ending and self._ending[0][0] <= when_s:
            at_s, _, action = heapq.heappop(self._ending)
            time.sleep(max(0.0, at_s - time.monotonic()))
            action()
        time.sleep(max(0.0, when_s - time.monotonic()))

    def _settle(self, is_done: Callable[[], bool]) -> None:
        """Wait until it is done and stays so, or nothing but the Lease has changed for a while.

        What was changed a moment ago, such as nodes that were opened, may not be in the history yet.
        """
        seen, since_s, done_s = -1, time.monotonic(), 0.0
        while done_s < NOTED_S and time.monotonic() - since_s < QUIET_S:
            count = sum(1 for change in self._history.changes() if change.kind != "lease")
            if count != seen:
                seen, since_s = count, time.monotonic()
            time.sleep(SETTLE_POLL_S)
            done_s = done_s + SETTLE_POLL_S if is_done() else 0.0

    def _forgotten(self) -> list[Violation]:
        return judge.forgotten(self._history.changes())

    def _unbound(self) -> list[str]:
        return [
            key
            for key, pod in self._history.current("pod").items()
            if key.startswith(f"{NAMESPACE}/")
            and not pod["spec"].get("nodeName")
            and IMPOSSIBLE not in pod["metadata"].get("labels", {})
        ]

    def _judge(self, began_unix_s: float, ended_unix_s: float, left: list[Violation]) -> Report:
        changes = self._history.changes()
        audit = self._control_plane.apiserver.audit_events()
        self._keep_audit(audit)
        users = {replica.user for replica in self._replicas}
        requests = [request for request in judge.bind_requests(audit) if request.user in users]
        ours = {request.uid: request.user for request in requests if request.status == 201}
        leaders = leader_terms(audit, users)
        ends = [end for replica in self._replicas for end in replica.ends]
        woken = {replica.user: replica.woken_unix_s for replica in self._replicas}
        pauses = judge.pauses(
            [change for change in changes if change.at_unix_s <= ended_unix_s],
            requests,
            [(0.0, began_unix_s, "", PAUSE_LIMIT_S), *self._blocked(leaders, ends)],
            limit_s=PAUSE_LIMIT_S,
        )
        violations = [
            *judge.bound_twice(changes),
            *judge.second_nodes(requests, woken, judge.gone(changes)),
            *judge.overcommitted(changes, ours),
            *left,
            *(
                Violation(
                    "ended", end.at_unix_s, f"replica {end.replica} ended with {end.exit_code}: {end.log[-1500:]}"
                )
                for end in ends
                if not end.is_by_design
            ),
            *self._tracebacks(),
        ]
        return Report(
            seed=self._seed,
            seconds=ended_unix_s - began_unix_s,
            faults=self._done,
            bound=len(ours),
            second_requests=len(judge.second_nodes(requests, {}, {})),
            leaders=len(leaders),
            ends=ends,
            violations=violations,
            pauses=[pause for index, pause in enumerate(pauses) if index < 10 or pause.is_too_long],
            logs={violation.text: self._lines_around(violation) for violation in violations[:40]},
        )

    def _blocked(
        self, leaders: Sequence[tuple[float, str]], ends: Sequence[End]
    ) -> list[tuple[float, float, str, float]]:
        """When the leader, or everybody, could bind nothing; and what may pass before the next binding."""
        takeover_s = self._lease_s + PAUSE_LIMIT_S
        changes_of_hands = [*(at_s for at_s, _ in leaders), *(end.at_unix_s for end in ends)]
        blocks = []
        for fault in self._done:
            leader = _leader_at(leaders, fault.began_unix_s)
            concerns = fault.kind.startswith("apiserver") or leader == f"replica-{fault.replica}"
            if not fault.blocks or not concerns:
                continue
            until_s = fault.ended_unix_s + takeover_s
            loses_lease = any(fault.began_unix_s <= at_s <= until_s for at_s in changes_of_hands)
            limit_s = takeover_s if loses_lease else PAUSE_LIMIT_S
            blocks.append((fault.began_unix_s, fault.ended_unix_s, fault.kind, limit_s))
        blocks += [(end.at_unix_s, end.at_unix_s, "end of a process", takeover_s) for end in ends]
        return blocks + [(at_s, at_s, "new leader", PAUSE_LIMIT_S) for at_s, _ in leaders[1:]]

    def _tracebacks(self) -> list[Violation]:
        return [
            Violation("traceback", 0.0, f"{replica.user}: {line[:1500]}")
            for replica, line in self._log_lines()
            if any(mark in line for mark in TRACEBACKS)
        ]

    def _lines_around(self, violation: Violation) -> list[str]:
        """Log lines that name the pod or node, or were written at the violation's second."""
        words = (word.rstrip(":,") for word in violation.text.split())
        pod = next((word for word in words if word.startswith(f"{NAMESPACE}/")), "")
        at = time.strftime(" %H:%M:%S.", time.localtime(violation.at_unix_s))
        found = [
            f"{replica.user}: {line[:LOG_CHARS]}"
            for replica, line in self._log_lines()
            if (pod and f'"{pod}"' in line) or (violation.at_unix_s and at in line)
        ]
        return found[-LOG_LINES:]

    def _log_lines(self) -> Iterator[tuple[Replica, str]]:
        for replica in self._replicas:
            for line in replica.scheduler.process.log_text().splitlines():
                yield replica, line


def leader_terms(audit: Sequence[dict[str, Any]], users: set[str]) -> list[tuple[float, str]]:
    """(Unix time, user) of each change of the Lease's writer."""
    terms: list[tuple[float, str]] = []
    for event in sorted(audit, key=lambda event: str(event["stageTimestamp"])):
        about, user = event.get("objectRef", {}), event["user"]["username"].rpartition(":")[2]
        is_write = event["verb"] in ("create", "update", "patch") and event.get("responseStatus", {}).get("code") in (
            200,
            201,
        )
        if about.get("resource") == "leases" and is_write and user in users and (not terms or terms[-1][1] != user):
            terms.append((judge.unix_s(event["stageTimestamp"]), user))
    return terms


def _leader_at(leaders: Sequence[tuple[float, str]], at_unix_s: float) -> str:
    return next((user for began_s, user in reversed(leaders) if began_s <= at_unix_s), "")


def _bound(history: History) -> int:
    return sum("nodeName" in pod["spec"] for pod in history.current("pod").values())


def write(report: Report, directory: Path) -> Path:
    """Write the JSON; returns its path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"seed-{report.seed}.json"
    path.write_text(report.to_json())
    return path
