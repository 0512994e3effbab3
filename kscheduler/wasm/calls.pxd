"""What the calls into every engine have in common; the classes' methods are in calls.pyx.

A value of either engine's C API has 16 bytes and its number in one half of them, so a pointer to the first number
steps over two numbers from one value to the next.
"""

cimport cython
from cpython.long cimport PyLong_AsUnsignedLongLongMask
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from kscheduler.wasm.clocks cimport sem_t

cdef enum:
    MAX_NUMBERS = 16  # parameters of one function
    STEP = 2  # numbers from one value to the next
    EXTERN_FUNC = 0  # wasm_externkind_t
    EXTERN_MEMORY = 3
    # linkage.Link.fail's codes
    NO_CODE = -1  # a trap, or an exception of a host function
    OUTSIDE = -2
    UNUSABLE = -3
    OVERDUE = -4  # the CPU time of the call is used up
    STALLED = -5  # the call took far longer on the wall clock, but mostly waited
    ENDING = -6

ctypedef union NumberC:
    int32_t i32
    int64_t i64
    float f32
    double f64

cdef struct TimesC:
    bint is_frozen  # for tests: the clocks are stopped at these times
    long long cpu_ns
    long long wall_ns

cdef struct SpentC:
    long long deadline_ns  # CPU time
    long long patience_ns  # wall time
    long long cpu_ns  # at the first tick within the call
    long long wall_ns
    int verdict  # OVERDUE, STALLED or ENDING if the call was ended, else 0


cdef class Ticker:
    cdef sem_t wake
    cdef int active  # calls that run now
    cdef int parked  # the thread sleeps until woken
    cdef int stopping
    cdef bint started
    cdef long long tick_ns
    cdef TimesC times
    cdef str name
    cdef object thread
    cdef readonly double tick_s

    cdef int start(self) except -1
    cdef int enter(self) except -1
    cdef void tick(self) noexcept nogil
    cdef void tick_until_stopped(self) noexcept nogil


cdef class Guest:
    cdef Ticker ticker
    cdef object link
    cdef dict functions  # export -> Function
    cdef list bindings
    cdef object pending  # the exception of a host function in the current call
    cdef bint running
    cdef bint broken
    cdef bint may_move  # a call may move the memory
    cdef int views
    cdef SpentC spent
    cdef double seconds
    cdef readonly object limits
    cdef readonly object output
    cdef public object data
    cdef object __weakref__

    # --- the engine's own ---
    cdef size_t memory_size(self) noexcept
    cdef uint8_t* memory_start(self) noexcept
    cdef object memory_owner(self)
    cdef Function find(self, str export)
    cdef object invoke(self, Function function, tuple args)

    cdef HostBinding bind(self, object function, str params, str results)
    cdef int enter(self, str where) except -1
    cdef int leave(self) except -1
    cdef int fail(self, str where, str text) except -1
    cdef int copy(self, long long address, const uint8_t* data, Py_ssize_t size) except -1
    cdef uint8_t* at(self, long long address, long long size) except? NULL
    cdef int check_usable(self, str where) except -1


cdef class Function:
    cdef Guest guest
    cdef bytes params
    cdef char result  # 0 for none
    cdef str name

    cdef int describe(self, Guest guest, str name, str params, str results) except -1


@cython.final
cdef class HostBinding:
    cdef Guest guest
    cdef object function
    cdef bytes params
    cdef char result


# --- numbers, inlined into each engine's calls ------------------------------------------------------------------------

cdef inline object number_of(NumberC number, char kind):
    if kind == 0:
        return None
    if kind == b"i":
        return number.i32
    if kind == b"I":
        return number.i64
    if kind == b"f":
        return number.f32
    return number.f64


cdef inline int set_number(NumberC* number, char kind, value) except -1:
    if kind == b"i":
        number.i32 = <int32_t><uint32_t>PyLong_AsUnsignedLongLongMask(value)
    elif kind == b"I":
        number.i64 = <int64_t>PyLong_AsUnsignedLongLongMask(value)
    elif kind == b"f":
        number.f32 = value
    else:
        number.f64 = value
    return 0


cdef inline int set_arguments(NumberC* numbers, Function function, tuple args) except -1:
    cdef const char* kinds = function.params
    cdef Py_ssize_t index, count = len(function.params)
    if len(args) != count:
        raise TypeError(f"{function.name} takes {count} numbers, got {len(args)}")
    for index in range(count):
        set_number(&numbers[STEP * index], kinds[index], args[index])
    return 0


cdef inline object ask_host(HostBinding binding, NumberC* numbers):
    """Call the host function with the guest's numbers; the usual parameter counts avoid making a tuple."""
    cdef const char* kinds = binding.params
    cdef Py_ssize_t index, count = len(binding.params)
    if count == 2:
        return binding.function(binding.guest, number_of(numbers[0], kinds[0]), number_of(numbers[STEP], kinds[1]))
    if count == 4:
        return binding.function(
            binding.guest,
            number_of(numbers[0], kinds[0]),
            number_of(numbers[STEP], kinds[1]),
            number_of(numbers[2 * STEP], kinds[2]),
            number_of(numbers[3 * STEP], kinds[3]),
        )
    return binding.function(
        binding.guest, *[number_of(numbers[STEP * index], kinds[index]) for index in range(count)]
    )


cdef inline int set_answer(NumberC* number, char kind, answer) except -1:
    if kind == 0:
        if answer is not None:
            raise TypeError(f"a host function without a result returned {answer!r}")
        return 0
    if answer is None:
        raise TypeError("a host function with a result returned None")
    return set_number(number, kind, answer)
