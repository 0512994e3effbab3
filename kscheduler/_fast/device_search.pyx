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
    MATCH = 0  # a kind of constraint; the other is that values differ
    FOUND = 0
    NO_SOLUTION = 1
    TOO_MANY = 2
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
    const uint8_t* matching  # variant x device
    const int32_t* use_starts
    const int32_t* use_counters
    const int64_t* use_amounts
    const int32_t* pool_of
    const int32_t* pool_starts
    const int32_t* constraint_claims
    const uint8_t* kinds
    const int32_t* values  # constraint x device
    const uint8_t* applies  # constraint x variant
    uint8_t* taken
    int64_t* left
    int32_t* results  # by claim: devices chosen so far
    int32_t* chosen_values  # constraint x MAX_RESULTS
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
    bytes matching not None,
    bytes in_use not None,
    const int32_t[::1] use_starts not None,
    const int32_t[::1] use_counters not None,
    const int64_t[::1] use_amounts not None,
    const int32_t[::1] pool_of not None,
    const int32_t[::1] pool_starts not None,
    const int64_t[::1] available not None,
    const int32_t[::1] constraint_claims not None,
    bytes constraint_kinds not None,
    const int32_t[::1] values not None,
    bytes applies not None,
    int64_t most_steps,
):
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
    cdef SearchC s
    cdef int32_t requests = <int32_t>variant_starts.shape[0] - 1
    cdef int32_t each, outcome
    s.claims = <int32_t>claim_starts.shape[0] - 1
    s.variants = <int32_t>counts.shape[0]
    s.devices = <int32_t>len(in_use)
    s.constraints = <int32_t>constraint_claims.shape[0]
    # 1. Are the tables of one size?
    _same("the end of claims", claim_starts[s.claims], requests)
    _same("the end of requests", variant_starts[requests], s.variants)
    _same("alternatives", len(has_alternatives), requests)
    _same("matching", len(matching), <Py_ssize_t>s.variants * s.devices)
    _same("uses", use_starts.shape[0], s.devices + 1)
    _same("the end of uses", use_starts[s.devices], use_counters.shape[0])
    _same("amounts", use_amounts.shape[0], use_counters.shape[0])
    _same("pools of devices", pool_of.shape[0], s.devices)
    _same("the end of pools", pool_starts[pool_starts.shape[0] - 1], available.shape[0])
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
    s.matching = matching
    s.use_starts = &use_starts[0]
    s.use_counters = &use_counters[0] if use_counters.shape[0] else NULL
    s.use_amounts = &use_amounts[0] if use_amounts.shape[0] else NULL
    s.pool_of = &pool_of[0] if s.devices else NULL
    s.pool_starts = &pool_starts[0]
    s.constraint_claims = &constraint_claims[0] if s.constraints else NULL
    s.kinds = constraint_kinds
    s.values = &values[0] if values.shape[0] else NULL
    s.applies = applies
    s.depth = 0
    s.steps = 0
    s.most_steps = most_steps
    s.taken = <uint8_t*>malloc(s.devices + 1)
    s.left = <int64_t*>malloc((available.shape[0] + 1) * sizeof(int64_t))
    s.results = <int32_t*>calloc(s.claims + 1, sizeof(int32_t))
    s.chosen_values = <int32_t*>malloc((s.constraints * MAX_RESULTS + 1) * sizeof(int32_t))
    s.chosen = <int32_t*>calloc(s.constraints + 1, sizeof(int32_t))
    s.stack = <EntryC*>malloc((s.claims * (MAX_RESULTS + 1) + requests + 1) * sizeof(EntryC))
    try:
        if not (s.taken and s.left and s.results and s.chosen_values and s.chosen and s.stack):
            raise MemoryError("no room for a search for devices")
        memcpy(s.taken, <const char*>in_use, s.devices)
        if available.shape[0]:
            memcpy(s.left, &available[0], available.shape[0] * sizeof(int64_t))
        # 3. Search.
        with nogil:
            outcome = _run(&s)
        if s.steps > s.most_steps:
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
        free(s.left)
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
        if outcome == FOUND or s.steps > s.most_steps:
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
        if at.k >= count:
            at.request += 1
            at.variant = -1
            at.k = at.start = 0
            continue
        if count - at.k > MAX_RESULTS - s.results[at.claim]:
            return TOO_MANY
        device = _choose(s, at.claim, at.variant, at.start)
        if device < 0:
            return NO_SOLUTION
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
            _give_back(s, last.claim, last.variant, last.device)
            if outcome != TOO_MANY:
                device = _choose(s, last.claim, last.variant, last.device + 1)
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


cdef int32_t _choose(SearchC* s, int32_t claim, int32_t variant, int32_t start) noexcept nogil:
    """Take the first device from `start` on that can be taken; -1 if there is none."""
    cdef const uint8_t* matching = s.matching + <Py_ssize_t>variant * s.devices
    cdef int32_t device
    for device in range(start, s.devices):
        if not s.taken[device] and matching[device] and _take(s, claim, variant, device):
            return device
    return -1


cdef bint _take(SearchC* s, int32_t claim, int32_t variant, int32_t device) noexcept nogil:
    cdef int32_t constraint, each, value
    if not _use(s, device):
        return False
    for constraint in range(s.constraints):
        if not _concerns(s, constraint, claim, variant):
            continue
        value = s.values[<Py_ssize_t>constraint * s.devices + device]
        if not _satisfies(s, constraint, value):
            for each in range(constraint):
                s.chosen[each] -= _concerns(s, each, claim, variant)
            _free(s, device)
            return False
        s.chosen_values[constraint * MAX_RESULTS + s.chosen[constraint]] = value
        s.chosen[constraint] += 1
    s.taken[device] = 1
    s.results[claim] += 1
    return True


cdef void _give_back(SearchC* s, int32_t claim, int32_t variant, int32_t device) noexcept nogil:
    cdef int32_t constraint
    s.results[claim] -= 1
    s.taken[device] = 0
    for constraint in range(s.constraints):
        s.chosen[constraint] -= _concerns(s, constraint, claim, variant)
    _free(s, device)


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


cdef bint _satisfies(SearchC* s, int32_t constraint, int32_t value) noexcept nogil:
    cdef int32_t* known = s.chosen_values + constraint * MAX_RESULTS
    cdef int32_t each
    if value == NO_VALUE:
        return False
    if s.chosen[constraint] == 0:
        return True
    if value == UNKNOWN_VALUE:
        return False
    if s.kinds[constraint] == MATCH:
        return value == known[0]
    for each in range(s.chosen[constraint]):
        if known[each] == value:
            return False
    return True
