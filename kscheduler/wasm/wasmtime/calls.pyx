"""Calls into wasmtime's C API without the GIL, and back from a guest into Python with it.

`bind` finds the library's functions at run time, so that building needs no wasmtime. The structs below are opaque
bytes of the sizes that layout.py checks. An unchecked call does not check types: a Function is only made from the type
that the compiled module itself declares.

Every failure ends in `linked.fail`, which raises; this module only passes it a code, a text and a pending exception.

A deadline is CPU time of the calling thread, so that a guest does not fail because the machine is busy. Reading that
clock takes longer than a short call: so it is read at the first tick within a call, from which time counts, and when
the deadline could have come.
"""

import threading

from kscheduler.wasm.engine import patience_s

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.long cimport PyLong_AsUnsignedLongLongMask
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from kscheduler.wasm.clocks cimport (
    ks_add,
    ks_cpu_ns,
    ks_load,
    ks_now_ns,
    ks_sleep_until_ns,
    ks_swap,
    ks_wait,
    sem_destroy,
    sem_init,
    sem_post,
    sem_t,
)

cdef extern from "<dlfcn.h>":
    void* dlsym(void* handle, const char* name) nogil

cdef enum:
    MAX_NUMBERS = 16  # parameters of one function
    EXTERN_MEMORY = 3
    _OVERDUE = -4
    _STALLED = -5

# linked.fail's codes
NO_CODE = -1  # a trap, or an exception of a host function
OUTSIDE = -2
UNUSABLE = -3
OVERDUE = _OVERDUE  # the CPU time of the call is used up
STALLED = _STALLED  # the call took far longer on the wall clock, but mostly waited

cdef struct FuncC:
    uint64_t words[2]

cdef struct MemoryC:
    uint64_t words[3]

cdef struct ExternC:
    uint8_t kind
    uint64_t words[3]

cdef struct TextC:
    size_t size
    char* data

ctypedef union NumberC:
    int32_t i32
    int64_t i64
    float f32
    double f64
    uint64_t words[2]

cdef struct TimesC:
    bint is_frozen  # for tests: the clocks are stopped at these times
    long long cpu_ns
    long long wall_ns

cdef struct SpentC:
    TimesC* times  # the times of the epoch
    long long tick_ns
    long long deadline_ns  # CPU time
    long long patience_ns  # wall time
    bint is_begun  # a tick came since the call began; the two times below are those of the first tick
    long long cpu_ns
    long long wall_ns
    int verdict  # OVERDUE or STALLED if the call was ended, else 0

# struct -> bytes, to be compared with the library's own
SIZES = {
    "wasmtime_func": sizeof(FuncC),
    "wasmtime_memory": sizeof(MemoryC),
    "wasmtime_extern": sizeof(ExternC),
    "wasmtime_val_raw": sizeof(NumberC),
    "wasm_byte_vec_t": sizeof(TextC),
}

cdef struct LibraryC:
    void* (*func_call_unchecked)(
        void* context, const FuncC* func, NumberC* numbers, size_t count, void** trap
    ) noexcept nogil
    void (*set_epoch_deadline)(void* context, uint64_t ticks) noexcept nogil
    void (*increment_epoch)(void* engine) noexcept nogil
    uint8_t* (*memory_data)(void* context, const MemoryC* memory) noexcept nogil
    size_t (*memory_data_size)(void* context, const MemoryC* memory) noexcept nogil
    uint8_t (*caller_export_get)(void* caller, const char* name, size_t size, ExternC* item) noexcept nogil
    void* (*trap_new)(const char* text, size_t size) noexcept nogil
    void (*trap_message)(const void* trap, TextC* text) noexcept nogil
    void (*trap_delete)(void* trap) noexcept nogil
    void (*error_message)(const void* error, TextC* text) noexcept nogil
    void (*error_delete)(void* error) noexcept nogil
    void (*text_delete)(TextC* text) noexcept nogil
    void* (*error_new)(const char* text) noexcept nogil

cdef LibraryC library

# In the order of LibraryC, whose fields are all pointers.
_SYMBOLS = (
    b"wasmtime_func_call_unchecked", b"wasmtime_context_set_epoch_deadline", b"wasmtime_engine_increment_epoch",
    b"wasmtime_memory_data", b"wasmtime_memory_data_size", b"wasmtime_caller_export_get", b"wasmtime_trap_new",
    b"wasm_trap_message", b"wasm_trap_delete", b"wasmtime_error_message",
    b"wasmtime_error_delete", b"wasm_byte_vec_delete", b"wasmtime_error_new",
)


def bind(size_t handle):
    """Take the functions from the loaded library (a dlopen handle). Raises LookupError that names a missing one."""
    cdef void* found
    cdef int index
    for index, name in enumerate(_SYMBOLS):
        found = dlsym(<void*>handle, name)
        if found == NULL:
            raise LookupError(f"the wasmtime library has no {name.decode()}")
        (<void**>&library)[index] = found


@cython.final
cdef class Epoch:
    """The clock of one engine: a thread without the GIL that advances the epoch while calls run, else sleeps."""

    cdef void* _engine
    cdef sem_t _wake
    cdef int _active  # calls that run now
    cdef int _parked  # the thread sleeps until woken
    cdef int _stopping
    cdef bint _started
    cdef long long _tick_ns
    cdef TimesC _times
    cdef object _thread
    cdef readonly double tick_s

    def __cinit__(self):
        sem_init(&self._wake, 0, 0)

    def __init__(self, size_t engine, double tick_s):
        self._engine = <void*>engine
        self.tick_s = tick_s
        self._tick_ns = <long long>(tick_s * 1e9)

    def __dealloc__(self):
        sem_destroy(&self._wake)

    def freeze(self, double cpu_s, double wall_s):
        """For tests: stop the clocks at these times, so that only `advance` advances the epoch."""
        self.stop()
        self._times.cpu_ns = <long long>(cpu_s * 1e9)
        self._times.wall_ns = <long long>(wall_s * 1e9)
        self._times.is_frozen = True

    def advance(self):
        """Advance the epoch by one tick."""
        library.increment_epoch(self._engine)

    cdef int _ready(self) except -1:
        """Start the thread if needed. Called before `_enter`; other Python threads may run meanwhile."""
        if not self._started and not self._times.is_frozen:
            self._start()
        return 0

    cdef int _enter(self) except -1:
        ks_add(&self._active, 1)
        if ks_load(&self._parked) and ks_swap(&self._parked, 0):
            sem_post(&self._wake)
        return 0

    cdef int _start(self) except -1:
        self._started = True
        self._thread = threading.Thread(target=self.run, name="wasm-epoch", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self.forget()  # no call may run without the thread
            raise
        return 0

    def run(self):
        with nogil:
            self._run()

    cdef void _run(self) noexcept nogil:
        cdef int idle = 0
        while not ks_load(&self._stopping):
            # Missed ticks are not repeated: while a container is throttled, its guests do not run either.
            ks_sleep_until_ns(ks_now_ns() + self._tick_ns)
            if ks_load(&self._active):
                idle = 0
                library.increment_epoch(self._engine)
                continue
            idle += 1
            if idle < 50:
                continue
            # Set before checking again, so that a call that begins now either is seen or wakes this thread.
            ks_swap(&self._parked, 1)
            if not ks_load(&self._active) and not ks_load(&self._stopping):
                ks_wait(&self._wake)
            ks_swap(&self._parked, 0)
            idle = 0

    def stop(self):
        """End the thread and wait for it; a later call starts it again."""
        if self._started:
            ks_swap(&self._stopping, 1)
            sem_post(&self._wake)
            self._thread.join()
            self.forget()

    def forget(self):
        """Reset the state after the thread has ended, or in the child of a fork, where it does not exist."""
        self._started = False
        self._thread = None
        self._active = self._parked = self._stopping = 0


@cython.final
cdef class Guest:
    """One instance: its calls, its memory, and the pending exception of its host functions."""

    cdef void* _context
    cdef readonly Epoch epoch
    cdef object _linked
    cdef dict _functions  # export -> Function
    cdef list _bindings
    cdef object _pending  # the exception of a host function in the current call
    cdef MemoryC _memory
    cdef bint _has_memory
    cdef bint _running
    cdef bint _broken
    cdef bint _may_move  # a call may move the memory
    cdef int _views
    cdef SpentC _spent
    cdef double _deadline_s
    cdef readonly object limits
    cdef readonly object output
    cdef public object data
    cdef object __weakref__

    def __init__(self, Epoch epoch not None, size_t context, linked, limits, output, bint may_move):
        self.epoch = epoch
        self._context = <void*>context
        self._linked = linked
        self._functions = {}
        self._bindings = []
        self._may_move = may_move
        self.limits = limits
        self.output = output
        self._spent.times = &epoch._times
        self._spent.tick_ns = epoch._tick_ns
        self.deadline_s = limits.deadline_s

    @property
    def deadline_s(self):
        return self._deadline_s

    @deadline_s.setter
    def deadline_s(self, double seconds):
        if not 0 < seconds <= 1e6:
            raise ValueError(f"a deadline is above 0 and at most 1000000 seconds, not {seconds}")
        self._spent.deadline_ns = <long long>(seconds * 1e9)
        self._spent.patience_ns = <long long>(patience_s(seconds) * 1e9)
        self._deadline_s = seconds

    @property
    def epoch_callback(self):
        """The (callback, environment) of this instance's store for wasmtime_store_epoch_deadline_callback."""
        return <size_t>&_tick_came, <size_t>&self._spent

    def begin(self):
        """Begin to watch the deadline of a call that is made from outside of this class."""
        self.epoch._ready()
        self._begin()

    def end(self):
        """End the call that `begin` began; return OVERDUE or STALLED if its time was over, else 0."""
        ks_add(&self.epoch._active, -1)
        return self._spent.verdict

    cdef int _begin(self) except -1:
        self.epoch._enter()
        self._spent.is_begun = False
        self._spent.verdict = 0
        library.set_epoch_deadline(self._context, 1)
        return 0

    @property
    def is_broken(self):
        return self._broken

    def set_broken(self, bint broken):
        self._broken = broken

    @property
    def memory_bytes(self):
        return self._size()

    cdef size_t _size(self) noexcept:
        return library.memory_data_size(self._context, &self._memory) if self._has_memory else 0

    def add_binding(self, function, str params not None, str results not None):
        """Keep a host function of this instance; return (callback, environment) for wasmtime_func_new_unchecked."""
        binding = HostBinding.__new__(HostBinding)
        (<HostBinding>binding).guest = self
        (<HostBinding>binding).function = function
        (<HostBinding>binding).params = params.encode()
        (<HostBinding>binding).result = ord(results) if results else 0
        self._bindings.append(binding)
        return <size_t>&_host_function, <size_t><void*>binding

    def set_memory(self, bytes memory not None):
        """Set the exported memory, given as the bytes of a wasmtime_memory struct."""
        if len(memory) != sizeof(MemoryC):
            raise ValueError(f"a memory has {sizeof(MemoryC)} bytes, got {len(memory)}")
        memcpy(&self._memory, <const char*>memory, sizeof(MemoryC))
        self._has_memory = True

    def take_pending(self):
        """Return and clear the exception that a host function raised; None if there is none."""
        pending = self._pending
        self._pending = None
        return pending

    def start(self):
        self._check_usable("start")
        self._linked.start(self)

    def call(self, str export not None, *args):
        function = self._functions.get(export)
        if function is None:
            function = self.prepare(export)
        return _call(<Function>function, args)

    def prepare(self, str export not None):
        found = self._functions.get(export)
        if found is not None:
            return found
        self._check_usable(export)
        struct, params, results = self._linked.find(self, export)
        if len(struct) != sizeof(FuncC) or len(params) > MAX_NUMBERS or len(results) > 1:
            raise ValueError(f"{export} does not fit: {len(struct)} bytes, {len(params)} -> {len(results)}")
        function = Function.__new__(Function)
        (<Function>function).guest = self
        (<Function>function).name = export
        (<Function>function).params = params.encode()
        (<Function>function).result = ord(results) if results else 0
        memcpy(&(<Function>function).func, <const char*>(<bytes>struct), sizeof(FuncC))
        self._functions[export] = function
        return function

    def read(self, long long address, long long size):
        return PyBytes_FromStringAndSize(<const char*>self._at(address, size), size)

    def write(self, long long address, data not None):
        if type(data) is bytes:  # the usual case, in which a view would cost more than the copy
            self._copy(address, <const uint8_t*><const char*><bytes>data, len(<bytes>data))
            return
        cdef const uint8_t[::1] view = data
        self._copy(address, &view[0] if view.shape[0] else NULL, view.shape[0])

    cdef int _copy(self, long long address, const uint8_t* data, Py_ssize_t size) except -1:
        cdef uint8_t* target = self._at(address, size)
        if size:
            memcpy(target, data, size)
        return 0

    def view(self, long long address, long long size):
        cdef View view = View.__new__(View)
        view.start = self._at(address, size)
        view.size = size
        view.guest = self
        view.linked = self._linked
        return memoryview(view)

    cdef uint8_t* _at(self, long long address, long long size) except? NULL:
        """Return a pointer to `size` bytes of the guest's memory. Raises a fault if they are not all inside of it."""
        cdef long long present
        if self._linked is None:
            self._check_usable("memory")
        present = <long long>self._size()
        if address < 0 or size < 0 or size > present or address > present - size:
            self._broken = True
            self._linked.fail(
                self, "memory", OUTSIDE, f"{size} bytes at {address} are outside its memory of {present} bytes", None
            )
        return library.memory_data(self._context, &self._memory) + address if present else NULL

    cdef int _check_usable(self, str where) except -1:
        if self._linked is None:
            raise RuntimeError(f"{where}: the instance is closed")
        if self._running:
            raise RuntimeError(f"{where}: the instance is in a call already")
        if self._broken:
            self._linked.fail(self, where, UNUSABLE, "the instance is broken by an earlier fault", None)
        if self._views and self._may_move:
            raise RuntimeError(f"{where}: a view of the instance's memory is still held")
        return 0

    def close(self):
        if self._running:
            raise RuntimeError("close: the instance is in a call")
        self._broken = True
        self._functions = {}
        self._bindings = []
        self._pending = None
        self._has_memory = False
        self._linked = None  # frees the store, unless a view holds it
        self.data = None


@cython.final
cdef class Function:
    """An exported function, with the type that the module declares; calling it calls the guest."""

    cdef Guest guest
    cdef FuncC func
    cdef bytes params
    cdef char result  # 0 for none
    cdef str name

    def __call__(self, *args):
        return _call(self, args)


cdef object _call(Function function, tuple args):
    cdef Guest guest = function.guest
    cdef NumberC numbers[MAX_NUMBERS]
    cdef void* trap = NULL
    cdef void* error
    cdef size_t count = len(function.params)
    cdef size_t slots = count if count else 1
    if <size_t>len(args) != count:
        raise TypeError(f"{function.name} takes {count} numbers, got {len(args)}")
    memset(numbers, 0, slots * sizeof(NumberC))
    _fill(numbers, function.params, args)
    guest.epoch._ready()
    # From here on no other Python thread runs before the guest does, so it is used by this thread only.
    if guest._running or guest._broken or guest._views:
        guest._check_usable(function.name)
    guest._running = True
    guest._begin()
    with nogil:
        error = library.func_call_unchecked(guest._context, &function.func, numbers, slots, &trap)
    guest._running = False
    ks_add(&guest.epoch._active, -1)
    if error != NULL or trap != NULL:
        guest._broken = True
        _fail(guest, function.name, error, trap)
    return _number(numbers[0], function.result)


cdef int _fill(NumberC* numbers, bytes params, tuple args) except -1:
    cdef const char* kinds = params
    cdef Py_ssize_t index
    for index in range(len(params)):
        if kinds[index] == b"i":
            numbers[index].i32 = <int32_t><uint32_t>PyLong_AsUnsignedLongLongMask(args[index])
        elif kinds[index] == b"I":
            numbers[index].i64 = <int64_t>PyLong_AsUnsignedLongLongMask(args[index])
        elif kinds[index] == b"f":
            numbers[index].f32 = args[index]
        else:
            numbers[index].f64 = args[index]
    return 0


cdef object _number(NumberC number, char kind):
    if kind == 0:
        return None
    if kind == b"i":
        return number.i32
    if kind == b"I":
        return number.i64
    if kind == b"f":
        return number.f32
    return number.f64


cdef int _fail(Guest guest, str where, void* error, void* trap) except -1:
    """Free error and trap, and raise the fault of the call by `linked.fail`."""
    cdef TextC text
    text.size = 0
    text.data = NULL
    if trap != NULL:
        library.trap_message(trap, &text)
        library.trap_delete(trap)
    if error != NULL:
        if text.data == NULL:
            library.error_message(error, &text)
        library.error_delete(error)
    message = text.data[: text.size].decode("utf-8", "replace") if text.data != NULL else ""
    library.text_delete(&text)
    known = guest._spent.verdict or NO_CODE
    guest._linked.fail(guest, where, known, message.rstrip("\0"), guest.take_pending())
    raise RuntimeError("a fault was not raised")


cdef void* _tick_came(void* context, void* environment, uint64_t* ticks, uint8_t* kind) noexcept nogil:
    """Check the deadline of the running call: the callback of wasmtime_store_epoch_deadline_callback.

    It is called on the guest's thread. A returned error ends the call; else `ticks` is set to the ticks until the next
    check.
    """
    cdef SpentC* spent = <SpentC*>environment
    cdef long long cpu_ns, wall_ns, cpu_left_ns, wall_left_ns, soonest_ns
    if spent.times.is_frozen:
        cpu_ns, wall_ns = spent.times.cpu_ns, spent.times.wall_ns
    else:
        cpu_ns, wall_ns = ks_cpu_ns(), ks_now_ns()
    if not spent.is_begun:
        spent.is_begun = True
        spent.cpu_ns, spent.wall_ns = cpu_ns, wall_ns
    cpu_left_ns = spent.deadline_ns - (cpu_ns - spent.cpu_ns)
    wall_left_ns = spent.patience_ns - (wall_ns - spent.wall_ns)
    if cpu_left_ns <= 0 or wall_left_ns <= 0:
        spent.verdict = _OVERDUE if cpu_left_ns <= 0 else _STALLED
        return library.error_new("its time is over")
    soonest_ns = min(cpu_left_ns, wall_left_ns)
    ticks[0] = <uint64_t>((soonest_ns + spent.tick_ns - 1) // spent.tick_ns)
    kind[0] = 0  # go on
    return NULL


@cython.final
cdef class HostBinding:
    """The data of a host function for its C callback; the guest keeps it alive."""

    cdef Guest guest
    cdef object function
    cdef bytes params
    cdef char result


cdef void* _host_function(void* environment, void* caller, NumberC* numbers, size_t count) noexcept with gil:
    """Call a host function from a guest (wasmtime_func_unchecked_callback_t). Returns a trap if it raises."""
    binding = <HostBinding>environment
    guest = binding.guest
    try:
        if not guest._has_memory:
            _find_memory(guest, caller)
        _answer(numbers, binding.result, _ask(binding, guest, numbers))
        return NULL
    except BaseException as error:
        guest._pending = error
        return library.trap_new("host function", 13)


cdef object _ask(HostBinding binding, Guest guest, NumberC* numbers):
    """Call the host function with the guest's numbers; the usual parameter counts avoid making a tuple."""
    cdef const char* kinds = binding.params
    cdef Py_ssize_t count = len(binding.params)
    if count == 2:
        return binding.function(guest, _number(numbers[0], kinds[0]), _number(numbers[1], kinds[1]))
    if count == 4:
        return binding.function(
            guest,
            _number(numbers[0], kinds[0]),
            _number(numbers[1], kinds[1]),
            _number(numbers[2], kinds[2]),
            _number(numbers[3], kinds[3]),
        )
    return binding.function(guest, *[_number(numbers[index], kinds[index]) for index in range(count)])


cdef int _answer(NumberC* numbers, char kind, answer) except -1:
    if kind == 0:
        if answer is not None:
            raise TypeError(f"a host function without a result returned {answer!r}")
        return 0
    if answer is None:
        raise TypeError("a host function with a result returned None")
    if kind == b"i":
        numbers[0].i32 = <int32_t><uint32_t>PyLong_AsUnsignedLongLongMask(answer)
    elif kind == b"I":
        numbers[0].i64 = <int64_t>PyLong_AsUnsignedLongLongMask(answer)
    elif kind == b"f":
        numbers[0].f32 = answer
    else:
        numbers[0].f64 = answer
    return 0


cdef int _find_memory(Guest guest, void* caller) except -1:
    """Find the memory for a host function that is called in the start section, before exports can be looked up."""
    cdef ExternC item
    if library.caller_export_get(caller, "memory", 6, &item) and item.kind == EXTERN_MEMORY:
        memcpy(&guest._memory, item.words, sizeof(MemoryC))
        guest._has_memory = True
    return 0


@cython.final
@cython.no_gc_clear  # its memoryview may be cleared after it, and then still needs the guest to decrease the count
cdef class View:
    """A range of a guest's memory as a buffer. The guest counts its buffers; the view keeps the store alive."""

    cdef uint8_t* start
    cdef Py_ssize_t size
    cdef Guest guest
    cdef object linked

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        self.guest._views += 1
        buffer.buf = self.start
        buffer.obj = self
        buffer.len = self.size
        buffer.itemsize = 1
        buffer.readonly = 0
        buffer.ndim = 1
        buffer.format = "B"
        buffer.shape = &self.size
        buffer.strides = &buffer.itemsize
        buffer.suboffsets = NULL
        buffer.internal = NULL

    def __releasebuffer__(self, Py_buffer* buffer):
        self.guest._views -= 1
