"""Queues with shares in a tree: whose turn it is, and whether they take jobs, each counted before the next one."""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int64_t
from libc.string cimport memcpy

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1

from kscheduler._fast.checks cimport index as check_index
from kscheduler._fast.codes cimport MAX_AMOUNT, MAX_RAW, PENALTY

# A queue's terms of one resource.
cdef struct TermC:
    bint is_shared  # False: the queue does not divide this resource
    bint is_closed  # nothing of it may be used
    int64_t fair  # its fair share
    int64_t deserved  # -1: all there is
    int64_t limit  # -1: none
    int64_t most  # what counts as the whole that it may use

# What decides between siblings: the lower, the earlier, field by field.
cdef struct RankC:
    bint is_over  # above its fair share in all resources
    bint is_beyond  # with its job, above what it deserves
    int64_t priority  # negated
    bint uses_closed  # with its job, something of a resource of which nothing may be used
    double with_job  # dominant share
    double without
    int64_t order


@cython.final
cdef class TurnOrder:
    """The queues of a tree by index, parents before the queues below them; only leaves have jobs.

    A queue's turn is that of the first leaf below it: at each level the sibling of the lowest rank comes first.
    """

    cdef Py_ssize_t _queues
    cdef Py_ssize_t _resources
    cdef TermC* _terms  # by queue and resource, as all amounts below
    cdef int64_t* _used
    cdef int64_t* _kept  # by jobs that are not preemptible
    cdef int64_t* _used_before  # without what was taken or admitted since the last `end`
    cdef int64_t* _kept_before
    cdef int64_t* _jobs
    cdef int64_t* _asked  # by the jobs that are being counted, together
    cdef RankC* _ranks
    cdef int* _parents  # -1: none
    cdef int* _leaves  # the queue itself or the one below it whose job is next; -1: none
    cdef bint* _has_job
    cdef Py_ssize_t* _alike  # how many jobs are known to come after it that ask for as much
    cdef bint* _is_touched  # something was taken or admitted since the last `end`
    # The queues below each one that have a job, as a heap by rank; those below none are at index `_queues`.
    cdef int* _heaps
    cdef int* _starts  # where the heap of a queue begins
    cdef int* _sizes
    cdef int* _places  # of a queue in the heap of its parent; -1: not there

    def __cinit__(self, parents not None, priorities not None, order not None, terms not None, Py_ssize_t resources):
        """Build the order of queues that use nothing and have no jobs.

        `parents`: the index of each queue's parent, -1 for none. `order`: decides between siblings of equal rank.
        `terms`: of each queue (resource, fair share, what it deserves or -1, limit or -1, the whole, may nothing be
        used?).
        """
        cdef Py_ssize_t queues = len(parents), queue, above
        cdef int start = 0
        cdef TermC* term
        if not len(priorities) == len(order) == len(terms) == queues:
            raise ValueError(f"expected priorities, order and terms of {queues} queues")
        self._queues = queues
        self._resources = resources
        self._terms = <TermC*>_array(queues * resources, sizeof(TermC))
        self._used = <int64_t*>_array(queues * resources, sizeof(int64_t))
        self._kept = <int64_t*>_array(queues * resources, sizeof(int64_t))
        self._used_before = <int64_t*>_array(queues * resources, sizeof(int64_t))
        self._kept_before = <int64_t*>_array(queues * resources, sizeof(int64_t))
        self._jobs = <int64_t*>_array(queues * resources, sizeof(int64_t))
        self._asked = <int64_t*>_array(resources, sizeof(int64_t))
        self._ranks = <RankC*>_array(queues, sizeof(RankC))
        self._parents = <int*>_array(queues, sizeof(int))
        self._leaves = <int*>_array(queues, sizeof(int))
        self._has_job = <bint*>_array(queues, sizeof(bint))
        self._alike = <Py_ssize_t*>_array(queues, sizeof(Py_ssize_t))
        self._is_touched = <bint*>_array(queues, sizeof(bint))
        self._heaps = <int*>_array(queues, sizeof(int))
        self._starts = <int*>_array(queues + 1, sizeof(int))
        self._sizes = <int*>_array(queues + 1, sizeof(int))
        self._places = <int*>_array(queues, sizeof(int))
        # 1. The queues, and how many are below each.
        for queue in range(queues):
            if not -1 <= parents[queue] < queue:
                raise ValueError(f"queue {queue}: expected a parent before it, got {parents[queue]}")
            self._parents[queue] = parents[queue]
            self._leaves[queue] = self._places[queue] = -1
            self._ranks[queue].priority = -<int64_t>priorities[queue]
            self._ranks[queue].order = order[queue]
            self._sizes[self._above(queue)] += 1
            for resource, fair, deserved, limit, most, is_closed in terms[queue]:
                check_index("resource", resource, resources)
                term = &self._terms[queue * resources + <Py_ssize_t>resource]
                term.is_shared = True
                term.is_closed = is_closed
                term.fair = _capped(fair)
                term.deserved = _capped(deserved)
                term.limit = _capped(limit)
                term.most = _capped(most)
        # 2. Room for the heap below each; empty for now.
        for above in range(queues + 1):
            self._starts[above] = start
            start += self._sizes[above]
            self._sizes[above] = 0

    def __dealloc__(self):
        PyMem_Free(self._terms)
        PyMem_Free(self._used)
        PyMem_Free(self._kept)
        PyMem_Free(self._used_before)
        PyMem_Free(self._kept_before)
        PyMem_Free(self._jobs)
        PyMem_Free(self._asked)
        PyMem_Free(self._ranks)
        PyMem_Free(self._parents)
        PyMem_Free(self._leaves)
        PyMem_Free(self._has_job)
        PyMem_Free(self._alike)
        PyMem_Free(self._is_touched)
        PyMem_Free(self._heaps)
        PyMem_Free(self._starts)
        PyMem_Free(self._sizes)
        PyMem_Free(self._places)

    def set_used(self, Py_ssize_t queue, tuple used not None, tuple kept not None):
        """State what a queue, with those below it, uses of each resource. `kept`: by jobs that are not preemptible."""
        check_index("queue", queue, self._queues)
        self._read(&self._used_before[queue * self._resources], used)
        self._read(&self._kept_before[queue * self._resources], kept)
        self._restore(queue)
        self._refresh(queue)

    def charge(self, Py_ssize_t queue, tuple job not None, bint is_preemptible, Py_ssize_t times):
        """Count so many placed jobs of a queue, there and in those above it; less of them if `times` is negative."""
        check_index("queue", queue, self._queues)
        cdef Py_ssize_t each = queue
        self._ask(job, times)
        while each >= 0:
            self._add(self._used_before, each)
            self._add(self._used, each)
            if not is_preemptible:
                self._add(self._kept_before, each)
                self._add(self._kept, each)
            each = self._parents[each]
        self._refresh(queue)

    def admit(self, Py_ssize_t queue, tuple job not None, bint is_preemptible, Py_ssize_t times):
        """Return whether a queue and those above it take so many jobs together, and count them until `end` if so.

        No limit may be exceeded, nor what is deserved by jobs that are not preemptible.
        """
        check_index("queue", queue, self._queues)
        cdef Py_ssize_t resource, resources = self._resources
        cdef Py_ssize_t each = queue
        cdef TermC* term
        cdef int64_t asked
        self._ask(job, times)
        while each >= 0:
            for resource in range(resources):
                term = &self._terms[each * resources + resource]
                asked = self._asked[resource]
                if not term.is_shared or not asked:
                    continue
                if term.limit >= 0 and _sum(self._used[each * resources + resource], asked) > term.limit:
                    return False
                if is_preemptible or term.deserved < 0:
                    continue
                if _sum(self._kept[each * resources + resource], asked) > term.deserved:
                    return False
            each = self._parents[each]
        each = queue
        while each >= 0:
            self._add(self._used, each)
            if not is_preemptible:
                self._add(self._kept, each)
            self._is_touched[each] = True
            each = self._parents[each]
        return True

    def set_job(self, Py_ssize_t queue, tuple job, Py_ssize_t alike=0):
        """State what the next job of a leaf asks for of each resource; None: it has none.

        `alike`: so many jobs after it, or more, ask for as much.
        """
        check_index("queue", queue, self._queues)
        if alike < 0:
            raise ValueError(f"alike: expected at least 0, got {alike}")
        if job is not None:
            self._read(&self._jobs[queue * self._resources], job)
        self._has_job[queue] = job is not None
        self._alike[queue] = alike
        self._refresh(queue)

    def first(self):
        """Return the leaf whose turn it is; -1 if none has a job."""
        return self._first(self._queues)

    def take(self, Py_ssize_t queue, tuple next_job):
        """Count the job of a leaf as placed until `end`, state its next one, and return the leaf whose turn it is then.

        Raises ValueError if it has no job.
        """
        check_index("queue", queue, self._queues)
        if not self._has_job[queue]:
            raise ValueError(f"queue {queue} has no job")
        self._count_job(queue)
        if next_job is not None:
            self._read(&self._jobs[queue * self._resources], next_job)
        self._has_job[queue] = next_job is not None
        self._alike[queue] = 0
        self._refresh(queue)
        return self._first(self._queues)

    def take_many(self, Py_ssize_t most):
        """Take up to `most` jobs, each of the leaf whose turn it is, counted until `end`. Returns the leaves in order.

        It stops after the last job of a leaf that is known. The second value is that leaf, which has no job until its
        next one is stated; -1 if there is none.
        """
        cdef list taken = []
        cdef Py_ssize_t done
        cdef int leaf
        for done in range(most):
            leaf = self._first(self._queues)
            if leaf < 0:
                break
            taken.append(leaf)
            self._count_job(leaf)
            if not self._alike[leaf]:
                self._has_job[leaf] = False
                self._refresh(leaf)
                return taken, leaf
            self._alike[leaf] -= 1
            self._refresh(leaf)
        return taken, -1

    def end(self):
        """Count what was taken or admitted no more; jobs stay as they are."""
        cdef Py_ssize_t queue
        for queue in range(self._queues):
            if self._is_touched[queue]:
                self._restore(queue)
        for queue in range(self._queues):
            if self._is_touched[queue]:
                self._is_touched[queue] = False
                self._refresh(queue)

    # --- amounts ---

    cdef void _restore(self, Py_ssize_t queue) noexcept:
        cdef Py_ssize_t at = queue * self._resources
        memcpy(&self._used[at], &self._used_before[at], self._resources * sizeof(int64_t))
        memcpy(&self._kept[at], &self._kept_before[at], self._resources * sizeof(int64_t))

    cdef void _count_job(self, Py_ssize_t leaf) noexcept:
        """Count the job of a leaf as placed until `end`, there and in the queues above it."""
        memcpy(self._asked, &self._jobs[leaf * self._resources], self._resources * sizeof(int64_t))
        while leaf >= 0:
            self._add(self._used, leaf)
            self._is_touched[leaf] = True
            leaf = self._parents[leaf]

    cdef int _ask(self, tuple job, Py_ssize_t times) except -1:
        """Count so many jobs together."""
        cdef Py_ssize_t resource
        self._read(self._asked, job)
        for resource in range(self._resources):
            self._asked[resource] = _times(self._asked[resource], times)
        return 0

    cdef void _add(self, int64_t* amounts, Py_ssize_t queue) noexcept:
        """Add what is asked for to the amounts of a queue."""
        cdef Py_ssize_t resource, at = queue * self._resources
        for resource in range(self._resources):
            amounts[at + resource] = _sum(amounts[at + resource], self._asked[resource])

    # --- the heaps ---

    cdef inline Py_ssize_t _above(self, Py_ssize_t queue) noexcept:
        """Return the index of the heap in which a queue is."""
        return self._queues if self._parents[queue] < 0 else self._parents[queue]

    cdef inline int _first(self, Py_ssize_t above) noexcept:
        return self._leaves[self._heaps[self._starts[above]]] if self._sizes[above] else -1

    cdef int _read(self, int64_t* into, tuple amounts) except -1:
        cdef Py_ssize_t resource
        if len(amounts) != self._resources:
            raise ValueError(f"expected amounts of {self._resources} resources, got {len(amounts)}")
        for resource in range(self._resources):
            into[resource] = _capped(amounts[resource])
        return 0

    cdef int _refresh(self, Py_ssize_t queue) except -1:
        """Give a queue, and those above it, their places by what they use, and by the job that is next."""
        cdef int leaf
        while queue >= 0:
            leaf = queue if self._has_job[queue] else self._first(queue)
            self._leaves[queue] = leaf
            if leaf < 0:
                self._remove(queue)
            else:
                self._rank(queue, &self._jobs[leaf * self._resources])
                self._place(queue)
            queue = self._parents[queue]
        return 0

    cdef int _rank(self, Py_ssize_t queue, const int64_t* job) except -1:
        cdef Py_ssize_t at = queue * self._resources
        return _set_rank(&self._ranks[queue], &self._terms[at], &self._used[at], job, self._resources)

    cdef void _place(self, Py_ssize_t queue) noexcept:
        """Enter a queue into the heap of its parent, or move it there, by its rank."""
        cdef Py_ssize_t above = self._above(queue)
        if self._places[queue] < 0:
            self._put(above, self._sizes[above], queue)
            self._sizes[above] += 1
        self._sift(above, queue)

    cdef void _remove(self, Py_ssize_t queue) noexcept:
        cdef Py_ssize_t above = self._above(queue)
        cdef int place = self._places[queue]
        cdef int last
        if place < 0:
            return
        self._sizes[above] -= 1
        last = self._heaps[self._starts[above] + self._sizes[above]]
        self._places[queue] = -1
        if last != queue:
            self._put(above, place, last)
            self._sift(above, last)

    cdef inline void _put(self, Py_ssize_t above, int place, Py_ssize_t queue) noexcept:
        self._heaps[self._starts[above] + place] = <int>queue
        self._places[queue] = place

    cdef void _sift(self, Py_ssize_t above, Py_ssize_t queue) noexcept:
        """Move a queue up or down in its heap until its rank is in order."""
        cdef int* heap = &self._heaps[self._starts[above]]
        cdef int size = self._sizes[above]
        cdef int place = self._places[queue]
        cdef int other
        while place and self._is_before(queue, heap[(place - 1) // 2]):
            self._put(above, place, heap[(place - 1) // 2])
            place = (place - 1) // 2
        while True:
            other = 2 * place + 1
            if other >= size:
                break
            if other + 1 < size and self._is_before(heap[other + 1], heap[other]):
                other += 1
            if not self._is_before(heap[other], queue):
                break
            self._put(above, place, heap[other])
            place = other
        self._put(above, place, queue)

    cdef inline bint _is_before(self, Py_ssize_t queue, Py_ssize_t other) noexcept:
        cdef RankC* mine = &self._ranks[queue]
        cdef RankC* theirs = &self._ranks[other]
        if mine.is_over != theirs.is_over:
            return theirs.is_over
        if mine.is_beyond != theirs.is_beyond:
            return theirs.is_beyond
        if mine.priority != theirs.priority:
            return mine.priority < theirs.priority
        if mine.uses_closed != theirs.uses_closed:
            return theirs.uses_closed
        if mine.with_job != theirs.with_job:
            return mine.with_job < theirs.with_job
        if mine.without != theirs.without:
            return mine.without < theirs.without
        return mine.order < theirs.order


def rank_queue(terms not None, tuple used not None, tuple job not None):
    """Return what decides between a queue, with its next job, and its siblings: the lower, the earlier.

    These are: is it above its fair share in all resources? With the job, above what it deserves? Would it use something
    of which nothing may be used? Its dominant share with the job, and without. `terms`: as for a `TurnOrder`.
    """
    cdef TurnOrder order = TurnOrder((-1,), (0,), (0,), (terms,), len(used))
    order.set_used(0, used, used)
    order.set_job(0, job)
    cdef RankC* rank = &order._ranks[0]
    return bool(rank.is_over), bool(rank.is_beyond), bool(rank.uses_closed), rank.with_job, rank.without


cdef int _set_rank(
    RankC* rank, const TermC* terms, const int64_t* used, const int64_t* job, Py_ssize_t resources
) except -1:
    cdef Py_ssize_t resource
    cdef int64_t would_use
    cdef double part
    rank.is_over = True
    rank.is_beyond = rank.uses_closed = False
    rank.with_job = rank.without = 0.0
    for resource in range(resources):
        if not terms[resource].is_shared:
            continue
        would_use = _sum(used[resource], job[resource])
        if used[resource] <= terms[resource].fair:
            rank.is_over = False
        if terms[resource].deserved >= 0 and would_use > terms[resource].deserved:
            rank.is_beyond = True
        if terms[resource].is_closed and would_use > 0:
            rank.uses_closed = True
        part = _part(would_use, terms[resource].most)
        if part > rank.with_job:
            rank.with_job = part
        part = _part(used[resource], terms[resource].most)
        if part > rank.without:
            rank.without = part
    return 0


cdef double _part(int64_t used, int64_t most) except? -1.0:
    """Return the part of the whole that is used; of nothing, so many times what is used.

    It is the nearest floating-point number, so that equal parts are equal; beyond MAX_RAW, only Python finds it.
    """
    if -MAX_RAW <= used <= MAX_RAW and most <= MAX_RAW:
        return <double>used / <double>most if most else <double>used * PENALTY
    exact, whole = used, most
    return exact / whole if most else float(exact * PENALTY)


cdef inline int64_t _sum(int64_t one, int64_t other) noexcept:
    """Return the sum of two amounts, which counts as MAX_AMOUNT where it is more."""
    if one > 0 and other > MAX_AMOUNT - one:
        return MAX_AMOUNT
    if one < 0 and other < -MAX_AMOUNT - one:
        return -MAX_AMOUNT
    return one + other


cdef inline int64_t _times(int64_t amount, Py_ssize_t times) noexcept:
    """Return the amount so many times, which counts as MAX_AMOUNT where it is more."""
    if times == 1:
        return amount
    cdef int64_t most = MAX_AMOUNT // (times if times > 0 else -times) if times else MAX_AMOUNT
    if -most <= amount <= most:
        return amount * times
    return MAX_AMOUNT if (amount > 0) == (times > 0) else -MAX_AMOUNT


cdef int64_t _capped(object amount) except? -1:
    cdef int overflow = 0
    cdef int64_t found = PyLong_AsLongLongAndOverflow(amount, &overflow)
    if overflow:
        return MAX_AMOUNT if overflow > 0 else -MAX_AMOUNT
    return MAX_AMOUNT if found > MAX_AMOUNT else -MAX_AMOUNT if found < -MAX_AMOUNT else found


cdef void* _array(Py_ssize_t count, size_t size) except NULL:
    cdef void* made = PyMem_Calloc(count + 1, size)
    if made is NULL:
        raise MemoryError
    return made
