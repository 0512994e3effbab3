"""Wasm plugins of profiles: found by their arguments, fetched once, made by their host, and replaced in a scheduler."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kscheduler.assembly import check_supported
from kscheduler.cache.cache import Cache
from kscheduler.config.load import parse_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.framework import CycleState, Handle, NodeInfo, PodInfo, Status
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.status import Code
from kscheduler.input.redaction import Secret
from kscheduler.observability.metrics import Metrics
from kscheduler.testing import make_pod
from kscheduler.testing.controlplane.patience import until
from kscheduler.wasm.loading.abi import Abi
from kscheduler.wasm.loading.compiling import Version
from kscheduler.wasm.loading.guest import Guest
from kscheduler.wasm.plugins import GuestPlugins
from tests.wasm.loading.modules import BATCH_EXPORTS, FILTER, SCORE, FakeEngine, module
from tests.wasm.loading.running import scheduling

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
NO = module({"filter": ":i"}, custom=b"says no")


def profile(args: str, name: str = "Policy", scheduler: str = "default-scheduler", point: str = "multiPoint") -> str:
    plugins = f"plugins: {{{point}: {{enabled: [{{name: '{name}'}}]}}}}"
    config = f"pluginConfig: [{{name: '{name}', args: {args}}}]"
    return f"- {{schedulerName: {scheduler}, {plugins}, {config}}}\n"


def handle() -> Handle:
    async def bind(pod: PodInfo, node_name: str) -> None:
        raise AssertionError("nothing is bound here")

    return Handle(table=Cache().table, rng=random.Random(1), bind=bind)


class FakeHost:
    """Makes plugins that do what a guest's bytes say, without running them."""

    def __init__(self) -> None:
        self.made: list[Guest] = []

    def __call__(self, guest: Guest) -> type[Any]:
        self.made.append(guest)
        bases = {"filter": Filtering, "score": Scoring}
        kinds = tuple(bases[point] for point in guest.interface.points)
        return type(guest.name, kinds, {"name": guest.name, "guest": guest})


class Filtering:
    guest: Guest

    def __init__(self, args: object, handle: Handle) -> None:
        self.version = self.guest.version
        self.guest.follow(self)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        module: Any = self.version.module
        return Status(Code.UNSCHEDULABLE, ("the guest says no",)) if b"says no" in module.wasm else None

    def try_out(self, version: Version) -> None:
        pass

    def replace(self, version: Version) -> None:
        self.version = version


class Scoring:
    def __init__(self, args: object, handle: Handle) -> None:
        pass

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        return 7, None


class Bench:
    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path / "g.wasm"
        self.path.write_bytes(FILTER)
        self.host, self.engine = FakeHost(), FakeEngine()
        self.guests = GuestPlugins(hosts={Abi.EXTENSION: self.host}, engine=lambda name: self.engine)

    def args(self, more: str = "") -> str:
        return f"{{guestURL: 'file://{self.path}'{more}}}"

    def config(self, text: str) -> SchedulerConfig:
        return parse_config(HEAD + text, "s.yaml", find_plugins=partial(find_plugins, guests=self.guests))

    def fault(self, text: str) -> str:
        with pytest.raises(ConfigError) as caught:
            self.config(text)
        return str(caught.value)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_plugin_with_a_guest_url_becomes_a_plugin_of_its_profile(bench: Bench) -> None:
    config = bench.config(profile(bench.args()))
    points = build(config.profiles[0], handle(), bench.guests)
    assert "Policy" in [plugin.name for plugin, _ in points["filter"]]
    assert "Policy" not in [plugin.name for plugin, _ in points["score"]]


def test_it_may_be_enabled_at_a_single_point_too(bench: Bench) -> None:
    bench.config(profile(bench.args(), point="filter"))
    assert 'plugin "Policy" does not extend ScorePlugin plugin' in bench.fault(profile(bench.args(), point="score"))


def test_each_guest_is_fetched_once_and_compiled_when_a_plugin_is_made(bench: Bench) -> None:
    config = bench.config(profile(bench.args()))
    assert bench.engine.compiled == []
    bench.path.unlink()
    for _ in range(3):
        check_supported(config, bench.guests)
    assert bench.engine.compiled == [FILTER]
    assert len(bench.host.made) == 1


def test_two_profiles_may_give_one_plugin_different_arguments(bench: Bench) -> None:
    text = profile(bench.args(", guestConfig: a")) + profile(bench.args(", guestConfig: b"), scheduler="other")
    bench.config(text)
    assert [guest.arguments.guest_config for guest in bench.guests.guests] == [Secret("a"), Secret("b")]


def test_in_two_profiles_a_plugin_has_the_same_points(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "s.wasm").write_bytes(SCORE)
    text = profile(bench.args()) + profile(f"{{guestURL: 'file://{tmp_path}/s.wasm'}}", scheduler="other")
    assert 'profiles[1].plugins: "Policy": expected the extension points filter, as in another' in bench.fault(text)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("{guestUrl: 'file://x'}", 'unknown argument "guestUrl" (did you mean guestURL?)'),
        ("{guestURL: ''}", "wasm: guestURL is required"),
        ("{guestURL: 'ftp://a/b'}", "wasm: error reading guestURL ftp://a/b: unsupported URL scheme: ftp"),
        ("{guestURL: 'file:///absent'}", "error reading guestURL file:///absent: open /absent: no such file or"),
        ("{guestURL: 'http://a.example/x'}", "expected https, got plain http from a.example"),
        ("{guestURL: 'file:///dev/null', deadline: 1h}", "args.deadline: expected 1ms to 10s"),
    ],
)
def test_what_is_wrong_with_it_is_reported_with_the_place_in_the_file(bench: Bench, args: str, message: str) -> None:
    text = bench.fault(profile(args))
    assert text.startswith("s.yaml: profiles[0].pluginConfig[0].args")
    assert message in text


def test_a_guest_that_is_no_plugin_is_reported_before_anything_starts(bench: Bench) -> None:
    bench.path.write_bytes(module({"add": "ii:i"}))
    assert "wasm: guest does not export any plugin functions" in bench.fault(profile(bench.args()))
    bench.path.write_bytes(module(BATCH_EXPORTS | {"ks_alloc": ":i"}))
    assert "export ks_alloc: expected (i32) -> (i32), got () -> (i32)" in bench.fault(profile(bench.args()))


def test_a_name_of_kube_scheduler_stays_kube_schedulers(bench: Bench) -> None:
    text = bench.fault(profile(bench.args(), name="NodeAffinity"))
    assert "strict decoding error" in text
    assert bench.host.made == []


def test_a_guest_is_fetched_from_inside_a_loop_too(bench: Bench) -> None:
    async def inside() -> SchedulerConfig:
        return bench.config(profile(bench.args()))

    assert asyncio.run(inside()).profiles


async def check_replacement(bench: Bench, *, no: bytes, bad: bytes, yes: bytes) -> None:
    bench.path.write_bytes(no)
    config = bench.config(profile(bench.args(", reloadInterval: 100ms")))
    async with scheduling(config, bench.guests) as (scheduler, cluster, metrics):
        cluster.create_pod(make_pod("p").req(cpu="1").obj())
        await until(lambda: scheduler.queue.counts().unschedulable == 1)
        bench.path.write_bytes(bad)
        await until(lambda: looks(metrics, "refused") == 1)
        assert not cluster.pods["default/p"].spec.node_name
        bench.path.write_bytes(yes)
        await until(lambda: bool(cluster.pods["default/p"].spec.node_name))
        assert looks(metrics, "replaced") == 1


@pytest.mark.slow
async def test_a_new_version_is_used_in_a_running_scheduler_and_wakes_the_pods_that_the_old_one_refused(
    bench: Bench,
) -> None:
    await check_replacement(bench, no=NO, bad=b"no module at all", yes=FILTER)


@pytest.mark.slow
async def test_a_new_version_of_a_guest_that_really_runs_is_used_in_a_running_scheduler(bench: Bench) -> None:
    bench.guests = GuestPlugins()
    no, broken = (
        module({"filter": ":i", "_start": ":"}, answers=answers) for answers in ({"filter": 2}, {"_start": -1})
    )
    await check_replacement(bench, no=no, bad=broken, yes=FILTER)


def looks(metrics: Metrics, result: str) -> float:
    return metrics.wasm_guest_reloads_total.labels("Policy", result).value
