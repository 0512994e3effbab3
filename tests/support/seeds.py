"""Where searches among generated cases begin: with the same seeds in each `make test`, with fresh ones in `make hunt`.

The seeds of `make test` come from the release, so each release looks at other cases and none fails by chance. What a
hunt finds is kept in kept_seeds.yaml, which `make test` replays. Hypothesis draws the same examples in each run of
`make test` too, and keeps no database of them; a find of its tests is kept as an @example.

Long searches are sampled in `make test`, which looks at the same cases each time, and run whole in a hunt.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import yaml
from hypothesis import settings

from kscheduler import __version__
from tests.support.few_cases import EXAMPLES, cases_of_each

HUNTED = "KSCHEDULER_SEED"  # the environment variable by which a hunt sets the seed
KEPT = Path(__file__).with_name("kept_seeds.yaml")
SHARE = 4  # of a search, `make test` runs one part of so many


def first_seed() -> int:
    """That of the hunt, or of the release."""
    if hunted := os.environ.get(HUNTED):
        return int(hunted)
    return int.from_bytes(hashlib.sha256(__version__.encode()).digest()[:5], "big")


def sampled(whole: int) -> int:
    """How many cases a search looks at, of `whole` in a hunt."""
    return whole if HUNTED in os.environ else -(-whole // SHARE)


def search_seeds(variable: str, whole: int) -> range:
    """The seeds of one search: as many as the environment variable says, else `whole` in a hunt or a part of them."""
    first = first_seed()
    return range(first, first + int(os.environ.get(variable) or sampled(whole)))


def kept_seeds(search: str) -> list[int]:
    """The finds of earlier hunts in a search; KeyError if it has no entry in the file."""
    kept: dict[str, list[int]] = yaml.safe_load(KEPT.read_text())
    return kept[search]


def load_hypothesis_profile() -> None:
    """To be called before a test module is imported, for its settings begin with those of the profile."""
    settings.register_profile("release", derandomize=True, database=None, deadline=None, print_blob=True)
    settings.register_profile("hunt", settings.get_profile("release"), derandomize=False)
    settings.register_profile("few cases", settings.get_profile("release"), max_examples=EXAMPLES)
    settings.load_profile("hunt" if HUNTED in os.environ else "few cases" if cases_of_each() else "release")
