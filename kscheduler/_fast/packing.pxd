from kscheduler._fast.columns cimport NodeColumns


cdef bytes changed_rows(NodeColumns columns, Py_ssize_t since)
