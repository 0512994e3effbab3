"""The class of a guest that was loaded from a file, and what becomes of its plugins when a new version comes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kscheduler.errors import PluginError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.input.redaction import SecretURL
from kscheduler.testing import make_node, make_pod
from kscheduler.wasm.arguments import WasmArguments
from kscheduler.wasm.batch.plugin_class import plugin_class
from kscheduler.wasm.loading.fetch import LoadError
from tests.plugins.documents import blocks
from tests.wasm.batch.fake_guest import FakeModule, ListGuest, pack
from tests.wasm.batch.plugins import URL, info, make_table
from tests.wasm.batch.test_c_guests import PLUGINS, builder, load
from tests.wasm.batch.test_plugin import one, score_all

POD = info(make_pod("p"))


class FakeLoaded:
    """A guest as the loader has it."""

    def __init__(self, guest: ListGuest) -> None:
        self.name = "Fake"
        self.arguments = WasmArguments(guest_url=SecretURL(URL))
        self.version = self.of(guest)
        self.followers: list[Any] = []

    @staticmethod
    def of(guest: ListGuest, digest: str = "") -> Any:
        return SimpleNamespace(module=FakeModule(guest), sha256=digest)

    def follow(self, follower: Any) -> None:
        self.followers.append(follower)


def scoring(score: int, **describe: Any) -> ListGuest:
    return ListGuest(["score"], describe, lambda *_: one(scores=pack("q", score, score, score)))


def made_of(loaded: FakeLoaded) -> Any:
    table = make_table()
    handle = SimpleNamespace(table=table)
    plugin = plugin_class(loaded)({}, handle)  # type: ignore[arg-type]
    return SimpleNamespace(plugin=plugin, table=table)


def test_a_new_version_takes_over_between_two_cycles() -> None:
    loaded = FakeLoaded(scoring(7))
    made = made_of(loaded)
    assert (made.plugin.name, score_all(made)) == ("Fake", [7, 7, 7])
    fresh = loaded.of(scoring(9), "digest")
    (follower,) = loaded.followers
    follower.try_out(fresh)
    assert score_all(made) == [7, 7, 7]
    old = made.plugin.pool
    follower.replace(fresh)
    assert score_all(made) == [9, 9, 9]
    assert old.instances == 0


@pytest.mark.parametrize(
    ("guest", "message"),
    [
        (ListGuest(["filter"]), "points: expected score as in the version that runs, got filter"),
        (ListGuest(["score", "permit"]), "points: expected score as in the version that runs, got score, permit"),
        (scoring(1, normalize="default"), "normalize: expected none as in the version that runs, got default"),
        (scoring(1, pod=["name"]), "pod: expected nothing as in the version that runs, got name"),
    ],
    ids=str,
)
def test_a_version_that_is_another_plugin_is_refused(guest: ListGuest, message: str) -> None:
    loaded = FakeLoaded(scoring(7))
    made_of(loaded)
    with pytest.raises(PluginError, match=message):
        loaded.followers[0].try_out(loaded.of(guest))


def test_a_guest_that_cannot_describe_itself_is_not_loaded() -> None:
    for guest in (ListGuest(version=9), ListGuest(refuses="no"), ListGuest(points=["x"])):
        with pytest.raises(LoadError, match=r"^wasm: "):
            plugin_class(FakeLoaded(guest))  # type: ignore[arg-type]


def test_the_plugin_on_the_librarys_page_works(tmp_path: Path) -> None:
    (source,) = blocks(PLUGINS / "sdk" / "c" / "README.md", "c")
    path = tmp_path / "prefer_old.c"
    path.write_text(source)
    wasm = builder.build(path, tmp_path)
    nodes = [make_node("a").label("age", "10"), make_node("b"), make_node("c").label("age", "40")]
    made = load("", make_table(*nodes), wasm=wasm)
    found = [made.plugin.score(CycleState(), info(make_pod("p").label(likes="old")), node)[0] for node in made.table]
    assert found == [10, 0, 40]
    assert score_all(made) == [0, 0, 0]
