# Worker threads for parts of a kernel's work: each is started when it is first wanted, and sleeps between parts.
#
# They belong to the process, and a worker does one part at a time. A kernel that finds it busy does without it, so
# what is handed over must be work that its owner does itself otherwise. No Python objects, no GIL.

ctypedef void (*work_t)(void* part) noexcept nogil

cdef bint hand_over(Py_ssize_t worker, work_t work, void* part) noexcept nogil
cdef bint take_back(Py_ssize_t worker) noexcept nogil
