"""/statusz, /flagz and /metrics/slis."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from kscheduler import __version__
from kscheduler.client.reviews import User
from kscheduler.command.flags.commands import parse
from kscheduler.command.flags.run_options import RunOptions
from kscheduler.observability.metrics import Metrics
from kscheduler.serving.authentication import Shown
from kscheduler.serving.authorization import ALLOWED, Decision
from kscheduler.serving.health import Health
from kscheduler.serving.server import Listen, Server
from kscheduler.serving.slis import HealthResults
from kscheduler.serving.zpages import flagz, folders, statusz
from tests.support.clocks import ManualClock

JSON = "application/json;g=config.k8s.io;v={};as={}"


class Anybody:
    async def authenticate(self, shown: Shown) -> User | None:
        return User("somebody")

    async def authorize(self, user: User, verb: str, path: str) -> Decision:
        return ALLOWED


async def asked(
    path: str, accept: str = "", *, health: Health | None = None, clock_set_s: float = 0.0
) -> tuple[int, dict[str, str], str]:
    """Status, headers and text of the answer of a scheduler that has run for two hours, three minutes and 5 seconds.

    "" for `accept` sends no such header.
    """
    clock = ManualClock(50.0)
    server = Server(
        Listen("127.0.0.1", 0, None),
        metrics=Metrics(process=False),
        health=health or Health(),
        authenticator=Anybody(),
        authorizer=Anybody(),
    )
    server.add_handler("/flagz", flagz({"v": "2", "config": "/etc/a.yaml"}), reads_scheduler=False)
    server.add_handler("/statusz", statusz(clock, "1.36", lambda: server.paths), reads_scheduler=False)
    clock.advance(7385)
    clock.set_wall_clock(clock_set_s)
    await server.start()
    try:
        async with aiohttp.ClientSession(skip_auto_headers=["Accept"]) as session:
            headers = {"Accept": accept} if accept else {}
            async with session.get(f"http://127.0.0.1:{server.port}{path}", headers=headers) as answer:
                return answer.status, dict(answer.headers), await answer.text()
    finally:
        await server.stop()


@pytest.mark.parametrize("clock_set_s", [-86_400.0, 86_400.0])
async def test_a_wall_clock_that_is_set_meanwhile_does_not_change_for_how_long_the_scheduler_runs(
    clock_set_s: float,
) -> None:
    _, _, text = await asked("/statusz", JSON.format("v1beta1", "Statusz"), clock_set_s=clock_set_s)
    assert json.loads(text)["uptimeSeconds"] == 7385


@pytest.mark.parametrize("accept", ["", "text/plain", "*/*", "text/html, text/plain;q=0.5"])
async def test_people_get_text(accept: str) -> None:
    status, headers, text = await asked("/statusz", accept)
    assert status == 200
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert text.startswith("\nkscheduler statusz\nWarning: This endpoint is not meant to be machine parseable")
    assert "\nUp: 2 hr 03 min 05 sec\n" in text
    assert "\nEmulation version: 1.36\n" in text
    assert text.endswith("Paths: /configz /flagz /healthz /livez /metrics /readyz /statusz\n")


async def test_programs_get_the_kind_that_they_name() -> None:
    status, headers, text = await asked("/statusz", JSON.format("v1beta1", "Statusz"))
    found = decoded(text)
    assert (status, found["kind"], found["apiVersion"]) == (200, "Statusz", "config.k8s.io/v1beta1")
    assert (found["uptimeSeconds"], found["binaryVersion"], found["emulationVersion"]) == (7385, __version__, "1.36")
    assert "Warning" not in headers
    _, _, text = await asked("/flagz", JSON.format("v1beta1", "Flagz"))
    assert decoded(text)["flags"] == {"config": "/etc/a.yaml", "v": "2"}


async def test_the_kind_is_answered_that_is_preferred() -> None:
    kind = JSON.format("v1beta1", "Statusz")
    _, headers, _ = await asked("/statusz", f"text/plain;q=0.5, {kind}")
    assert headers["Content-Type"] == kind
    _, headers, _ = await asked("/statusz", f"{kind};q=0.5, text/plain")
    assert headers["Content-Type"].startswith("text/plain")


async def test_a_version_that_is_deprecated_says_so() -> None:
    status, headers, text = await asked("/flagz", JSON.format("v1alpha1", "Flagz"))
    assert (status, decoded(text)["apiVersion"]) == (200, "config.k8s.io/v1alpha1")
    assert headers["Warning"].startswith("299 - ")


@pytest.mark.parametrize("accept", ["application/json", JSON.format("v2", "Statusz"), JSON.format("v1beta1", "Flagz")])
async def test_another_kind_is_not_acceptable(accept: str) -> None:
    status, _, text = await asked("/statusz", accept)
    assert (status, decoded(text)["reason"]) == (406, "NotAcceptable")
    assert "application/json;g=config.k8s.io;v=v1beta1;as=Statusz" in text


async def test_flags_are_sorted_in_text() -> None:
    _, _, text = await asked("/flagz")
    assert text.endswith("\n\nconfig: /etc/a.yaml\nv: 2\n")


def test_paths_are_shortened_to_their_first_parts() -> None:
    assert folders(["/livez", "/livez/{check}", "/", "/{path}", "/ui/x"]) == ["/livez", "/ui"]


def test_all_flags_are_shown_and_no_password() -> None:
    given = [
        "--leader-elect=false",
        "--leader-elect-retry-period=3s",
        "-v=4",
        "--vmodule=queue=5,bind*=6",
        "--profiling",
    ]
    options = parse(["run", "--master", "https://me:secret@example.com", *given])
    assert isinstance(options, RunOptions)
    flags = dict(options.flags)
    assert flags["leader-elect"] == "false"
    assert (flags["leader-elect-retry-period"], flags["leader-elect-lease-duration"]) == ("3s", "15s")
    assert (flags["v"], flags["vmodule"], flags["profiling"]) == ("4", "queue=5,bind*=6", "true")
    assert "contention-profiling" not in flags, "one that has no effect is shown if it is given"
    assert flags["secure-port"] == "10259"
    assert "secret" not in flags["master"]


async def test_results_of_health_checks_are_counted() -> None:
    health = Health()
    reasons = iter(["not yet", None])
    health.add("readyz", "leader", lambda: next(reasons))
    health.ask("readyz")
    health.ask("readyz")
    health.ask("healthz", exclude=["ping"])
    _, _, text = await asked("/metrics/slis", health=health)
    assert 'kubernetes_healthcheck{name="leader",type="readyz"} 1.0\n' in text
    assert 'kubernetes_healthchecks_total{name="leader",status="error",type="readyz"} 1.0\n' in text
    assert 'kubernetes_healthchecks_total{name="leader",status="success",type="readyz"} 1.0\n' in text
    assert "healthz" not in text


def test_without_a_check_there_is_no_metric() -> None:
    assert HealthResults().exposition() == b""


def decoded(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found
