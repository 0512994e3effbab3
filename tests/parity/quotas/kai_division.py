"""KAI-Scheduler's division of resources among queues, step by step as it goes about it: the oracle of `fair_share`.

Written from the behaviour of its package resource_division, which is not a Go module that can be downloaded. Nothing is
shared with `kscheduler.quotas`. The numbers are what the caller gives: with floats, and queues in the random order of a
Go map, the result is what KAI-Scheduler may come to in one run; with fractions, what it would come to if it calculated
exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

UNLIMITED = -1
Number = Any  # float or Fraction; int where nothing is divided yet
Convert = Callable[[Any], Number]


@dataclass(frozen=True, slots=True)
class Terms:
    """What a queue states of one resource, and what it asks for."""

    quota: Number
    limit: Number
    weight: Fraction
    request: Number
    usage: Fraction = Fraction(0)  # past usage, as a part of the cluster


@dataclass(frozen=True, slots=True)
class Row:
    """One queue among its siblings."""

    name: str
    priority: int
    created: str
    terms: Terms


def divide(total: int, rows: Iterable[Row], k: int, number: Convert, rng: Random) -> dict[str, Number]:
    """Return the fair share of each sibling in one resource."""
    division = Division(rows, k, number, rng)
    division.divide(number(total))
    return division.fair


class Division:
    """Siblings who divide one resource. `fair`: what each has got so far, by name."""

    def __init__(self, rows: Iterable[Row], k: int, number: Convert, rng: Random) -> None:
        self.rows = [*rows]
        self.k = number(k)
        self.number = number
        self.rng = rng
        self.fair = {row.name: number(0) for row in self.rows}
        self.weight = {row.name: number(row.terms.weight) for row in self.rows}
        self.usage = {row.name: number(row.terms.usage) for row in self.rows}

    def divide(self, total: Number) -> Number:
        """Give all that there is; return what nobody wants of it."""
        left = self.give_deserved(total)
        return self.give_surplus(left) if left > 0 else self.number(0)

    def any_order(self, rows: list[Row]) -> list[Row]:
        """As a Go map shows them: in another order each time."""
        return self.rng.sample(rows, len(rows))

    def requestable(self, row: Row) -> Number:
        terms = row.terms
        return self.number(terms.request if terms.limit == UNLIMITED else min(terms.limit, terms.request))

    def give_deserved(self, total: Number) -> Number:
        left = total
        for row in self.any_order(self.rows):
            quota = total if row.terms.quota == UNLIMITED else self.number(row.terms.quota)
            given = min(quota, self.requestable(row))
            self.fair[row.name] += given
            left -= given
        return left

    def give_surplus(self, left: Number) -> Number:
        for priority in sorted({row.priority for row in self.rows}, reverse=True):
            if left <= 0:
                break
            bucket = [row for row in self.rows if row.priority == priority]
            left, remainders = self.give_by_weight(left, bucket)
            waiting = sorted(
                (row for row in bucket if row.name in remainders),
                key=lambda row: (-remainders[row.name], row.created, row.name),
            )
            for row in waiting:
                if left <= 0:
                    break
                unit = min(self.number(1), left)
                self.fair[row.name] += unit
                left -= unit
        return left

    def give_by_weight(self, left: Number, bucket: list[Row]) -> tuple[Number, dict[str, Number]]:
        remainders: dict[str, Number] = {}
        is_another_round_due = True
        while is_another_round_due and left != 0:
            is_another_round_due = False
            parts = self.parts(bucket)
            sum_of_parts = sum(parts.values())
            if sum_of_parts == 0:
                break
            in_this_round = left
            for row in self.any_order(bucket):
                if left == 0:
                    break
                if row.name not in parts or self.weight[row.name] == 0:
                    continue
                wanted = self.requestable(row) - self.fair[row.name]
                share = in_this_round * (parts[row.name] / sum_of_parts)
                if wanted <= share:
                    given = wanted
                    remainders.pop(row.name, None)
                else:
                    given = self.number(math.floor(share))
                    if share - given > 0:
                        remainders[row.name] = share - given
                self.fair[row.name] += given
                left -= given
                is_another_round_due |= wanted < share
        return left, remainders

    def parts(self, bucket: list[Row]) -> dict[str, Number]:
        """The weights of those that want more, as parts of their sum, corrected by past usage."""
        wanting = [row for row in self.any_order(bucket) if self.requestable(row) > self.fair[row.name]]
        total = sum(self.weight[row.name] for row in wanting)
        if total == 0:
            return {}
        parts = {}
        for row in wanting:
            normal = self.weight[row.name] / total
            parts[row.name] = max(self.number(0), normal + self.k * (normal - self.usage[row.name]))
        return parts
