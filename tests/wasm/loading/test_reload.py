"""New versions of a guest: taken when they are good, and never at the cost of the one that runs."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kscheduler.config.duration import Duration
from kscheduler.errors import PluginError
from kscheduler.input.redaction import SecretURL
from kscheduler.wasm.arguments import WasmArguments
from kscheduler.wasm.loading.compiling import Version
from kscheduler.wasm.loading.download import DEFAULT_LIMITS, DownloadLimits
from kscheduler.wasm.loading.fetch import Fetcher
from kscheduler.wasm.loading.guest import Guest
from kscheduler.wasm.loading.reload import Outcome, Reloader
from kscheduler.wasm.plugins import GuestPlugins
from tests.wasm.loading.modules import FILTER, FILTER_2, SCORE, FakeEngine, module
from tests.wasm.loading.servers import Answer, saying, serving, whole

BROKEN = module({"filter": ":i"}, custom=b"BAD")


class Plugin:
    """A plugin object that follows a guest."""

    def __init__(self, guest: Guest) -> None:
        self.running = guest.version
        self.tried: list[str] = []
        self.refuses = ""
        guest.follow(self)

    def try_out(self, version: Version) -> None:
        self.tried.append(version.sha256)
        if self.refuses:
            raise PluginError(self.refuses)

    def replace(self, version: Version) -> None:
        self.running = version


class Watched:
    """Records the notifications of a reload."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, str, bool]] = []

    def looked_for_guest(self, plugin: str, result: str, *, is_replaced: bool) -> None:
        self.reported.append((plugin, result, is_replaced))


class Scene:
    """A guest from a file, and what watches over it."""

    def __init__(self, path: Path, url: str = "", *, limits: DownloadLimits = DEFAULT_LIMITS) -> None:
        self.path = path
        if not url:
            path.write_bytes(FILTER)
        self.engine = FakeEngine()
        self.fetcher = Fetcher(SecretURL(url or f"file://{path}"), limits=limits)
        self.watched = Watched()

    async def start(self) -> Scene:
        arguments = WasmArguments(guest_url=SecretURL(self.fetcher.shown), reload_interval=Duration.of_seconds(10))
        fetched = await self.fetcher.fetch()
        self.guest = Guest("Policy", arguments, self.fetcher, fetched, lambda: self.engine, None)
        self.plugin = Plugin(self.guest)
        self.reloader = Reloader(self.guest, self.watched)
        return self

    def module_of(self, version: Version) -> bytes:
        found: Any = version.module
        wasm: bytes = found.wasm
        return wasm


@pytest.fixture
async def scene(tmp_path: Path) -> Scene:
    return await Scene(tmp_path / "g.wasm").start()


async def test_an_unchanged_guest_is_compiled_once(scene: Scene) -> None:
    for _ in range(3):
        assert await scene.reloader.look() is Outcome.UNCHANGED
    assert scene.engine.compiled == [FILTER]
    assert scene.watched.reported == [("Policy", "unchanged", False)] * 3


async def test_a_good_version_is_tried_out_and_then_replaces_the_old(scene: Scene) -> None:
    scene.path.write_bytes(FILTER_2)
    assert await scene.reloader.look() is Outcome.REPLACED
    assert scene.module_of(scene.plugin.running) == FILTER_2
    assert scene.plugin.tried == [scene.plugin.running.sha256]
    assert scene.guest.version is scene.plugin.running
    assert scene.watched.reported == [("Policy", "replaced", True)]
    assert await scene.reloader.look() is Outcome.UNCHANGED


async def test_all_plugin_objects_change_together(scene: Scene) -> None:
    other = Plugin(scene.guest)
    scene.path.write_bytes(FILTER_2)
    await scene.reloader.look()
    assert scene.plugin.running is other.running is scene.guest.version


async def test_one_plugin_object_that_refuses_keeps_the_old_for_all(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    other = Plugin(scene.guest)
    other.refuses = "canary: filter trapped"
    before = scene.plugin.running
    scene.path.write_bytes(FILTER_2)
    assert await scene.reloader.look() is Outcome.REFUSED
    assert scene.plugin.running is other.running is scene.guest.version is before
    (record,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert "canary: filter trapped" in record.__dict__["err"]


@pytest.mark.parametrize("data", [b"", b"<html>", FILTER_2[:30], BROKEN, module(), SCORE])
async def test_a_bad_version_leaves_the_old_one_running_and_is_not_tried_twice(scene: Scene, data: bytes) -> None:
    before = scene.plugin.running
    scene.path.write_bytes(data)
    assert await scene.reloader.look() is Outcome.REFUSED
    assert await scene.reloader.look() is Outcome.UNCHANGED
    assert scene.plugin.running is before
    assert scene.plugin.tried == []
    scene.path.write_bytes(FILTER_2)
    assert await scene.reloader.look() is Outcome.REPLACED


async def test_other_extension_points_take_a_restart(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.path.write_bytes(SCORE)
    await scene.reloader.look()
    why = caplog.records[-1].__dict__["err"]
    assert "with the extension points filter, got one of kube-scheduler-wasm-extension with score" in why
    assert why.endswith("that takes a restart")


SEES = {
    "nodes": module({"filter": ":i"}, [("k8s.io/api", "node", "iiii:i")]),
    "pods": module({"filter": ":i"}, [("k8s.io/scheduler", "currentPod", "ii:i")]),
}


@pytest.mark.parametrize("what", SEES)
async def test_a_version_that_reads_complete_objects_takes_a_restart_if_none_are_stored(
    what: str, scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.path.write_bytes(SEES[what])
    plugins = GuestPlugins(cache_dir="")
    plugins._classes["Policy", ""] = scene.guest, object
    reloader = plugins.reloader(scene.guest, scene.watched)
    assert await reloader.look() is Outcome.REFUSED
    assert f"expected a guest that reads no complete {what}" in caplog.records[-1].__dict__["err"]


@pytest.mark.parametrize("what", SEES)
async def test_a_version_may_read_complete_objects_that_are_stored_for_another(what: str, scene: Scene) -> None:
    scene.path.write_bytes(SEES[what])
    assert await Reloader(scene.guest, scene.watched).look() is Outcome.REPLACED


async def test_the_way_back_to_the_old_version_is_open(scene: Scene) -> None:
    for data, outcome in (
        (FILTER_2, Outcome.REPLACED),
        (FILTER, Outcome.REPLACED),
        (BROKEN, Outcome.REFUSED),
        (FILTER, Outcome.UNCHANGED),
        (FILTER_2, Outcome.REPLACED),
        (BROKEN, Outcome.REFUSED),
    ):
        scene.path.write_bytes(data)
        assert await scene.reloader.look() is outcome


async def test_a_source_that_is_gone_is_logged_once_and_asked_again(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.path.unlink()
    for _ in range(3):
        assert await scene.reloader.look() is Outcome.UNREACHABLE
    assert [each.levelname for each in caplog.records] == ["WARNING"]
    scene.path.write_bytes(FILTER_2)
    assert await scene.reloader.look() is Outcome.REPLACED


async def test_a_plugin_object_that_is_dropped_is_not_asked_any_more(scene: Scene) -> None:
    other = Plugin(scene.guest)
    other.refuses = "no"
    del other
    gc.collect()
    scene.path.write_bytes(FILTER_2)
    assert await scene.reloader.look() is Outcome.REPLACED


async def test_a_plugin_object_that_fails_to_change_does_not_hold_up_the_others(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Plugin(scene.guest), Plugin(scene.guest)

    def fail(version: Version) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr(first, "replace", fail)
    scene.path.write_bytes(FILTER_2)
    assert await scene.reloader.look() is Outcome.REPLACED
    assert second.running is scene.plugin.running is scene.guest.version


async def test_a_server_is_looked_at_as_a_file_is(tmp_path: Path) -> None:
    async with serving(saying(whole(FILTER))) as server:
        scene = await Scene(tmp_path / "none", server.url).start()
        answers: list[tuple[Answer, Outcome]] = [
            (saying(whole(FILTER)), Outcome.UNCHANGED),
            (saying(whole(FILTER_2, "503 Busy")), Outcome.UNREACHABLE),
            (saying(whole(FILTER_2, content_length="9999")), Outcome.UNREACHABLE),
            (saying(whole(b"<html>")), Outcome.REFUSED),
            (saying(whole(FILTER_2)), Outcome.REPLACED),
        ]
        for server.answer, outcome in answers:
            assert await scene.reloader.look() is outcome


async def test_a_server_that_drips_or_says_nothing_keeps_no_version_from_running(tmp_path: Path) -> None:
    hurried = replace(DEFAULT_LIMITS, grace_s=0.1, silence_s=0.2)
    async with serving(saying(whole(FILTER))) as server:
        scene = await Scene(tmp_path / "none", server.url, limits=hurried).start()
        announced = whole(b"", content_length="1000")
        for server.answer in (
            saying(announced, *[b"g"] * 1000, pause_s=0.02),
            saying(announced, holding=True),
            saying(announced[:20], holding=True),
        ):
            assert await scene.reloader.look() is Outcome.UNREACHABLE
            assert scene.module_of(scene.plugin.running) == FILTER
        server.answer = saying(whole(FILTER_2))
        assert await scene.reloader.look() is Outcome.REPLACED


async def test_the_canary_goes_before_the_plugins(scene: Scene) -> None:
    def canary(version: Version) -> None:
        raise PluginError("the canary is dead")

    scene.reloader = Reloader(scene.guest, scene.watched, canary=canary)
    scene.path.write_bytes(FILTER_2)
    assert await scene.reloader.look() is Outcome.REFUSED
    assert scene.plugin.tried == []


async def test_the_event_loop_goes_on_while_a_version_is_compiled_and_tried(scene: Scene) -> None:
    loop = asyncio.get_running_loop()
    beats = 0

    def try_out(version: Version) -> None:
        """Waits until the loop has turned: for ever, if this held it up."""
        asyncio.run_coroutine_threadsafe(beat(), loop).result()

    async def beat() -> None:
        nonlocal beats
        beats += 1

    scene.plugin.try_out = try_out  # type: ignore[method-assign]
    scene.path.write_bytes(FILTER_2)
    assert await scene.reloader.look() is Outcome.REPLACED
    assert beats == 1


async def test_it_looks_after_each_interval_until_it_is_cancelled(scene: Scene) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await Reloader(scene.guest, scene.watched, sleep).run()
    assert slept == [10.0, 10.0, 10.0]
    assert len(scene.watched.reported) == 2
