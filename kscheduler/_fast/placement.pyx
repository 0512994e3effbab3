"""Placement of pods by their pod class, which caches the result of every row and reads only rows that changed since.

Pods of one class are equal in everything that filters and scores read. A class caches the total score of each row and
the best of each block of rows; the columns log which rows change. So for a pod only those rows are scored again that
changed since the last pod of its class.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from kscheduler._fast.answers cimport is_behind
from kscheduler._fast.checks cimport within
from kscheduler._fast.chunks cimport (
    ALONE,
    CHUNK,
    FIELDS,
    FREE,
    HAS,
    PRESENT,
    ROOM,
    SCORED,
    TAKEN,
    USED,
    ChunkC,
    is_small,
    score_chunk,
)
from kscheduler._fast.classes cimport ClassC, PodClass, ShapeC, bytes_needed, shape_for
from kscheduler._fast.codes cimport CLASSES_TOGETHER, CPU, MEMORY
from kscheduler._fast.columns cimport NodeColumns
from kscheduler._fast.filtering cimport lacking_of_row
from kscheduler._fast.metric_rules cimport follow, needs_room
from kscheduler._fast.row_ranking cimport (
    PartC,
    TableC,
    add_node_classes,
    apply_totals,
    assume_all_feasible,
    begin_part,
    clear_rest,
    end_part,
    find_best,
    look_at_part,
    nth_best,
    put_in,
    renormalize,
    row_score,
    share_of_rows,
    survey_again,
    take_out,
    with_row_score,
)
from kscheduler._fast.scoring cimport balanced_of_row, fit_of_row
from kscheduler._fast.simd cimport fetch
from kscheduler._fast.totals cimport BLOCK, BLOCK_SHIFT, BestC, fetch_total, has_memory, set_total, total_of
from kscheduler._fast.typedefs cimport amount_t, node_class_t, resource_t, row_t, score_t


cdef object _INT64_MAX = (1 << 63) - 1
cdef Py_ssize_t MOST_BYTES = <Py_ssize_t>2 << 30  # limit for the `kept` classes, whatever `max_bytes` is

cdef enum:
    PENDING = -2  # in place of a total, while changes are read
    FEW = 6  # up to this many changes are read row by row
    FAR = 8  # scoring all rows costs an eighth a row: a class with more changes than that to read scores all rows
    IN_LINE = 8  # blocks whose best are in a cache line
    AHEAD = 16  # how many changes ahead rows are fetched into the CPU's cache
    MOST_ROOM = 1_000_000  # pods on a row, as far as room is counted: no sum of all rows may pass 64 bits
    WORTH_A_THREAD = 16_384  # rows; they take 60 us, or 45 us with a worker that has to be woken; 12,000 gain nothing
    MAX_THREADS = 64
    APART = 64  # bytes between what different threads write


cdef inline void fetch_class(const ClassC* c) noexcept nogil:
    cdef Py_ssize_t line
    for line in range(0, <const char*>&c.demand.line[0] - <const char*>c, 64):
        fetch(<const char*>c + line)


cdef inline void fetch_row(const ClassC* c, row_t row) noexcept nogil:
    """Fetch into the cache what is written when a row has changed: that lies in two places."""
    fetch_total(&c.totals, row)
    fetch(&c.blocks[row >> BLOCK_SHIFT])


cdef inline void fetch_blocks(const ClassC* c) noexcept nogil:
    """Fetch into the cache what is known of all blocks."""
    cdef Py_ssize_t line
    for line in range(c.shape.blocks // IN_LINE):  # there are whole groups of them
        fetch(&c.blocks[line * IN_LINE])


# What ended a run.
cdef enum:
    DONE
    NOWHERE  # the pod fits nowhere
    UNREADY  # the class lacks memory for its rows
    BAD_NODE_CLASS  # a row's node class has no verdict
    UNASKED  # plugins' answers about rows have to be asked for again
    TOO_MUCH  # a sum of non-zero requests would pass MAX_AMOUNT


@cython.final
cdef class Placer:
    """Chooses nodes for pods of pod classes (pods that plugins decide equally), on the rows (nodes) of one table.

    Filter results and scores by row are cached for each class. The caches take at most `max_bytes`, or what `kept`
    classes of one size take if that is more, but then at most 2 GiB. The least recently used cache is dropped first. A
    class that has to judge all rows does so in up to `threads` threads if the table is large.
    """

    def __cinit__(self, NodeColumns columns not None, max_bytes, threads=1, kept=1):
        self.columns = columns
        self.max_bytes = within("max_bytes", max_bytes, 0, _INT64_MAX)
        self.threads = <int>within("threads", threads, 1, 64)
        self.kept = <int>within("kept", kept, 1, 4096)
        self.held = set()

    def __dealloc__(self):
        free(self.parts)
        free(self.filled)
        free(self.recent)
        free(self.recent_node_classes)

    def count_feasible(self, PodClass pod_class not None):
        """Return the number of rows (nodes) on which a pod of the class fits."""
        self._catch_up(pod_class)
        return pod_class.c.feasible

    def fits(self, PodClass pod_class not None, row):
        """Return whether a pod of the class fits on this row (node)."""
        cdef row_t at = within("row", row, 0, self.columns.rows - 1)
        self._catch_up(pod_class)
        return total_of(&pod_class.c.totals, at) >= 0

    def place(self, PodClass pod_class not None, random_bits):
        """Return the row of the best node for a pod of the class, chosen like `select_host`; -1 if none is feasible.

        The pod is not counted on that node.
        """
        self._catch_up(pod_class)
        cdef ClassC* c = &pod_class.c
        cdef BestC best
        with nogil:
            best = find_best(c)
        if best.ties == 0:
            return -1
        cdef Py_ssize_t skipped = 0 if random_bits is None or best.ties <= 1 else random_bits % best.ties
        return nth_best(c, best.total, skipped)

    def place_many(
        self, classes, const unsigned long long[::1] random_bits, int[::1] rows not None, int[::1] feasible not None
    ):
        """Place pods in order, each counted on its node before the next one. Ends before a pod that fits nowhere.

        For pod i sets rows[i] to the row of its node, and feasible[i] to the number of rows on which it fitted; rows of
        pods not placed are -1. Where a pod fits on more than one row, the next of `random_bits` (array('Q')) chooses
        among the best rows; if that is None, the first of these is taken. Returns (pods placed, random numbers used).
        After an error the pods before it stay placed.
        """
        cdef list pods = list(classes)
        cdef Py_ssize_t count = len(pods), done = 0, used_bits = 0, before, i
        for what, length in (("rows", rows.shape[0]), ("feasible", feasible.shape[0])):
            if length < count:
                raise ValueError(f"{what}: expected room for {count}, got {length}")
        if random_bits is not None and random_bits.shape[0] < count:
            raise ValueError(f"random_bits: expected {count}, got {random_bits.shape[0]}")
        if count == 0:
            return 0, 0
        cdef ClassC** pointers = <ClassC**>PyMem_Malloc(count * sizeof(ClassC*))
        if pointers is NULL:
            raise MemoryError()
        cdef const unsigned long long* bits = NULL
        if random_bits is not None:
            bits = &random_bits[0]
        cdef int outcome = DONE
        cdef PodClass pod_class
        try:
            for i in range(count):
                pod_class = self._check_class(pods[i])
                pointers[i] = &pod_class.c
                rows[i] = -1
            self.look()
            while done < count:
                before = done
                with nogil:
                    done = self.run(pointers, done, count, bits, &used_bits, &rows[0], &feasible[0], &outcome)
                if done > before:
                    self.columns.generation += done - before
                if outcome == DONE or outcome == NOWHERE:
                    break
                if outcome == TOO_MUCH:
                    rows[done], row = -1, rows[done]
                    self.columns.add_pod(row, (<PodClass>pods[done]).request)
                else:
                    self.make_ready(pods, done, outcome)
        finally:
            PyMem_Free(pointers)
        return done, used_bits

    def place_one(self, PodClass pod_class not None, random_bits):
        """Place one pod as `place_many` does. Returns its row, and on how many rows it fitted; (-1, 0) for no row.

        `random_bits`: as an item of those of `place_many`, or None.
        """
        self._check_class(pod_class)
        cdef ClassC* pointer = &pod_class.c
        cdef unsigned long long number = 0
        cdef const unsigned long long* bits = NULL
        cdef Py_ssize_t used_bits = 0, done = 0
        cdef int row = -1, feasible = 0, outcome = DONE
        if random_bits is not None:
            number = random_bits
            bits = &number
        self.look()
        while True:
            with nogil:
                done = self.run(&pointer, 0, 1, bits, &used_bits, &row, &feasible, &outcome)
            if done:
                self.columns.generation += 1
                return row, feasible
            if outcome == NOWHERE:
                return -1, 0
            if outcome == TOO_MUCH:
                self.columns.add_pod(row, pod_class.request)
            else:
                self.make_ready([pod_class], 0, outcome)

    def confine(self, inside):
        """Confine all placements to rows (nodes) whose byte in `inside` is 1, until the next call; None: to none.

        Rows past its end are outside. Scores are normalised over the rows that are left. A class that is used under
        another confinement than before judges all rows again.
        """
        if inside is None:
            self.confinement, self.inside_rows, self.inside_count = 0, NULL, 0
            return
        self.inside = bytes(inside)
        self.inside_rows, self.inside_count = self.inside, len(self.inside)
        self.confinements += 1
        self.confinement = self.confinements

    def add_room(self, PodClass pod_class not None, const int[::1] domain_by_row not None, long long[::1] room not None):
        """Add to room[domain] how many pods of the class fit on the rows of each domain, by resources and pods allowed.

        `domain_by_row`: -1 for a row of no domain; rows past its end are of none. This is the most that fit: pods of
        one class may exclude each other on a node, for example by a host port.
        """
        cdef Py_ssize_t domains = room.shape[0]
        cdef row_t row, rows = min(<row_t>domain_by_row.shape[0], self.columns.rows)
        for row in range(rows):
            if domain_by_row[row] >= domains:
                raise IndexError(f"row {row} is of domain {domain_by_row[row]}, there is room for {domains}")
        self._catch_up(pod_class)
        with nogil:
            for row in range(rows):
                if domain_by_row[row] >= 0 and total_of(&pod_class.c.totals, row) >= 0:
                    room[domain_by_row[row]] += self.room_of(&pod_class.c, row)

    def drop(self, PodClass pod_class not None):
        """Drop the results by row (node) that are cached for a class, since no pod of it is expected soon."""
        if pod_class.owner is self:
            self.held.discard(pod_class)
            self.held_bytes -= pod_class.c.bytes
            pod_class.release()
            pod_class.owner = None

    # --- classes ---

    cdef PodClass _check_class(self, object candidate):
        cdef PodClass pod_class = candidate
        if pod_class is None:
            raise TypeError("expected a PodClass, got None")
        if pod_class.columns is not self.columns:
            raise ValueError("the class is of another table")
        if pod_class.owner is not None and pod_class.owner is not self:
            raise ValueError("the class is in use by another placer")
        return pod_class

    cdef int _catch_up(self, PodClass pod_class) except -1:
        self._check_class(pod_class)
        pod_class.ask()
        if pod_class.c.shape.rows < self.columns.rows or pod_class.owner is None:
            self.prepare(pod_class)
        self.look()
        self.clock += 1
        pod_class.c.last_used = self.clock
        cdef int outcome
        with nogil:
            outcome = self.catch_up(&pod_class.c, NULL, 0)
        if outcome == BAD_NODE_CLASS:
            self._raise_bad_node_class(pod_class)
        return 0

    cdef int make_ready(self, list pods, Py_ssize_t at, int outcome) except -1:
        """Do what the class of pod number `at` lacks, for want of which `run` has ended before it."""
        cdef PodClass pod_class = pods[at]
        if outcome == UNREADY:
            self.prepare(pod_class)
            self.prepare_ahead(pods, at + 1)
        elif outcome == UNASKED:
            pod_class.ask()
        elif outcome == BAD_NODE_CLASS:
            self._raise_bad_node_class(pod_class)
        return 0

    cdef int prepare_ahead(self, list pods, Py_ssize_t at) except -1:
        """Allocate memory for the next pods' classes, too, which then score all rows in one pass; drop none for that."""
        cdef PodClass pod_class
        cdef Py_ssize_t i, prepared = 1, needed
        cdef ShapeC shape = shape_for(self.columns.capacity)
        for i in range(at, min(<Py_ssize_t>len(pods), at + self.columns.rows // FAR)):
            pod_class = pods[i]
            needed = bytes_needed(&pod_class.c, &shape)
            if prepared == CLASSES_TOGETHER or self.held_bytes + needed > self.most_bytes(needed):
                break
            if pod_class.owner is None:
                self.prepare(pod_class)
                prepared += 1
        return 0

    cdef int _raise_bad_node_class(self, PodClass pod_class) except -1:
        cdef row_t row
        cdef node_class_t node_class
        for row in range(self.columns.rows):
            node_class = self.columns.node_classes[row]
            if self.columns.alive[row] and not 0 <= node_class < pod_class.c.node_class_count:
                raise IndexError(
                    f"row {row} has node class {node_class}, there are values for {pod_class.c.node_class_count}"
                )
        return 0

    cdef int prepare(self, PodClass pod_class) except -1:
        """Allocate memory for a class of which a pod is to be placed now."""
        self.drop(pod_class)
        pod_class.is_used = True
        cdef ShapeC shape = shape_for(self.columns.capacity)
        self.make_room(bytes_needed(&pod_class.c, &shape))
        pod_class.allocate()
        pod_class.owner = self
        self.clock += 1
        pod_class.c.last_used = self.clock
        self.held.add(pod_class)
        self.held_bytes += pod_class.c.bytes
        return 0

    cdef Py_ssize_t most_bytes(self, Py_ssize_t needed) noexcept:
        """Return how much memory all classes may take, where one takes as much as is `needed`."""
        return max(self.max_bytes, needed, min(self.kept * needed, MOST_BYTES))

    cdef int make_room(self, Py_ssize_t needed) except -1:
        cdef PodClass oldest, held
        while self.held and self.held_bytes + needed > self.most_bytes(needed):
            oldest = None
            for held in self.held:
                if oldest is None or held.c.last_used < oldest.c.last_used:
                    oldest = held
            self.drop(oldest)
        return 0

    cdef int look(self) except -1:
        """Read the addresses of the columns, and allocate buffers."""
        cdef NodeColumns columns = self.columns
        self.table.allocated = &columns.allocated[0, 0]
        self.table.used = &columns.used[0, 0]
        self.table.used_cpu = &columns.used_cpu[0]
        self.table.used_memory = &columns.used_memory[0]
        self.table.pods = &columns.pods[0]
        self.table.pods_allowed = &columns.pods_allowed[0]
        self.table.node_classes = &columns.node_classes[0]
        self.table.alive = &columns.alive[0]
        self.table.stride = columns.capacity
        self.table.rows = columns.rows
        self.table.resources = columns.resource_count
        if self.part_resources < columns.resource_count:
            free(self.parts)
            free(self.filled)
            self.part_resources = 0
            self.parts = <double*>malloc(self.threads * (1 + columns.resource_count * FIELDS) * CHUNK * sizeof(double))
            self.filled = <unsigned char*>malloc(self.threads * (columns.resource_count + APART))
            if self.parts is NULL or self.filled is NULL:
                raise MemoryError()
            self.part_resources = columns.resource_count
        cdef Py_ssize_t length = columns.ring_mask + 1
        if self.recent_length != length or self.recent_resources != columns.resource_count:
            free(self.recent)
            free(self.recent_node_classes)
            self.recent_length = 0
            self.recent = <double*>malloc((1 + columns.resource_count * FIELDS) * length * sizeof(double))
            self.recent_node_classes = <node_class_t*>malloc(length * sizeof(node_class_t))
            if self.recent is NULL or self.recent_node_classes is NULL:
                raise MemoryError()
            self.recent_length = length
            self.recent_resources = columns.resource_count
            self.copied = 0
        return 0

    # --- one pod after another ---

    cdef Py_ssize_t run(
        self, ClassC** classes, Py_ssize_t start, Py_ssize_t count,
        const unsigned long long* bits, Py_ssize_t* used_bits, int* rows, int* feasible, int* outcome,
    ) except? -2 nogil:
        """Place pods from number `start` on. Returns the number of the first not placed; `outcome` is set to why."""
        cdef Py_ssize_t at, skipped
        cdef ClassC* c
        cdef BestC best
        cdef row_t row
        for at in range(start, count):
            c = classes[at]
            # With many classes, what is known for the next one is in no cache: it comes while this one is looked at.
            if at + 2 < count:
                fetch_class(classes[at + 2])
            if at + 1 < count:
                self.fetch_changed(classes[at + 1])
            if c.shape.rows < self.table.rows or not has_memory(&c.totals):
                outcome[0] = UNREADY
                return at
            if self.must_ask(c):
                outcome[0] = UNASKED
                return at
            self.clock = self.clock + 1
            c.last_used = self.clock
            outcome[0] = self.catch_up(c, classes + at + 1, count - at - 1)
            if outcome[0] != DONE:
                return at
            best = find_best(c)
            if best.ties == 0:
                outcome[0] = NOWHERE
                return at
            skipped = 0
            if bits is not NULL and c.feasible > 1:
                skipped = bits[used_bits[0]] % <unsigned long long>best.ties
            row = nth_best(c, best.total, skipped)
            rows[at] = <int>row
            feasible[at] = <int>c.feasible
            if not self.columns.holds(row, c.demand.entries, c.demand.entry_count, c.cpu, c.memory):
                outcome[0] = TOO_MUCH
                return at
            used_bits[0] = used_bits[0] + (bits is not NULL and c.feasible > 1)
            self.columns.add_amounts(row, c.demand.entries, c.demand.entry_count, c.cpu, c.memory, 1)
        outcome[0] = DONE
        return count

    # --- keeping up ---

    cdef bint must_ask(self, const ClassC* c) except? -1 nogil:
        cdef Py_ssize_t i
        for i in range(c.asked_count):
            if is_behind(c.asked[i].answers, self.columns):
                return True
        for i in range(c.ruled_count):
            if needs_room(c.ruled[i].rules, self.columns):
                return True
            follow(c.ruled[i].rules, self.columns)
        return False

    cdef int fetch_changed(self, ClassC* c) except? -2 nogil:
        """Fetch into the cache what is known of the rows that have changed since the class was last used."""
        cdef Py_ssize_t behind = self.columns.changes - c.cursor, change
        if c.must_rebuild or not FEW < behind <= CHUNK:
            return 0
        fetch(c.demand.fit)
        fetch(c.demand.balanced)
        fetch(c.by_node_class)
        fetch(c.groups)
        if c.shape.blocks <= IN_LINE * behind:  # all blocks lie in fewer cache lines than there are changes
            fetch_blocks(c)
            for change in range(max(c.cursor, c.fetched), self.columns.changes):
                fetch_total(&c.totals, self.columns.changed_rows[change & self.columns.ring_mask])
        else:
            for change in range(max(c.cursor, c.fetched), self.columns.changes):
                fetch_row(c, self.columns.changed_rows[change & self.columns.ring_mask])
        c.fetched = self.columns.changes
        return 0

    cdef amount_t room_of(self, const ClassC* c, row_t row) noexcept nogil:
        """Return how many pods of the class a row that is feasible has room for."""
        cdef amount_t most = min(self.columns.pods_allowed[row] - self.columns.pods[row], <amount_t>MOST_ROOM), free
        cdef Py_ssize_t i
        cdef resource_t resource
        for i in range(c.demand.entry_count):
            if c.demand.entries[i].amount <= 0:
                continue
            resource = c.demand.entries[i].resource
            free = self.columns.allocated[resource, row] - self.columns.used[resource, row]
            most = min(most, free // c.demand.entries[i].amount)
        return most

    cdef int catch_up(self, ClassC* c, ClassC** others, Py_ssize_t other_count) except? -2 nogil:
        """Update a class's cached results to the current state of the rows.

        `others`: the classes of the pods that come next. Those that have to score all rows do so in the same pass.
        """
        cdef ClassC* together[CLASSES_TOGETHER]
        cdef int outcome = DONE
        self.note_changes(c)
        if not c.must_rebuild and c.cursor != self.columns.changes:
            c.must_rebuild = self.replay(c) != DONE
        if c.must_rebuild:
            self.rebuild(together, self.gather(c, others, other_count, together))
            outcome = BAD_NODE_CLASS if c.must_rebuild else DONE
        if c.must_normalize and outcome == DONE:
            renormalize(c, &self.table)
        c.cursor = self.columns.changes
        return outcome

    cdef int note_changes(self, ClassC* c) except? -2 nogil:
        """Note whether a class must score all rows, since results of all are gone or too many rows have changed."""
        cdef Py_ssize_t behind = self.columns.changes - c.cursor, i
        cdef uint64_t version = 0
        if c.confinement != self.confinement:
            self.follow_confinement(c)
        for i in range(c.asked_count):
            version += c.asked[i].answers.version
        for i in range(c.ruled_count):
            version += c.ruled[i].rules.version
        if version != c.answers_version:
            c.answers_version = version
            c.must_rebuild = True
        if behind > self.columns.ring_mask + 1 or (behind > CHUNK and behind > self.table.rows // FAR):
            c.must_rebuild = True
        return 0

    cdef void follow_confinement(self, ClassC* c) noexcept nogil:
        """Let a class know the present confinement, for which it must judge all rows."""
        c.confinement = self.confinement
        c.inside = self.inside_rows
        c.inside_count = self.inside_count
        c.must_rebuild = True

    cdef int replay(self, ClassC* c) except? -2 nogil:
        """Score the rows again that changed since the class was last used."""
        if self.columns.changes - c.cursor > FEW and c.demand.is_small:
            self.copy_changes()
            if c.cursor >= max(self.large_until, self.moved_until):
                return self.replay_amounts(c)
        return self.replay_all(c)

    cdef int replay_amounts(self, ClassC* c) except? -2 nogil:
        """Score changed rows again if only amounts changed: no row has changed its node class, been added or freed.

        A row may have been copied in several states, of which the last is the current one.
        """
        cdef int32_t totals[CHUNK]
        cdef Py_ssize_t mask = self.columns.ring_mask, start = c.cursor, count, at, i
        cdef ChunkC chunk
        chunk.stride = self.recent_length
        while start < self.columns.changes:
            # As many as lie side by side in the ring.
            at = start & mask
            count = min(<Py_ssize_t>CHUNK, self.columns.changes - start, mask + 1 - at)
            for i in range(max(c.fetched - start, <Py_ssize_t>0), count):
                fetch_row(c, self.columns.changed_rows[at + i])
            chunk.numbers = self.recent + at
            score_chunk(&c.demand, &chunk, count, totals)
            add_node_classes(c, totals, self.recent_node_classes + at, count)
            if c.row_list_count or c.asked_count or c.ruled_count or c.inside is not NULL:
                for i in range(count):
                    if totals[i] >= 0:
                        totals[i] = with_row_score(c, self.columns.changed_rows[at + i], totals[i])
            if c.demand.balanced_count > 2:
                for i in range(count):
                    if totals[i] == ALONE:
                        totals[i] = self.score_row(c, self.columns.changed_rows[at + i])
            apply_totals(c, &self.columns.changed_rows[at], totals, self.recent_node_classes + at, count)
            start += count
        return DONE

    cdef int replay_all(self, ClassC* c) except? -2 nogil:
        """Score changed rows again after changes of any kind."""
        cdef Py_ssize_t change, mask = self.columns.ring_mask, end = self.columns.changes, block
        cdef row_t row
        cdef int32_t total
        # 1. Take the changed rows out, under the node class that the class knew them by: that before the first change.
        for change in range(c.cursor, min(c.cursor + AHEAD, end)):
            fetch_total(&c.totals, self.columns.changed_rows[change & mask])
        for change in range(c.cursor, end):
            if change + AHEAD < end:
                fetch_total(&c.totals, self.columns.changed_rows[(change + AHEAD) & mask])
            row = self.columns.changed_rows[change & mask]
            total = total_of(&c.totals, row)
            if total >= 0:
                take_out(c, row, total, self.columns.node_classes_before[change & mask])
            set_total(&c.totals, row, PENDING)
        # 2. Put them in again, as they are now.
        for change in range(c.cursor, end):
            row = self.columns.changed_rows[change & mask]
            if total_of(&c.totals, row) == PENDING:
                total = self.score_row(c, row)
                if total < -1:
                    return BAD_NODE_CLASS
                put_in(c, row, total, self.columns.node_classes[row])
        # 3. See what is left of blocks that have lost their best rows.
        for change in range(c.cursor, end):
            block = self.columns.changed_rows[change & mask] // BLOCK
            if c.blocks[block].ties == 0 and c.blocks[block].total >= 0:
                survey_again(c, block)
        return DONE

    cdef int copy_changes(self) except? -2 nogil:
        """Copy changed rows into the columns of recent ones."""
        cdef Py_ssize_t change, mask = self.columns.ring_mask, stride = self.recent_length, resource, at
        cdef double* fields
        cdef double whole
        cdef amount_t has, used, scored, allowed, pods
        cdef row_t row
        cdef bint small
        for change in range(max(self.copied, self.columns.changes - stride), self.columns.changes):
            at = change & mask
            row = self.columns.changed_rows[at]
            allowed, pods = self.columns.pods_allowed[row], self.columns.pods[row]
            small = is_small(allowed) and is_small(pods)
            self.recent[ROOM * stride + at] = <double>allowed - <double>pods
            self.recent_node_classes[at] = self.columns.node_classes[row]
            if self.columns.node_classes[row] != self.columns.node_classes_before[at] or not self.columns.alive[row]:
                self.moved_until = change + 1
            for resource in range(self.columns.resource_count):
                has, used = self.columns.allocated[resource, row], self.columns.used[resource, row]
                scored = used
                if resource == CPU:
                    scored = self.columns.used_cpu[row]
                elif resource == MEMORY:
                    scored = self.columns.used_memory[row]
                small = small and is_small(has) and is_small(used) and is_small(scored)
                fields = self.recent + (1 + resource * FIELDS) * stride + at
                whole = <double>has if has > 0 else 1.0
                fields[HAS * stride] = whole
                fields[PRESENT * stride] = 1.0 if has > 0 else 0.0
                fields[FREE * stride] = <double>has - <double>used
                fields[USED * stride] = <double>used
                fields[SCORED * stride] = <double>scored
                fields[TAKEN * stride] = min(<double>used, whole) / whole
            if not small:
                self.large_until = change + 1
        self.copied = self.columns.changes
        return 0

    cdef int32_t score_row(self, const ClassC* c, row_t row) except? -4 nogil:
        """Return the total of one row, by integers; -1 if it is not feasible, -2 if its node class has no verdict."""
        cdef node_class_t node_class = self.columns.node_classes[row]
        cdef score_t total
        if not self.columns.alive[row]:
            return -1
        if not 0 <= node_class < c.node_class_count:
            return -2
        if c.by_node_class[node_class] < 0:
            return -1
        if lacking_of_row(
            self.columns.allocated, self.columns.used, self.columns.pods, self.columns.pods_allowed,
            c.demand.entries, c.demand.entry_count, row,
        ):
            return -1
        total = row_score(c, row)
        if total < 0:
            return -1
        total += c.by_node_class[node_class]
        if c.demand.fit_weight:
            total += c.demand.fit_weight * fit_of_row(
                self.columns.allocated, self.columns.used, self.columns.used_cpu, self.columns.used_memory,
                c.demand.fit, c.demand.fit_count, c.demand.strategy, c.demand.line, row,
            )
        if c.demand.balanced_weight:
            total += c.demand.balanced_weight * balanced_of_row(
                self.columns.allocated, self.columns.used, c.demand.balanced, c.demand.balanced_count, row
            )
        return <int32_t>total

    cdef Py_ssize_t gather(
        self, ClassC* first, ClassC** others, Py_ssize_t other_count, ClassC** together
    ) except? -2 nogil:
        """List the classes that score all rows now, the first one and some of the others. Returns how many they are.

        Until its turn comes a class must read a change for each pod before it, so the number of pods is limited: there
        must be less to read than all rows. Classes about which plugins are asked wait, since they are asked at its turn.
        """
        cdef Py_ssize_t count = 1, i, at
        cdef ClassC* c
        cdef bint is_new
        together[0] = first
        for i in range(min(other_count, <Py_ssize_t>(self.table.rows // FAR))):
            c = others[i]
            if c.shape.rows < self.table.rows or not has_memory(&c.totals) or c.asked_count or c.ruled_count:
                continue
            self.note_changes(c)
            is_new = c.must_rebuild
            for at in range(count):
                is_new = is_new and together[at] is not c
            if is_new:
                together[count] = c
                count += 1
                if count == CLASSES_TOGETHER:
                    break
        return count

    cdef int rebuild(self, ClassC** classes, Py_ssize_t count) except? -2 nogil:
        """Score every row for each class in one pass, by several threads if that is much.

        A class still must do so afterwards if a row's node class has no verdict.
        """
        cdef PartC parts[MAX_THREADS]
        cdef bint begun[MAX_THREADS]
        cdef Py_ssize_t work = self.table.rows * count, part, i
        cdef Py_ssize_t parts_count = min(<Py_ssize_t>self.threads, 1 + work // WORTH_A_THREAD)
        cdef row_t next = 0
        cdef ClassC* c
        cdef bint has_alone
        self.rebuilds = self.rebuilds + count
        self.passes = self.passes + 1
        for i in range(count):
            c = classes[i]
            assume_all_feasible(c)
            memset(c.feasible_in, 0, c.node_class_count * sizeof(Py_ssize_t))
        # 1. The others begin, 2. this thread takes part, too. Rows that others come too late for are its own.
        for part in range(parts_count):
            parts[part].classes = classes
            parts[part].count = count
            parts[part].table = &self.table
            parts[part].next = &next
            parts[part].share = share_of_rows(count)
            parts[part].numbers = self.parts + part * (1 + self.part_resources * FIELDS) * CHUNK
            parts[part].filled = self.filled + part * (self.part_resources + APART)
            for i in range(count):
                parts[part].found[i].feasible_in = classes[i].feasible_in
            begun[part] = part > 0 and begin_part(part - 1, &parts[part])
        look_at_part(&parts[0])
        # 3. Put the parts together.
        for part in range(1, parts_count):
            begun[part] = begun[part] and end_part(part - 1, &parts[part])
        begun[0] = True
        for i in range(count):
            c = classes[i]
            c.feasible = 0
            c.must_rebuild = has_alone = False
            for part in range(parts_count):
                if begun[part]:
                    c.feasible = c.feasible + parts[part].found[i].feasible
                    has_alone = has_alone or parts[part].found[i].has_alone
                    c.must_rebuild = c.must_rebuild or parts[part].found[i].is_bad
            if not c.must_rebuild:
                self.settle(c, has_alone)
        return DONE

    cdef int settle(self, ClassC* c, bint has_alone) except? -2 nogil:
        """Do for a class what is left after a pass over all rows."""
        cdef row_t row
        clear_rest(c, self.table.rows)
        c.must_normalize = c.is_uneven
        c.cursor = self.columns.changes
        if has_alone:
            for row in range(self.table.rows):
                if total_of(&c.totals, row) == ALONE:
                    put_in(c, row, self.score_row(c, row), self.columns.node_classes[row])
        return DONE
