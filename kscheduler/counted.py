"""Writes how many there are of something: "1 pod", "5,000 pods"."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, whose plural is that with an "s" unless it is given.

    Both may hold more words, such as the verb: counted(number, "pod is", "pods are").
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
