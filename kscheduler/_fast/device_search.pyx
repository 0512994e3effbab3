"""The search for devices on one node where a device takes no more than comparing integers.

Devices, requests and constraints are numbered; a request has variants, of which one suffices. As in
`devices/search.py`, it is depth-first, and the first full solution wins.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

cdef enum:
    MAX_RESULTS = 32  # devices that the allocation of one claim can have
    NO_VALUE = -1  # of an attribute: the device has none
    UNKNOWN_VALUE = -2  # it is of a type that is not known
    NOT_CHOSEN = -3  # of a request: it has no value that counts
    MATCH_SETS = 3
    MATCH_NARROWING_SETS = 4
    DISTINCT_SETS = 5
    DISTINCT_SETS_OF_REQUESTS = 6
    MATCH = 0  # kinds of constraints; of the third, 1, all values differ
    DISTINCT_REQUESTS = 2
    ALL_DEVICES = 1  # flags of variants
    ADMIN_ACCESS = 2
    OBTAINABLE = 1  # of a device that matches
    EXCLUSIVE = 0  # of a device: how it is shared
    SHARED_IN_USE = 2
    FOUND = 0
    NO_SOLUTION = 1
    TOO_MANY = 2
    VIOLATED = 3  # a constraint, by a device that has to be chosen
    DEVICE = 0  # what is on the stack
    ALTERNATIVE = 1
    END = 2


cdef struct EntryC:
    int32_t kind
    int32_t claim
    int32_t request
    int32_t variant
    int32_t k
    int32_t device
    int32_t all_too_many  # of alternatives: have all so far needed too many results?


cdef struct PositionC:
    int32_t claim
    int32_t request
    int32_t variant  # -1: none is chosen yet
    int32_t k
    int32_t start  # the first device to look at


cdef struct SearchC:
    int32_t claims
    int32_t devices
    int32_t variants
    int32_t constraints
    const int32_t* claim_starts
    const int32_t* variant_starts
    const uint8_t* has_alternatives
    const int32_t* counts
    const uint8_t* flags  # of variants
    const uint8_t* matching  # variant x device
    const uint8_t* sharing
    const int32_t* use_starts
    const int32_t* use_counters
    const int64_t* use_amounts
    const int32_t* pool_of
    const int32_t* pool_starts
    const int32_t* room_starts
    const int64_t* needs  # variant x capacity
    int32_t capacities
    const int32_t* constraint_claims
    const uint8_t* kinds
    const int64_t* values  # constraint x device
    const uint8_t* applies  # constraint x variant
    int32_t* taken  # by device: how often it is in use or chosen, but for shares
    uint8_t* chosen_by  # claim x device
    int32_t* shares  # by device: how many there are
    int64_t* left
    int64_t* room
    int32_t* results  # by claim: devices chosen so far
    int64_t* chosen_values  # constraint x values
    int32_t most_values
    int32_t* chosen  # by constraint: how many of these there are
    EntryC* stack
    int32_t depth
    int64_t steps
    int64_t most_steps


def find_devices(
    const int32_t[::1] claim_starts not None,
    const int32_t[::1] variant_starts not None,
    bytes has_alternatives not None,
    const int32_t[::1] counts not None,
    bytes flags not None,
    bytes matching not None,
    bytes in_use not None,
    bytes sharing not None,
    const int32_t[::1] use_starts not None,
    const int32_t[::1] use_counters not None,
    const int64_t[::1] use_amounts not None,
    const int32_t[::1] pool_of not None,
    const int32_t[::1] pool_starts not None,
    const int64_t[::1] available not None,
    const int32_t[::1] room_starts not None,
    const int64_t[::1] room not None,
    const int64_t[::1] needs not None,
    const int32_t[::1] constraint_claims not None,
    bytes constraint_kinds not None,
    const int64_t[::1] values not None,
    bytes applies not None,
    int64_t most_steps,
):
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
    cdef SearchC s
    cdef int32_t requests = <int32_t>variant_starts.shape[0] - 1
    cdef int32_t each, outcome
    cdef const uint8_t* used = in_use
    s.claims = <int32_t>claim_starts.shape[0] - 1
    s.variants = <int32_t>counts.shape[0]
    s.devices = <int32_t>len(in_use)
    s.constraints = <int32_t>constraint_claims.shape[0]
    # 1. Are the tables of one size?
    _same("the end of claims", claim_starts[s.claims], requests)
    _same("the end of requests", variant_starts[requests], s.variants)
    _same("alternatives", len(has_alternatives), requests)
    _same("flags", len(flags), s.variants)
    _same("matching", len(matching), <Py_ssize_t>s.variants * s.devices)
    _same("sharing", len(sharing), s.devices)
    _same("uses", use_starts.shape[0], s.devices + 1)
    _same("the end of uses", use_starts[s.devices], use_counters.shape[0])
    _same("amounts", use_amounts.shape[0], use_counters.shape[0])
    _same("pools of devices", pool_of.shape[0], s.devices)
    _same("the end of pools", pool_starts[pool_starts.shape[0] - 1], available.shape[0])
    _same("rooms", room_starts.shape[0], s.devices + 1)
    _same("the end of rooms", room_starts[s.devices], room.shape[0])
    _same("needs", needs.shape[0], <Py_ssize_t>s.variants * room.shape[0])
    _same("kinds", len(constraint_kinds), s.constraints)
    _same("values", values.shape[0], <Py_ssize_t>s.constraints * s.devices)
    _same("applies", len(applies), <Py_ssize_t>s.constraints * s.variants)
    for each in range(s.devices):
        if not 0 <= pool_of[each] < pool_starts.shape[0] - 1:
            raise IndexError(f"device {each}: no pool {pool_of[each]}")
    for each in range(<int32_t>use_counters.shape[0]):
        if not 0 <= use_counters[each] < available.shape[0]:
            raise IndexError(f"use {each}: no counter {use_counters[each]}")
    # 2. Where they are, and what the search changes.
    s.claim_starts = &claim_starts[0]
    s.variant_starts = &variant_starts[0]
    s.has_alternatives = has_alternatives
    s.counts = &counts[0] if s.variants else NULL
    s.flags = flags
    s.matching = matching
    s.sharing = sharing
    s.use_starts = &use_starts[0]
    s.use_counters = &use_counters[0] if use_counters.shape[0] else NULL
    s.use_amounts = &use_amounts[0] if use_amounts.shape[0] else NULL
    s.pool_of = &pool_of[0] if s.devices else NULL
    s.pool_starts = &pool_starts[0]
    s.room_starts = &room_starts[0]
    s.needs = &needs[0] if needs.shape[0] else NULL
    s.capacities = <int32_t>room.shape[0]
    s.constraint_claims = &constraint_claims[0] if s.constraints else NULL
    s.kinds = constraint_kinds
    s.values = &values[0] if values.shape[0] else NULL
    s.applies = applies
    s.depth = 0
    s.steps = 0
    s.most_steps = most_steps
    s.most_values = max(<int32_t>MAX_RESULTS, requests)
    s.taken = <int32_t*>malloc((s.devices + 1) * sizeof(int32_t))
    s.shares = <int32_t*>malloc((s.devices + 1) * sizeof(int32_t))
    s.chosen_by = <uint8_t*>calloc(<size_t>s.claims * s.devices + 1, 1)
    s.left = <int64_t*>malloc((available.shape[0] + 1) * sizeof(int64_t))
    s.room = <int64_t*>malloc((s.capacities + 1) * sizeof(int64_t))
    s.results = <int32_t*>calloc(s.claims + 1, sizeof(int32_t))
    s.chosen_values = <int64_t*>malloc((<size_t>s.constraints * s.most_values + 1) * sizeof(int64_t))
    s.chosen = <int32_t*>calloc(s.constraints + 1, sizeof(int32_t))
    s.stack = <EntryC*>malloc((s.claims * (MAX_RESULTS + 1) + requests + 1) * sizeof(EntryC))
    try:
        if not (s.taken and s.shares and s.chosen_by and s.left and s.room):
            raise MemoryError("no room for a search for devices")
        if not (s.results and s.chosen_values and s.chosen and s.stack):
            raise MemoryError("no room for a search for devices")
        for each in range(s.devices):
            s.taken[each] = used[each] != 0
            s.shares[each] = s.sharing[each] == SHARED_IN_USE
        for each in range(s.constraints * s.most_values):
            s.chosen_values[each] = NOT_CHOSEN
        if available.shape[0]:
            memcpy(s.left, &available[0], available.shape[0] * sizeof(int64_t))
        if s.capacities:
            memcpy(s.room, &room[0], s.capacities * sizeof(int64_t))
        # 3. Search.
        with nogil:
            outcome = _run(&s)
        if s.steps > s.most_steps or outcome == VIOLATED:
            return -1, None
        if outcome != FOUND:
            return s.steps, None
        found = []
        for each in range(s.depth):
            if s.stack[each].kind == DEVICE:
                found.append(s.stack[each].variant)
                found.append(s.stack[each].device)
        return s.steps, found
    finally:
        free(s.taken)
        free(s.shares)
        free(s.chosen_by)
        free(s.left)
        free(s.room)
        free(s.results)
        free(s.chosen_values)
        free(s.chosen)
        free(s.stack)


cdef int _same(str what, Py_ssize_t length, Py_ssize_t expected) except -1:
    if length != expected:
        raise ValueError(f"{what}: expected {expected}, got {length}")
    return 0


cdef int _run(SearchC* s) noexcept nogil:
    cdef PositionC at
    cdef int outcome
    at.claim = at.request = at.k = at.start = 0
    at.variant = -1
    while True:
        outcome = _go_on(s, &at)
        if outcome == FOUND or outcome == VIOLATED or s.steps > s.most_steps:
            return outcome
        if not _go_back(s, &at, outcome):
            return NO_SOLUTION


cdef EntryC* _push(SearchC* s, int32_t kind, PositionC* at) noexcept nogil:
    cdef EntryC* entry = &s.stack[s.depth]
    entry.kind = kind
    entry.claim = at.claim
    entry.request = at.request
    entry.variant = at.variant
    entry.k = at.k
    entry.device = 0
    entry.all_too_many = 1
    s.depth += 1
    return entry


cdef int _go_on(SearchC* s, PositionC* at) noexcept nogil:
    """Choose devices from a position on. Returns FOUND, or why it ended."""
    cdef int32_t count, device
    while True:
        s.steps += 1
        if s.steps > s.most_steps:
            return NO_SOLUTION
        if at.claim >= s.claims:
            return FOUND
        if at.request >= s.claim_starts[at.claim + 1]:
            _push(s, END, at)
            at.claim += 1
            at.variant = -1
            at.k = at.start = 0
            continue
        if at.variant < 0:
            at.variant = s.variant_starts[at.request]
            if s.has_alternatives[at.request]:
                _push(s, ALTERNATIVE, at)
                continue
        count = s.counts[at.variant]
        if not count and s.flags[at.variant] & ALL_DEVICES:
            return NO_SOLUTION
        if at.k >= count:
            at.request += 1
            at.variant = -1
            at.k = at.start = 0
            continue
        if count - at.k > MAX_RESULTS - s.results[at.claim]:
            return TOO_MANY
        device = _choose(s, at.claim, at.request, at.variant, at.start)
        if device < 0:
            return VIOLATED if device == -VIOLATED else NO_SOLUTION
        _push(s, DEVICE, at).device = device
        at.k += 1
        at.start = device + 1


cdef bint _go_back(SearchC* s, PositionC* at, int outcome) noexcept nogil:
    """Undo choices up to one that has another possibility, and take that; False if there is none left."""
    cdef EntryC* last
    cdef int32_t device
    while s.depth:
        last = &s.stack[s.depth - 1]
        if last.kind == DEVICE:
            _give_back(s, last.claim, last.request, last.variant, last.device)
            if outcome != TOO_MANY and not s.flags[last.variant] & ALL_DEVICES:
                device = _choose(s, last.claim, last.request, last.variant, last.device + 1)
                if device >= 0:
                    last.device = device
                    at.claim, at.request, at.variant = last.claim, last.request, last.variant
                    at.k, at.start = last.k + 1, device + 1
                    return True
        elif last.kind == ALTERNATIVE:
            if outcome != TOO_MANY:
                last.all_too_many = 0
            last.variant += 1
            if last.variant < s.variant_starts[last.request + 1]:
                at.claim, at.request, at.variant = last.claim, last.request, last.variant
                at.k = at.start = 0
                return True
            outcome = TOO_MANY if last.all_too_many else NO_SOLUTION
        else:
            outcome = NO_SOLUTION
        s.depth -= 1
    return False


cdef int32_t _choose(SearchC* s, int32_t claim, int32_t request, int32_t variant, int32_t start) noexcept nogil:
    """Take the first device from `start` on that can be taken. -1 if there is none, or if it has to be the first that
    matches and is not to be had; -VIOLATED if that one violates a constraint.
    """
    cdef const uint8_t* matching = s.matching + <Py_ssize_t>variant * s.devices
    cdef bint is_needed = s.flags[variant] & ALL_DEVICES
    cdef int32_t device
    cdef int outcome
    for device in range(start, s.devices):
        if not matching[device]:
            continue
        if not is_needed and not _has_room(s, variant, device):
            continue
        outcome = NO_SOLUTION
        if matching[device] == OBTAINABLE and not _is_taken(s, claim, variant, device):
            outcome = _take(s, claim, request, variant, device)
        if outcome == FOUND:
            return device
        if is_needed:
            return -VIOLATED if outcome == VIOLATED else -1
    return -1


cdef bint _is_taken(SearchC* s, int32_t claim, int32_t variant, int32_t device) noexcept nogil:
    if s.flags[variant] & ADMIN_ACCESS:
        return s.chosen_by[<Py_ssize_t>claim * s.devices + device]
    return s.taken[device] != 0


cdef int _take(SearchC* s, int32_t claim, int32_t request, int32_t variant, int32_t device) noexcept nogil:
    cdef int32_t constraint, capacity
    cdef bint is_charged = not s.shares[device]
    if is_charged and not _use(s, device):
        return NO_SOLUTION
    for constraint in range(s.constraints):
        if not _concerns(s, constraint, claim, variant):
            continue
        if not _add_value(s, constraint, request, s.values[<Py_ssize_t>constraint * s.devices + device]):
            _remove_values(s, constraint, claim, request, variant)
            if is_charged:
                _free(s, device)
            return VIOLATED
    if not _has_room(s, variant, device):
        _remove_values(s, s.constraints, claim, request, variant)
        if is_charged:
            _free(s, device)
        return NO_SOLUTION
    if s.sharing[device] == EXCLUSIVE:
        s.taken[device] += 1
        s.chosen_by[<Py_ssize_t>claim * s.devices + device] = 1
    else:
        s.shares[device] += 1
        for capacity in range(s.room_starts[device], s.room_starts[device + 1]):
            s.room[capacity] -= s.needs[<Py_ssize_t>variant * s.capacities + capacity]
    s.results[claim] += 1
    return FOUND


cdef void _give_back(SearchC* s, int32_t claim, int32_t request, int32_t variant, int32_t device) noexcept nogil:
    cdef int32_t capacity
    s.results[claim] -= 1
    if s.sharing[device] == EXCLUSIVE:
        s.taken[device] -= 1
        s.chosen_by[<Py_ssize_t>claim * s.devices + device] = 0
    else:
        s.shares[device] -= 1
        for capacity in range(s.room_starts[device], s.room_starts[device + 1]):
            s.room[capacity] += s.needs[<Py_ssize_t>variant * s.capacities + capacity]
    _remove_values(s, s.constraints, claim, request, variant)
    if not s.shares[device]:
        _free(s, device)


cdef bint _has_room(SearchC* s, int32_t variant, int32_t device) noexcept nogil:
    """Return whether a shared device has what the variant consumes of its capacities."""
    cdef int32_t capacity
    for capacity in range(s.room_starts[device], s.room_starts[device + 1]):
        if s.needs[<Py_ssize_t>variant * s.capacities + capacity] > s.room[capacity]:
            return False
    return True


cdef bint _use(SearchC* s, int32_t device) noexcept nogil:
    """Charge the device's counters unless a counter of its pool would be overdrawn then."""
    cdef int32_t begin = s.use_starts[device], end = s.use_starts[device + 1]
    cdef int32_t use, counter, pool = s.pool_of[device]
    if begin == end:
        return True
    for use in range(begin, end):
        s.left[s.use_counters[use]] -= s.use_amounts[use]
    for counter in range(s.pool_starts[pool], s.pool_starts[pool + 1]):
        if s.left[counter] < 0:
            _free(s, device)
            return False
    return True


cdef void _free(SearchC* s, int32_t device) noexcept nogil:
    cdef int32_t use
    for use in range(s.use_starts[device], s.use_starts[device + 1]):
        s.left[s.use_counters[use]] += s.use_amounts[use]


cdef bint _concerns(SearchC* s, int32_t constraint, int32_t claim, int32_t variant) noexcept nogil:
    return s.constraint_claims[constraint] == claim and s.applies[<Py_ssize_t>constraint * s.variants + variant] != 0


cdef bint _add_value(SearchC* s, int32_t constraint, int32_t request, int64_t value) noexcept nogil:
    """Count a device's value, unless that would violate the constraint."""
    cdef int64_t* known = s.chosen_values + <Py_ssize_t>constraint * s.most_values
    cdef int32_t each, chosen = s.chosen[constraint]
    if value == NO_VALUE:
        return False
    if s.kinds[constraint] >= MATCH_SETS:
        return _add_set(s, constraint, request, value)
    if s.kinds[constraint] == DISTINCT_REQUESTS:
        if chosen:
            for each in range(s.most_values):
                if known[each] != NOT_CHOSEN and (known[each] == value or value == UNKNOWN_VALUE):
                    return False
        known[request] = value
    else:
        if chosen and value == UNKNOWN_VALUE:
            return False
        if s.kinds[constraint] == MATCH:
            if chosen and value != known[0]:
                return False
        else:
            for each in range(chosen):
                if known[each] == value:
                    return False
        known[chosen] = value
    s.chosen[constraint] += 1
    return True


cdef bint _add_set(SearchC* s, int32_t constraint, int32_t request, int64_t values) noexcept nogil:
    """As `_add_value`, for a set of values."""
    cdef int64_t* known = s.chosen_values + <Py_ssize_t>constraint * s.most_values
    cdef int32_t each, chosen = s.chosen[constraint]
    if s.kinds[constraint] == DISTINCT_SETS_OF_REQUESTS:
        if chosen:
            if not values:
                return False
            for each in range(s.most_values):
                if known[each] != NOT_CHOSEN and known[each] & values:
                    return False
        known[request] = values
    else:
        if s.kinds[constraint] == DISTINCT_SETS:
            for each in range(chosen):
                if known[each] & values:
                    return False
        elif chosen:
            values &= known[chosen - 1]
        if not values:
            return False
        known[chosen] = values
    s.chosen[constraint] += 1
    return True


cdef void _remove_values(SearchC* s, int32_t end, int32_t claim, int32_t request, int32_t variant) noexcept nogil:
    """Forget the value that was added last to each constraint before `end`."""
    cdef int32_t constraint, chosen
    cdef int64_t* known
    for constraint in range(end):
        if _concerns(s, constraint, claim, variant):
            known = s.chosen_values + <Py_ssize_t>constraint * s.most_values
            s.chosen[constraint] -= 1
            chosen = s.chosen[constraint]
            if s.kinds[constraint] == DISTINCT_REQUESTS or s.kinds[constraint] == DISTINCT_SETS_OF_REQUESTS:
                known[request] = NOT_CHOSEN
            elif s.kinds[constraint] == MATCH_NARROWING_SETS and chosen:
                known[chosen - 1] = known[chosen]
