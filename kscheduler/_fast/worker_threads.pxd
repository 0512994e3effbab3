# Threads that stand by to do part of a kernel's work: each is started when it is first wanted, then sleeps in between.
#
# They are of the process: helper number i is of everybody, one at a time. Whoever finds it busy does without it, so
# what is handed over must be work that its owner does itself if nobody else does. No Python objects, no GIL.

ctypedef void (*work_t)(void* part) noexcept nogil

cdef bint hand_over(Py_ssize_t helper, work_t work, void* part) noexcept nogil
cdef bint take_back(Py_ssize_t helper) noexcept nogil
