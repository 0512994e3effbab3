"""Reads the answers that nearly every write gets, without an object for any of their parts."""

from cpython.bytearray cimport PyByteArray_AS_STRING
from libc.string cimport memcmp

cdef extern from "<string.h>" nogil:
    void* memmem(const void* text, size_t length, const void* part, size_t part_length)

cdef enum:
    LENGTH_BYTES = 16
    MOST_DIGITS = 9

cdef const char* LENGTH = "Content-Length: "


cdef inline const char* find(const char* start, const char* end, const char* part, size_t length) noexcept nogil:
    return <const char*>memmem(start, end - start, part, length)


cdef inline bint begins(const char* start, const char* end, const char* part, Py_ssize_t length) noexcept nogil:
    return end - start >= length and memcmp(start, part, length) == 0


cdef inline int number(const char* start, const char* end) noexcept nogil:
    # The digits as a number, or -1 if anything else is among them, or none.
    cdef int value = 0
    if end <= start or end - start > MOST_DIGITS:
        return -1
    while start < end:
        if start[0] < 48 or start[0] > 57:
            return -1
        value = 10 * value + (start[0] - 48)
        start += 1
    return value


def read_plain_answer(bytearray data not None, Py_ssize_t start, Py_ssize_t stop):
    """Return the status of the HTTP answer that begins at `start` in `data`, the length of its body, and its end.

    Nearly every write is answered in this form: a 2xx that is whole before `stop`, with headers as Go spells them,
    whose body is empty or begins as an apiserver's does. Returns None for all others. Raises ValueError if `data` is
    shorter.
    """
    if start < 0 or start > stop or stop > len(data):
        raise ValueError(f"expected 0 <= start <= stop <= {len(data)}, got {start} and {stop}")
    cdef const char* text = PyByteArray_AS_STRING(data) + start
    cdef const char* limit = text + (stop - start)
    cdef const char* end = find(text, limit, "\r\n\r\n", 4)
    cdef const char* line
    cdef int status, length = -1
    cdef bint has_length = False
    if end is NULL or not begins(text, limit, "HTTP/1.1 20", 11):
        return None
    status = number(text + 9, text + 12)
    if status < 0 or status == 204:
        return None
    end += 2
    line = find(text, end, "\r\n", 2)
    while line is not NULL:
        line += 2
        if begins(line, end, "Connection:", 11) or begins(line, end, "Transfer-Encoding:", 18):
            return None
        if begins(line, end, "Retry-After:", 12):
            return None
        if not has_length and begins(line, end, LENGTH, LENGTH_BYTES):
            has_length = True
            length = number(line + LENGTH_BYTES, find(line, end, "\r\n", 2))
        line = find(line, end, "\r\n", 2)
    end += 2
    if length < 0 or limit - end < length:
        return None
    if length and end[0] != 123 and not begins(end, end + length, "k8s\0", 4):  # "{", or the protobuf's magic
        return None
    return status, length, start + (end - text) + length
