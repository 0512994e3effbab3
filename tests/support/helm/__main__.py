"""Builds helm if the cache lacks it, and prints where it is."""

from tests.support.helm import build

print(build())
