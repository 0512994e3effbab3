"""Adds deadlines and a memory limit to a guest, for an engine that has neither: a check in every loop and function.

The C API of WebAssembly has no deadline and no limit of memory. wasmer's own metering counts operators, which is not
time (filling 64 MiB is one operator), and ends a call for good when its points are used up. So the module is rewritten
before it is compiled, after the engine has validated it:

    memory, exported      a page for the host beside the guest's memory: at 0 the stop flag, at 4 the limit in pages
    each function, loop   i32.const 0; i32.atomic.load $page; if; unreachable; end
    memory.grow           a call of an added function, which returns -1 beyond the limit
    tables                a maximum, MAX_TABLE_ENTRIES for all of them together
    start section         an export, so that the host calls it when the limit is set and a deadline runs

Everything is appended, so no index of a function, type or memory changes, and names of functions stay right. A guest
cannot access the page: its own code is valid without it. The load is atomic since the host stores at any time; a
compiler may move a load that is not atomic out of a loop.

A loop that is misread as another instruction would have no check. So each operand is read as the engine reads it, and
for operands with several encodings only the usual one is accepted.
"""

from kscheduler.wasm.engine import FuncType

cimport cython
from libc.stdint cimport uint8_t, uint32_t, uint64_t

# Names of added exports; a module that has one of them itself is refused as a duplicate.
PAGE_EXPORT = "\0kscheduler.page"
START_EXPORT = "\0kscheduler.start"
MAX_TABLE_ENTRIES = 100_000  # of all tables of a guest, more than any toolchain makes

cdef enum:
    CUSTOM = 0
    TYPE = 1
    IMPORT = 2
    FUNCTION = 3
    TABLE = 4
    MEMORY = 5
    GLOBAL = 6
    EXPORT = 7
    START = 8
    ELEMENT = 9
    CODE = 10
    DATA = 11
    DATA_COUNT = 12

# The order of sections in a module; DATA_COUNT comes before CODE.
_ORDER = {TYPE: 1, IMPORT: 2, FUNCTION: 3, TABLE: 4, MEMORY: 5, GLOBAL: 7, EXPORT: 8, START: 9, ELEMENT: 10,
          DATA_COUNT: 11, CODE: 12, DATA: 13}

cdef enum:
    HAS_MAXIMUM = 1
    OP_BLOCK = 0x02
    OP_LOOP = 0x03
    OP_IF = 0x04
    OP_MEMORY_GROW = 0x40


class Unsupported(ValueError):
    """The module uses a feature that guests must not use; the text names it."""


def instrumented(const uint8_t[::1] wasm not None, imports, memories) -> bytes:
    """Return the rewritten module. `wasm` must be valid; `imports` and `memories` are those of sections.read_sections.

    Raises Unsupported for instructions, types and memories beyond what toolchains make by default.
    """
    if len(memories) > 1:
        raise Unsupported(f"expected at most one memory, got {len(memories)}")
    # 1. The sections, and the indices that the added parts refer to.
    sections = _sections(wasm)
    bodies = {identity: body for identity, body in sections if identity != CUSTOM}
    cdef uint32_t imported = sum(isinstance(each.type, FuncType) for each in imports)
    cdef uint32_t functions = imported + _count(bodies.get(FUNCTION))
    cdef uint32_t page = len(memories)
    has_code = _count(bodies.get(CODE)) > 0
    has_memory = page > 0
    # 2. Additions and changes in each section.
    if has_code:
        if has_memory:
            bodies[TYPE] = _with_entry(bodies.get(TYPE), b"\x60\x01\x7f\x01\x7f")
            bodies[FUNCTION] = _with_entry(bodies[FUNCTION], _leb(_count(bodies[TYPE]) - 1))
        bodies[CODE] = _code(bodies[CODE], functions, page, _grow_function(page) if has_memory else b"")
    if TABLE in bodies:
        bodies[TABLE] = _tables(bodies[TABLE])
    if MEMORY in bodies:
        _check_memory(bodies[MEMORY])
    bodies[MEMORY] = _with_entry(bodies.get(MEMORY), b"\x01\x01\x01")
    bodies[EXPORT] = _with_entry(bodies.get(EXPORT), _name(PAGE_EXPORT) + b"\x02" + _leb(page))
    if START in bodies:
        bodies[EXPORT] = _with_entry(bodies[EXPORT], _name(START_EXPORT) + b"\x00" + bytes(bodies.pop(START)))
    # 3. All sections in order, and the names; other custom sections are dropped, as they may refer to code positions.
    parts = [bytes(wasm[:8])]
    for identity in sorted(bodies, key=_ORDER.__getitem__):
        parts.append(_section(identity, bodies[identity]))
    parts += [_section(CUSTOM, body) for identity, body in sections if identity == CUSTOM and _is_names(body)]
    return b"".join(parts)


def table_minimums(const uint8_t[::1] wasm not None) -> list:
    """Return the initial number of entries of each table of a valid module."""
    for identity, body in _sections(wasm):
        if identity == TABLE:
            return [minimum for _, minimum, _ in _read_tables(body)]
    return []


# --- sections ---------------------------------------------------------------------------------------------------------


cdef list _sections(const uint8_t[::1] wasm):
    """Return (id, body) of each section of a module, in order."""
    cdef Reader reader = Reader(wasm)
    found = []
    reader.at = 8
    while reader.at < reader.end:
        identity = reader.byte()
        if identity != CUSTOM and identity not in _ORDER:
            raise Unsupported(f"a section of number {identity}")
        found.append((identity, reader.take(reader.number())))
    return found


cdef bytes _section(int identity, body):
    return bytes([identity]) + _leb(len(body)) + bytes(body)


cdef uint32_t _count(body) except? 0xFFFFFFFF:
    return Reader(body).number() if body is not None else 0


cdef bytes _with_entry(body, bytes entry):
    """Return the body of a section that is a vector, with one more entry; `body` None for an absent section."""
    if body is None:
        return b"\x01" + entry
    cdef Reader reader = Reader(body)
    cdef uint32_t count = reader.number()
    return _leb(count + 1) + bytes(body[reader.at :]) + entry


cdef list _read_tables(body):
    """Return (type, minimum, maximum or None) of each table in the body of a table section."""
    cdef Reader reader = Reader(body)
    cdef uint32_t index, minimum
    found = []
    for index in range(reader.number()):
        kind, flags = reader.byte(), reader.byte()
        if kind not in (0x70, 0x6F) or flags & ~HAS_MAXIMUM:
            raise Unsupported("a table of another kind than functions or references")
        minimum = reader.number()
        found.append((kind, minimum, reader.number() if flags & HAS_MAXIMUM else None))
    return found


cdef bytes _tables(body):
    """Return the table section with a maximum for each table, so that all together have at most MAX_TABLE_ENTRIES.

    Each may grow by an equal share of the entries left. Modules that begin with more are refused at instantiation.
    """
    tables = _read_tables(body)
    share = max(0, MAX_TABLE_ENTRIES - sum(minimum for _, minimum, _ in tables)) // max(1, len(tables))
    parts = [_leb(len(tables))]
    for kind, minimum, maximum in tables:
        bound = minimum + share
        if maximum is not None:
            bound = min(maximum, bound)
        parts.append(bytes([kind, HAS_MAXIMUM]) + _leb(minimum) + _leb(bound))
    return b"".join(parts)


cdef int _check_memory(body) except -1:
    cdef Reader reader = Reader(body)
    cdef uint32_t index
    for index in range(reader.number()):
        if reader.byte() & ~HAS_MAXIMUM:
            raise Unsupported("a memory that is shared or has 64 bits")
        break
    return 0


cdef bint _is_names(const uint8_t[::1] body) except -1:
    return bytes(body[:5]) == b"\x04name"


cdef bytes _name(str text):
    encoded = text.encode()
    return _leb(len(encoded)) + encoded


cdef bytes _leb(uint64_t value):
    """Encode a number as unsigned LEB128."""
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


# --- code -------------------------------------------------------------------------------------------------------------


cdef bytes _memory_argument(uint32_t page, int alignment):
    """Return the memory argument of a load from the host's page at the address on the stack; `alignment` is log2."""
    if page == 0:
        return bytes([alignment, 0])
    return bytes([alignment | 0x40]) + _leb(page) + b"\0"


cdef bytes _check(uint32_t page):
    return b"\x41\x00" + b"\xfe\x10" + _memory_argument(page, 2) + b"\x04\x40" + b"\x00" + b"\x0b"


cdef bytes _grow_function(uint32_t page):
    """Return a function (pages: i32) -> i32 like memory.grow, but -1 if the limit in the host's page were exceeded."""
    body = (
        b"\x00"  # no locals
        b"\x20\x00\xad"  # local.get 0; i64.extend_i32_u
        b"\x3f\x00\xad"  # memory.size; i64.extend_i32_u
        b"\x7c"  # i64.add
        b"\x41\x04\x35" + _memory_argument(page, 2) +  # i32.const 4; i64.load32_u
        b"\x56"  # i64.gt_u
        b"\x04\x7f"  # if (result i32)
        b"\x41\x7f"  # i32.const -1
        b"\x05"  # else
        b"\x20\x00\x40\x00"  # local.get 0; memory.grow
        b"\x0b\x0b"
    )
    return _leb(len(body)) + body


cdef bytes _code(section, uint32_t grow_index, uint32_t page, bytes more):
    cdef Reader reader = Reader(section)
    cdef uint32_t count = reader.number()
    cdef uint32_t index
    check, grow = _check(page), b"\x10" + _leb(grow_index)
    parts = [_leb(count + (1 if more else 0))]
    for index in range(count):
        body = _function(reader.take(reader.number()), check, grow)
        parts.append(_leb(len(body)))
        parts.append(body)
    parts.append(more)
    return b"".join(parts)


cdef bytearray _function(const uint8_t[::1] body, bytes check, bytes grow):
    """Rewrite one function: add the check at its beginning and in each loop, and replace each memory.grow."""
    cdef Reader reader = Reader(body)
    cdef bytearray out = bytearray()
    cdef Py_ssize_t copied = 0  # the bytes before this position are in `out`
    cdef Py_ssize_t place
    cdef int code
    reader.skip_locals()
    out += body[:reader.at]
    out += check
    copied = reader.at
    while reader.at < reader.end:
        place = reader.at
        code = reader.byte()
        if code == OP_LOOP:
            reader.skip_block_type()
            out += body[copied : reader.at]
            out += check
            copied = reader.at
        elif code == OP_MEMORY_GROW:
            reader.number()
            out += body[copied:place]
            out += grow
            copied = reader.at
        else:
            reader.skip_operands(code)
    out += body[copied:]
    return out


@cython.final
cdef class Reader:
    """Reads bytes of a valid module from a position; raises Unsupported if they end too early."""

    cdef const uint8_t[::1] data
    cdef Py_ssize_t at
    cdef Py_ssize_t end

    def __init__(self, data):
        self.data = data
        self.at = 0
        self.end = len(data)

    cdef int byte(self) except -1:
        if self.at >= self.end:
            raise Unsupported("a section that ends too early")
        self.at += 1
        return self.data[self.at - 1]

    cdef const uint8_t[::1] take(self, Py_ssize_t size):
        self.skip(size)
        return self.data[self.at - size : self.at]

    cdef int skip(self, Py_ssize_t size) except -1:
        if size > self.end - self.at:
            raise Unsupported("a section that ends too early")
        self.at += size
        return 0

    cdef uint32_t number(self) except? 0xFFFFFFFF:
        """Read an unsigned LEB128 of 32 bits."""
        cdef uint64_t value = 0
        cdef int shift = 0
        cdef int byte
        while shift < 35:
            byte = self.byte()
            value |= <uint64_t>(byte & 0x7F) << shift
            if not byte & 0x80:
                return <uint32_t>value
            shift += 7
        raise Unsupported("a number of more than 32 bits")

    cdef int skip_signed(self) except -1:
        """Skip a signed LEB128 of any width."""
        while self.byte() & 0x80:
            pass
        return 0

    cdef int skip_numbers(self, int count) except -1:
        cdef int index
        for index in range(count):
            self.number()
        return 0

    cdef int skip_memory_argument(self) except -1:
        """Skip alignment and offset. Bit 6 of the alignment, which means that a memory index follows, is refused."""
        if self.number() > 0x3F:
            raise Unsupported("a memory argument that names its memory")
        return self.skip_signed()

    cdef int skip_block_type(self) except -1:
        """Skip a block type: empty, one value type, or a type index."""
        cdef int first = self.byte()
        if first >= 0x80:
            return self.skip_signed()
        if first > 0x40:
            self.at -= 1
            return self.skip_value_type()
        return 0

    cdef int skip_value_type(self) except -1:
        """Skip a value type of one byte: a number, a vector, or a function or external reference; refuse others."""
        cdef int code = self.byte()
        if code not in (0x6F, 0x70) and not 0x7B <= code <= 0x7F:
            raise Unsupported(f"the type {code:02x}")
        return 0

    cdef int skip_locals(self) except -1:
        cdef uint32_t index
        for index in range(self.number()):
            self.number()
            self.skip_value_type()
        return 0

    cdef int skip_operands(self, int code) except -1:
        """Skip the operands of an instruction; refuse unknown instructions."""
        cdef uint32_t index
        if 0x45 <= code <= 0xC4 or code in (0x00, 0x01, 0x05, 0x0B, 0x0F, 0x1A, 0x1B, 0xD1):
            return 0
        if 0x28 <= code <= 0x3E:
            return self.skip_memory_argument()
        if code in (0x0C, 0x0D, 0x10, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x3F, 0xD2):
            return self.skip_numbers(1)
        if code in (0x41, 0x42):
            return self.skip_signed()
        if code == 0xD0:  # ref.null
            return self.skip_value_type()
        if code in (OP_BLOCK, OP_IF):
            return self.skip_block_type()
        if code == 0x11:
            return self.skip_numbers(2)
        if code == 0x43:
            return self.skip(4)
        if code == 0x44:
            return self.skip(8)
        if code == 0x0E:  # br_table
            for index in range(self.number()):
                self.number()
            return self.skip_numbers(1)
        if code == 0x1C:  # select with types
            for index in range(self.number()):
                self.skip_value_type()
            return 0
        if code == 0xFC:
            return self._skip_bulk()
        if code == 0xFD:
            return self._skip_vector()
        raise Unsupported(f"the instruction {code:02x}")

    cdef int _skip_bulk(self) except -1:
        cdef uint32_t code = self.number()
        if code <= 7:
            return 0
        if code in (8, 10, 12, 14):
            return self.skip_numbers(2)
        if code in (9, 11, 13, 15, 16, 17):
            return self.skip_numbers(1)
        raise Unsupported(f"the instruction fc {code}")

    cdef int _skip_vector(self) except -1:
        cdef uint32_t code = self.number()
        if code <= 11 or code in (92, 93):
            return self.skip_memory_argument()
        if code in (12, 13):
            return self.skip(16)
        if 21 <= code <= 34:
            return self.skip(1)
        if 84 <= code <= 91:
            self.skip_memory_argument()
            return self.skip(1)
        if code <= 255:
            return 0
        raise Unsupported(f"the instruction fd {code}")
