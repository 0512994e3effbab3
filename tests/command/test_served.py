"""Whose credentials ask the apiserver about those who read the endpoint."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from kscheduler.client.kube import KubeClient
from kscheduler.client.request_observer import NoObserver
from kscheduler.client.reviews import User
from kscheduler.clock import SystemClock
from kscheduler.command.flags.run_options import RunOptions
from kscheduler.command.served import Reviewers, build_probes, connect_reviewers
from kscheduler.errors import APIError, ConfigError
from kscheduler.observability.metrics import Metrics
from kscheduler.serving.options import AuthenticationOptions, AuthorizationOptions
from kscheduler.testing.controlplane.ports import free_port
from tests.client.fake_apiserver import FakeAPIServer
from tests.command.kubeconfigs import kubeconfig


async def test_each_review_is_asked_for_with_the_credentials_of_its_flag(tmp_path: Path) -> None:
    clock = SystemClock()
    async with FakeAPIServer().running() as server:
        client = await KubeClient.connect(clock, kubeconfig=kubeconfig(tmp_path, "scheduler", server.url))
        options = RunOptions(
            authentication=AuthenticationOptions(kubeconfig(tmp_path, "authentication", server.url)),
            authorization=AuthorizationOptions(kubeconfig(tmp_path, "authorization", server.url)),
        )
        given = await connect_reviewers(options, client, clock, NoObserver())
        own = await connect_reviewers(RunOptions(), client, clock, NoObserver())
        assert own == (client, client)
        for reviewers in (given, own):
            with pytest.raises(APIError):  # the server knows no reviews; that it was asked is enough
                await reviewers.authentication.reviews.token_review("x")
            with pytest.raises(APIError):
                await reviewers.authorization.reviews.subject_access_review(User("x"), "get", "/metrics")
        asked = [(request.path.rpartition("/")[2], request.headers["Authorization"]) for request in server.requests]
        for one in {client, *given}:
            await one.close()
    assert asked == [
        ("tokenreviews", "Bearer token-of-authentication"),
        ("subjectaccessreviews", "Bearer token-of-authorization"),
        ("tokenreviews", "Bearer token-of-scheduler"),
        ("subjectaccessreviews", "Bearer token-of-scheduler"),
    ]


@pytest.mark.parametrize("flag", ["authentication", "authorization"])
async def test_a_kubeconfig_that_is_not_there_is_refused_with_its_flag(tmp_path: Path, flag: str) -> None:
    absent = str(tmp_path / "absent")
    options = RunOptions(
        authentication=AuthenticationOptions(absent if flag == "authentication" else ""),
        authorization=AuthorizationOptions(absent if flag == "authorization" else ""),
    )
    clock = SystemClock()
    client = await KubeClient.connect(clock, kubeconfig=kubeconfig(tmp_path, "scheduler", "http://127.0.0.1:1"))
    with pytest.raises(ConfigError, match=f"^--{flag}-kubeconfig: kubeconfig {absent}: no such file"):
        await connect_reviewers(options, client, clock, NoObserver())
    await client.close()


async def test_a_scheduler_that_waits_for_the_apiserver_answers_that_it_is_alive_and_not_ready(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SystemClock()
    client = await KubeClient.connect(clock, kubeconfig=kubeconfig(tmp_path, "scheduler", "http://127.0.0.1:1"))
    port = free_port()
    options = RunOptions(bind_address="127.0.0.1", secure_port=port)
    endpoint = build_probes(options, Reviewers(client, client), clock, Metrics(process=False))
    await endpoint.start()
    answers = {}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        for path in ("livez", "healthz", "readyz"):
            async with session.get(f"https://127.0.0.1:{port}/{path}") as answer:
                answers[path] = answer.status, await answer.text()
    await endpoint.stop()
    await client.close()
    assert answers["livez"] == answers["healthz"] == (200, "ok")
    assert answers["readyz"] == (500, "[-]apiserver-version failed: reason withheld\nreadyz check failed\n")
    (record,) = caplog.records
    assert "the apiserver's version is not known yet" in vars(record)["reasons"][0]
