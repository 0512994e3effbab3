"""Placement of pods with spread constraints or pod affinity: totals by row, joined with counts by topology domain.

A pod class keeps for each row the total that depends on the row alone. Here rows are rejected by the counts of their
domains; scores that depend on which rows are left are computed; and the best row is found. No loop over rows has a
branch.
"""

cimport cython
from libc.math cimport log
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from kscheduler._fast.answers cimport RowAnswers
from kscheduler._fast.checks cimport within
from kscheduler._fast.classes cimport ClassC, PodClass
from kscheduler._fast.codes cimport MAX_CLASS_WEIGHT
from kscheduler._fast.placement cimport Placer
from kscheduler._fast.scoring cimport normalized
from kscheduler._fast.simd cimport cloned, in_doubles, in_ints, out_doubles, out_ints
from kscheduler._fast.tallies cimport MAX_SUM, DomainTally, TallyC, least
from kscheduler._fast.topology cimport RowMask
from kscheduler._fast.totals cimport BestC, best_of_wide, load_totals
from kscheduler._fast.typedefs cimport node_class_t, row_t, score_t

cdef object _INT32_MAX = (1 << 31) - 1

cdef enum:
    MAX_INT32 = 0x7FFFFFFF
    STRIDE = 512  # rows that are passed over at once


@cython.final
cdef class JoinTerms:
    """The terms of a pod class: its constraints on the pods in a node's topology domains (spreading, pod affinity).

    `weight` is the weight of the score that the terms give. With `may_be_first`, a pod that needs other pods fits
    without them while no domain has any.
    """

    def __cinit__(self, weight=0, bint may_be_first=False):
        self.weight = within("weight", weight, 0, MAX_CLASS_WEIGHT)
        self.may_be_first = may_be_first
        self.tallied_term = NOTHING
        self.tallies = []

    def __dealloc__(self):
        free(self.rules)
        free(self.tallied)
        free(self.unscored)

    # --- which rows are out ---

    def keep_even(self, DomainTally tally not None, max_skew, min_domains, own):
        """Reject rows (nodes) that would violate a spread constraint, or are in no topology domain.

        They would if the count of their domain, with the pod, is more than `max_skew` above the lowest. `own`, 0 or 1,
        is added to the domain's count for the pod. With fewer than `min_domains` domains the lowest count is 0.
        """
        cdef int32_t skew = within("max_skew", max_skew, 1, _INT32_MAX)
        cdef int32_t domains = within("min_domains", min_domains, 1, _INT32_MAX)
        cdef int32_t self_match = within("own", own, 0, 1)
        cdef RuleC* rule = self._rule(tally)
        rule.kind = EVEN
        rule.max_skew, rule.min_domains, rule.own = skew, domains, self_match

    def need(self, DomainTally tally not None):
        """Reject rows (nodes) without a topology domain, and rows whose domain has a count of 0.

        If the pod may be, and is, the first of the pods that it needs, a count of 0 is accepted.
        """
        self._rule(tally).kind = NEEDED

    def forbid(self, DomainTally tally not None):
        """Reject rows (nodes) whose topology domain has a count above 0."""
        self._rule(tally).kind = FORBIDDEN

    # --- how those left are scored ---

    def prefer(self, DomainTally tally not None, weight):
        """Score rows (nodes) by the counts of their topology domains times `weight`.

        The products of all calls are added up, and then mapped to 0..100.
        """
        cdef int32_t factor = within("weight", weight, -_INT32_MAX, _INT32_MAX)
        self._add_tallied(tally, NEAR).weight = factor

    def spread(self, DomainTally tally not None, max_skew, bint counts_missing=False):
        """Score rows (nodes): the lower the counts of their topology domains, the higher the score.

        `counts_missing`: rows without a domain form one more domain.
        """
        cdef int32_t skew = within("max_skew", max_skew, 1, _INT32_MAX)
        cdef TermC* tallied_term = self._add_tallied(tally, SPREAD)
        tallied_term.max_skew = skew
        tallied_term.counts_missing = counts_missing

    def score_answers(self, RowAnswers answers not None, bint reverse=False):
        """Score rows (nodes) by a plugin's answers, normalised over the feasible rows.

        The caller must refresh the answers before `Joiner.join`.
        """
        if self.tallied_term != NOTHING:
            raise _scored_twice()
        if answers.is_marks or answers.low < 0:
            raise ValueError("expected scores that are never below 0")
        self.tallied_term, self.answers, self.reverse = ANSWERED, answers, reverse

    def score_only(self, RowMask mask not None):
        """Give the scores of `spread` to the rows (nodes) in the mask only; others get 0."""
        cdef row_t row
        cdef bint is_needed = len(mask) < mask.rows
        free(self.unscored)
        self.unscored = NULL
        self.unscored_rows = 0
        if is_needed:
            self.unscored = <int32_t*>malloc(mask.rows * sizeof(int32_t))
            if self.unscored is NULL:
                raise MemoryError()
            self.unscored_rows = mask.rows
            for row in range(mask.rows):
                self.unscored[row] = mask.inside[row] - 1

    # --- inside ---

    cdef RuleC* _rule(self, DomainTally tally) except NULL:
        cdef RuleC* rules = <RuleC*>realloc(self.rules, (self.rule_count + 1) * sizeof(RuleC))
        if rules is NULL:
            raise MemoryError()
        self.rules = rules
        self.tallies.append(tally)
        memset(&rules[self.rule_count], 0, sizeof(RuleC))
        rules[self.rule_count].tally = &tally.c
        self.rule_count += 1
        return &rules[self.rule_count - 1]

    cdef TermC* _add_tallied(self, DomainTally tally, TermKind tallied_term) except NULL:
        if self.tallied_term not in (NOTHING, tallied_term):
            raise _scored_twice()
        cdef TermC* tallied = <TermC*>realloc(self.tallied, (self.tallied_count + 1) * sizeof(TermC))
        if tallied is NULL:
            raise MemoryError()
        self.tallied = tallied
        self.tallied_term = tallied_term
        self.tallies.append(tally)
        memset(&tallied[self.tallied_count], 0, sizeof(TermC))
        tallied[self.tallied_count].tally = &tally.c
        self.tallied_count += 1
        return &tallied[self.tallied_count - 1]

    cdef bint _can_tell(self, row_t rows) noexcept nogil:
        """Return True if all tallies are valid and scores fit into the integers that are used here."""
        cdef Py_ssize_t i
        cdef int64_t factor, largest = 0
        for i in range(self.rule_count):
            if not self.rules[i].tally.is_good or self.rules[i].tally.rows < rows:
                return False
        for i in range(self.tallied_count):
            if not self.tallied[i].tally.is_good or self.tallied[i].tally.rows < rows:
                return False
            if self.tallied_term == SPREAD:
                if self.tallied[i].tally.went_below:
                    return False
                # A domain's sum is weighed with the logarithm of less than 2^32.
                largest += 23 * <int64_t>self.tallied[i].tally.largest + self.tallied[i].max_skew
            else:
                factor = self.tallied[i].weight
                largest += max(factor, -factor) * self.tallied[i].tally.largest
            if largest > MAX_SUM:
                return False
        if self.tallied_term == ANSWERED and (self.answers.c.scores is NULL or self.answers.c.rows < rows):
            return rows == 0
        return self.unscored is NULL or self.unscored_rows >= rows

    cdef int _rule_out(self, Joiner joiner) except -1 nogil:
        """Reject rows by the counts of their domains: they become -1."""
        cdef Py_ssize_t i
        cdef bint is_first = self._is_first()
        cdef RuleC* rule
        cdef TallyC* tally
        cdef int64_t most
        for i in range(self.rule_count):
            rule = &self.rules[i]
            tally = rule.tally
            if rule.kind == EVEN:
                most = <int64_t>rule.max_skew - rule.own
                if tally.present >= rule.min_domains:
                    most += least(tally)
                _keep_between(joiner, tally, -MAX_SUM, <int32_t>min(most, <int64_t>MAX_SUM), True)
            elif rule.kind == NEEDED:
                _keep_between(joiner, tally, -MAX_SUM if is_first else 1, MAX_SUM, True)
            elif tally.occupied and tally.by_row:  # without a domain the sum is 0
                _rule_out_occupied(joiner.keep, tally.sums, joiner.rows)
            elif tally.occupied:
                _keep_between(joiner, tally, -MAX_SUM, 0, False)
        return 0

    cdef bint _is_first(self) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(self.rule_count):
            if self.rules[i].kind == NEEDED and self.rules[i].tally.occupied:
                return False
        return self.may_be_first

    cdef int _score(self, Joiner joiner) except -1 nogil:
        """Add the weighted score to the totals of the rows that are left."""
        if self.weight and self.tallied_term == NEAR:
            self._score_near(joiner)
        elif self.weight and self.tallied_term == SPREAD:
            self._score_spread(joiner)
        elif self.weight and self.tallied_term == ANSWERED:
            self._score_answers(joiner)
        return 0

    cdef int _score_answers(self, Joiner joiner) except -1 nogil:
        cdef row_t row
        cdef const score_t* answers = self.answers.c.scores
        cdef int32_t* keep = joiner.keep
        cdef score_t highest = 0
        for row in range(joiner.rows):
            if keep[row] >= 0:
                highest = max(highest, answers[row])
        for row in range(joiner.rows):
            if keep[row] >= 0:
                keep[row] += <int32_t>(self.weight * normalized(answers[row], highest, self.reverse))
        return 0

    cdef int _score_near(self, Joiner joiner) except -1 nogil:
        cdef Py_ssize_t i, slot
        cdef TallyC* tally
        cdef int32_t lowest, highest, weight
        cdef bint any_occupied = False
        for i in range(self.tallied_count):
            any_occupied = any_occupied or self.tallied[i].tally.occupied
        if not any_occupied:
            return 0
        memset(joiner.raws, 0, joiner.rows * sizeof(int32_t))
        for i in range(self.tallied_count):
            tally, weight = self.tallied[i].tally, self.tallied[i].weight
            if not tally.occupied:
                continue
            if tally.by_row:
                _add_sums(joiner.raws, tally.sums, weight, joiner.rows)
            else:
                for slot in range(-1, tally.size):
                    joiner.table[slot] = weight * tally.sums[slot]
                _add_from_table(joiner.raws, tally.slots, joiner.table, joiner.rows)
        _range_of(joiner.raws, joiner.keep, joiner.rows, &lowest, &highest)
        if highest > lowest:
            _add_shares(joiner.keep, joiner.raws, lowest, highest, self.weight, joiner.rows)
        return 0

    cdef int _score_spread(self, Joiner joiner) except -1 nogil:
        cdef Py_ssize_t i, slot
        cdef TermC* tallied_term
        cdef int32_t lowest, highest
        cdef double weight, allowance
        # 1. Rows that take part.
        memcpy(joiner.scored, joiner.keep, joiner.rows * sizeof(int32_t))
        if self.unscored is not NULL:
            _add_bits(joiner.scored, self.unscored, joiner.rows)
        # 2. What their domains hold, the more domains there are the more it weighs.
        memset(joiner.values, 0, joiner.rows * sizeof(double))
        for i in range(self.tallied_count):
            tallied_term = &self.tallied[i]
            weight = log(<double>(joiner._count_domains(tallied_term) + 2))
            allowance = <double>(tallied_term.max_skew - 1)
            if tallied_term.tally.by_row and not tallied_term.tally.any_without:
                _add_spread_of_all(joiner.values, tallied_term.tally.sums, weight, allowance, joiner.rows)
            elif tallied_term.tally.by_row:
                _add_spread_of_rows(
                    joiner.values, tallied_term.tally.sums, tallied_term.tally.slots, weight, allowance, joiner.rows
                )
            else:
                joiner.values_table[-1] = 0.0
                for slot in range(tallied_term.tally.size):
                    joiner.values_table[slot] = <double>tallied_term.tally.sums[slot] * weight + allowance
                _add_spread_from_table(joiner.values, tallied_term.tally.slots, joiner.values_table, joiner.rows)
        # 3. Rounded, and turned round: the fewest get the most.
        _round(joiner.values, joiner.raws, joiner.rows)
        _range_of(joiner.raws, joiner.scored, joiner.rows, &lowest, &highest)
        _add_spread_scores(joiner.keep, joiner.scored, joiner.raws, lowest, highest, self.weight, joiner.rows)
        return 0


cdef object _scored_twice():
    return ValueError("terms are scored in one way: for what is near, for how pods spread, or by a plugin's answers")


@cython.final
cdef class Joiner:
    """Places one pod at a time by its pod class together with its terms, i.e. spread constraints and pod affinity."""

    def __cinit__(self, Placer placer not None):
        self.placer = placer

    def __dealloc__(self):
        self._release()

    def join(self, PodClass pod_class not None, terms):
        """Return the number of rows (nodes) on which a pod of the class with these terms fits.

        `row` then returns the best one. None if amounts or weights are too large for this computation, or a tally
        (count by topology domain) is shorter than the table.
        """
        cdef tuple parts = tuple(terms)
        cdef JoinTerms part
        cdef Placer placer = self.placer
        cdef ClassC* c = &pod_class.c
        cdef Py_ssize_t i, slots = 0
        cdef row_t rows = placer.columns.rows
        cdef int64_t weights = pod_class.weights
        self.ties = 0
        for i in range(len(parts)):
            part = parts[i]
            if part is None:
                raise TypeError("expected JoinTerms, got None")
            if not part._can_tell(rows):
                return None
            slots = max(slots, _most_slots(part))
            weights += part.weight
        if weights > MAX_CLASS_WEIGHT:
            return None
        placer._catch_up(pod_class)
        if rows == 0 or c.feasible == 0:
            return 0
        self._hold(rows, slots, c.node_class_count)
        # 1. What the rows alone decide, 2. what other pods rule out.
        load_totals(&c.totals, rows, self.keep)
        for i in range(len(parts)):
            (<JoinTerms>parts[i])._rule_out(self)
        _count(self.keep, rows, &self.feasible)
        # 3. Scores among those that are left.
        if self.feasible > 1:
            if c.is_uneven and self.feasible < c.feasible:
                self._renormalize(c, &placer.columns.node_classes[0])
            for i in range(len(parts)):
                (<JoinTerms>parts[i])._score(self)
        cdef BestC best = best_of_wide(self.keep, rows)
        self.best, self.ties = best.total, best.ties
        return self.feasible

    def row(self, random_bits):
        """Return the row of the best node for the pod of the last `join`, chosen like `select_host`; -1 if none."""
        cdef row_t row = 0
        cdef int32_t skipped = 0, found
        if self.ties == 0:
            return -1
        if random_bits is not None and self.ties > 1:
            skipped = random_bits % self.ties
        while row + STRIDE < self.rows:
            _count_equal(self.keep + row, STRIDE, self.best, &found)
            if skipped < found:
                break
            skipped -= found
            row += STRIDE
        while self.keep[row] != self.best or skipped:
            skipped -= self.keep[row] == self.best
            row += 1
        return row

    # --- inside ---

    cdef int _hold(self, row_t rows, Py_ssize_t slots, Py_ssize_t node_classes) except -1:
        """Allocate buffers for this many rows, slots (sums by domain) and node classes."""
        self.rows = rows
        if rows <= self.capacity and slots <= self.table_size and node_classes <= self.node_class_capacity:
            return 0
        self._release()
        self.capacity = 2 * rows
        self.table_size = 2 * slots
        self.node_class_capacity = 2 * node_classes
        self.rows = rows
        self.keep = <int32_t*>malloc(self.capacity * sizeof(int32_t))
        self.scored = <int32_t*>malloc(self.capacity * sizeof(int32_t))
        self.raws = <int32_t*>malloc(self.capacity * sizeof(int32_t))
        self.values = <double*>malloc(self.capacity * sizeof(double))
        self.moves = <int32_t*>malloc(max(1, self.node_class_capacity) * sizeof(int32_t))
        self.seen = <unsigned char*>malloc(max(1, self.node_class_capacity))
        self.table = <int32_t*>malloc((1 + self.table_size) * sizeof(int32_t))
        self.values_table = <double*>malloc((1 + self.table_size) * sizeof(double))
        self.marks = <unsigned char*>malloc(1 + self.table_size)
        if self.table is not NULL:
            self.table += 1
        if self.values_table is not NULL:
            self.values_table += 1
        if self.marks is not NULL:
            self.marks += 1
        if (
            self.keep is NULL or self.scored is NULL or self.raws is NULL or self.values is NULL or self.moves is NULL
            or self.seen is NULL or self.table is NULL or self.values_table is NULL or self.marks is NULL
        ):
            self._release()
            raise MemoryError()
        return 0

    cdef int _release(self) except -1:
        free(self.keep)
        free(self.scored)
        free(self.raws)
        free(self.values)
        free(self.moves)
        free(self.seen)
        if self.table is not NULL:
            free(self.table - 1)
        if self.values_table is not NULL:
            free(self.values_table - 1)
        if self.marks is not NULL:
            free(self.marks - 1)
        self.keep = self.scored = self.raws = self.moves = self.table = NULL
        self.values = self.values_table = NULL
        self.seen = self.marks = NULL
        self.rows = self.capacity = self.table_size = self.node_class_capacity = 0
        self.ties = 0
        return 0

    cdef int _renormalize(self, ClassC* c, const node_class_t* node_classes) except -1 nogil:
        """Normalise the scores of node classes over the rows that are left."""
        cdef row_t row
        cdef Py_ssize_t node_class, i, wanted = 0
        cdef score_t highest, total
        cdef bint is_new = False
        memset(self.seen, 0, c.node_class_count)
        for node_class in range(c.node_class_count):
            self.moves[node_class] = 0
            wanted += c.feasible_in[node_class] > 0
        # 1. Which node classes have a row left? Mostly all, and the first rows tell.
        for row in range(self.rows):
            if self.keep[row] >= 0 and not self.seen[node_classes[row]]:
                self.seen[node_classes[row]] = 1
                wanted -= 1
                if wanted == 0:
                    return 0
        # 2. Does that change a highest score, by which the others are measured?
        for i in range(c.list_count):
            highest = 0
            for node_class in range(c.node_class_count):
                if self.seen[node_class]:
                    highest = max(highest, c.lists[i].raws[node_class])
            if highest == c.lists[i].highest:
                continue
            is_new = True
            for node_class in range(c.node_class_count):
                if self.seen[node_class]:
                    total = normalized(c.lists[i].raws[node_class], highest, c.lists[i].reverse)
                    total -= normalized(c.lists[i].raws[node_class], c.lists[i].highest, c.lists[i].reverse)
                    self.moves[node_class] = self.moves[node_class] + <int32_t>(c.lists[i].weight * total)
        if is_new:
            _move(self.keep, node_classes, self.moves, self.rows)
        return 0

    cdef Py_ssize_t _count_domains(self, const TermC* tallied_term) noexcept nogil:
        """Return the number of domains of the rows that are scored."""
        cdef const TallyC* tally = tallied_term.tally
        cdef row_t row
        cdef Py_ssize_t found = 0
        cdef int32_t slot, count
        if tally.each_row:  # over hosts every row counts, whatever its label says
            _count(self.scored, self.rows, &count)
            return count
        # 1. Mostly each domain has a row that is scored, and the first rows tell.
        memset(self.marks, 0, tally.size)
        self.marks[-1] = 1
        for row in range(self.rows):
            if found == tally.held:
                break
            slot = tally.slots[row]
            if self.scored[row] >= 0 and not self.marks[slot]:
                self.marks[slot] = 1
                found += 1
        # 2. One more for rows without a domain.
        if tallied_term.counts_missing and tally.any_without:
            _count_without(self.scored, tally.slots, self.rows, &count)
            found += count > 0
        return found


cdef Py_ssize_t _most_slots(JoinTerms part) noexcept:
    cdef Py_ssize_t i, most = 0
    for i in range(part.rule_count):
        most = max(most, part.rules[i].tally.size)
    for i in range(part.tallied_count):
        most = max(most, part.tallied[i].tally.size)
    return most


# --- loops over rows: which are left ---


cdef int _keep_between(
    Joiner joiner, const TallyC* tally, int32_t least_sum, int32_t most_sum, bint needs_domain
) except -1 nogil:
    """Reject the rows whose domain's sum is outside these limits, or that need a domain and have none."""
    cdef Py_ssize_t slot
    cdef int32_t missing = -1 if needs_domain else 0
    if tally.by_row:
        _rule_out_rows(joiner.keep, tally.sums, tally.slots, least_sum, most_sum, missing, joiner.rows)
        return 0
    for slot in range(tally.size):
        joiner.table[slot] = -(tally.sums[slot] < least_sum or tally.sums[slot] > most_sum)
    joiner.table[-1] = missing
    _rule_out_by_table(joiner.keep, tally.slots, joiner.table, joiner.rows)
    return 0


cdef cloned _rule_out_rows(
    out_ints keep, in_ints sums, in_ints slots, int32_t least_sum, int32_t most_sum, int32_t missing, row_t rows
) noexcept nogil:
    cdef row_t row
    cdef int32_t is_out
    for row in range(rows):
        is_out = (sums[row] < least_sum) | (sums[row] > most_sum)
        keep[row] |= (-is_out & ~(slots[row] >> 31)) | (slots[row] >> 31 & missing)


cdef cloned _rule_out_occupied(out_ints keep, in_ints sums, row_t rows) noexcept nogil:
    cdef row_t row
    for row in range(rows):
        keep[row] |= -<int32_t>(sums[row] > 0)


cdef cloned _rule_out_by_table(out_ints keep, in_ints slots, in_ints table, row_t rows) noexcept nogil:
    cdef row_t row
    for row in range(rows):
        keep[row] |= table[slots[row]]


cdef cloned _add_bits(out_ints scored, in_ints unscored, row_t rows) noexcept nogil:
    cdef row_t row
    for row in range(rows):
        scored[row] |= unscored[row]


cdef cloned _count(in_ints keep, row_t rows, out_ints count) noexcept nogil:
    cdef row_t row
    cdef int32_t found = 0
    for row in range(rows):
        found += keep[row] >= 0
    count[0] = found


cdef cloned _count_without(in_ints scored, in_ints slots, row_t rows, out_ints count) noexcept nogil:
    cdef row_t row
    cdef int32_t found = 0
    for row in range(rows):
        found += (scored[row] >= 0) & (slots[row] < 0)
    count[0] = found


# --- loops over rows: scores ---


cdef cloned _move(out_ints keep, in_ints node_classes, in_ints moves, row_t rows) noexcept nogil:
    cdef row_t row
    for row in range(rows):
        if keep[row] >= 0:
            keep[row] = keep[row] + moves[node_classes[row]]


cdef cloned _add_sums(out_ints raws, in_ints sums, int32_t weight, row_t rows) noexcept nogil:
    cdef row_t row
    for row in range(rows):
        raws[row] += weight * sums[row]


cdef cloned _add_from_table(out_ints raws, in_ints slots, in_ints table, row_t rows) noexcept nogil:
    cdef row_t row
    for row in range(rows):
        raws[row] += table[slots[row]]


cdef cloned _range_of(in_ints raws, in_ints keep, row_t rows, out_ints lowest, out_ints highest) noexcept nogil:
    """Find the lowest and the highest raw score of the rows that are kept."""
    cdef row_t row
    cdef int32_t low = MAX_INT32, high = -MAX_INT32, is_out, least_raw, most_raw
    for row in range(rows):
        is_out = keep[row] >> 31  # all bits, or none: of a condition compilers make a branch here
        least_raw = raws[row] & ~is_out | MAX_INT32 & is_out
        most_raw = raws[row] & ~is_out | -MAX_INT32 & is_out
        low = least_raw if least_raw < low else low
        high = most_raw if most_raw > high else high
    lowest[0] = low
    highest[0] = high


cdef cloned _add_shares(
    out_ints keep, in_ints raws, int32_t lowest, int32_t highest, int32_t weight, row_t rows
) noexcept nogil:
    """Add 0 for the lowest raw score to 100 for the highest, times the weight, as doubles truncated toward zero."""
    cdef row_t row
    cdef int32_t part, score
    cdef double whole = <double>(highest - lowest)
    for row in range(rows):
        part = raws[row] - lowest if keep[row] >= 0 else 0
        score = <int32_t>(100.0 * (<double>part / whole))
        keep[row] += weight * score


cdef cloned _add_spread_of_all(
    out_doubles values, in_ints sums, double weight, double allowance, row_t rows
) noexcept nogil:
    """As `_add_spread_of_rows` if each row has a domain: each class has slots of its own, which are seldom in a cache."""
    cdef row_t row
    for row in range(rows):
        values[row] += <double>sums[row] * weight + allowance


cdef cloned _add_spread_of_rows(
    out_doubles values, in_ints sums, in_ints slots, double weight, double allowance, row_t rows
) noexcept nogil:
    cdef row_t row
    for row in range(rows):
        values[row] += <double>sums[row] * weight + allowance if slots[row] >= 0 else 0.0


cdef cloned _add_spread_from_table(out_doubles values, in_ints slots, in_doubles table, row_t rows) noexcept nogil:
    cdef row_t row
    for row in range(rows):
        values[row] += table[slots[row]]


cdef cloned _round(in_doubles values, out_ints raws, row_t rows) noexcept nogil:
    """Round halves up; no value is below zero. The fraction is computed exactly, so that no sum is rounded twice."""
    cdef row_t row
    cdef int32_t whole
    for row in range(rows):
        whole = <int32_t>values[row]
        raws[row] = whole + (values[row] - <double>whole >= 0.5)


cdef cloned _add_spread_scores(
    out_ints keep, in_ints scored, in_ints raws, int32_t lowest, int32_t highest, int32_t weight, row_t rows
) noexcept nogil:
    """Add scores that are higher for lower raw values. For numbers this small, doubles divide exactly like integers."""
    cdef row_t row
    cdef int32_t turned, score
    cdef double divisor = <double>highest
    if highest <= 0:
        for row in range(rows):
            keep[row] += weight * 100 if scored[row] >= 0 else 0
        return
    for row in range(rows):
        turned = highest - raws[row] + lowest if scored[row] >= 0 else 0
        score = <int32_t>(100.0 * <double>turned / divisor)
        keep[row] += weight * score


# --- loops over rows: the best ---


cdef cloned _count_equal(in_ints keep, row_t rows, int32_t wanted, out_ints count) noexcept nogil:
    cdef row_t row
    cdef int32_t equal = 0
    for row in range(rows):
        equal += keep[row] == wanted
    count[0] = equal
