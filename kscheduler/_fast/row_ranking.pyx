"""The ranking of rows for a pod class: computes the totals of all rows, or of changed ones, and finds the best row.

Nothing here checks an index: a class has memory for every row of the table, in whole blocks.
"""

from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from kscheduler._fast.chunks cimport ALONE, CHUNK, FIELDS, ChunkC, fill_resource, fill_room, score_chunk
from kscheduler._fast.classes cimport GROUP, ClassC
from kscheduler._fast.codes cimport CLASSES_TOGETHER, CPU, MEMORY
from kscheduler._fast.scoring cimport normalized
from kscheduler._fast.simd cimport cloned, in_ints, out_ints
from kscheduler._fast.totals cimport (
    BLOCK,
    BLOCK_SHIFT,
    LINE,
    NOT_KNOWN,
    BestC,
    RankC,
    best_total,
    clear_totals,
    exchange_row,
    fetch_total,
    move_totals,
    set_total,
    store_totals,
    total_of,
)
from kscheduler._fast.typedefs cimport amount_t, node_class_t, row_t, score_t
from kscheduler._fast.worker_threads cimport hand_over, take_back

cdef extern from *:
    row_t take_rows "__atomic_fetch_add"(row_t* next, row_t count, int order) noexcept nogil
    int RELAXED "__ATOMIC_RELAXED"


cdef enum:
    IN_BEST = 2  # numbers of 32 bits
    IN_RANK = 4
    SPARE = 16  # counts; more than a cache line of them
    SHARE = 2_048  # rows, whole chunks, some 8 us; a thread that begins late or is held up leaves the rest to others
    MOST = 0x7FFFFFFF  # no total is higher
    NEAR = 32_768  # rows whose totals, of many classes, are in the L2 cache; those of more have to be fetched in time

# Of a resource's numbers for the present chunk.
cdef enum:
    UNREAD
    FILLED
    TOO_LARGE  # an amount is too large for doubles

# --- all rows ---


cdef row_t share_of_rows(Py_ssize_t classes) noexcept nogil:
    """Return how many rows a thread takes at once: whole chunks, and fewer of them where more is done for each."""
    return max(SHARE // classes, <Py_ssize_t>CHUNK) // CHUNK * CHUNK


cdef bint begin_part(Py_ssize_t worker, PartC* part) noexcept nogil:
    """Start another thread on the rows, with counts of its own. Returns False if no thread is free."""
    cdef Py_ssize_t i, needed = 0
    cdef Py_ssize_t* shared[CLASSES_TOGETHER]
    # With a cache line to spare after each class's: they are written at every row.
    for i in range(part.count):
        needed += part.classes[i].node_class_count + 2 * SPARE
    part.counts = <Py_ssize_t*>calloc(needed, sizeof(Py_ssize_t))
    if part.counts is NULL:
        return False
    needed = 0
    for i in range(part.count):
        shared[i] = part.found[i].feasible_in
        part.found[i].feasible_in = part.counts + needed
        needed += part.classes[i].node_class_count + 2 * SPARE
    if hand_over(worker, look_at_part, part):
        return True
    free(part.counts)
    for i in range(part.count):
        part.found[i].feasible_in = shared[i]
    return False


cdef bint end_part(Py_ssize_t worker, PartC* part) noexcept nogil:
    """Wait for another thread, and add its counts to those of the classes. Returns False if it had not started."""
    cdef Py_ssize_t i, node_class
    cdef ClassC* c
    cdef bint is_done = take_back(worker)
    if is_done:
        for i in range(part.count):
            c = part.classes[i]
            for node_class in range(c.node_class_count):
                c.feasible_in[node_class] = c.feasible_in[node_class] + part.found[i].feasible_in[node_class]
    free(part.counts)
    return is_done


cdef void look_at_part(void* argument) noexcept nogil:
    """Score shares of rows until none is left. Each thread that runs this writes only its own rows and counts."""
    cdef PartC* part = <PartC*>argument
    cdef row_t start, end, rows = part.table.rows
    cdef Py_ssize_t i
    for i in range(part.count):
        part.found[i].feasible = 0
        part.found[i].has_alone = part.found[i].is_bad = False
    start = take_rows(part.next, part.share, RELAXED)
    while start < rows:
        end = min(start + part.share, rows)
        while start < end:
            _look_at_chunk(part, start, min(<row_t>CHUNK, end - start))
            start += CHUNK
        start = take_rows(part.next, part.share, RELAXED)


cdef int clear_rest(ClassC* c, row_t rows) noexcept nogil:
    """Clear the totals past the last row, and mark the best of all groups as stale."""
    cdef row_t chunks_end = (rows + CHUNK - 1) // CHUNK * CHUNK
    cdef Py_ssize_t block
    clear_totals(&c.totals, chunks_end, c.shape.rows)
    for block in range(chunks_end // BLOCK, c.shape.blocks):
        c.blocks[block].total = -1
        c.blocks[block].ties = 0
    return _mark_all(c)


cdef int _mark_all(ClassC* c) noexcept nogil:
    cdef Py_ssize_t group
    for group in range(c.shape.groups):
        _forget(&c.groups[group])
        c.is_stale[group] = 1
        c.stale[group] = <int32_t>group
    c.stale_count = c.shape.groups
    _forget(&c.best)
    return 0


cdef int _forget(RankC* rank) noexcept nogil:
    _set_best(rank, MOST, 0)
    return 0


cdef int _set_best(RankC* rank, int32_t total, int32_t ties) noexcept nogil:
    rank.best.total, rank.best.ties = total, ties
    rank.next.total, rank.next.ties = NOT_KNOWN, 0
    return 0


cdef int _look_at_chunk(PartC* part, row_t start, Py_ssize_t count) noexcept nogil:
    """Score these rows for each class. Their amounts are converted once, when the first class needs them."""
    cdef Py_ssize_t i
    cdef bint has_room = fill_room(part.numbers, part.table.pods_allowed + start, part.table.pods + start, count)
    memset(part.filled, UNREAD, part.table.resources)
    for i in range(part.count):
        _look_for_class(part, part.classes[i], &part.found[i], start, count, has_room)
    return 0


cdef int _look_for_class(
    PartC* part, ClassC* c, FoundC* found, row_t start, Py_ssize_t count, bint has_room
) noexcept nogil:
    cdef const TableC* table = part.table
    cdef int32_t totals[CHUNK]
    cdef const node_class_t* node_classes = table.node_classes + start
    cdef int32_t wrong = 0, alone = 0, feasible = 0
    cdef ChunkC chunk
    cdef Py_ssize_t i
    if c.demand.is_small and has_room and _fill(part, c, start, count):
        chunk.numbers = part.numbers
        chunk.stride = CHUNK
        score_chunk(&c.demand, &chunk, count, totals)
    else:
        for i in range(count):
            totals[i] = ALONE
    memset(totals + count, -1, (CHUNK - count) * sizeof(int32_t))
    _check_node_classes(node_classes, table.alive + start, <int32_t>c.node_class_count, count, &wrong)
    if wrong:
        found.is_bad = True
        return 0
    _add_node_classes(totals, node_classes, c.by_node_class, count)
    for i in range(own_scores_end(c, start + count) - start):
        if totals[i] >= 0:
            totals[i] = with_row_score(c, start + i, totals[i])
    store_totals(&c.totals, start, totals, CHUNK)
    _tally(totals, count, &feasible, &alone)
    found.feasible = found.feasible + feasible
    found.has_alone = found.has_alone or alone
    if c.is_uneven:
        for i in range(count):
            if totals[i] >= 0:
                found.feasible_in[node_classes[i]] = found.feasible_in[node_classes[i]] + 1
    for i in range(start // BLOCK, (start + CHUNK) // BLOCK):
        survey(c, i)
    return 0


cdef bint _fill(PartC* part, const ClassC* c, row_t start, Py_ssize_t count) noexcept nogil:
    """Write the amounts that a class reads as doubles, if not done yet. Returns False if one is too large for that."""
    cdef const TableC* table = part.table
    cdef Py_ssize_t i, resource
    cdef const amount_t* used
    cdef const amount_t* scored
    for i in range(c.resource_count):
        resource = c.resources[i]
        if part.filled[resource] == UNREAD:
            used = table.used + resource * table.stride + start
            scored = used
            if resource == CPU:
                scored = table.used_cpu + start
            elif resource == MEMORY:
                scored = table.used_memory + start
            part.filled[resource] = FILLED if fill_resource(
                part.numbers + (1 + resource * FIELDS) * CHUNK, CHUNK,
                table.allocated + resource * table.stride + start, used, scored, count,
            ) else TOO_LARGE
        if part.filled[resource] == TOO_LARGE:
            return False
    return True


cdef cloned _check_node_classes(
    in_ints node_classes, const unsigned char* alive, int32_t node_class_count, Py_ssize_t count, out_ints wrong
) noexcept nogil:
    cdef Py_ssize_t i
    cdef int32_t found = 0
    for i in range(count):
        found |= (node_classes[i] >= node_class_count) | ((node_classes[i] < 0) & (alive[i] != 0))
    wrong[0] = found


cdef int add_node_classes(
    const ClassC* c, int32_t* totals, const node_class_t* node_classes, Py_ssize_t count
) noexcept nogil:
    """Add the scores of node classes to totals of resources; rows of rejected classes become -1."""
    _add_node_classes(totals, node_classes, c.by_node_class, count)
    return 0


cdef cloned _add_node_classes(
    out_ints totals, in_ints node_classes, in_ints by_node_class, Py_ssize_t count
) noexcept nogil:
    """Add scores by row. A dead row has node class -1, and there is a -1 before the first of `by_node_class`."""
    cdef Py_ssize_t i
    cdef int32_t added, total
    for i in range(count):
        added = by_node_class[node_classes[i]]
        total = totals[i] + (added if totals[i] >= 0 else 0)
        totals[i] = total if added >= 0 else -1


cdef cloned _tally(in_ints totals, Py_ssize_t count, out_ints feasible, out_ints alone) noexcept nogil:
    cdef Py_ssize_t i
    cdef int32_t found = 0, left = 0
    for i in range(count):
        found += totals[i] >= 0
        left |= totals[i] == ALONE
    feasible[0] = found
    alone[0] = left


# --- normalisation ---


cdef bint matters(const ClassC* c, node_class_t node_class) noexcept nogil:
    """Return True if the highest raw score may change when the first row of this class comes, or the last goes."""
    cdef Py_ssize_t i
    for i in range(c.list_count):
        if c.lists[i].raws[node_class] >= c.lists[i].highest:
            return True
    return False


cdef int assume_all_feasible(ClassC* c) noexcept nogil:
    """Normalise the scores as if every accepted node class had a feasible row, which is mostly the case."""
    cdef Py_ssize_t i, node_class
    for i in range(c.list_count):
        c.lists[i].highest = 0
        for node_class in range(c.node_class_count):
            if c.verdicts[node_class] == 0:
                c.lists[i].highest = max(c.lists[i].highest, c.lists[i].raws[node_class])
    for node_class in range(c.node_class_count):
        c.by_node_class[node_class] = _sum_of_lists(c, node_class)
    return 0


cdef int32_t _sum_of_lists(const ClassC* c, Py_ssize_t node_class) noexcept nogil:
    """Return the weighted scores of a node class, or -1. Raws above the highest feasible one count as that."""
    cdef Py_ssize_t i
    cdef score_t total = 0, raw
    if c.verdicts[node_class]:
        return -1
    for i in range(c.list_count):
        raw = min(c.lists[i].raws[node_class], c.lists[i].highest)
        total += c.lists[i].weight * normalized(raw, c.lists[i].highest, c.lists[i].reverse)
    return <int32_t>total


cdef int renormalize(ClassC* c, const TableC* table) noexcept nogil:
    """Normalise again after node classes gained their first or lost their last feasible row, and adjust the totals."""
    cdef Py_ssize_t i, node_class, block
    cdef score_t highest
    cdef bint is_new = False
    c.must_normalize = False
    for i in range(c.list_count):
        highest = 0
        for node_class in range(c.node_class_count):
            if c.feasible_in[node_class]:
                highest = max(highest, c.lists[i].raws[node_class])
        is_new = is_new or highest != c.lists[i].highest
        c.lists[i].highest = highest
    if not is_new:
        return 0
    for node_class in range(c.node_class_count):
        c.moves[node_class] = _sum_of_lists(c, node_class) - c.by_node_class[node_class]
        c.by_node_class[node_class] = c.by_node_class[node_class] + c.moves[node_class]
    move_totals(&c.totals, table.node_classes, c.moves, table.rows)
    for block in range((table.rows + BLOCK - 1) // BLOCK):
        survey(c, block)
    return _mark_all(c)


# --- some rows ---


cdef int apply_totals(
    ClassC* c, const int32_t* rows, const int32_t* totals, const node_class_t* node_classes, Py_ssize_t count
) noexcept nogil:
    """Set new totals for at most CHUNK rows whose node classes stay; if a row occurs repeatedly, the last total counts.

    Which rows were the best before is unpredictable for a processor, so there is no branch on it until a block's best
    has changed.
    """
    cdef int32_t lost[CHUNK]
    cdef int32_t moved[CHUNK]
    cdef int32_t before[CHUNK]
    cdef Py_ssize_t lost_count = 0, moved_count = 0, i, at, line
    cdef int32_t row, block, old, new, is_lost
    cdef BestC block_before
    cdef row_t first
    cdef bint is_far = c.shape.rows > NEAR
    # 1. Most pods are small beside a node: of most rows the total stays.
    for i in range(count):
        row = rows[i]
        old = total_of(&c.totals, row)
        set_total(&c.totals, row, totals[i])
        moved[moved_count] = <int32_t>i
        before[moved_count] = old
        moved_count += old != totals[i]
    for at in range(moved_count):
        i = moved[at]
        row = rows[i]
        block = row >> BLOCK_SHIFT
        old, new = before[at], totals[i]
        block_before = c.blocks[block]
        exchange_row(&c.blocks[block], old, new)
        # 2. A block that has lost its best row is surveyed when all rows are there; one that had none has lost none.
        is_lost = block_before.ties != 0 and c.blocks[block].ties == 0
        lost[lost_count] = block
        lost_count += is_lost
        if is_far:
            first = block * BLOCK if is_lost else row
            for line in range(BLOCK * sizeof(int32_t) // LINE):
                fetch_total(&c.totals, first + is_lost * line * LINE // sizeof(int32_t))
        pass_on(c, block, block_before)
        if (old ^ new) < 0:
            _count_feasible(c, node_classes[i], new >= 0)
    for i in range(lost_count):
        if c.blocks[lost[i]].ties == 0:
            survey_again(c, lost[i])
    return 0


cdef int _count_feasible(ClassC* c, node_class_t node_class, bint is_feasible) noexcept nogil:
    cdef int step = 1 if is_feasible else -1
    c.feasible = c.feasible + step
    if c.is_uneven:
        c.feasible_in[node_class] = c.feasible_in[node_class] + step
        if c.feasible_in[node_class] == (1 if is_feasible else 0):
            c.must_normalize = c.must_normalize or matters(c, node_class)
    return 0


# --- the best row ---


cdef int survey(ClassC* c, Py_ssize_t block) noexcept nogil:
    """Find the best total in a block of rows, and how many of its rows have it."""
    best_total(&c.totals, block * BLOCK, &c.blocks[block])
    return 0


cdef int survey_again(ClassC* c, Py_ssize_t block) noexcept nogil:
    """Find out what is left of a block that lost its best rows."""
    cdef BestC before = c.blocks[block]
    survey(c, block)
    pass_on(c, block, before)
    return 0


cdef BestC find_best(ClassC* c) noexcept nogil:
    """Return the best of all rows."""
    cdef Py_ssize_t i, group
    if c.best.best.ties == 0:
        for i in range(c.stale_count):
            group = c.stale[i]
            if c.groups[group].best.ties == 0:
                _rank(<const int32_t*>(c.blocks + group * GROUP), IN_BEST, GROUP, &c.groups[group])
            c.is_stale[group] = 0
        c.stale_count = 0
        _rank(<const int32_t*>c.groups, IN_RANK, c.shape.groups, &c.best)
    return c.best.best


cdef int _rank(const int32_t* bests, Py_ssize_t step, Py_ssize_t count, RankC* rank) noexcept nogil:
    """Find the best of blocks, or of groups: every `step` numbers there are a total and its ties."""
    cdef int32_t total = -1, ties = 0
    cdef Py_ssize_t i
    for i in range(count):
        total = bests[i * step] if bests[i * step] > total else total
    for i in range(count):
        ties += bests[i * step + 1] if bests[i * step] == total else 0
    return _set_best(rank, total, ties)


cdef row_t nth_best(const ClassC* c, int32_t best, Py_ssize_t skipped) noexcept nogil:
    """Return number `skipped`, from 0, of the rows with the best total, in ascending order."""
    cdef Py_ssize_t group = 0, block
    cdef row_t row
    while c.groups[group].best.total != best or skipped >= c.groups[group].best.ties:
        skipped -= c.groups[group].best.ties if c.groups[group].best.total == best else 0
        group += 1
    block = group * GROUP
    while c.blocks[block].total != best or skipped >= c.blocks[block].ties:
        skipped -= c.blocks[block].ties if c.blocks[block].total == best else 0
        block += 1
    row = block * BLOCK
    while total_of(&c.totals, row) != best or skipped:
        skipped -= total_of(&c.totals, row) == best
        row += 1
    return row
