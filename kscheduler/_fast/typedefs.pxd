# Every width, once. Signed throughout: a difference that goes below zero must stay comparable.

from libc.stdint cimport int32_t, int64_t, uint8_t

ctypedef Py_ssize_t row_t  # index of a node
ctypedef int32_t resource_t  # index of a resource column
ctypedef int32_t node_class_t  # index of a node class; -1 none
ctypedef int64_t amount_t  # milli-cores, bytes, pieces; within +-MAX_AMOUNT
ctypedef uint8_t code_t  # a row's verdict: feasible, or which filter rejected it
ctypedef int64_t detail_t  # reason number of a code's filter
ctypedef int64_t score_t  # raw within +-MAX_RAW, or a weighted total
