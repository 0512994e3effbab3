"""The JSON texts of pods without the names that are each pod's own: keys by which equal pods are found undecoded."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t
from libc.string cimport memchr, memcpy

from kscheduler._fast.codes cimport MAX_TEXT

cdef extern from "<string.h>" nogil:
    void* memmem(const void* text, size_t length, const void* part, size_t part_length)

cdef enum:
    NODE_BYTES = 12
    TOKEN_BYTES = 16
    SPARE = 64  # for what is put between the parts

cdef const char* NODE = '"nodeName":"'  # quotes within a text are escaped, so this begins a field's value
cdef const char* TOKEN = "kube-api-access-"  # how the names of volumes with a service account's token begin
cdef char PLACE = 1  # of such a name: no JSON holds this byte
cdef char BETWEEN = 0  # nor this


cdef struct TextC:
    # A text that is being written.
    char* bytes
    Py_ssize_t length


cdef inline void put(TextC* text, const char* part, Py_ssize_t length) noexcept nogil:
    if length > 0:
        memcpy(text.bytes + text.length, part, length)
        text.length += length


cdef inline const char* name_end(const char* start, const char* end) noexcept nogil:
    cdef const char* found = <const char*>memchr(start, 34, end - start)  # a quote
    return end if found is NULL else found


def cut_names(object spec, object labels, object annotations, object owners):
    """Return (key, name of the pod's node, name of its service account token volume), from a pod's JSON texts.

    The key holds the texts without the first node's name, which is at one position in all texts with this key, and with
    a mark where the volume's name was. A missing name is b"". Raises ValueError for more than MAX_TEXT bytes.
    """
    cdef Py_buffer parts[4]
    cdef int held = 0
    cdef Py_ssize_t length = 0
    try:
        for part in (labels, annotations, owners, spec):
            PyObject_GetBuffer(part, &parts[held], PyBUF_SIMPLE)
            length += parts[held].len
            held += 1
        if length > MAX_TEXT:
            raise ValueError(f"expected texts of at most {MAX_TEXT} bytes, got {length}")
        return cut(parts)
    finally:
        while held:
            held -= 1
            PyBuffer_Release(&parts[held])


cdef tuple cut(const Py_buffer* parts):
    cdef char key_bytes[MAX_TEXT + SPARE]
    cdef char spec_bytes[MAX_TEXT]
    cdef TextC key, spec
    cdef const char* start = <const char*>parts[3].buf
    cdef const char* end = start + parts[3].len
    cdef const char* found
    cdef const char* at
    cdef const char* token = NULL
    cdef Py_ssize_t token_length = 0
    cdef int32_t place = -1
    cdef int i
    key.bytes, key.length, spec.bytes, spec.length = key_bytes, 0, spec_bytes, 0
    node_name, token_name = b"", b""
    # 1. The spec with a mark for each name of the volume.
    at = start
    found = <const char*>memmem(at, end - at, TOKEN, TOKEN_BYTES)
    if found is not NULL:
        token = found
        token_length = name_end(found, end) - found
        token_name = PyBytes_FromStringAndSize(token, token_length)
    while found is not NULL:
        put(&spec, at, found - at)
        put(&spec, &PLACE, 1)
        at = found + token_length
        found = <const char*>memmem(at, end - at, token, token_length)
    put(&spec, at, end - at)
    # 2. The place of the node's name in it, and what goes before the spec.
    start = spec.bytes
    end = start + spec.length
    found = <const char*>memmem(start, end - start, NODE, NODE_BYTES)
    if found is not NULL:
        place = <int32_t>(found - start)
    put(&key, <const char*>&place, 4)
    for i in range(3):
        put(&key, <const char*>parts[i].buf, parts[i].len)
        put(&key, &BETWEEN, 1)
    # 3. The spec without the node's name.
    if found is NULL:
        put(&key, start, end - start)
    else:
        found += NODE_BYTES
        at = name_end(found, end)
        node_name = PyBytes_FromStringAndSize(found, at - found)
        put(&key, start, found - start)
        put(&key, at, end - at)
    return PyBytes_FromStringAndSize(key.bytes, key.length), node_name, token_name
