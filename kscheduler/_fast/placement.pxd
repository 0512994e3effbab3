from libc.stdint cimport int32_t, uint64_t

from kscheduler._fast.classes cimport ClassC, PodClass
from kscheduler._fast.columns cimport NodeColumns
from kscheduler._fast.row_ranking cimport TableC
from kscheduler._fast.typedefs cimport amount_t, node_class_t, row_t


cdef class Placer:
    cdef readonly NodeColumns columns
    cdef readonly Py_ssize_t max_bytes
    cdef readonly Py_ssize_t held_bytes  # size of the caches of all classes
    cdef readonly Py_ssize_t rebuilds  # how often a class had to score every row
    cdef readonly Py_ssize_t passes  # in how many passes over the rows they did so
    cdef int threads
    cdef int kept
    cdef uint64_t clock  # number of uses, to find the least recently used class
    cdef set held  # classes that have a cache
    cdef TableC table
    cdef double* parts  # [thread] buffer for a chunk
    cdef unsigned char* filled  # [thread][resource] what the buffer holds
    cdef Py_ssize_t part_resources
    # The ring of changed rows as a chunk: the amounts of each changed row when it was copied, or later.
    cdef double* recent
    cdef node_class_t* recent_node_classes  # [change & ring_mask]
    cdef Py_ssize_t recent_length
    cdef Py_ssize_t recent_resources
    cdef Py_ssize_t copied  # number of changes copied
    cdef Py_ssize_t large_until  # only changes before this one have an amount that is too large for doubles
    cdef Py_ssize_t moved_until  # only changes before this one added or freed rows, or changed a node class
    # The rows that pods may be placed on, for now.
    cdef object inside  # bytes that `inside_rows` points to
    cdef const unsigned char* inside_rows  # [row] 1: inside; NULL: all rows are
    cdef row_t inside_count  # rows past it are outside
    cdef uint64_t confinement  # the number of the present confinement; 0: none
    cdef uint64_t confinements  # how many there have been

    cdef PodClass _check_class(self, object candidate)
    cdef int _catch_up(self, PodClass pod_class) except -1
    cdef int make_ready(self, list pods, Py_ssize_t at, int outcome) except -1
    cdef int _raise_bad_node_class(self, PodClass pod_class) except -1
    cdef int prepare(self, PodClass pod_class) except -1
    cdef int prepare_ahead(self, list pods, Py_ssize_t at) except -1
    cdef Py_ssize_t most_bytes(self, Py_ssize_t needed) noexcept
    cdef int make_room(self, Py_ssize_t needed) except -1
    cdef int look(self) except -1
    cdef bint must_ask(self, const ClassC* c) except? -1 nogil
    cdef int fetch_changed(self, ClassC* c) except? -2 nogil
    cdef amount_t room_of(self, const ClassC* c, row_t row) noexcept nogil
    cdef int catch_up(self, ClassC* c, ClassC** others, Py_ssize_t other_count) except? -2 nogil
    cdef int note_changes(self, ClassC* c) except? -2 nogil
    cdef void follow_confinement(self, ClassC* c) noexcept nogil
    cdef Py_ssize_t gather(
        self, ClassC* first, ClassC** others, Py_ssize_t other_count, ClassC** together
    ) except? -2 nogil
    cdef int rebuild(self, ClassC** classes, Py_ssize_t count) except? -2 nogil
    cdef int settle(self, ClassC* c, bint has_alone) except? -2 nogil
    cdef int replay(self, ClassC* c) except? -2 nogil
    cdef int replay_amounts(self, ClassC* c) except? -2 nogil
    cdef int replay_all(self, ClassC* c) except? -2 nogil
    cdef int copy_changes(self) except? -2 nogil
    cdef int32_t score_row(self, const ClassC* c, row_t row) except? -4 nogil
    cdef Py_ssize_t run(
        self, ClassC** classes, Py_ssize_t start, Py_ssize_t count,
        const unsigned long long* bits, Py_ssize_t* used_bits, int* rows, int* feasible, int* outcome,
    ) except? -2 nogil
