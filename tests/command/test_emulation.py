"""Which release of Kubernetes is emulated: by the flag, by the apiserver's version, or for want of an answer."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kscheduler.client.kube import KubeClient
from kscheduler.clock import SystemClock
from kscheduler.command.emulation import (
    ASK_FOR_S,
    Choice,
    Emulations,
    choose,
    releases_of,
    served_version,
    warn_if_newer,
)
from kscheduler.command.flags.run_options import RunOptions
from kscheduler.command.running import emulations
from kscheduler.config.load import default_config, parse_config
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, RELEASES, Release
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import APIError, ConfigError, DecodeError, Forbidden, Unreachable
from tests.client.fake_apiserver import FakeAPIServer
from tests.command.kubeconfigs import kubeconfig
from tests.config.documents import HEAD
from tests.support.clocks import ManualClock

ALL = tuple(RELEASES.values())
SHAPE = HEAD + "profiles: [{pluginConfig: [{name: VolumeBinding, args: {shape: [{utilization: 0, score: 3}]}}]}]"


@dataclass
class Apiserver:
    """Answers /version with each of `answers` in turn, and then for ever with the last."""

    clock: ManualClock
    answers: list[dict[str, Any] | Exception]
    asked_at: list[float] = field(default_factory=list)
    takes_s: float = 0.0

    async def version(self) -> dict[str, Any]:
        self.asked_at.append(self.clock.now())
        self.clock.advance(self.takes_s)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def sleep(self, seconds: float) -> None:
        self.clock.advance(seconds)


def apiserver(*answers: str | Exception, takes_s: float = 0.0) -> Apiserver:
    documents = [{"gitVersion": answer} if isinstance(answer, str) else answer for answer in answers]
    return Apiserver(ManualClock(), documents, takes_s=takes_s)


async def chosen(server: Apiserver, found: Emulations | None = None) -> Choice:
    found = found or Emulations(default_config, {}, ALL)
    return await choose(found, server, server.clock, random.Random(0), server.sleep)


def reading(text: str) -> Any:
    def read(release: Release) -> SchedulerConfig:
        return parse_config(text, "scheduler.yaml", release=release)

    return read


# --- by the apiserver's version -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("served", "expected"), [("v1.36.3", RELEASE_1_36), ("v1.37.2-eks-1", RELEASE_1_37), ("v1.40.0", RELEASE_1_37)]
)
async def test_the_newest_release_is_emulated_that_is_not_newer_than_the_apiserver(
    served: str, expected: Release
) -> None:
    choice = await chosen(apiserver(served))
    assert choice.emulation.config == default_config(expected)
    assert (choice.reason, choice.is_as_expected) == (f"the apiserver is {served}", True)


async def test_for_an_older_apiserver_the_oldest_is_emulated_and_a_warning_given() -> None:
    choice = await chosen(apiserver("v1.29.1"))
    assert choice.emulation.config.release is RELEASE_1_36
    assert choice.reason == "the apiserver is v1.29.1, older than any release that can be emulated"
    assert not choice.is_as_expected


async def test_an_apiserver_that_is_not_up_yet_is_asked_again() -> None:
    server = apiserver(Unreachable("refused"), APIError("starting", status=503), "v1.37.0")
    assert (await chosen(server)).emulation.config.release is RELEASE_1_37
    assert len(server.asked_at) == 3


async def test_why_an_apiserver_is_asked_again_is_logged_once_a_cause(caplog: pytest.LogCaptureFixture) -> None:
    causes = ["refused", "certificate verify failed", "refused", "certificate verify failed"]
    await chosen(apiserver(*(Unreachable(cause) for cause in causes), "v1.37.0"))
    logged = [(record.levelname, record.__dict__["err"]) for record in caplog.records]
    assert logged == [("WARNING", "refused"), ("WARNING", "certificate verify failed")]


@pytest.mark.parametrize(
    "outage", [Unreachable("refused"), APIError("starting", status=503), Forbidden("who are you?", status=401)]
)
async def test_an_apiserver_that_is_away_for_long_is_asked_until_it_answers(outage: APIError) -> None:
    server = apiserver(*[outage] * 100, "v1.37.0", takes_s=10.0)
    choice = await chosen(server)
    assert (choice.emulation.config.release, choice.is_as_expected) == (RELEASE_1_37, True)
    assert len(server.asked_at) == 101


async def test_an_apiserver_that_forbids_everything_until_its_roles_are_loaded_is_asked_again() -> None:
    server = apiserver(*[Unreachable("refused")] * 20, Forbidden("no", status=403), "v1.37.0", takes_s=2.0)
    assert (await chosen(server)).emulation.config.release is RELEASE_1_37


@pytest.mark.parametrize("answer", [Forbidden("no", status=403), DecodeError("not JSON"), "latest"])
async def test_answers_that_never_hold_a_version_are_waited_for_a_bounded_time(answer: str | Exception) -> None:
    server = apiserver(answer)
    choice = await chosen(server)
    assert choice.emulation.config.release is RELEASE_1_36
    assert not choice.is_as_expected
    assert choice.reason.startswith(
        "the apiserver's version could not be read; if it is newer, set --emulated-version: "
    )
    assert 3 <= len(server.asked_at) <= 30
    assert ASK_FOR_S - 5 < server.clock.now() <= ASK_FOR_S


@pytest.mark.parametrize("document", [{}, {"gitVersion": 37}])
async def test_a_version_may_be_missing(document: dict[str, Any]) -> None:
    server = Apiserver(ManualClock(), [document])
    assert (await chosen(server)).emulation.config.release is RELEASE_1_36


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"gitVersion": "v1.37.2", "major": "1", "minor": "37"}, "v1.37.2"),
        ({"gitVersion": "v1.37.1-gke.9", "major": "1", "minor": "37+"}, "v1.37.1-gke.9"),
        (
            {"gitVersion": "v1.37.2", "major": "1", "minor": "37", "emulationMajor": "1", "emulationMinor": "37"},
            "v1.37.2",
        ),
        (
            {"gitVersion": "v1.37.2", "major": "1", "minor": "37", "emulationMajor": "1", "emulationMinor": "36"},
            "1.36, emulated by v1.37.2",
        ),
        ({"gitVersion": "v0.0.0-master+x", "major": "1", "minor": "37"}, "1.37, v0.0.0-master+x"),
        ({"gitVersion": "v1.36.3", "major": "", "minor": ""}, "v1.36.3"),
        ({"gitVersion": "v1.36.3", "major": 1, "minor": None}, "v1.36.3"),
    ],
)
def test_the_version_that_counts_is_what_the_apiserver_serves(document: dict[str, Any], expected: str) -> None:
    assert served_version(document) == expected


# --- a configuration that is not good for all releases ------------------------------------------------------------


async def test_a_file_that_needs_a_newer_release_waits_for_the_apiservers_version() -> None:
    found = Emulations(reading(SHAPE), {}, ALL)
    assert (await chosen(apiserver("v1.37.0"), found)).emulation.config.release is RELEASE_1_37
    with pytest.raises(ConfigError) as raised:
        await chosen(apiserver("v1.36.1"), found)
    assert str(raised.value).startswith(
        "for release 1.36, because the apiserver is v1.36.1: scheduler.yaml: profiles[0]."
    )


async def test_a_gate_that_a_newer_release_lacks_keeps_the_older_one_and_is_warned_of() -> None:
    found = Emulations(default_config, {"SidecarContainers": True}, ALL)
    choice = await chosen(apiserver("v1.37.0"), found)
    assert choice.emulation.config.release == RELEASE_1_36
    assert choice.reason == (
        "the apiserver is v1.37.0, but for release 1.37 there is an error: "
        "--feature-gates: unrecognized feature gate: SidecarContainers"
    )
    assert not choice.is_as_expected
    with pytest.raises(ConfigError, match=r"^--feature-gates: unrecognized feature gate: SidecarContainers"):
        Emulations(default_config, {"SidecarContainers": True}, [RELEASE_1_37])


@pytest.mark.parametrize("releases", [ALL, ALL[1:]])
def test_a_file_that_is_good_for_no_release_is_refused_at_once(releases: Sequence[Release]) -> None:
    with pytest.raises(ConfigError, match=r"unknown field \"nope\""):
        Emulations(reading(HEAD + "nope: 1"), {}, releases)


def test_gates_are_part_of_the_release() -> None:
    found = Emulations(default_config, {"StorageCapacityScoring": True, "MemoryQoS": True}, [RELEASE_1_36])
    assert found.first.config.release.has("StorageCapacityScoring")
    assert found.first.warnings == ("--feature-gates MemoryQoS=true has no effect: it is of other parts of Kubernetes",)


# --- by a flag ----------------------------------------------------------------------------------------------------


def test_a_release_that_is_given_is_the_only_one() -> None:
    assert releases_of("1.37") == (RELEASE_1_37,)
    assert releases_of(None) == ALL
    found = emulations(RunOptions(emulated_version="1.37"))
    assert found.first.config == default_config(RELEASE_1_37)


@pytest.mark.parametrize(("given", "expected"), [(None, "1.36"), ("1.37", "1.37")])
def test_the_written_configuration_is_of_the_given_or_the_default_release(given: str | None, expected: str) -> None:
    options = RunOptions(write_config_to="file", emulated_version=given)
    assert emulations(options).first.config.release.version == expected


@pytest.mark.parametrize(("served", "warned"), [("v1.36.4", True), ("v1.37.0", False)])
async def test_a_given_release_that_is_newer_than_the_apiserver_is_warned_of(
    served: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    await warn_if_newer(RELEASE_1_37, apiserver(served))
    assert [record.levelname for record in caplog.records] == (["WARNING"] if warned else [])


async def test_a_given_release_needs_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        await warn_if_newer(RELEASE_1_37, apiserver(Unreachable("refused")))
    assert [record.levelname for record in caplog.records] == ["INFO"]


# --- over HTTP ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("served", "expected"), [(b"v1.36.0", RELEASE_1_36), (b"v1.37.1", RELEASE_1_37)])
async def test_the_apiserver_is_asked_over_http(tmp_path: Path, served: bytes, expected: Release) -> None:
    clock = SystemClock()
    async with FakeAPIServer().running() as server:
        server.fail("GET", "/version", body=b'{"gitVersion": "' + served + b'"}')
        client = await KubeClient.connect(clock, kubeconfig=kubeconfig(tmp_path, "scheduler", server.url))
        choice = await choose(Emulations(default_config, {}, ALL), client, clock, random.Random(0))
        await client.close()
    assert choice.emulation.config.release is expected


async def test_what_was_chosen_is_logged_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        for served in ("v1.37.0", "v1.1.0"):
            (await chosen(apiserver(served))).log()
    logged = [(record.levelname, record.__dict__["emulatedVersion"]) for record in caplog.records]
    assert logged == [("INFO", "1.37"), ("WARNING", "1.36")]
    assert caplog.records[0].__dict__["reason"] == "the apiserver is v1.37.0"
