# How NodeResourcesFit scores: what is free, what is used, or what is used through a broken line.

cdef enum Strategy:
    LEAST
    MOST
    RATIO
