"""The first calls of a new version: who does harm there, or answers nonsense, never gets to see a real pod."""

from __future__ import annotations

from pathlib import Path

import pytest

from kscheduler.wasm.arguments import FAILURE_POLICIES
from kscheduler.wasm.engines import engine_named
from kscheduler.wasm.loading.reload import Outcome, Reloader
from kscheduler.wasm.plugins import GuestPlugins
from tests.support.skips import package
from tests.wasm.extension.kit import module
from tests.wasm.hostile_guests import (
    BAD_ANSWERS,
    HARM,
    LOOP,
    MULTI_POINT,
    TRAP,
    batch_guest,
    config_with,
    extension_guest,
    packed,
    scores,
)
from tests.wasm.loading.running import scheduling

package("wasmtime")

REFUSES = packed(error="this pod has no label team")
SOUND = scores(1, 2, 3)


class Scene:
    """A guest that runs, and what looks for its next version."""

    def __init__(self, folder: Path, running: bytes, **arguments: str) -> None:
        self._folder = folder
        self.guests = GuestPlugins()
        config_with(running, folder, self.guests, MULTI_POINT, **arguments)
        self.guest = self.guests.guests[0]
        self.reported: list[str] = []  # outcomes
        self.refusals: list[str] = []
        self.replacements: list[str] = []
        self.reloader: Reloader = self.guests.reloader(self.guest, self)
        self.reloader._recorder = self

    async def change_to(self, guest: bytes) -> Outcome:
        (self._folder / "guest.wasm").write_bytes(guest)
        return await self.reloader.look()

    def looked_for_guest(self, plugin: str, result: str, *, is_replaced: bool) -> None:
        self.reported.append(result)

    def record_refusal(self, plugin: str, why: str) -> None:
        self.refusals.append(why)

    def record_replacement(self, plugin: str, sha256: str) -> None:
        self.replacements.append(sha256)

    async def check_refused(self, guest: bytes, why: str) -> None:
        before = self.guest.version
        assert await self.change_to(guest) is Outcome.REFUSED
        assert self.guest.version is before
        assert self.reported == ["refused"]
        assert len(self.refusals) == 1
        assert why in self.refusals[0], self.refusals


def batch_scene(folder: Path, **arguments: str) -> Scene:
    return Scene(folder, batch_guest(SOUND), **arguments)


def extension_scene(folder: Path, *exports: str) -> Scene:
    return Scene(folder, extension_guest("", *exports))


async def test_a_sound_version_is_taken_after_its_canary(tmp_path: Path) -> None:
    scene = batch_scene(tmp_path)
    assert await scene.change_to(batch_guest(scores(3, 2, 1))) is Outcome.REPLACED
    assert scene.replacements == [scene.guest.sha256]
    assert scene.refusals == []


@pytest.mark.parametrize("policy", FAILURE_POLICIES)
@pytest.mark.parametrize("export", ["ks_call", "ks_table", "ks_alloc"])
@pytest.mark.parametrize("harm", HARM)
async def test_a_batch_guest_that_does_harm_when_it_is_called_is_refused(
    harm: str, export: str, policy: str, tmp_path: Path
) -> None:
    scene = batch_scene(tmp_path, failurePolicy=policy)
    await scene.check_refused(batch_guest(SOUND, before={export: HARM[harm]}), "canary: ")


@pytest.mark.parametrize("what", BAD_ANSWERS)
async def test_a_batch_guest_that_answers_nonsense_is_refused(what: str, tmp_path: Path) -> None:
    await batch_scene(tmp_path).check_refused(batch_guest(BAD_ANSWERS[what]), "canary: ")


@pytest.mark.parametrize("point", ["preFilter", "reserve", "permit", "preBind", "postBind"])
async def test_a_batch_guest_is_called_at_each_of_its_points(point: str, tmp_path: Path) -> None:
    points = ("preFilter", "filter") if point == "preFilter" else (point,)
    scene = Scene(tmp_path, batch_guest(packed(), points=points))
    await scene.check_refused(batch_guest(packed(), points=points, before={"ks_call": LOOP}), "")


_EXPORTS = {  # of which one does harm, and what else is needed for it to be called
    "prefilter": (),
    "filter": (),
    "prescore": ("score",),
    "score": (),
    "normalizescore": ("score",),
    "reserve": (),
    "unreserve": ("reserve",),
    "permit": (),
    "prebind": (),
    "postbind": (),
}


@pytest.mark.parametrize("export", _EXPORTS)
@pytest.mark.parametrize("harm", [LOOP, TRAP], ids=["loops", "traps"])
async def test_an_extension_guest_that_does_harm_is_refused(harm: str, export: str, tmp_path: Path) -> None:
    also = _EXPORTS[export]
    scene = extension_scene(tmp_path, export, *also)
    await scene.check_refused(extension_guest(harm, export, *also), "canary: ")


async def test_a_status_code_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    await extension_scene(tmp_path, "filter").check_refused(
        extension_guest("(return (i32.const 77))", "filter"), "unknown status code 77"
    )


async def test_a_score_that_is_out_of_range_is_refused(tmp_path: Path) -> None:
    await extension_scene(tmp_path, "score").check_refused(
        extension_guest("(return (i64.const 0x65_00000000))", "score"), "invalid score 101"
    )


async def test_an_endless_loop_as_it_starts_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = extension_scene(tmp_path, "filter")
    await scene.check_refused(
        module(_initialize="(loop $again (br $again))", filter="(i32.const 0)"), "_initialize: ran longer than"
    )


async def test_an_error_of_its_own_is_held_against_a_version_only_if_it_is_new(tmp_path: Path) -> None:
    scene = batch_scene(tmp_path)
    await scene.check_refused(batch_guest(REFUSES), "this pod has no label team; the version that runs has no such")
    picky = Scene(tmp_path, batch_guest(REFUSES))
    assert await picky.change_to(batch_guest(packed(error="nor has it one now"))) is Outcome.REPLACED


async def test_a_version_that_rejects_every_pod_is_no_fault(tmp_path: Path) -> None:
    scene = extension_scene(tmp_path, "filter", "reserve")
    assert await scene.change_to(extension_guest("(return (i32.const 2))", "filter", "reserve")) is Outcome.REPLACED


async def test_no_instance_outlives_the_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = batch_scene(tmp_path)
    for guest in (batch_guest(scores(3, 2, 1)), batch_guest(SOUND, before={"ks_call": TRAP})):
        made: list[object] = []
        engine = engine_named("wasmtime")
        kind = type(engine.compile(guest))
        instantiate = kind.instantiate

        def counted(*given: object, **more: object) -> object:
            made.append(instantiate(*given, **more))  # type: ignore[arg-type]  # noqa: B023
            return made[-1]  # noqa: B023

        with monkeypatch.context() as patched:
            patched.setattr(kind, "instantiate", counted)
            await scene.change_to(guest)
        assert made
        assert all(instance.is_broken for instance in made)  # type: ignore[attr-defined]  # closed ones are


async def test_the_scheduler_says_what_became_of_a_version_in_an_event(tmp_path: Path) -> None:
    guests = GuestPlugins()
    config = config_with(batch_guest(SOUND), tmp_path, guests)
    async with scheduling(config, guests) as (scheduler, cluster, metrics):
        reloader = guests.reloader(guests.guests[0], scheduler)
        for guest in (batch_guest(SOUND, before={"ks_call": TRAP}), batch_guest(scores(3, 2, 1))):
            (tmp_path / "guest.wasm").write_bytes(guest)
            await reloader.look()
        assert metrics.wasm_guest_reloads_total.labels("Guest", "refused").value == 1
        assert metrics.wasm_faults_total.labels("Guest", "trap").value == 0  # no real pod was harmed
        assert await scheduler.recorder.drain(5.0)
        reported = [(event.reason, event.regarding.name, event.note) for event in cluster.events]
    refused = next(note for reason, name, note in reported if (reason, name) == ("PluginVersionRefused", "guest"))
    assert "unreachable" in refused
    assert refused.endswith("the version that runs goes on")
    assert ("PluginReplaced", "guest") in {(reason, name) for reason, name, _ in reported}
