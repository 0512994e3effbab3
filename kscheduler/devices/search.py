"""The search for devices on one node: depth-first, and the first full solution wins.

It takes one device after the other, for the claims, their requests and the devices of each request in order. A request
for a number of devices tries them in the order of the pools, in combinations but not in permutations. One for all
devices needs certain ones. One with alternatives tries each, with all that follows. At a dead end the search goes back
to the last choice that has another possibility; choices are kept on a stack of our own, because claims can be many.

There are two kinds of dead ends. NO_SOLUTION is the common one. TOO_MANY means that what is left to allocate would
exceed the results that a claim can have: other devices for the same requests cannot change that, so choices of devices
are skipped on the way back. An alternative that needs fewer may, and so may another claim.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kscheduler.api.exact_quantity import Quantity
from kscheduler.api.objects import Node
from kscheduler.devices.allocated import AllocatedState, DeviceID, show_device
from kscheduler.devices.amounts import amount_of
from kscheduler.devices.capacity import CapacityError, consumed_amounts
from kscheduler.devices.compatibility import AllocatedGroups, ChosenGroups, GroupsBefore
from kscheduler.devices.constraints import Constraint, HasAttributes
from kscheduler.devices.counters import AvailableCounters, ConsumedCounters
from kscheduler.devices.derived import DerivedAttributes
from kscheduler.devices.errors import AllocationError, SearchStopped
from kscheduler.devices.features import Features
from kscheduler.devices.pools import Pool
from kscheduler.devices.requests import Variant
from kscheduler.devices.selection import DeviceView, SelectorError, Selectors
from kscheduler.devices.slice_index import NodePools
from kscheduler.devices.slices import NO, UNKNOWN, YES, NodeTarget, ParsedDevice, skips_operations
from kscheduler.devices.taints import are_tolerated
from kscheduler.errors import DecodeError

MAX_RESULTS = 32  # devices that the allocation of one claim can have

_DEVICES_BETWEEN_CHECKS = 256  # looked at before `should_stop` is asked again
_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)


class Outcome(enum.Enum):
    NO_SOLUTION = enum.auto()
    TOO_MANY = enum.auto()


@dataclass(slots=True, eq=False)
class Want:
    """A variant on one node: how many devices, or which."""

    variant: Variant
    count: int
    all_devices: Sequence[ParsedDevice] | None = None  # for allocation mode All


@dataclass(slots=True, eq=False)
class ClaimWants:
    """What the search has to find for one claim: for each request its variants, of which one suffices."""

    requests: list[list[Want]]
    constraints: list[Constraint]

    def has_alternatives(self, request: int) -> bool:
        return bool(self.requests[request][0].variant.alternative)


@dataclass(slots=True, eq=False)
class Choice:
    """A device that was chosen for a request."""

    variant: Variant
    device: ParsedDevice
    is_marked: bool  # as in use; shared devices are not
    reserved_in: Pool | None = None  # the pool whose counters it consumes
    share_id: str | None = None
    consumed: Mapping[str, Quantity] | None = None  # capacity -> amount, of shared devices
    groups_before: GroupsBefore | None = None  # of the counter sets that it uses, where compatibility groups count


# --- positions and choices on the stack -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Position:
    """Which device is wanted next: the k-th of a request's variant, looked for from `start` on."""

    claim: int
    request: int
    variant: int = 0
    k: int = 0
    is_in_alternative: bool = False
    start: int = 0  # index in the node's devices

    def next_device(self, start: int) -> Position:
        return Position(self.claim, self.request, self.variant, self.k + 1, self.is_in_alternative, start)


@dataclass(slots=True, eq=False)
class EndOfClaim:
    """The end of a claim. If a later one needs too many results, alternatives of this one may still change that."""


@dataclass(slots=True, eq=False)
class ChoiceOfAlternative:
    position: Position  # of the request
    alternative: int = 0
    all_too_many: bool = True  # did all alternatives so far need too many results?


@dataclass(slots=True, eq=False)
class ChoiceOfDevice:
    position: Position
    next_index: int = 0  # of the node's devices, to be tried next
    choice: Choice | None = None


class Search:
    """One search, for the claims of one pod on one node."""

    def __init__(
        self,
        *,
        node: Node,
        pools: NodePools,
        state: AllocatedState,
        available: AvailableCounters,
        groups: AllocatedGroups | None,
        selectors: Selectors,
        features: Features,
        draw_share_id: Callable[[], str],
        should_stop: Callable[[], bool],
    ) -> None:
        self.steps = 0  # calls of what kube-scheduler names allocateOne
        self.results: list[list[Choice]] = []  # for each claim
        self._claims: Sequence[ClaimWants] = ()
        self._node = node
        self._pools = pools
        self._state = state
        self._available = available
        self._selectors = selectors
        self._rules = features.rules
        self._features = features
        self._draw_share_id = draw_share_id
        self._should_stop = should_stop
        self._looked_at = 0
        self._seen: tuple[ParsedDevice, DeviceView] | None = None  # the last device that a selector was asked about
        self._stack: list[EndOfClaim | ChoiceOfAlternative | ChoiceOfDevice] = []
        self._chosen: dict[DeviceID, set[int]] = {}  # device -> the claims it is chosen for
        self._consumed = ConsumedCounters(available)
        self._groups = None if groups is None else ChosenGroups(groups)
        self._shares: dict[DeviceID, list[Mapping[str, int]]] = {}  # device -> what each chosen share of it consumes
        self._amounts: dict[tuple[Variant, ParsedDevice], dict[str, Quantity] | None] = {}
        self._derived: DerivedAttributes | None = None

    def run(self, claims: Sequence[ClaimWants]) -> bool:
        """Fill `results` and return True, or return False if there is no solution.

        Raises AllocationError if something is wrong with the objects, SearchStopped if the caller wanted it.
        """
        self._claims = claims
        self.results = [[] for _ in claims]
        position: Position | None = Position(0, 0)
        while position is not None:
            outcome = self._go_on(position)
            if outcome is None:
                return True
            position = self._go_back(outcome)
        return False

    def chosen_alternatives(self) -> dict[tuple[int, int], int]:
        """Return the alternatives of a solution: (claim, request) -> index."""
        return {
            (each.position.claim, each.position.request): each.alternative
            for each in self._stack
            if isinstance(each, ChoiceOfAlternative)
        }

    # --- the way through the tree -----------------------------------------------------------------------------------

    def _go_on(self, position: Position) -> Outcome | None:
        """Choose devices from a position on. Return None at a full solution, else why it ended."""
        while True:
            self.steps += 1
            if self._should_stop():
                raise SearchStopped
            if position.claim >= len(self._claims):
                return None
            claim = self._claims[position.claim]
            if position.request >= len(claim.requests):
                self._stack.append(EndOfClaim())
                position = Position(position.claim + 1, 0)
                continue
            if claim.has_alternatives(position.request) and not position.is_in_alternative:
                self._stack.append(ChoiceOfAlternative(position))
                position = Position(position.claim, position.request, is_in_alternative=True)
                continue
            want = claim.requests[position.request][position.variant]
            if want.all_devices is not None and not want.all_devices:
                return Outcome.NO_SOLUTION
            if position.k >= want.count:
                position = Position(position.claim, position.request + 1)
                continue
            if want.count - position.k > MAX_RESULTS - len(self.results[position.claim]):
                return Outcome.TOO_MANY
            found = ChoiceOfDevice(position, position.start)
            if not self._choose(found, want):
                return Outcome.NO_SOLUTION
            self._stack.append(found)
            position = position.next_device(found.next_index)

    def _go_back(self, outcome: Outcome) -> Position | None:
        """Undo choices up to one that has another possibility, and take that; None if there is none left."""
        while self._stack:
            last = self._stack.pop()
            if isinstance(last, ChoiceOfDevice):
                self._undo(last)
                want = self._claims[last.position.claim].requests[last.position.request][last.position.variant]
                if outcome is Outcome.TOO_MANY or want.all_devices is not None:
                    continue
                if self._choose(last, want):
                    self._stack.append(last)
                    return last.position.next_device(last.next_index)
            elif isinstance(last, ChoiceOfAlternative):
                if outcome is not Outcome.TOO_MANY:
                    last.all_too_many = False
                last.alternative += 1
                if last.alternative < len(self._claims[last.position.claim].requests[last.position.request]):
                    self._stack.append(last)
                    return Position(
                        last.position.claim, last.position.request, last.alternative, is_in_alternative=True
                    )
                outcome = Outcome.TOO_MANY if last.all_too_many else Outcome.NO_SOLUTION
            else:
                outcome = Outcome.NO_SOLUTION
        return None

    def _choose(self, choice: ChoiceOfDevice, want: Want) -> bool:
        """Take the next device that can be allocated. Return False if there is none."""
        claim = choice.position.claim
        if want.all_devices is not None:
            choice.choice = self._take(claim, want.variant, want.all_devices[choice.position.k], is_needed=True)
            choice.next_index = 0
            return choice.choice is not None
        devices, in_use, chosen = self._pools.devices, self._state.devices, self._chosen
        is_admin = want.variant.has_admin_access
        for index in range(choice.next_index, len(devices)):
            device = devices[index]
            # As `_check_time` and `_is_in_use`, without their calls for each device.
            self._looked_at += 1
            if self._looked_at % _DEVICES_BETWEEN_CHECKS == 0 and self._should_stop():
                raise SearchStopped
            if is_admin:
                if self._is_in_use(claim, want.variant, device.id):
                    continue
            elif device.id in in_use or chosen.get(device.id):
                continue
            if not self.is_selectable(want.variant, device) or not self._has_capacity(want.variant, device):
                continue
            taken = self._take(claim, want.variant, device, is_needed=False)
            if taken is not None:
                choice.choice = taken
                choice.next_index = index + 1
                return True
        return False

    def _check_time(self) -> None:
        self._looked_at += 1
        if self._looked_at % _DEVICES_BETWEEN_CHECKS == 0 and self._should_stop():
            raise SearchStopped

    # --- questions about a device -----------------------------------------------------------------------------------

    def _is_in_use(self, claim: int, variant: Variant, device: DeviceID) -> bool:
        chosen = self._chosen.get(device)
        if variant.has_admin_access:
            return chosen is not None and claim in chosen
        return bool(chosen) or device in self._state.devices

    def is_selectable(self, variant: Variant, device: ParsedDevice) -> bool:
        """Return whether a device is one that a request asks for and this node can use, in use or not."""
        if device.has_binding_conditions and not self._features.binding_conditions:
            return False
        for selector in variant.selectors:
            answers = device.slice.answers(selector.expression)
            answer = answers[device.index]
            if answer == UNKNOWN:
                answer = YES if self._evaluate(selector.expression, selector.place, device) else NO
                answers[device.index] = answer
            if answer == NO:
                return False
        return device.target is None or self._is_for_node(device.target)

    def _is_for_node(self, target: NodeTarget) -> bool:
        try:
            return target.matches(self._node)
        except DecodeError as error:
            raise AllocationError(str(error)) from None

    def _evaluate(self, expression: str, place: str, device: ParsedDevice) -> bool:
        self._check_time()
        try:
            compiled = self._selectors.get(expression)
        except SelectorError as error:
            raise AllocationError(f"{place}: CEL compile error: {error}") from None
        try:
            if self._seen is None or self._seen[0] is not device:
                self._seen = device, device.view()
            return compiled.matches(self._seen[1])
        except SelectorError as error:
            if not self._rules.selector_errors_name_device:
                raise AllocationError(f"{place}: CEL runtime error: {error}") from None
            hint = _HINT if "no such key:" in str(error) else ""
            raise AllocationError(
                f"{place} on device {show_device(device.id)}: CEL runtime error: {error}{hint}"
            ) from None

    def _has_capacity(self, variant: Variant, device: ParsedDevice) -> bool:
        """Return whether the device has what the request consumes, beside all that is consumed already."""
        if not self._features.consumable_capacity:
            return True
        amounts = self._amounts_of(variant, device)
        return amounts is not None and self._has_left(device, amounts)

    def offers_capacity(self, variant: Variant, device: ParsedDevice) -> bool:
        """Return whether the device, for a request for all devices, has enough capacity.

        Whether it is used up is asked here only in releases that leave out used-up devices.
        """
        if not self._features.consumable_capacity:
            return True
        amounts = self._amounts_of(variant, device, by_name=True)
        if amounts is None:
            return False
        if self._rules.all_leaves_out_used_up:
            return self._has_left(device, amounts)
        return all(amount_of(amount) <= device.capacity[name].limit for name, amount in amounts.items())

    def _amounts_of(
        self, variant: Variant, device: ParsedDevice, *, by_name: bool = False
    ) -> dict[str, Quantity] | None:
        """Return what the request consumes of the device; None if it cannot. `by_name`: errors name the device only so.

        Raises AllocationError.
        """
        if not device.capacity:
            return None if variant.capacity else {}
        key = variant, device
        if key not in self._amounts:
            try:
                self._amounts[key] = consumed_amounts(variant.capacity, device.capacity, self._features.capacity_rules)
            except CapacityError as error:
                shown = device.name if by_name else show_device(device.id)
                raise AllocationError(f"{variant.place}: checking capacity for device {shown}: {error}") from None
        return self._amounts[key]

    def _has_left(self, device: ParsedDevice, amounts: Mapping[str, Quantity]) -> bool:
        allocated = self._state.capacity.get(device.id, {})
        shares = self._shares.get(device.id, ())
        for name, amount in amounts.items():
            used = amount_of(amount)
            if shares:
                used += sum(share.get(name, 0) for share in shares)
            if name in allocated:
                used += amount_of(allocated[name])
            if used > device.capacity[name].limit:
                return False
        return True

    # --- taking a device and giving it back -------------------------------------------------------------------------

    def _take(self, claim: int, variant: Variant, device: ParsedDevice, *, is_needed: bool) -> Choice | None:
        """Take a selectable device for a claim if it can be allocated, else return None.

        `is_needed`: there is no other possibility. A violated constraint is then an error.
        """
        is_shared = self._features.consumable_capacity and device.allows_multiple
        if not (is_shared and variant.has_admin_access) and self._is_in_use(claim, variant, device.id):
            return None
        if device.slice.skips_operations and not self._may_skip_operations():
            return None
        if device.uses_counters and not self._features.partitionable_devices:
            return None
        choice = Choice(variant, device, is_marked=not is_shared)
        is_charged = device.uses_counters and not (is_shared and self._has_shares(device.id))
        if is_charged and not self._reserve_counters(choice):
            return None
        if self._features.taints and device.taints and not are_tolerated(device.taints, variant.tolerations):
            self._release_counters(choice)
            return None
        if not self._add_to_constraints(claim, choice):
            self._release_counters(choice)
            if is_needed:
                raise AllocationError(
                    f"{variant.place}: cannot add device {show_device(device.id)} because a claim constraint "
                    "would not be satisfied"
                )
            return None
        if self._features.consumable_capacity and not self._consume_capacity(choice, is_shared=is_shared):
            self._remove_from_constraints(claim, choice, len(self._claims[claim].constraints))
            self._release_counters(choice)
            return None
        if choice.is_marked:
            self._chosen.setdefault(device.id, set()).add(claim)
        self.results[claim].append(choice)
        return choice

    def _may_skip_operations(self) -> bool:
        """Return whether the node can use devices for which its kubelet is to skip something."""
        features = self._features
        if not features.heeds_node_operations:
            return True
        return features.optional_node_operations and skips_operations(self._node)

    def _has_shares(self, device: DeviceID) -> bool:
        """Return whether a shared device is in use, so that its counters are charged already."""
        if device in self._state.capacity or self._shares.get(device):
            return True
        return self._rules.shares_without_capacity_hold_counters and device in self._available.shared_devices

    def _add_to_constraints(self, claim: int, choice: Choice) -> bool:
        variant, constraints = choice.variant, self._claims[claim].constraints
        device: HasAttributes = choice.device
        if constraints and variant.derived:
            self._derived = self._derived or DerivedAttributes(self._selectors)
            device = self._derived.of(variant, choice.device)
        for i, constraint in enumerate(constraints):
            if not constraint.add(variant.request, variant.alternative, device):
                self._remove_from_constraints(claim, choice, i)
                return False
        return True

    def _remove_from_constraints(self, claim: int, choice: Choice, count: int) -> None:
        for constraint in reversed(self._claims[claim].constraints[:count]):
            constraint.remove(choice.variant.request, choice.variant.alternative)

    def _consume_capacity(self, choice: Choice, *, is_shared: bool) -> bool:
        device = choice.device
        amounts = self._amounts_of(choice.variant, device)
        if amounts is None or not self._has_left(device, amounts):
            return False
        if is_shared:
            choice.share_id = self._draw_share_id()
            choice.consumed = amounts
            share = {name: amount_of(amount) for name, amount in amounts.items()}
            self._shares.setdefault(device.id, []).append(share)
        return True

    def _undo(self, last: ChoiceOfDevice) -> None:
        choice, claim = last.choice, last.position.claim
        assert choice is not None  # only choices that were made are on the stack
        last.choice = None
        self.results[claim].pop()
        if choice.share_id is not None:
            self._shares[choice.device.id].pop()
        if choice.is_marked:
            self._chosen[choice.device.id].discard(claim)
        self._remove_from_constraints(claim, choice, len(self._claims[claim].constraints))
        self._release_counters(choice)

    def _reserve_counters(self, choice: Choice) -> bool:
        device = choice.device
        pool = self._pools.by_id[device.slice.pool_id]
        if self._groups is not None:
            choice.groups_before = self._groups.add(device, pool)
            if choice.groups_before is None:
                return False
        if not self._consumed.reserve(device, pool):
            self._release_counters(choice)
            return False
        choice.reserved_in = pool
        return True

    def _release_counters(self, choice: Choice) -> None:
        if choice.reserved_in is not None:
            self._consumed.release(choice.device, choice.reserved_in)
        if self._groups is not None and choice.groups_before is not None:
            self._groups.remove(choice.device, choice.groups_before)
