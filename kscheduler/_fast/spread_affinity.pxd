# Invariants. Tallies that terms point to are kept alive by `tallies`. While a pod is decided, `rows` are those of the
# table, buffers have room for as many, and a row that is out is -1 in `keep`, whatever is added to the others.

from libc.stdint cimport int32_t

from kscheduler._fast.answers cimport RowAnswers
from kscheduler._fast.classes cimport ClassC
from kscheduler._fast.placement cimport Placer
from kscheduler._fast.tallies cimport DomainTally, TallyC
from kscheduler._fast.typedefs cimport node_class_t, row_t

cdef enum Rule:
    EVEN  # the domain's count does not exceed the lowest by too much
    NEEDED  # the domain's count is above 0
    FORBIDDEN  # the domain's count is 0


cdef enum TermKind:
    NOTHING
    NEAR  # by weighted sums, the highest is best
    SPREAD  # by sums, weighted by the number of domains, the lowest is best
    ANSWERED  # by a plugin's answers about rows


cdef struct RuleC:
    Rule kind
    TallyC* tally
    int32_t max_skew
    int32_t min_domains
    int32_t own


cdef struct TermC:
    TallyC* tally
    int32_t weight
    int32_t max_skew
    bint counts_missing  # rows without a domain count as one more domain


cdef class JoinTerms:
    cdef RuleC* rules
    cdef Py_ssize_t rule_count
    cdef TermC* tallied
    cdef Py_ssize_t tallied_count
    cdef TermKind tallied_term
    cdef bint may_be_first
    cdef int32_t weight
    cdef list tallies  # that rules and tallied point to
    cdef int32_t* unscored  # [row] -1: takes no part in SPREAD, else 0; NULL: all take part
    cdef row_t unscored_rows
    cdef RowAnswers answers  # for ANSWERED
    cdef bint reverse  # the lowest answer is best

    cdef RuleC* _rule(self, DomainTally tally) except NULL
    cdef TermC* _add_tallied(self, DomainTally tally, TermKind tallied_term) except NULL
    cdef bint _can_tell(self, row_t rows) noexcept nogil
    cdef bint _is_first(self) noexcept nogil
    cdef int _rule_out(self, Joiner joiner) except -1 nogil
    cdef int _score(self, Joiner joiner) except -1 nogil
    cdef int _score_near(self, Joiner joiner) except -1 nogil
    cdef int _score_spread(self, Joiner joiner) except -1 nogil
    cdef int _score_answers(self, Joiner joiner) except -1 nogil


cdef class Joiner:
    cdef readonly Placer placer
    cdef row_t rows
    cdef row_t capacity
    cdef Py_ssize_t table_size  # domains
    cdef Py_ssize_t node_class_capacity
    # Buffers for the current pod's decision.
    cdef int32_t* keep  # [row] total of a feasible row, -1 of others
    cdef int32_t* scored  # [row] negative: takes no part in scoring
    cdef int32_t* raws  # [row]
    cdef double* values  # [row]
    cdef int32_t* table  # [slot] index -1 is for rows without a slot
    cdef double* values_table  # [slot] likewise
    cdef unsigned char* marks  # [slot] likewise
    cdef int32_t* moves  # [node class]
    cdef unsigned char* seen  # [node class]
    cdef int32_t feasible
    cdef int32_t best
    cdef int32_t ties

    cdef int _hold(self, row_t rows, Py_ssize_t slots, Py_ssize_t node_classes) except -1
    cdef int _release(self) except -1
    cdef int _renormalize(self, ClassC* c, const node_class_t* node_classes) except -1 nogil
    cdef Py_ssize_t _count_domains(self, const TermC* tallied_term) noexcept nogil
