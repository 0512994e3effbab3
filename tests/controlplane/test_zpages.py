"""/statusz, /flagz, /metrics/slis and /debug/flags/v are kube-scheduler's: fields, lines, flags, refusals, metrics."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from kscheduler.command.flags.ineffective import IGNORED_FLAGS
from kscheduler.serving.debug_flags import PATH as VERBOSITY
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.kubescheduler import KubeScheduler
from kscheduler.testing.controlplane.probes import unverified_tls
from kscheduler.testing.controlplane.scheduler_process import OPEN_PATHS, SchedulerProcess
from kscheduler.testing.controlplane.workspace import Workspace

Both = tuple[SchedulerProcess, SchedulerProcess]  # ours, theirs

NAMED = [
    f"{media_type};g=config.k8s.io;v={version};as={kind}"
    for media_type in ("application/json", "application/yaml", "application/cbor")
    for version in ("v1alpha1", "v1beta1", "v1")
    for kind in ("Statusz", "Flagz")
]
ACCEPTS = [
    "",
    "*/*",
    "text/plain",
    "text/html",
    "text/html, text/plain;q=0.5",
    "application/json",
    "application/json;as=Statusz",
    *NAMED,
    f"{NAMED[2]};q=0.5, text/plain;q=0.9",
    f"text/plain;q=0.1, {NAMED[2]}, {NAMED[3]}",
    f"{NAMED[4]}, {NAMED[5]}, {NAMED[6]}, {NAMED[7]}",
]


@dataclass(frozen=True)
class Answer:
    status: int
    content_type: str
    warning: str | None
    text: str

    def document(self) -> dict[str, Any]:
        """Read JSON or YAML."""
        found: dict[str, Any] = yaml.safe_load(self.text)
        return found

    def lines(self) -> list[tuple[str, str]]:
        """Return the name and value of each line. kube-scheduler separates them by a random character."""
        found = [re.fullmatch(r"([\w-]+(?: version)?)[:= ]+(.*)", line) for line in self.text.splitlines()[3:]]
        return [(each[1], each[2]) for each in found if each]


def ask(scheduler: SchedulerProcess, path: str, accept: str = "") -> Answer:
    request = urllib.request.Request(f"{scheduler.url}{path}", headers={"Accept": accept} if accept else {})
    try:
        with urllib.request.urlopen(request, context=unverified_tls()) as got:
            return Answer(got.status, got.headers["Content-Type"], got.headers["Warning"], got.read().decode())
    except urllib.error.HTTPError as refused:
        with refused:
            return Answer(refused.code, refused.headers["Content-Type"], None, refused.read().decode())


def test_pages_for_debugging_are_kube_schedulers(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SchedulerProcess, "open_paths", f"{OPEN_PATHS},/statusz,/flagz,/metrics/slis,{VERBOSITY}")
    ours = KScheduler(workspace.control_plane, configuration={"profiles": [{"schedulerName": "ours"}]})
    both = ours, KubeScheduler(workspace.control_plane)
    for path in ("/statusz", "/flagz"):
        for accept in ACCEPTS:
            check_answers(both, path, accept)
    check_statusz(both)
    check_flags(both)
    check_slis(both)
    check_verbosity(both)


def test_without_profiling_the_verbosity_is_left_alone(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SchedulerProcess, "open_paths", f"{OPEN_PATHS},{VERBOSITY}")
    scheduler = KScheduler(workspace.control_plane, configuration={"enableProfiling": False})
    assert put(scheduler, VERBOSITY, "5")[0] == 404


def check_answers(both: Both, path: str, accept: str) -> None:
    """Both give the same kind of answer, or refuse with the same reason."""
    ours, theirs = (ask(each, path, accept) for each in both)
    case = f"{path} with Accept {accept!r}"
    assert (ours.status, ours.warning) == (theirs.status, theirs.warning), case
    if theirs.status == 200:
        assert ours.content_type == theirs.content_type, case
    if theirs.content_type.startswith("text/"):
        assert ours.text.splitlines()[2] == theirs.text.splitlines()[2], case  # the warning that it is for people
        return
    found, expected = ours.document(), theirs.document()
    # Empty details are ours alone, and our message names the kinds that are accepted.
    same = {"kind", "apiVersion", "status", "reason", "code"} & expected.keys()
    assert {name: found[name] for name in same} == {name: expected[name] for name in same}, case
    assert found.keys() - {"details"} == expected.keys(), case


def check_statusz(both: Both) -> None:
    ours, theirs = (ask(each, "/statusz", NAMED[2]).document() for each in both)
    assert ours["emulationVersion"] == theirs["emulationVersion"]
    assert set(theirs["paths"]) <= set(ours["paths"])
    shown, expected = (dict(ask(each, "/statusz").lines()) for each in both)
    assert [name.replace("Python version", "Go version") for name in shown] == list(expected)
    for name in ("Started", "Up"):  # the same shape, another time
        assert re.sub(r"\d", "0", shown[name][3:]) == re.sub(r"\d", "0", expected[name][3:]), name


def check_flags(both: Both) -> None:
    """Every flag of kube-scheduler's has the same name, and the same value, unless it was given another one."""
    ours, theirs = (ask(each, "/flagz", NAMED[3]).document()["flags"] for each in both)
    ignored = {flag.removeprefix("--") for flag in IGNORED_FLAGS} | {"help"}
    assert theirs.keys() - ours.keys() <= ignored
    # A list of one release for each component, there; one release here.
    differ = {"config", "secure-port", "emulated-version"}
    assert {name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]} == differ
    assert dict(ask(both[0], "/flagz").lines()) == ours


def check_slis(both: Both) -> None:
    """The same metrics of the same checks, which are asked for once more here."""
    for each in both:
        assert ask(each, "/readyz").status == 200
    ours, theirs = (_series(ask(each, "/metrics/slis").text) for each in both)
    assert {each for each in theirs if each.startswith("kubernetes_")} == ours


def check_verbosity(both: Both) -> None:
    """A verbosity is set with the same words, and what is none is refused."""
    for text in ("5", "0"):
        ours, theirs = (put(each, VERBOSITY, text) for each in both)
        assert ours == theirs == (200, f"successfully set klog.logging.verbosity to {text}\n")
    for text in ("five", "-1", ""):
        assert [put(each, VERBOSITY, text)[0] for each in both] == [400, 400], text
    assert "verbosity of the log changed" in both[0].process.log_text()


def put(scheduler: SchedulerProcess, path: str, text: str) -> tuple[int, str]:
    request = urllib.request.Request(f"{scheduler.url}{path}", data=text.encode(), method="PUT")
    try:
        with urllib.request.urlopen(request, context=unverified_tls()) as got:
            return got.status, got.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def _series(text: str) -> set[str]:
    """Return the names of series, labels sorted, but for counts of failures: they depend on when one asked."""
    found = (line.rpartition(" ")[0] for line in text.splitlines() if line and not line.startswith("#"))
    return {each for each in found if 'status="error"' not in each}
