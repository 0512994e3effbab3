"""Dry runs of preemption on numbers: which pods would have to leave a node so that another pod fits there."""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cython cimport view
from libc.stdint cimport int64_t

from kscheduler._fast.checks cimport index, within
from kscheduler._fast.codes cimport FEASIBLE, MAX_CODE, NOBODY, TOO_MANY_PODS, UNRESOLVABLE
from kscheduler._fast.columns cimport EntryC, NodeColumns, PodRequest
from kscheduler._fast.filtering cimport entry_bit
from kscheduler._fast.typedefs cimport amount_t, code_t, detail_t, row_t
from kscheduler._fast.verdicts cimport Verdicts

cdef object _INT32_MAX = (1 << 31) - 1
cdef object _INT64_MAX = (1 << 63) - 1


cdef struct ResidentC:
    amount_t priority
    const EntryC* entries  # of a request that the owner keeps alive
    Py_ssize_t count
    Py_ssize_t kind


cdef struct TallyC:
    code_t place
    detail_t detail
    detail_t missing
    bint is_need  # has no limits


cdef struct TrialC:
    row_t row
    const ResidentC* pods
    Py_ssize_t count
    Py_ssize_t lower  # position of the first pod of lower priority
    const ResidentC* nominated
    Py_ssize_t nominated_count
    Py_ssize_t counted  # index in `counted` of the node's first tally
    Py_ssize_t marks  # index of the mark of the node's first pod
    code_t place
    detail_t detail


@cython.final
cdef class Residents:
    """The pods on one node, as (priority, request, kind), the most important first. Immutable.

    Pods of one kind change each count by topology domain equally (`weights` of `clear_nodes`); the caller numbers the
    kinds. `members` are the same pods as objects of the caller, in the caller's order, for `are` to compare.
    """

    cdef ResidentC* c
    cdef Py_ssize_t count
    cdef tuple members
    cdef list requests  # whose entries `c` points to
    cdef Py_ssize_t highest_kind  # -1 without pods

    def __cinit__(self, members, pods):
        self.highest_kind = -1
        self.members = tuple(members)
        self.requests = []
        self.c = <ResidentC*>PyMem_Malloc(max(1, len(pods)) * sizeof(ResidentC))
        if self.c is NULL:
            raise MemoryError()
        cdef PodRequest request
        cdef amount_t previous = _INT32_MAX
        for priority, asked, kind in pods:
            request = asked
            if request is None:
                raise TypeError("expected a PodRequest, got None")
            self.c[self.count].priority = within("priority", priority, -_INT32_MAX - 1, _INT32_MAX)
            if self.c[self.count].priority > previous:
                raise ValueError(f"pods: expected falling priorities, got {priority} after {previous}")
            previous = self.c[self.count].priority
            self.c[self.count].entries = request.c
            self.c[self.count].count = request.count
            self.c[self.count].kind = within("kind", kind, 0, _INT32_MAX)
            self.highest_kind = max(self.highest_kind, self.c[self.count].kind)
            self.requests.append(request)
            self.count += 1

    def __dealloc__(self):
        PyMem_Free(self.c)

    def __len__(self):
        return self.count

    def are(self, dict pods not None):
        """Return True if the values of this dict are the members: the same objects in the same order."""
        cdef Py_ssize_t position = 0
        if len(pods) != len(self.members):
            return False
        for pod in pods.values():
            if pod is not self.members[position]:
                return False
            position += 1
        return True


@cython.final
cdef class Conditions:
    """What a pod requires of a node, as numbers that a dry run can follow. Valid for one state of the table.

    Each condition has a place, the position of its filter, ascending from 1. The request has the place `room_place`; 0
    means that there is no request. Each of the `tallies` (counts of pods by topology domain) has a place. A tally with
    limits holds if the count of the node's domain is not above its limit. Those without limits, which must share a
    place, hold if each counts a pod, or with `may_be_first`, if none of them counts a pod in any domain. `detail` is
    the reason number if a tally does not hold; `missing` that of a node without a domain, 0 if it is accepted.
    """

    cdef Py_ssize_t rows
    cdef readonly Py_ssize_t tallies
    cdef amount_t priority
    cdef PodRequest request
    cdef code_t room_place
    cdef bint may_be_first
    cdef Py_ssize_t pairs  # number of domains in which tallies without limits count a pod
    cdef TallyC* c  # [tally]
    cdef amount_t[:, ::1] counts  # [tally, row] count of the row's domain
    cdef amount_t[:, ::1] limits  # [tally, row]
    cdef code_t[:, ::1] inside  # [tally, row] 1: the row has a domain
    # Numbers of the node that is being tried.
    cdef amount_t[::1] left  # what is free of each resource of the request
    cdef amount_t[::1] nominated_requests  # what nominated pods take of each resource of the request
    cdef amount_t[::1] values  # count of the node's domain in each tally
    cdef amount_t[::1] nominated_values  # what nominated pods add to each tally
    cdef amount_t room  # how many more pods the node may have

    def __cinit__(
        self, NodeColumns columns not None, priority, PodRequest request not None, room_place, tallies, may_be_first
    ):
        columns._check_resources(request)
        self.rows = columns.rows
        self.priority = within("priority", priority, -_INT32_MAX - 1, _INT32_MAX)
        self.request = request
        self.room_place = within("room_place", room_place, 0, MAX_CODE)
        self.may_be_first = may_be_first
        self._allocate(len(tallies))
        previous = needed = 0
        for place, detail, missing, ids, counts, limits in tallies:
            self.c[self.tallies].place = within("place", place, max(1, previous), MAX_CODE)
            self.c[self.tallies].detail = within("detail", detail, 1, _INT64_MAX)
            self.c[self.tallies].missing = within("missing", missing, 0, _INT64_MAX)
            self.c[self.tallies].is_need = limits is None
            self._lay_out(ids, counts, limits)
            if limits is None:
                if needed and place != needed:
                    raise ValueError(f"tallies without limits: expected them at place {needed}, got {place}")
                needed = place
            previous = place
            self.tallies += 1

    def __dealloc__(self):
        PyMem_Free(self.c)

    cdef int _allocate(self, Py_ssize_t tallies) except -1:
        cdef Py_ssize_t rows = max(1, self.rows)
        cdef Py_ssize_t some = max(1, tallies)
        cdef Py_ssize_t entries = max(1, self.request.count)
        self.c = <TallyC*>PyMem_Malloc(some * sizeof(TallyC))
        if self.c is NULL:
            raise MemoryError()
        self.counts = view.array(shape=(some, rows), itemsize=sizeof(amount_t), format="q")
        self.limits = view.array(shape=(some, rows), itemsize=sizeof(amount_t), format="q")
        self.inside = view.array(shape=(some, rows), itemsize=sizeof(code_t), format="B")
        self.left = view.array(shape=(entries,), itemsize=sizeof(amount_t), format="q")
        self.nominated_requests = view.array(shape=(entries,), itemsize=sizeof(amount_t), format="q")
        self.values = view.array(shape=(some,), itemsize=sizeof(amount_t), format="q")
        self.nominated_values = view.array(shape=(some,), itemsize=sizeof(amount_t), format="q")
        return 0

    cdef int _lay_out(self, const int[::1] ids, const int64_t[::1] counts, const int64_t[::1] limits) except -1:
        """Copy the counts and limits of a tally from domains to the rows in them."""
        cdef row_t row
        cdef Py_ssize_t domain, at = self.tallies
        if ids.shape[0] < self.rows:
            raise ValueError(f"ids: expected at least {self.rows} rows, got {ids.shape[0]}")
        if limits is not None and limits.shape[0] != counts.shape[0]:
            raise ValueError(f"limits: expected {counts.shape[0]} domains, got {limits.shape[0]}")
        for row in range(self.rows):
            domain = ids[row]
            if domain >= counts.shape[0]:
                raise IndexError(f"row {row} is in domain {domain}, there are counts for {counts.shape[0]}")
            self.inside[at, row] = domain >= 0
            self.counts[at, row] = counts[domain] if domain >= 0 else 0
            self.limits[at, row] = limits[domain] if limits is not None and domain >= 0 else 0
        if limits is None:
            for domain in range(counts.shape[0]):
                self.pairs += counts[domain] != 0
        return 0


@cython.final
cdef class _Trials:
    """The nodes on which dry runs are made, as C structs."""

    cdef TrialC* c
    cdef Py_ssize_t count
    cdef Py_ssize_t marks  # number of pods on all of these nodes
    cdef list kept  # the objects that `c` points into

    def __cinit__(
        self, NodeColumns columns not None, Conditions conditions not None, rows, residents, nominated_by_node,
        const int64_t[::1] weights not None, const unsigned char[::1] counted not None,
    ):
        cdef Py_ssize_t tallies = conditions.tallies
        cdef Py_ssize_t kinds = weights.shape[0] // tallies if tallies else 0
        if columns.rows != conditions.rows:
            raise ValueError(f"conditions are for {conditions.rows} rows, these columns have {columns.rows}")
        if not len(rows) == len(residents) == len(nominated_by_node):
            raise ValueError(f"expected as many residents and nominated_by_node as rows: {len(rows)}")
        if counted.shape[0] != tallies * len(rows):
            raise ValueError(f"counted: expected {tallies * len(rows)} bytes, got {counted.shape[0]}")
        self.c = <TrialC*>PyMem_Malloc(max(1, len(rows)) * sizeof(TrialC))
        if self.c is NULL:
            raise MemoryError()
        self.kept = []
        cdef Residents here, nominated
        cdef TrialC* trial
        for row, pods, expected in zip(rows, residents, nominated_by_node):
            here, nominated = pods, expected
            if here is None:
                raise TypeError("expected Residents, got None")
            index("row", row, columns.rows)
            if tallies and here.count:
                index("kind", here.highest_kind, kinds)
            if tallies and nominated is not None and nominated.count:
                index("kind", nominated.highest_kind, kinds)
            trial = &self.c[self.count]
            trial.row = row
            trial.pods, trial.count = here.c, here.count
            trial.lower = _first_lower(here.c, here.count, conditions.priority)
            trial.nominated, trial.nominated_count = NULL, 0
            if nominated is not None:
                trial.nominated, trial.nominated_count = nominated.c, nominated.count
            trial.counted = self.count * tallies
            trial.marks = self.marks
            trial.place = trial.detail = 0
            self.marks += trial.count
            self.kept.append((pods, expected))
            self.count += 1

    def __dealloc__(self):
        PyMem_Free(self.c)


def clear_nodes(
    NodeColumns columns not None, Verdicts verdicts not None, Conditions conditions not None, rows, residents,
    nominated_by_node, const int64_t[::1] weights not None, const unsigned char[::1] counted not None,
):
    """Return for each node whether the pod would fit there if all pods of lower priority left.

    If so, the node's result is (0, 0); else the place and the detail (reason number) of the first condition that fails,
    where a code of `verdicts` counts as a place; or (NOBODY, 0) if no pod there has a lower priority. The pod has to
    fit both with and without the pods nominated to the node, `nominated_by_node`. A tally is a count of pods by
    topology domain. `weights` has, by kind of pod and then by tally, how much a pod that comes or leaves changes the
    tally. `counted` has, by node and then by tally, a byte: 0 if pods that come to the node or leave it do not change
    the tally.
    """
    verdicts.check_columns(columns)
    cdef _Trials trials = _Trials(columns, conditions, rows, residents, nominated_by_node, weights, counted)
    cdef Py_ssize_t position
    with nogil:
        for position in range(trials.count):
            _clear_node(columns, verdicts.codes, verdicts.details, conditions, &trials.c[position], weights, counted)
    return [(trials.c[position].place, trials.c[position].detail) for position in range(trials.count)]


def spare_pods(
    NodeColumns columns not None, Conditions conditions not None, rows, residents,
    nominated_by_node, const int64_t[::1] weights not None, const unsigned char[::1] counted not None,
    const unsigned char[::1] violating not None,
):
    """Return the victims on nodes on which the pod would fit if all pods of lower priority left.

    The nodes are those with the result (0, 0) of `clear_nodes`, with the same arguments. `violating` has a byte for
    each pod on a node, node by node: not 0 if its eviction would violate a PodDisruptionBudget. Those pods are put back
    first, then the others, each in the order of the residents. Returns for each node (positions of the violating pods
    that cannot stay, positions of the others that cannot).
    """
    cdef _Trials trials = _Trials(columns, conditions, rows, residents, nominated_by_node, weights, counted)
    cdef Py_ssize_t position
    if violating.shape[0] != trials.marks:
        raise ValueError(f"violating: expected {trials.marks} bytes, got {violating.shape[0]}")
    cdef code_t[::1] victims = view.array(shape=(max(1, trials.marks),), itemsize=sizeof(code_t), format="B")
    with nogil:
        for position in range(trials.count):
            _spare_on_node(columns, conditions, &trials.c[position], weights, counted, violating, victims)
    return [_victims(&trials.c[position], violating, victims) for position in range(trials.count)]


cdef tuple _victims(const TrialC* trial, const unsigned char[::1] violating, const code_t[::1] victims):
    cdef Py_ssize_t position
    cdef list guarded = [], others = []
    for position in range(trial.lower, trial.count):
        if victims[trial.marks + position]:
            (guarded if violating[trial.marks + position] else others).append(position)
    return guarded, others


cdef Py_ssize_t _first_lower(const ResidentC* pods, Py_ssize_t count, amount_t priority) noexcept nogil:
    cdef Py_ssize_t position
    for position in range(count):
        if pods[position].priority < priority:
            return position
    return count


# --- one node ---


cdef int _clear_node(
    NodeColumns columns,
    const code_t[::1] codes,
    const detail_t[::1] details,
    Conditions conditions,
    TrialC* trial,
    const int64_t[::1] weights,
    const unsigned char[::1] counted,
) except -1 nogil:
    cdef code_t code
    if trial.lower == trial.count:
        trial.place = NOBODY
        return 0
    _clear(columns, conditions, trial, weights, counted)
    code = codes[trial.row]
    if code == FEASIBLE:
        trial.place = _obstacle(columns, conditions, trial, &trial.detail)
        return 0
    # The verdict holds with the nominated pods, too: the answer without them is not asked for.
    trial.place = _first_obstacle(columns, conditions, trial, trial.nominated_count > 0, &trial.detail)
    if trial.place == 0 or code < trial.place:
        trial.place = code
        trial.detail = details[trial.row]
    return 0


cdef int _spare_on_node(
    NodeColumns columns,
    Conditions conditions,
    TrialC* trial,
    const int64_t[::1] weights,
    const unsigned char[::1] counted,
    const unsigned char[::1] violating,
    code_t[::1] victims,
) except -1 nogil:
    """Put pods back where the preemptor still fits, and mark those that cannot stay as victims."""
    cdef Py_ssize_t position, turn
    _clear(columns, conditions, trial, weights, counted)
    for turn in range(2):  # the violating, then the others
        for position in range(trial.lower, trial.count):
            if (violating[trial.marks + position] == 0) != (turn == 1):
                continue
            _move(conditions, trial, position, weights, counted, 1)
            victims[trial.marks + position] = _obstacle(columns, conditions, trial, &trial.detail) != 0
            if victims[trial.marks + position]:
                _move(conditions, trial, position, weights, counted, -1)
    return 0


cdef int _clear(
    NodeColumns columns,
    Conditions conditions,
    const TrialC* trial,
    const int64_t[::1] weights,
    const unsigned char[::1] counted,
) except -1 nogil:
    """Compute the numbers of the node without its pods of lower priority, and what its nominated pods add to them."""
    cdef row_t row = trial.row
    cdef Py_ssize_t i, position
    cdef const EntryC* entries = conditions.request.c
    for i in range(conditions.request.count):
        conditions.left[i] = columns.allocated[entries[i].resource, row] - columns.used[entries[i].resource, row]
        conditions.nominated_requests[i] = 0
    conditions.room = columns.pods_allowed[row] - columns.pods[row]
    for i in range(conditions.tallies):
        conditions.values[i] = conditions.counts[i, row]
        conditions.nominated_values[i] = 0
    for position in range(trial.lower, trial.count):
        _move(conditions, trial, position, weights, counted, -1)
    for position in range(trial.nominated_count):
        _add_amounts(
            conditions.nominated_requests,
            entries,
            conditions.request.count,
            trial.nominated[position].entries,
            trial.nominated[position].count,
            1,
        )
        _count(conditions, conditions.nominated_values, trial, trial.nominated[position].kind, weights, counted, 1)
    return 0


cdef int _move(
    Conditions conditions,
    const TrialC* trial,
    Py_ssize_t position,
    const int64_t[::1] weights,
    const unsigned char[::1] counted,
    int by,
) except -1 nogil:
    """Add a pod of the node (`by` 1), or remove it (-1)."""
    cdef const ResidentC* pod = &trial.pods[position]
    _add_amounts(conditions.left, conditions.request.c, conditions.request.count, pod.entries, pod.count, -by)
    conditions.room = conditions.room - by
    _count(conditions, conditions.values, trial, pod.kind, weights, counted, by)
    return 0


cdef int _count(
    Conditions conditions,
    amount_t[::1] values,
    const TrialC* trial,
    Py_ssize_t kind,
    const int64_t[::1] weights,
    const unsigned char[::1] counted,
    int by,
) except -1 nogil:
    """Add a pod of this kind to the tallies (`by` 1), or remove it from them (-1)."""
    cdef Py_ssize_t i
    for i in range(conditions.tallies):
        if counted[trial.counted + i]:
            values[i] += by * weights[kind * conditions.tallies + i]
    return 0


cdef int _add_amounts(
    amount_t[::1] sums, const EntryC* asked, Py_ssize_t asked_count, const EntryC* entries, Py_ssize_t count, int sign
) except -1 nogil:
    """Add a pod's amounts of the requested resources; both lists ascend by resource."""
    cdef Py_ssize_t i = 0, j = 0
    while i < asked_count and j < count:
        if asked[i].resource < entries[j].resource:
            i += 1
        elif asked[i].resource > entries[j].resource:
            j += 1
        else:
            sums[i] += sign * entries[j].amount
            i += 1
            j += 1
    return 0


# --- does it fit? ---


cdef int _obstacle(NodeColumns columns, Conditions conditions, const TrialC* trial, detail_t* detail) except -1 nogil:
    """Return the place of the first condition that fails, with nominated pods or without; else 0. Sets `detail`."""
    cdef int place
    if trial.nominated_count:
        place = _first_obstacle(columns, conditions, trial, True, detail)
        if place:
            return place
    return _first_obstacle(columns, conditions, trial, False, detail)


cdef int _first_obstacle(
    NodeColumns columns, Conditions conditions, const TrialC* trial, bint has_nominated, detail_t* detail
) except -1 nogil:
    cdef Py_ssize_t i
    cdef int room_place = conditions.room_place
    cdef bint are_needs_met = False
    cdef amount_t value
    for i in range(conditions.tallies):
        if room_place and room_place < conditions.c[i].place:
            detail[0] = _lacking(columns, conditions, trial, has_nominated)
            if detail[0]:
                return room_place
            room_place = 0
        if conditions.c[i].is_need:
            if not are_needs_met:
                detail[0] = _unmet(conditions, trial, has_nominated)
                if detail[0]:
                    return conditions.c[i].place
                are_needs_met = True
            continue
        if not conditions.inside[i, trial.row]:
            if conditions.c[i].missing:
                detail[0] = conditions.c[i].missing
                return conditions.c[i].place
            continue
        value = conditions.values[i] + (conditions.nominated_values[i] if has_nominated else 0)
        if value > conditions.limits[i, trial.row]:
            detail[0] = conditions.c[i].detail
            return conditions.c[i].place
    detail[0] = 0
    if room_place:
        detail[0] = _lacking(columns, conditions, trial, has_nominated)
    return room_place if detail[0] else 0


cdef detail_t _lacking(
    NodeColumns columns, Conditions conditions, const TrialC* trial, bint has_nominated
) except -1 nogil:
    """Return the detail (reason number) of `filter_fit` for the request; 0 if there is room."""
    cdef Py_ssize_t i
    cdef amount_t amount, left
    cdef const EntryC* entries = conditions.request.c
    cdef detail_t lacking = TOO_MANY_PODS
    if conditions.room - (trial.nominated_count if has_nominated else 0) >= 1:
        lacking = 0
    for i in range(conditions.request.count):
        amount = entries[i].amount
        left = conditions.left[i] - (conditions.nominated_requests[i] if has_nominated else 0)
        if amount > left:
            lacking |= entry_bit(i)
            if amount > columns.allocated[entries[i].resource, trial.row]:
                lacking |= UNRESOLVABLE
    return lacking


cdef detail_t _unmet(Conditions conditions, const TrialC* trial, bint has_nominated) except -1 nogil:
    """Return the detail (reason number) of the first tally (count of pods by domain) that should be above 0 and is not.

    0 if there is no such tally.
    """
    cdef Py_ssize_t i
    cdef Py_ssize_t here = 0  # how many of the node's own domains they count a pod in, as the table has it
    cdef Py_ssize_t counting = 0  # the same at this moment
    cdef Py_ssize_t needs = 0
    cdef detail_t detail = 0
    cdef amount_t value
    for i in range(conditions.tallies):
        if not conditions.c[i].is_need:
            continue
        if not conditions.inside[i, trial.row]:
            if conditions.c[i].missing:
                return conditions.c[i].missing
            continue
        needs += 1
        here += conditions.counts[i, trial.row] != 0
        value = conditions.values[i] + (conditions.nominated_values[i] if has_nominated else 0)
        if value > 0:
            counting += 1
        elif not detail:
            detail = conditions.c[i].detail
    if counting == needs or (conditions.may_be_first and counting == 0 and conditions.pairs == here):
        return 0
    return detail
