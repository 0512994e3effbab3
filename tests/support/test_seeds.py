"""`make test` is the same on every run; fresh seeds belong to `make hunt`, whose finds are kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests import hunt
from tests.support import seeds

ROOT = Path(__file__).parents[2]
EXAMPLES = """
import pathlib
from hypothesis import given, strategies as st
@given(st.integers())
def test_it(number):
    with pathlib.Path("drawn").open("a") as file: print(number, file=file)
"""


def test_the_first_seed_is_fixed_by_the_release_unless_a_hunt_sets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(seeds.HUNTED, raising=False)
    monkeypatch.setattr(seeds, "__version__", "1.2.3")
    assert seeds.first_seed() == seeds.first_seed() == 843950266552
    monkeypatch.setattr(seeds, "__version__", "1.2.4")
    assert seeds.first_seed() != 843950266552
    monkeypatch.setenv(seeds.HUNTED, "17")
    assert seeds.search_seeds("KSCHEDULER_NOBODY_SETS_THIS", 3) == range(17, 20)


def test_a_hunt_runs_searches_whole_and_other_runs_a_part_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(seeds.HUNTED, raising=False)
    assert [seeds.sampled(whole) for whole in (3000, 10, 1)] == [750, 3, 1]
    assert len(seeds.search_seeds("KSCHEDULER_NOBODY_SETS_THIS", 3000)) == 750
    monkeypatch.setenv("KSCHEDULER_SOMEBODY_SETS_THIS", "3000")
    assert len(seeds.search_seeds("KSCHEDULER_SOMEBODY_SETS_THIS", 3000)) == 3000
    monkeypatch.setenv(seeds.HUNTED, "17")
    assert seeds.sampled(3000) == len(seeds.search_seeds("KSCHEDULER_NOBODY_SETS_THIS", 3000)) == 3000


def test_every_kept_seed_belongs_to_a_search() -> None:
    kept = yaml.safe_load(seeds.KEPT.read_text())
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert kept
    for search, found in kept.items():
        assert f'kept_seeds("{search}")' in sources
        assert all(isinstance(seed, int) for seed in found)


def drawn(folder: Path, *arguments: str, hunted: str | None) -> str:
    """What Hypothesis draws in a run of its own."""
    folder.mkdir()
    (folder / "conftest.py").write_text(
        "from tests.support.seeds import load_hypothesis_profile\nload_hypothesis_profile()\n"
    )
    (folder / "test_it.py").write_text(EXAMPLES)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop(seeds.HUNTED, None)
    if hunted is not None:
        environment[seeds.HUNTED] = hunted
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".", "."]
    done = subprocess.run([*command, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert not (folder / ".hypothesis" / "examples").exists()
    return (folder / "drawn").read_text()


def test_hypothesis_draws_the_same_examples_in_each_run_and_others_in_a_hunt(tmp_path: Path) -> None:
    usual = drawn(tmp_path / "a", hunted=None)
    assert drawn(tmp_path / "b", hunted=None) == usual
    hunted = drawn(tmp_path / "c", "--hypothesis-seed=17", hunted="17")
    assert hunted != usual
    assert drawn(tmp_path / "d", "--hypothesis-seed=17", hunted="17") == hunted
    assert drawn(tmp_path / "e", "--hypothesis-seed=18", hunted="18") != hunted


def test_a_hunt_says_how_to_repeat_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert hunt.hunt([4, 5, 6], lambda seed: seed != 5) == 1
    printed = capsys.readouterr().out
    assert "seed 5 found the above; `make hunt SEEDS=5` repeats it" in printed
    assert "3 passes, 1 with finds" in printed
    assert "kept_seeds.yaml" in printed
    assert hunt.hunt([4, 6], lambda seed: True) == 0


def test_a_hunt_ends_with_the_pass_in_which_its_time_is_over() -> None:
    now = 0.0
    found = hunt.fresh_seeds(1, lambda: now)
    passes = []
    for seed in found:
        passes.append(seed)
        now += 25.0
    assert len(passes) == len(set(passes)) == 3
