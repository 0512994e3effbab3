"""The search for devices on one node where a device takes no more than comparing integers.

Devices, requests and constraints are numbered; a request has variants, of which one suffices. As in
`devices/search.py`, it is depth-first, and the first full solution wins.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

_MAX_RESULTS = 32  # devices that the allocation of one claim can have
_NO_VALUE, _UNKNOWN_VALUE = -1, -2  # of an attribute: the device has none; it is of a type that is not known
_MATCH = 0  # a kind of constraint; the other is that values differ
_NO_SOLUTION, _TOO_MANY = 0, 1
_DEVICE, _ALTERNATIVE, _END = 0, 1, 2  # what is on the stack


def find_devices(
    claim_starts: array[int],
    variant_starts: array[int],
    has_alternatives: bytes,
    counts: array[int],
    matching: bytes,
    in_use: bytes,
    use_starts: array[int],
    use_counters: array[int],
    use_amounts: array[int],
    pool_of: array[int],
    pool_starts: array[int],
    available: array[int],
    constraint_claims: array[int],
    constraint_kinds: bytes,
    values: array[int],
    applies: bytes,
    most_steps: int,
) -> tuple[int, list[int] | None]:
    """Choose devices for all claims together.

    Returns the number of steps, and for each chosen device, in the order of claims and requests, the number of the
    variant followed by that of the device; None if there is no solution. Steps are -1 if there would be more than
    `most_steps`.

    `claim_starts` and `variant_starts`: where each claim's requests and each request's variants begin, and the end.
    `counts`: how many devices a variant wants, at least 1. `matching`: for each variant a byte for each device, 1 if it
    may be chosen. `in_use`: a byte for each device. `use_starts`: where each device's uses of counters begin in
    `use_counters` (int32) and `use_amounts` (int64). `pool_of`: each device's pool; `pool_starts`: where each pool's
    counters begin in `available` (int64). A device that uses counters may be chosen if no counter of its pool is
    overdrawn then. `constraint_kinds`: 0 if all values have to be equal, 1 if all have to differ. `values`: for each
    constraint the number of each device's value, -1 if it has none, -2 if that equals no other; `applies`: for each
    constraint a byte for each variant.
    """
    search = _Search(
        claim_starts,
        variant_starts,
        has_alternatives,
        counts,
        matching,
        in_use,
        (use_starts, use_counters, use_amounts),
        (pool_of, pool_starts),
        available,
        (constraint_claims, constraint_kinds, values, applies),
        most_steps,
    )
    return search.run()


class _Search:
    def __init__(
        self,
        claim_starts: Sequence[int],
        variant_starts: Sequence[int],
        has_alternatives: bytes,
        counts: Sequence[int],
        matching: bytes,
        in_use: bytes,
        uses: tuple[Sequence[int], Sequence[int], Sequence[int]],
        pools: tuple[Sequence[int], Sequence[int]],
        available: Sequence[int],
        constraints: tuple[Sequence[int], bytes, Sequence[int], bytes],
        most_steps: int,
    ) -> None:
        self._claim_starts, self._variant_starts = claim_starts, variant_starts
        self._has_alternatives, self._counts, self._matching = has_alternatives, counts, matching
        self._taken = bytearray(in_use)
        self._use_starts, self._use_counters, self._use_amounts = uses
        self._pool_of, self._pool_starts = pools
        self._left = list(available)
        self._constraint_claims, self._kinds, self._values, self._applies = constraints
        self._chosen_values: list[list[int]] = [[] for _ in self._kinds]
        self._most_steps, self._steps = most_steps, 0
        self._results = [0] * (len(claim_starts) - 1)
        # (kind, claim, request, variant, k, device, whether all alternatives so far needed too many results)
        self._stack: list[list[int]] = []

    def run(self) -> tuple[int, list[int] | None]:
        position: list[int] | None = [0, 0, -1, 0, 0]  # claim, request, variant (-1: none yet), k, first device
        while position is not None:
            outcome = self._go_on(position)
            if outcome is None:
                found: list[int] = []
                for kind, _, _, variant, _, device, _ in self._stack:
                    if kind == _DEVICE:
                        found += [variant, device]
                return self._steps, found
            if self._steps > self._most_steps:
                return -1, None
            position = self._go_back(outcome)
        return self._steps, None

    def _go_on(self, position: list[int]) -> int | None:
        claim, request, variant, k, start = position
        while True:
            self._steps += 1
            if self._steps > self._most_steps:
                return _NO_SOLUTION
            if claim >= len(self._results):
                return None
            if request >= self._claim_starts[claim + 1]:
                self._stack.append([_END, claim, request, 0, 0, 0, 0])
                claim, request, variant, k, start = claim + 1, self._claim_starts[claim + 1], -1, 0, 0
                continue
            if variant < 0:
                variant = self._variant_starts[request]
                if self._has_alternatives[request]:
                    self._stack.append([_ALTERNATIVE, claim, request, variant, 0, 0, 1])
                    continue
            count = self._counts[variant]
            if k >= count:
                request, variant, k, start = request + 1, -1, 0, 0
                continue
            if count - k > _MAX_RESULTS - self._results[claim]:
                return _TOO_MANY
            device = self._choose(claim, variant, start)
            if device < 0:
                return _NO_SOLUTION
            self._stack.append([_DEVICE, claim, request, variant, k, device, 0])
            k, start = k + 1, device + 1

    def _go_back(self, outcome: int) -> list[int] | None:
        while self._stack:
            last = self._stack.pop()
            kind, claim, request, variant, k, device, all_too_many = last
            if kind == _DEVICE:
                self._give_back(claim, variant, device)
                if outcome == _TOO_MANY:
                    continue
                device = self._choose(claim, variant, device + 1)
                if device >= 0:
                    self._stack.append([_DEVICE, claim, request, variant, k, device, 0])
                    return [claim, request, variant, k + 1, device + 1]
            elif kind == _ALTERNATIVE:
                if outcome != _TOO_MANY:
                    all_too_many = 0
                variant += 1
                if variant < self._variant_starts[request + 1]:
                    self._stack.append([_ALTERNATIVE, claim, request, variant, 0, 0, all_too_many])
                    return [claim, request, variant, 0, 0]
                outcome = _TOO_MANY if all_too_many else _NO_SOLUTION
            else:
                outcome = _NO_SOLUTION
        return None

    def _choose(self, claim: int, variant: int, start: int) -> int:
        """Take the first device from `start` on that can be taken; -1 if there is none."""
        devices = len(self._taken)
        for device in range(start, devices):
            if self._taken[device] or not self._matching[variant * devices + device]:
                continue
            if self._take(claim, variant, device):
                return device
        return -1

    def _take(self, claim: int, variant: int, device: int) -> bool:
        if not self._use(device):
            return False
        for constraint in range(len(self._kinds)):
            if self._concerns(constraint, claim, variant):
                if not self._satisfies(constraint, device):
                    for each in range(constraint):
                        if self._concerns(each, claim, variant):
                            self._chosen_values[each].pop()
                    self._free(device)
                    return False
                self._chosen_values[constraint].append(self._values[constraint * len(self._taken) + device])
        self._taken[device] = 1
        self._results[claim] += 1
        return True

    def _give_back(self, claim: int, variant: int, device: int) -> None:
        self._results[claim] -= 1
        self._taken[device] = 0
        for constraint in range(len(self._kinds)):
            if self._concerns(constraint, claim, variant):
                self._chosen_values[constraint].pop()
        self._free(device)

    def _use(self, device: int) -> bool:
        begin, end = self._use_starts[device], self._use_starts[device + 1]
        if begin == end:
            return True
        for use in range(begin, end):
            self._left[self._use_counters[use]] -= self._use_amounts[use]
        pool = self._pool_of[device]
        if min(self._left[self._pool_starts[pool] : self._pool_starts[pool + 1]]) >= 0:
            return True
        self._free(device)
        return False

    def _free(self, device: int) -> None:
        for use in range(self._use_starts[device], self._use_starts[device + 1]):
            self._left[self._use_counters[use]] += self._use_amounts[use]

    def _concerns(self, constraint: int, claim: int, variant: int) -> bool:
        if self._constraint_claims[constraint] != claim:
            return False
        return bool(self._applies[constraint * len(self._counts) + variant])

    def _satisfies(self, constraint: int, device: int) -> bool:
        value, chosen = self._values[constraint * len(self._taken) + device], self._chosen_values[constraint]
        if value == _NO_VALUE:
            return False
        if not chosen:
            return True
        if value == _UNKNOWN_VALUE:
            return False
        if self._kinds[constraint] == _MATCH:
            return value == chosen[0]
        return value not in chosen
