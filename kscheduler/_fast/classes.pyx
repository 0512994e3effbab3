"""Pod classes (pods that are filtered and scored equally), and the memory for their cached results by row."""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from kscheduler._fast.answers cimport RowAnswers
from kscheduler._fast.checks cimport within
from kscheduler._fast.chunks cimport CHUNK, is_small
from kscheduler._fast.codes cimport MAX_CLASS_WEIGHT, MAX_RAW, MAX_SCORED_RESOURCES, MAX_WEIGHT
from kscheduler._fast.columns cimport NodeColumns, PodRequest
from kscheduler._fast.metric_rules cimport MetricRules
from kscheduler._fast.scoring cimport TermC, draw_line, fill_terms
from kscheduler._fast.strategies cimport LEAST, MOST, RATIO, Strategy
from kscheduler._fast.totals cimport BLOCK, NARROW_WEIGHTS, BestC, RankC, allocate_totals, release_totals, width_of
from kscheduler._fast.typedefs cimport resource_t, row_t, score_t


@cython.final
cdef class PodClass:
    """Pods that are equal in request, in the node classes that they may go to, and in how rows (nodes) are scored.

    All scores must be added before the first placement; weights and normalisation are those of the plugins. When any of
    these changes, or there is a new node class, make a new pod class. (A node class has the nodes with equal labels and
    taints.)
    """

    def __cinit__(self, NodeColumns columns not None, PodRequest request not None, verdict_by_node_class):
        columns._check_resources(request)
        self.columns = columns
        self.request = request
        self.verdicts = bytes(verdict_by_node_class)
        self.row_scores, self.answers, self.rules = [], [], []
        for node_class, verdict in enumerate(self.verdicts):
            within(f"verdict of node class {node_class}", verdict, 0, 127)
        self.c.is_narrow = True
        self.c.node_class_count = len(self.verdicts)
        self.c.verdicts = self.verdicts
        self.c.cpu = request.cpu
        self.c.memory = request.memory
        self.c.demand.entries = request.c
        self.c.demand.entry_count = request.count
        self.c.demand.is_small = is_small(request.cpu) and is_small(request.memory)
        cdef Py_ssize_t i
        for i in range(request.count):
            self.c.demand.is_small = self.c.demand.is_small and is_small(request.c[i].amount)
        self.c.must_rebuild = True

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.c.list_count):
            PyMem_Free(self.c.lists[i].raws)
        PyMem_Free(self.c.lists)
        PyMem_Free(self.c.row_lists)
        PyMem_Free(self.c.asked)
        PyMem_Free(self.c.ruled)
        PyMem_Free(self.c.demand.fit)
        PyMem_Free(self.c.demand.balanced)
        self.release()

    # --- how rows are scored ---

    # `request`: what the pods are scored by, if it is not what they are counted with.

    def score_least_allocated(self, resources, weight, PodRequest request=None):
        self._score_fit(LEAST, resources, weight, request)

    def score_most_allocated(self, resources, weight, PodRequest request=None):
        self._score_fit(MOST, resources, weight, request)

    def score_requested_to_capacity_ratio(self, resources, shape, weight, PodRequest request=None):
        draw_line(self.c.demand.line, shape)
        self._score_fit(RATIO, resources, weight, request)

    def score_balanced(self, resources, weight):
        self._begin()
        if self.has_balanced:
            raise ValueError("the class has a score of balance already")
        cdef TermC terms[MAX_SCORED_RESOURCES]
        cdef Py_ssize_t count = fill_terms(
            terms, self.columns, self.request, [(resource, 1) for resource in resources], False
        )
        cdef score_t weighed = self._weigh(weight)
        self.c.demand.balanced = _kept(terms, count)
        self.c.demand.balanced_count = count
        self.c.demand.balanced_weight = weighed
        self.has_balanced = True

    def score_node_classes(self, const score_t[::1] value_by_node_class not None, bint reverse, weight):
        """Score each row by the value of its node class (nodes with equal labels and taints).

        Values are normalised to 0..100, or in reverse order.
        """
        self._begin()
        cdef Py_ssize_t node_class, count = value_by_node_class.shape[0]
        if count != self.c.node_class_count:
            raise ValueError(f"value_by_node_class: expected {self.c.node_class_count} values, got {count}")
        for node_class in range(count):
            if not 0 <= value_by_node_class[node_class] <= MAX_RAW:
                raise ValueError(
                    f"value of node class {node_class}: expected 0..{MAX_RAW}, got {value_by_node_class[node_class]}"
                )
        cdef score_t weighed = self._weigh(weight)
        cdef ListC* lists = <ListC*>PyMem_Realloc(self.c.lists, (self.c.list_count + 1) * sizeof(ListC))
        if lists is NULL:
            raise MemoryError()
        self.c.lists = lists
        cdef ListC* fresh = &lists[self.c.list_count]
        memset(fresh, 0, sizeof(ListC))
        fresh.raws = <score_t*>PyMem_Malloc(max(1, count) * sizeof(score_t))
        if fresh.raws is NULL:
            raise MemoryError()
        fresh.weight = weighed
        fresh.reverse = reverse
        for node_class in range(count):
            fresh.raws[node_class] = value_by_node_class[node_class]
            self.c.is_uneven = self.c.is_uneven or fresh.raws[node_class] != fresh.raws[0]
        self.c.list_count += 1

    def score_rows(self, score_by_row, weight):
        """Score each row (node) by its byte in `score_by_row`, 0..100, not normalised; a row past the end gets 0."""
        self._begin()
        scores = bytes(score_by_row)
        for row, score in enumerate(scores):
            within(f"score of row {row}", score, 0, 100)
        cdef score_t weighed = self._weigh(weight)
        cdef RowListC* lists = <RowListC*>PyMem_Realloc(
            self.c.row_lists, (self.c.row_list_count + 1) * sizeof(RowListC)
        )
        if lists is NULL:
            raise MemoryError()
        self.c.row_lists = lists
        self.row_scores.append(scores)
        lists[self.c.row_list_count].scores = scores
        lists[self.c.row_list_count].count = len(scores)
        lists[self.c.row_list_count].weight = weighed
        self.c.row_list_count += 1

    def ask_rows(self, RowAnswers answers not None, weight=0):
        """Reject rows (nodes) whose mark is not 0, or add scores that are not normalised, by a plugin's answers.

        Before a placement the plugin is asked again about changed rows.
        """
        self._begin()
        if answers.columns is not self.columns:
            raise ValueError("the answers are about another table")
        if not answers.is_marks and (answers.low < 0 or answers.high > 100):
            raise ValueError(f"scores of rows: expected limits within 0..100, got {answers.low}..{answers.high}")
        cdef score_t weighed = self._weigh(weight)
        cdef AskedC* asked = <AskedC*>PyMem_Realloc(self.c.asked, (self.c.asked_count + 1) * sizeof(AskedC))
        if asked is NULL:
            raise MemoryError()
        self.c.asked = asked
        self.answers.append(answers)
        asked[self.c.asked_count].answers = &answers.c
        asked[self.c.asked_count].weight = weighed
        self.c.asked_count += 1

    def follow_rules(self, MetricRules rules not None, bint filters, weight=0):
        """With `filters`, reject the rows (nodes) that rules on live metrics reject; add their points, not normalised.

        The rules are evaluated again at each placement, since they depend on the resources in use.
        """
        self._begin()
        if rules.columns is not self.columns:
            raise ValueError("the rules are about another table")
        cdef score_t weighed = self._weigh(weight)
        cdef RuledC* ruled = <RuledC*>PyMem_Realloc(self.c.ruled, (self.c.ruled_count + 1) * sizeof(RuledC))
        if ruled is NULL:
            raise MemoryError()
        self.c.ruled = ruled
        self.rules.append(rules)
        ruled[self.c.ruled_count].rules = &rules.c
        ruled[self.c.ruled_count].filters = filters
        ruled[self.c.ruled_count].weight = weighed
        self.c.ruled_count += 1

    # --- inside ---

    cdef int _begin(self) except -1:
        if self.is_used:
            raise ValueError("the class is in use: its scores stand")
        return 0

    cdef score_t _weigh(self, object weight) except -1:
        cdef score_t weighed = within("weight", weight, 0, MAX_WEIGHT)
        within("sum of weights", self.weights + weighed, 0, MAX_CLASS_WEIGHT)
        self.weights += weighed
        self.c.is_narrow = self.weights <= NARROW_WEIGHTS
        return weighed

    cdef int _score_fit(self, int strategy, object resources, object weight, PodRequest request) except -1:
        self._begin()
        if self.has_fit:
            raise ValueError("the class has a score of fit already")
        if request is None:
            request = self.request
        self.columns._check_resources(request)
        cdef TermC terms[MAX_SCORED_RESOURCES]
        cdef Py_ssize_t i, count = fill_terms(terms, self.columns, request, resources, True)
        cdef score_t weighed = self._weigh(weight)
        for i in range(count):
            self.c.demand.is_small = self.c.demand.is_small and is_small(terms[i].amount)
        self.c.demand.fit = _kept(terms, count)
        self.c.demand.fit_count = count
        self.c.demand.strategy = <Strategy>strategy
        self.c.demand.fit_weight = weighed
        self.has_fit = True
        return 0

    cdef int ask(self) except -1:
        """Refresh the answers of plugins about rows; their exceptions propagate."""
        cdef RowAnswers answers
        cdef MetricRules rules
        for answers in self.answers:
            answers.refresh()
        for rules in self.rules:
            rules.refresh()
        return 0

    cdef int allocate(self) except -1:
        """Allocate memory for the cached results of every row, and forget those there were."""
        cdef ShapeC shape = shape_for(self.columns.capacity)
        cdef Py_ssize_t node_classes = self.c.node_class_count
        self.release()
        self._list_resources()
        cdef bint has_totals = allocate_totals(&self.c.totals, shape.rows, self.c.is_narrow)
        self.c.blocks = <BestC*>PyMem_Malloc(shape.blocks * sizeof(BestC))
        self.c.groups = <RankC*>PyMem_Malloc(shape.groups * sizeof(RankC))
        self.c.stale = <int32_t*>PyMem_Malloc((shape.groups + 1) * sizeof(int32_t))
        self.c.is_stale = <unsigned char*>PyMem_Malloc(shape.groups)
        self.c.moves = <int32_t*>PyMem_Malloc(max(1, node_classes) * sizeof(int32_t))
        self.c.feasible_in = <Py_ssize_t*>PyMem_Malloc(max(1, node_classes) * sizeof(Py_ssize_t))
        self.c.by_node_class = <int32_t*>PyMem_Malloc((1 + node_classes) * sizeof(int32_t))
        if self.c.by_node_class is not NULL:
            self.c.by_node_class[0] = -1
            self.c.by_node_class += 1
        if (
            not has_totals or self.c.blocks is NULL or self.c.groups is NULL or self.c.stale is NULL
            or self.c.is_stale is NULL or self.c.moves is NULL or self.c.feasible_in is NULL
            or self.c.by_node_class is NULL
        ):
            self.release()
            raise MemoryError()
        self.c.shape = shape
        self.c.bytes = bytes_needed(&self.c, &shape)
        return 0

    cdef int _list_resources(self) except -1:
        """List the resources that are read of a row."""
        cdef Py_ssize_t i
        cdef Py_ssize_t most = self.c.demand.entry_count + self.c.demand.fit_count + self.c.demand.balanced_count
        self.c.resources = <resource_t*>PyMem_Malloc(max(1, most) * sizeof(resource_t))
        if self.c.resources is NULL:
            raise MemoryError()
        for i in range(self.c.demand.entry_count):
            _add_resource(&self.c, self.c.demand.entries[i].resource)
        for i in range(self.c.demand.fit_count):
            _add_resource(&self.c, self.c.demand.fit[i].resource)
        for i in range(self.c.demand.balanced_count):
            _add_resource(&self.c, self.c.demand.balanced[i].resource)
        return 0

    cdef int release(self) except -1:
        PyMem_Free(self.c.resources)
        release_totals(&self.c.totals)
        PyMem_Free(self.c.blocks)
        PyMem_Free(self.c.groups)
        PyMem_Free(self.c.stale)
        PyMem_Free(self.c.is_stale)
        PyMem_Free(self.c.moves)
        PyMem_Free(self.c.feasible_in)
        if self.c.by_node_class is not NULL:
            PyMem_Free(self.c.by_node_class - 1)
        self.c.blocks = NULL
        self.c.groups = NULL
        self.c.stale = NULL
        self.c.is_stale = NULL
        self.c.resources = NULL
        self.c.resource_count = 0
        self.c.moves = self.c.by_node_class = NULL
        self.c.feasible_in = NULL
        self.c.shape = shape_for(0)
        self.c.bytes = 0
        self.c.inside = NULL
        self.c.inside_count = 0
        self.c.confinement = 0
        self.c.must_rebuild = True
        return 0


cdef int _add_resource(ClassC* c, resource_t resource) except -1:
    cdef Py_ssize_t i
    for i in range(c.resource_count):
        if c.resources[i] == resource:
            return 0
    c.resources[c.resource_count] = resource
    c.resource_count += 1
    return 0


cdef TermC* _kept(const TermC* terms, Py_ssize_t count) except NULL:
    cdef TermC* kept = <TermC*>PyMem_Malloc(max(1, count) * sizeof(TermC))
    if kept is NULL:
        raise MemoryError()
    memcpy(kept, terms, count * sizeof(TermC))
    return kept


cdef ShapeC shape_for(row_t rows) noexcept nogil:
    """Return the shape of the memory for this many rows: whole chunks of rows, and whole groups of blocks."""
    cdef ShapeC shape
    shape.rows = (rows + CHUNK - 1) // CHUNK * CHUNK
    shape.groups = (rows + GROUP * BLOCK - 1) // (GROUP * BLOCK)
    shape.blocks = shape.groups * GROUP
    return shape


cdef Py_ssize_t bytes_needed(const ClassC* c, const ShapeC* shape) noexcept nogil:
    """Return how much memory a class takes with results for rows of this shape."""
    return (
        shape.rows * width_of(c.is_narrow)
        + shape.blocks * sizeof(BestC)
        + shape.groups * (sizeof(RankC) + sizeof(int32_t) + 1)
        + c.node_class_count * (2 * sizeof(int32_t) + sizeof(Py_ssize_t))
        + sizeof(ClassC)
    )
