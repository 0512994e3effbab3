"""Rules on live metrics for all rows of a table, evaluated again as rows change.

The formulas are those of metric_formulas.py, operation by operation. Rules that pods of many classes share are
evaluated once for each row, instead of once for each row and class.
"""

from array import array

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.math cimport INFINITY, NAN, isfinite, isnan, pow
from libc.string cimport memcpy, memset

from kscheduler._fast.checks cimport index, within
from kscheduler._fast.codes cimport FEASIBLE, MAX_CODE
from kscheduler._fast.columns cimport NodeColumns
from kscheduler._fast.scoring cimport Scores
from kscheduler._fast.typedefs cimport code_t, resource_t, row_t, score_t
from kscheduler._fast.verdicts cimport Verdicts

MAX_REASONS = 255
MAX_INPUTS = 1024
MAX_RULE_WEIGHT = 1_000_000

cdef enum:
    LESS = 0
    LESS_OR_EQUAL = 1
    GREATER = 2
    GREATER_OR_EQUAL = 3
    EQUAL = 4
    NOT_EQUAL = 5

cdef enum:
    MINIMIZE = 0
    MAXIMIZE = 1
    TARGET = 2
    LOW_RISK = 3

cdef enum:
    PODS = -1
    FEW = 8  # where less than one row in so many changes, readers learn of each


@cython.final
cdef class MetricRules:
    """Rules on live metrics for each row (node) of a table: tests that may reject it, goals that give points, 0..100.

    A row passes if in each of `groups` one test holds. `feed` sets the inputs (metric values by row); the resources in
    use are read from the columns whenever they are needed.
    """

    def __cinit__(self, NodeColumns columns not None, groups, goals, inputs):
        cdef Py_ssize_t i, number
        self.columns = columns
        self.c.seen = -1
        self.c.input_count = within("inputs", inputs, 0, MAX_INPUTS)
        within("reasons", 2 * len(groups) + len(goals), 0, MAX_REASONS)
        self.c.group_count = len(groups)
        self.c.test_count = sum([len(group) for group in groups])
        self.c.goal_count = len(goals)
        self.c.tests = <TestC*>PyMem_Malloc(max(1, self.c.test_count) * sizeof(TestC))
        self.c.goals = <GoalC*>PyMem_Malloc(max(1, self.c.goal_count) * sizeof(GoalC))
        if self.c.tests is NULL or self.c.goals is NULL:
            raise MemoryError()
        cdef TestC* test = self.c.tests
        for number, group in enumerate(groups):
            for given in group:
                index("input", given.value, self.c.input_count)
                test.group = number
                test.value = given.value
                test.operator = <int>within("operator", given.operator, 0, NOT_EQUAL)
                test.bound = given.bound
                test.fails_without = given.fails_without
                self._read_load(&test.load, given.load)
                test += 1
        cdef GoalC* goal
        for i, given in enumerate(goals):
            goal = &self.c.goals[i]
            index("input", given.value, self.c.input_count)
            index("input", given.deviation, self.c.input_count)
            goal.value = given.value
            goal.deviation = given.deviation
            goal.kind = <int>within("kind", given.kind, 0, LOW_RISK)
            goal.weight = within("weight", given.weight, 0, MAX_RULE_WEIGHT)
            if not 0.0 <= given.neutral <= 100.0:
                raise ValueError(f"neutral: expected 0..100, got {given.neutral}")
            goal.neutral = given.neutral
            goal.excludes = given.excludes
            goal.target = given.target
            goal.margin = given.margin
            goal.exponent = 1.0
            if given.sensitivity >= 0.0:
                goal.exponent = 1.0 / given.sensitivity if given.sensitivity > 0.0 else INFINITY
            goal.low = goal.high = NAN
            self._read_load(&goal.load, given.load)

    def __dealloc__(self):
        PyMem_Free(self.c.tests)
        PyMem_Free(self.c.goals)
        PyMem_Free(self.c.inputs)
        PyMem_Free(self.c.marks)
        PyMem_Free(self.c.points)

    def feed(self, inputs, ranges):
        """Set all inputs (doubles by row, i.e. node; NaN: absent), and for each goal the values at its range's ends.

        Rows past an input's end have no value. Values for rows that the table does not have yet are ignored.
        """
        cdef Py_ssize_t i, row, count, changed = 0, rows
        cdef const double[::1] values
        if len(inputs) != self.c.input_count:
            raise ValueError(f"inputs: expected {self.c.input_count}, got {len(inputs)}")
        if len(ranges) != self.c.goal_count:
            raise ValueError(f"ranges: expected {self.c.goal_count}, got {len(ranges)}")
        checked = [(<double>low, <double>high) for low, high in ranges]
        # 1. Remember what readers know, and take in what is new.
        self._hold(self.columns.capacity)
        rows = self.columns.rows
        known = bytes(<const char[:rows]>(<char*>self.c.marks)) if rows else b""
        before = bytes(<const char[:rows * sizeof(score_t)]>(<char*>self.c.points)) if rows else b""
        for i, (low, high) in enumerate(checked):
            self.c.goals[i].low, self.c.goals[i].high = low, high
        for i, given in enumerate(inputs):
            count = 0
            if len(given):
                values = given
                count = min(rows, values.shape[0])
                if count:
                    memcpy(&self.c.inputs[i * self.c.rows], &values[0], count * sizeof(double))
            for row in range(count, self.c.rows):
                self.c.inputs[i * self.c.rows + row] = NAN
        was_known = self.c.seen >= 0
        _judge_all(&self.c, self.columns)
        # 2. Note for readers the rows that have changed; or that it may be any.
        cdef const unsigned char* old_marks = known
        cdef const char* old_bytes = before
        cdef const score_t* old_points = <const score_t*>old_bytes
        for row in range(rows):
            changed += old_marks[row] != self.c.marks[row] or old_points[row] != self.c.points[row]
        if not was_known or changed > rows // FEW:
            self.c.version += 1
        elif changed:
            for row in range(rows):
                if old_marks[row] != self.c.marks[row] or old_points[row] != self.c.points[row]:
                    self.columns.log_change(row, self.columns.node_classes[row])
        self.c.seen = self.columns.changes

    def mark(self, row):
        """Return 0 if the rules accept the row (node), else the reason as `mark_of` defines it."""
        index("row", row, self.columns.rows)
        self.refresh()
        return self.c.marks[<row_t>row]

    def points(self, row):
        index("row", row, self.columns.rows)
        self.refresh()
        return self.c.points[<row_t>row]

    def absent(self, number):
        """Return the number of nodes that have no value for the input with this number."""
        index("input", number, self.c.input_count)
        cdef Py_ssize_t start = <Py_ssize_t>number * self.c.rows, count = 0
        cdef row_t row
        for row in range(self.columns.rows):
            count += self.columns.alive[row] and (row >= self.c.rows or not isfinite(self.c.inputs[start + row]))
        return count

    def filter(self, Verdicts verdicts not None, code):
        """Reject the nodes that the rules reject, with the reason number (detail) mark - 1; see `mark`.

        Returns the number of feasible nodes.
        """
        cdef code_t chosen = <code_t>within("code", code, 1, MAX_CODE)
        cdef row_t row, left = 0
        self._check(verdicts)
        for row in range(verdicts.rows):
            if verdicts.codes[row] == FEASIBLE:
                if self.c.marks[row]:
                    verdicts.codes[row] = chosen
                    verdicts.details[row] = self.c.marks[row] - 1
                else:
                    left += 1
        return left

    def score(self, Verdicts verdicts not None, Scores scores not None):
        """Set the raw score of every feasible row (node) to its points."""
        cdef row_t row
        self._check(verdicts)
        scores.check_verdicts(verdicts)
        for row in range(verdicts.rows):
            if verdicts.codes[row] == FEASIBLE:
                scores.raws[row] = self.c.points[row]

    # --- inside ---

    cdef int _read_load(self, LoadC* load, object given) except -1:
        load.is_there = given is not None
        if given is None:
            return 0
        load.resource = <resource_t>within("resource", given.resource, PODS, self.columns.resource_count - 1)
        load.gain = given.gain
        load.baseline = given.baseline
        index("input", given.baseline, self.c.input_count)
        self.c.uses_amounts = True
        return 0

    cdef int _check(self, Verdicts verdicts) except -1:
        verdicts.check_columns(self.columns)
        return self.refresh()

    cdef int refresh(self) except -1:
        """Evaluate all rows as they are now."""
        if needs_room(&self.c, self.columns):
            self._hold(self.columns.capacity)
        return follow(&self.c, self.columns)

    cdef int _hold(self, Py_ssize_t rows) except -1:
        """Make room for so many rows. Inputs of new rows are absent."""
        cdef Py_ssize_t old = self.c.rows, i, row
        if rows <= old and self.c.inputs is not NULL:
            return 0
        cdef double* inputs = <double*>PyMem_Malloc(max(1, self.c.input_count * rows) * sizeof(double))
        cdef unsigned char* marks = <unsigned char*>PyMem_Malloc(max(1, rows))
        cdef score_t* points = <score_t*>PyMem_Malloc(max(1, rows) * sizeof(score_t))
        if inputs is NULL or marks is NULL or points is NULL:
            PyMem_Free(inputs)
            PyMem_Free(marks)
            PyMem_Free(points)
            raise MemoryError()
        for i in range(self.c.input_count):
            if old:
                memcpy(&inputs[i * rows], &self.c.inputs[i * old], old * sizeof(double))
            for row in range(old, rows):
                inputs[i * rows + row] = NAN
        memset(marks, 0, max(1, rows))
        memset(points, 0, max(1, rows) * sizeof(score_t))
        if old:
            memcpy(marks, self.c.marks, old)
            memcpy(points, self.c.points, old * sizeof(score_t))
        PyMem_Free(self.c.inputs)
        PyMem_Free(self.c.marks)
        PyMem_Free(self.c.points)
        self.c.inputs, self.c.marks, self.c.points, self.c.rows = inputs, marks, points, rows
        self.c.seen = -1
        return 0


# --- keeping up ---


cdef bint needs_room(const RulesC* c, NodeColumns columns) noexcept nogil:
    return c.rows < columns.rows or c.inputs is NULL


cdef int follow(RulesC* c, NodeColumns columns) except -1 nogil:
    """Evaluate the rows that changed since the last call. There must be room for all rows."""
    cdef Py_ssize_t behind = columns.changes - c.seen, change
    if c.seen < 0:
        _judge_all(c, columns)
        c.version += 1
        return 0
    while c.judged < columns.rows:
        _judge(c, columns, c.judged)
        c.judged += 1
    if c.uses_amounts and behind:
        if behind > columns.ring_mask + 1 or behind > columns.rows // FEW + 1:
            _judge_all(c, columns)  # readers have the same changes to read
        else:
            for change in range(c.seen, columns.changes):
                _judge(c, columns, columns.changed_rows[change & columns.ring_mask])
    c.seen = columns.changes
    return 0


cdef int _judge_all(RulesC* c, NodeColumns columns) except -1 nogil:
    cdef row_t row
    for row in range(columns.rows):
        _judge(c, columns, row)
    c.judged = columns.rows
    c.seen = columns.changes
    return 0


cdef int _judge(RulesC* c, NodeColumns columns, row_t row) except -1 nogil:
    c.marks[row] = _mark(c, columns, row)
    c.points[row] = _points(c, columns, row)
    return 0


# --- one row ---


cdef unsigned char _mark(const RulesC* c, NodeColumns columns, row_t row) except? 255 nogil:
    cdef Py_ssize_t i = 0, group
    cdef const TestC* test
    cdef double value
    cdef bint holds, lacks_all
    for group in range(c.group_count):
        holds = False
        lacks_all = i < c.test_count and c.tests[i].group == group
        while i < c.test_count and c.tests[i].group == group:
            test = &c.tests[i]
            i += 1
            value = c.inputs[test.value * c.rows + row]
            if not isfinite(value):
                holds = holds or not test.fails_without
                continue
            lacks_all = False
            if test.load.is_there:
                value = _expected(c, columns, &test.load, value, row)
            holds = holds or _compare(test.operator, value, test.bound)
        if not holds:
            return <unsigned char>(1 + group + (c.group_count if lacks_all else 0))
    for i in range(c.goal_count):
        if c.goals[i].excludes and _lacks(c, &c.goals[i], row):
            return <unsigned char>(1 + 2 * c.group_count + i)
    return 0


cdef score_t _points(const RulesC* c, NodeColumns columns, row_t row) except? -1 nogil:
    cdef Py_ssize_t i
    cdef double total = 0.0, weights = 0.0
    for i in range(c.goal_count):
        total = total + c.goals[i].weight * _points_for(c, columns, &c.goals[i], row)
        weights = weights + c.goals[i].weight
    if weights == 0.0:
        return 0
    return <score_t>(total / weights + 0.5)


cdef double _points_for(const RulesC* c, NodeColumns columns, const GoalC* goal, row_t row) except? -1 nogil:
    cdef double low = goal.low, high = goal.high, value
    if _lacks(c, goal, row) or not low <= high:
        return goal.neutral
    value = c.inputs[goal.value * c.rows + row]
    if goal.load.is_there:
        value = _expected(c, columns, &goal.load, value, row)
    if goal.kind == MINIMIZE:
        return 100.0 if value <= low else 0.0 if value >= high else 100.0 * ((high - value) / (high - low))
    if goal.kind == MAXIMIZE:
        return 100.0 if value >= high else 0.0 if value <= low else 100.0 * ((value - low) / (high - low))
    if goal.kind == TARGET:
        return _packed(100.0 * _share(value, low, high), 100.0 * _at_most_one(_share(goal.target, low, high)))
    return _without_risk(
        goal, _at_most_one(_share(value, low, high)),
        _at_most_one(_share(c.inputs[goal.deviation * c.rows + row], 0.0, high - low)),
    )


cdef bint _lacks(const RulesC* c, const GoalC* goal, row_t row) noexcept nogil:
    if not isfinite(c.inputs[goal.value * c.rows + row]):
        return True
    return goal.kind == LOW_RISK and not isfinite(c.inputs[goal.deviation * c.rows + row])


cdef double _expected(
    const RulesC* c, NodeColumns columns, const LoadC* load, double value, row_t row
) except? -1 nogil:
    cdef double before = c.inputs[load.baseline * c.rows + row], used, whole, now, least
    if load.resource == PODS:
        used, whole = <double>columns.pods[row], 1.0
    else:
        used = <double>columns.used[load.resource, row]
        whole = <double>columns.allocated[load.resource, row]
    if not isfinite(before) or whole <= 0.0:
        return value
    now = value + load.gain * ((used - before) / whole)
    least = value if value < 0.0 else 0.0
    return now if now > least else least


cdef bint _compare(int operator, double value, double bound) noexcept nogil:
    if operator == LESS:
        return value < bound
    if operator == LESS_OR_EQUAL:
        return value <= bound
    if operator == GREATER:
        return value > bound
    if operator == GREATER_OR_EQUAL:
        return value >= bound
    return value == bound if operator == EQUAL else value != bound


cdef double _share(double value, double low, double high) noexcept nogil:
    if value <= low:
        return 0.0
    return (value - low) / (high - low) if high > low else 2.0


cdef double _at_most_one(double share) noexcept nogil:
    return 1.0 if share > 1.0 else share


cdef double _packed(double used, double target) noexcept nogil:
    if used > target:
        return 0.0 if used > 100.0 else target * (100.0 - used) / (100.0 - target)
    return (100.0 - target) * used / target + target if target > 0.0 else 100.0


cdef double _without_risk(const GoalC* goal, double mean, double deviation) noexcept nogil:
    if goal.exponent != 1.0:
        deviation = pow(deviation, goal.exponent)
    deviation = deviation * goal.margin
    deviation = 0.0 if deviation < 0.0 else _at_most_one(deviation)
    return (1.0 - (mean + deviation) / 2.0) * 100.0


# --- what was in use ---


def copy_use(NodeColumns columns not None, resource):
    """Return by row how much of a resource column is in use, as doubles, or for PODS the number of pods.

    NaN where there is no node.
    """
    cdef resource_t chosen = <resource_t>within("resource", resource, PODS, columns.resource_count - 1)
    cdef row_t row
    found = array("d", bytes(columns.rows * sizeof(double)))
    if columns.rows == 0:
        return found
    cdef double[::1] out = found
    for row in range(columns.rows):
        if not columns.alive[row]:
            out[row] = NAN
        elif chosen == PODS:
            out[row] = <double>columns.pods[row]
        else:
            out[row] = <double>columns.used[chosen, row]
    return found


def mean_use(times, uses, sampled, double window_s, now):
    """Return by row the mean usage over the time that a sample covers: the `window_s` seconds up to `sampled`.

    `uses[i]` was in use after times[i] (ascending) up to the next time; the first usage of a row also counts before its
    time. NaN, where another node had the row, is left out. If nothing is left, the result is the usage `now`.
    """
    cdef Py_ssize_t i, row, count = len(uses), rows
    if len(times) != count:
        raise ValueError(f"uses: expected {len(times)}, got {count}")
    found = array("d", now)
    if not count or not len(found) or not len(sampled):
        return found
    cdef double[::1] out = found
    cdef const double[::1] ends = sampled
    cdef const double[::1] used
    totals, weights = array("d", bytes(len(found) * sizeof(double))), array("d", bytes(len(found) * sizeof(double)))
    cdef double[::1] total = totals
    cdef double[::1] weight = weights
    seen = bytearray(len(found))
    cdef unsigned char[::1] is_seen = seen
    cdef double begins, since, until, overlap
    for i in range(count):
        if not len(uses[i]):
            continue
        used = uses[i]
        begins = times[i]
        until = times[i + 1] if i + 1 < count else INFINITY
        rows = min(out.shape[0], min(used.shape[0], ends.shape[0]))
        for row in range(rows):
            if isnan(used[row]) or not isfinite(ends[row]):
                continue
            since = begins if is_seen[row] else -INFINITY
            is_seen[row] = 1
            if window_s > 0.0:
                overlap = min(until, ends[row]) - max(since, ends[row] - window_s)
            else:
                overlap = 1.0 if since < ends[row] <= until else 0.0
            if overlap > 0.0:
                total[row] = total[row] + overlap * used[row]
                weight[row] = weight[row] + overlap
    for row in range(out.shape[0]):
        if weight[row] > 0.0:
            out[row] = total[row] / weight[row]
    return found
