"""The class of a guest that was loaded from a file, and what becomes of its plugins when a new version comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kscheduler.errors import PluginError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.testing import make_node, make_pod
from kscheduler.wasm.batch.plugin_class import plugin_class
from kscheduler.wasm.loading.fetch import LoadError
from tests.plugins.documents import blocks
from tests.wasm.batch.c_guests import PLUGINS, builder, load
from tests.wasm.batch.fake_guest import ListGuest, pack
from tests.wasm.batch.fake_guests import FakeLoaded, made_of
from tests.wasm.batch.plugins import info, make_table, one, score_all

POD = info(make_pod("p"))


def scoring(score: int, **describe: Any) -> ListGuest:
    return ListGuest(["score"], describe, lambda *_: one(scores=pack("q", score, score, score)))


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
