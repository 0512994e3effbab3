"""Calls into wasmtime's C API without the GIL, and back from a guest into Python with it.

`bind` finds the library's functions at run time, so that building needs no wasmtime. The structs below are opaque
bytes of the sizes that layout.py checks. An unchecked call does not check types: a Function is only made from the type
that the compiled module itself declares.

A deadline is CPU time of the calling thread, so that a guest does not fail because the machine is busy. Reading that
clock takes longer than a short call: so it is read at the first tick within a call, from which time counts, and when
the deadline could have come.
"""

cimport cython
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy, memset

cimport kscheduler.wasm.calls as calls
from kscheduler.wasm.calls cimport (
    EXTERN_MEMORY,
    MAX_NUMBERS,
    OVERDUE,
    STALLED,
    NumberC,
    SpentC,
    Ticker,
    TimesC,
    ask_host,
    number_of,
    set_answer,
    set_arguments,
)
from kscheduler.wasm.clocks cimport ks_add, ks_cpu_ns, ks_now_ns

cdef extern from "<dlfcn.h>":
    void* dlsym(void* handle, const char* name) nogil

cdef struct FuncC:
    uint64_t words[2]

cdef struct MemoryC:
    uint64_t words[3]

cdef struct ExternC:
    uint8_t kind
    uint64_t words[3]

ctypedef union ValueC:
    NumberC of
    uint64_t words[2]

cdef struct TickedC:
    SpentC* spent
    TimesC* times  # of the epoch
    long long tick_ns
    bint is_begun  # a tick came since the call began

# struct -> bytes, to be compared with the library's own
SIZES = {
    "wasmtime_func": sizeof(FuncC),
    "wasmtime_memory": sizeof(MemoryC),
    "wasmtime_extern": sizeof(ExternC),
    "wasmtime_val_raw": sizeof(ValueC),
}

cdef struct LibraryC:
    void* (*func_call_unchecked)(
        void* context, const FuncC* func, ValueC* values, size_t count, void** trap
    ) noexcept nogil
    void (*set_epoch_deadline)(void* context, uint64_t ticks) noexcept nogil
    void (*increment_epoch)(void* engine) noexcept nogil
    uint8_t* (*memory_data)(void* context, const MemoryC* memory) noexcept nogil
    size_t (*memory_data_size)(void* context, const MemoryC* memory) noexcept nogil
    uint8_t (*caller_export_get)(void* caller, const char* name, size_t size, ExternC* item) noexcept nogil
    void* (*trap_new)(const char* text, size_t size) noexcept nogil
    void* (*error_new)(const char* text) noexcept nogil

cdef LibraryC library

# In the order of LibraryC, whose fields are all pointers.
_SYMBOLS = (
    b"wasmtime_func_call_unchecked", b"wasmtime_context_set_epoch_deadline", b"wasmtime_engine_increment_epoch",
    b"wasmtime_memory_data", b"wasmtime_memory_data_size", b"wasmtime_caller_export_get", b"wasmtime_trap_new",
    b"wasmtime_error_new",
)


def bind(size_t handle):
    """Look up the functions of the loaded library (a dlopen handle). Raises LookupError naming a missing one."""
    cdef void* found
    cdef int index
    for index, name in enumerate(_SYMBOLS):
        found = dlsym(<void*>handle, name)
        if found == NULL:
            raise LookupError(f"the wasmtime library has no {name.decode()}")
        (<void**>&library)[index] = found


@cython.final
cdef class Epoch(Ticker):
    """Advances the epoch of one engine periodically; at each step wasmtime checks the deadlines of its guests."""

    cdef void* _engine

    def __init__(self, size_t engine, double tick_s):
        Ticker.__init__(self, tick_s, "wasm-epoch")
        self._engine = <void*>engine

    cdef void tick(self) noexcept nogil:
        library.increment_epoch(self._engine)


@cython.final
cdef class Guest(calls.Guest):
    """An instance of wasmtime."""

    cdef void* _context
    cdef MemoryC _memory
    cdef bint _has_memory
    cdef TickedC _ticked

    def __init__(self, Epoch epoch not None, size_t context, link, limits, output, bint may_move):
        calls.Guest.__init__(self, epoch, link, limits, output)
        self._context = <void*>context
        self.may_move = may_move
        self._ticked.spent = &self.spent
        self._ticked.times = &epoch.times
        self._ticked.tick_ns = epoch.tick_ns

    @property
    def epoch_callback(self):
        """The (callback, environment) of this instance's store for wasmtime_store_epoch_deadline_callback."""
        return <size_t>&_tick_came, <size_t>&self._ticked

    def begin(self):
        """Begin to watch the deadline of a call that is not made by this class."""
        self.ticker.start()
        self.ticker.enter()
        self._begin()

    def end(self):
        """End the call that `begin` began; return OVERDUE or STALLED if its time was over, else 0."""
        ks_add(&self.ticker.active, -1)
        return self.spent.verdict

    cdef int _begin(self) except -1:
        self._ticked.is_begun = False
        self.spent.verdict = 0
        library.set_epoch_deadline(self._context, 1)
        return 0

    def add_binding(self, function, str params not None, str results not None):
        """Keep a host function of this instance; return (callback, environment) for wasmtime_func_new_unchecked."""
        binding = self.bind(function, params, results)
        return <size_t>&_host_function, <size_t><void*>binding

    def set_memory(self, bytes memory not None):
        """Set the exported memory, given as the bytes of a wasmtime_memory struct."""
        if len(memory) != sizeof(MemoryC):
            raise ValueError(f"a memory has {sizeof(MemoryC)} bytes, got {len(memory)}")
        memcpy(&self._memory, <const char*>memory, sizeof(MemoryC))
        self._has_memory = True

    cdef size_t memory_size(self) noexcept:
        return library.memory_data_size(self._context, &self._memory) if self._has_memory else 0

    cdef uint8_t* memory_start(self) noexcept:
        return library.memory_data(self._context, &self._memory)

    cdef calls.Function find(self, str export):
        cdef Function function = Function.__new__(Function)
        struct, params, results = self.link.find(export)
        if len(struct) != sizeof(FuncC):
            raise ValueError(f"{export} does not fit: {len(struct)} bytes")
        function.describe(self, export, params, results)
        memcpy(&function.func, <const char*>(<bytes>struct), sizeof(FuncC))
        return function

    cdef object invoke(self, calls.Function function, tuple args):
        cdef ValueC values[MAX_NUMBERS]
        cdef void* trap = NULL
        cdef void* error
        cdef size_t slots = max(1, len(function.params))
        memset(values, 0, slots * sizeof(ValueC))
        set_arguments(&values[0].of, function, args)
        self.enter(function.name)
        self._begin()
        with nogil:
            error = library.func_call_unchecked(self._context, &(<Function>function).func, values, slots, &trap)
        self.leave()
        if error != NULL or trap != NULL:
            self.fail(function.name, self.link.take_failure(<size_t>error, <size_t>trap))
        return number_of(values[0].of, function.result)

    def close(self):
        calls.Guest.close(self)  # frees the store, unless a view holds it
        self._has_memory = False


@cython.final
cdef class Function(calls.Function):
    """An exported function of an instance of wasmtime."""

    cdef FuncC func


cdef void* _tick_came(void* context, void* environment, uint64_t* ticks, uint8_t* kind) noexcept nogil:
    """Check the deadline of the running call: the callback of wasmtime_store_epoch_deadline_callback.

    It is called on the guest's thread. A returned error ends the call; else `ticks` is set to the ticks until the next
    check.
    """
    cdef TickedC* ticked = <TickedC*>environment
    cdef SpentC* spent = ticked.spent
    cdef long long cpu_ns, wall_ns, cpu_left_ns, wall_left_ns, soonest_ns
    if ticked.times.is_frozen:
        cpu_ns, wall_ns = ticked.times.cpu_ns, ticked.times.wall_ns
    else:
        cpu_ns, wall_ns = ks_cpu_ns(), ks_now_ns()
    if not ticked.is_begun:
        ticked.is_begun = True
        spent.cpu_ns, spent.wall_ns = cpu_ns, wall_ns
    cpu_left_ns = spent.deadline_ns - (cpu_ns - spent.cpu_ns)
    wall_left_ns = spent.patience_ns - (wall_ns - spent.wall_ns)
    if cpu_left_ns <= 0 or wall_left_ns <= 0:
        spent.verdict = OVERDUE if cpu_left_ns <= 0 else STALLED
        return library.error_new("its time is over")
    soonest_ns = min(cpu_left_ns, wall_left_ns)
    ticks[0] = <uint64_t>((soonest_ns + ticked.tick_ns - 1) // ticked.tick_ns)
    kind[0] = 0  # go on
    return NULL


cdef void* _host_function(void* environment, void* caller, ValueC* values, size_t count) noexcept with gil:
    """Call a host function from a guest (wasmtime_func_unchecked_callback_t). Returns a trap if it raises."""
    binding = <calls.HostBinding>environment
    guest = <Guest>binding.guest
    try:
        if not guest._has_memory:
            _find_memory(guest, caller)
        set_answer(&values[0].of, binding.result, ask_host(binding, &values[0].of))
        return NULL
    except BaseException as error:
        guest.pending = error
        return library.trap_new("host function", 13)


cdef int _find_memory(Guest guest, void* caller) except -1:
    """Find the memory for a host function that is called in the start section, before exports can be looked up."""
    cdef ExternC item
    if library.caller_export_get(caller, "memory", 6, &item) and item.kind == EXTERN_MEMORY:
        memcpy(&guest._memory, item.words, sizeof(MemoryC))
        guest._has_memory = True
    return 0
