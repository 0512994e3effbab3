"""The search for devices on one node where a device takes no more than comparing integers.

Devices, requests and constraints are numbered; a request has variants, of which one suffices. As in
`devices/search.py`, it is depth-first, and the first full solution wins.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

_MAX_RESULTS = 32  # devices that the allocation of one claim can have
_NO_VALUE, _UNKNOWN_VALUE = -1, -2  # of an attribute: the device has none; it is of a type that is not known
_MATCH, _DISTINCT_REQUESTS = 0, 2  # kinds of constraints; of the third, 1, all values differ
# Of constraints on sets of values.
_MATCH_SETS, _MATCH_NARROWING_SETS, _DISTINCT_SETS, _DISTINCT_SETS_OF_REQUESTS = 3, 4, 5, 6
_ALL_DEVICES, _ADMIN_ACCESS = 1, 2  # flags of variants
_OBTAINABLE = 1  # of a device that matches
_EXCLUSIVE, _SHARED_IN_USE = 0, 2  # of a device: how it is shared
_FOUND, _NO_SOLUTION, _TOO_MANY, _VIOLATED = 0, 1, 2, 3  # the last: a constraint, by a device that has to be chosen
_DEVICE, _ALTERNATIVE, _END = 0, 1, 2  # what is on the stack


def find_devices(
    claim_starts: array[int],
    variant_starts: array[int],
    has_alternatives: bytes,
    counts: array[int],
    flags: bytes,
    matching: bytes,
    in_use: bytes,
    sharing: bytes,
    use_starts: array[int],
    use_counters: array[int],
    use_amounts: array[int],
    pool_of: array[int],
    pool_starts: array[int],
    available: array[int],
    room_starts: array[int],
    room: array[int],
    needs: array[int],
    constraint_claims: array[int],
    constraint_kinds: bytes,
    values: array[int],
    applies: bytes,
    most_steps: int,
) -> tuple[int, list[int] | None]:
    """Choose devices for all claims together.

    Returns the number of steps, and for each chosen device, in the order of claims and requests, the number of the
    variant followed by that of the device; None if there is no solution. Steps are -1 if there would be more than
    `most_steps`, or if a device that has to be chosen violates a constraint.

    `claim_starts` and `variant_starts`: where each claim's requests and each request's variants begin, and the end.
    `counts`: how many devices a variant wants. `flags` of a variant: 1 if it wants all that match, in their order, and
    has none else, 2 if it has admin access, and so may choose devices in use. `matching`: for each variant a byte for
    each device, 1 if it may be chosen, 2 if it matches and cannot be had. `in_use`: a byte for each device. `sharing`:
    0 for a device that is chosen once, 1 for one that may be chosen again, 2 if such a one is in use already.
    `use_starts`: where each device's uses of counters begin in `use_counters` (int32) and `use_amounts` (int64).
    `pool_of`: each device's pool; `pool_starts`: where each pool's counters begin in `available` (int64). A device that
    uses counters may be chosen if no counter of its pool is overdrawn then; a shared one uses them once. `room_starts`:
    where the capacities of each shared device begin in `room` (int64); `needs`: for each variant, what it consumes of
    each of them. `constraint_kinds`: 0 if all values have to be equal, 1 if all have to differ, 2 if they have to
    differ from the last one of each request. `values`: for each constraint the number of each device's value, -1 if it
    has none, -2 if that equals no other; `applies`: for each constraint a byte for each variant. Or values are sets as
    bits, 0 for one that no other has a part in, in kinds 3 if all have to have a value in common, 4 if in addition a
    device that is given back does not widen what they have in common, 5 and 6, as 1 and 2, if no two may have one.
    """
    search = _Search(
        claim_starts,
        variant_starts,
        has_alternatives,
        (counts, flags, matching),
        (in_use, sharing),
        (use_starts, use_counters, use_amounts),
        (pool_of, pool_starts),
        available,
        (room_starts, room, needs),
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
        variants: tuple[Sequence[int], bytes, bytes],
        devices: tuple[bytes, bytes],
        uses: tuple[Sequence[int], Sequence[int], Sequence[int]],
        pools: tuple[Sequence[int], Sequence[int]],
        available: Sequence[int],
        capacities: tuple[Sequence[int], Sequence[int], Sequence[int]],
        constraints: tuple[Sequence[int], bytes, Sequence[int], bytes],
        most_steps: int,
    ) -> None:
        self._claim_starts, self._variant_starts = claim_starts, variant_starts
        self._has_alternatives = has_alternatives
        self._counts, self._flags, self._matching = variants
        in_use, self._sharing = devices
        self._taken = [int(each != 0) for each in in_use]
        self._shares = [int(each == _SHARED_IN_USE) for each in self._sharing]
        self._chosen_by: set[tuple[int, int]] = set()  # (claim, device)
        self._use_starts, self._use_counters, self._use_amounts = uses
        self._pool_of, self._pool_starts = pools
        self._left = list(available)
        self._room_starts, room, self._needs = capacities
        self._room = list(room)
        self._constraint_claims, self._kinds, self._values, self._applies = constraints
        self._chosen_values: list[list[int]] = [[] for _ in self._kinds]
        self._of_requests: list[dict[int, int]] = [
            {} for _ in self._kinds
        ]  # constraint -> request -> value that counts
        self._most_steps, self._steps = most_steps, 0
        self._results = [0] * (len(claim_starts) - 1)
        # (kind, claim, request, variant, k, device, whether all alternatives so far needed too many results)
        self._stack: list[list[int]] = []

    def run(self) -> tuple[int, list[int] | None]:
        position: list[int] | None = [0, 0, -1, 0, 0]  # claim, request, variant (-1: none yet), k, first device
        while position is not None:
            outcome = self._go_on(position)
            if outcome == _FOUND:
                found: list[int] = []
                for kind, _, _, variant, _, device, _ in self._stack:
                    if kind == _DEVICE:
                        found += [variant, device]
                return self._steps, found
            if self._steps > self._most_steps or outcome == _VIOLATED:
                return -1, None
            position = self._go_back(outcome)
        return self._steps, None

    def _go_on(self, position: list[int]) -> int:
        claim, request, variant, k, start = position
        while True:
            self._steps += 1
            if self._steps > self._most_steps:
                return _NO_SOLUTION
            if claim >= len(self._results):
                return _FOUND
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
            if not count and self._flags[variant] & _ALL_DEVICES:
                return _NO_SOLUTION
            if k >= count:
                request, variant, k, start = request + 1, -1, 0, 0
                continue
            if count - k > _MAX_RESULTS - self._results[claim]:
                return _TOO_MANY
            device = self._choose(claim, request, variant, start)
            if device < 0:
                return _VIOLATED if device == -_VIOLATED else _NO_SOLUTION
            self._stack.append([_DEVICE, claim, request, variant, k, device, 0])
            k, start = k + 1, device + 1

    def _go_back(self, outcome: int) -> list[int] | None:
        while self._stack:
            last = self._stack.pop()
            kind, claim, request, variant, k, device, all_too_many = last
            if kind == _DEVICE:
                self._give_back(claim, request, variant, device)
                if outcome == _TOO_MANY or self._flags[variant] & _ALL_DEVICES:
                    continue
                device = self._choose(claim, request, variant, device + 1)
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

    def _choose(self, claim: int, request: int, variant: int, start: int) -> int:
        """Take the first device from `start` on that can be taken. -1 if there is none, or if it has to be the first
        that matches and is not to be had; -_VIOLATED if that one violates a constraint.
        """
        devices = len(self._taken)
        is_needed = self._flags[variant] & _ALL_DEVICES
        for device in range(start, devices):
            matching = self._matching[variant * devices + device]
            if not matching or (not is_needed and not self._has_room(variant, device)):
                continue
            outcome = _NO_SOLUTION
            if matching == _OBTAINABLE and not self._is_taken(claim, variant, device):
                outcome = self._take(claim, request, variant, device)
            if outcome == _FOUND:
                return device
            if is_needed:
                return -_VIOLATED if outcome == _VIOLATED else -1
        return -1

    def _is_taken(self, claim: int, variant: int, device: int) -> bool:
        if self._flags[variant] & _ADMIN_ACCESS:
            return (claim, device) in self._chosen_by
        return self._taken[device] != 0

    def _take(self, claim: int, request: int, variant: int, device: int) -> int:
        is_charged = not self._shares[device]
        if is_charged and not self._use(device):
            return _NO_SOLUTION
        for constraint in range(len(self._kinds)):
            if self._concerns(constraint, claim, variant) and not self._add_value(constraint, request, device):
                self._remove_values(constraint, claim, request, variant)
                if is_charged:
                    self._free(device)
                return _VIOLATED
        if not self._has_room(variant, device):
            self._remove_values(len(self._kinds), claim, request, variant)
            if is_charged:
                self._free(device)
            return _NO_SOLUTION
        if self._sharing[device] == _EXCLUSIVE:
            self._taken[device] += 1
            self._chosen_by.add((claim, device))
        else:
            self._shares[device] += 1
            for capacity in self._capacities(device):
                self._room[capacity] -= self._needs[variant * len(self._room) + capacity]
        self._results[claim] += 1
        return _FOUND

    def _give_back(self, claim: int, request: int, variant: int, device: int) -> None:
        self._results[claim] -= 1
        if self._sharing[device] == _EXCLUSIVE:
            self._taken[device] -= 1
            self._chosen_by.discard((claim, device))
        else:
            self._shares[device] -= 1
            for capacity in self._capacities(device):
                self._room[capacity] += self._needs[variant * len(self._room) + capacity]
        self._remove_values(len(self._kinds), claim, request, variant)
        if not self._shares[device]:
            self._free(device)

    def _capacities(self, device: int) -> range:
        return range(self._room_starts[device], self._room_starts[device + 1])

    def _has_room(self, variant: int, device: int) -> bool:
        """Return whether a shared device has what the variant consumes of its capacities."""
        room, first = self._room, variant * len(self._room)
        return all(self._needs[first + each] <= room[each] for each in self._capacities(device))

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

    def _add_value(self, constraint: int, request: int, device: int) -> bool:
        """Count a device's value, unless that would violate the constraint."""
        value, chosen = self._values[constraint * len(self._taken) + device], self._chosen_values[constraint]
        if value == _NO_VALUE:
            return False
        if self._kinds[constraint] >= _MATCH_SETS:
            return self._add_set(constraint, request, value)
        if self._kinds[constraint] == _DISTINCT_REQUESTS:
            last = self._of_requests[constraint]
            if chosen and (value in last.values() or (value == _UNKNOWN_VALUE and last)):
                return False
            last[request] = value
        elif chosen and (
            value == _UNKNOWN_VALUE or (value != chosen[0] if self._kinds[constraint] == _MATCH else value in chosen)
        ):
            return False
        chosen.append(value)
        return True

    def _add_set(self, constraint: int, request: int, values: int) -> bool:
        """As `_add_value`, for a set of values."""
        kind, chosen = self._kinds[constraint], self._chosen_values[constraint]
        if kind == _DISTINCT_SETS_OF_REQUESTS:
            last = self._of_requests[constraint]
            if chosen and (not values or any(each & values for each in last.values())):
                return False
            last[request] = values
        elif kind == _DISTINCT_SETS:
            if not values or any(each & values for each in chosen):
                return False
        else:
            if chosen:
                values &= chosen[-1]
            if not values:
                return False
        chosen.append(values)
        return True

    def _remove_values(self, end: int, claim: int, request: int, variant: int) -> None:
        """Forget the value that was added last to each constraint before `end`."""
        for constraint in range(end):
            if self._concerns(constraint, claim, variant):
                chosen = self._chosen_values[constraint]
                removed = chosen.pop()
                self._of_requests[constraint].pop(request, None)
                if chosen and self._kinds[constraint] == _MATCH_NARROWING_SETS:
                    chosen[-1] = removed
