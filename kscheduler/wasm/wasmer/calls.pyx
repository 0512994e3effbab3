"""Calls into libwasmer by the C API of WebAssembly (wasm.h) without the GIL, and back from a guest into Python with it.

`bind` finds the library's functions at run time, so that building needs no wasmer. wasmer's additions to the standard
(wasmer.h) are used for texts only: its version, the last error, the function in which a guest trapped.

Every failure ends in `Link.fail`, which raises; this module only passes it a code, a text and a pending exception.

A deadline is CPU time of the calling thread. A thread without the GIL, the watch, reads that clock at each tick. If a
guest's time is over, it sets a flag in the host's page, which the guest's own code checks (see instrumentation.pyx).
"""

import threading

from kscheduler.wasm.engine import PAGE_BYTES as _PAGE_BYTES, patience_s

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.long cimport PyLong_AsUnsignedLongLongMask
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from kscheduler.wasm.clocks cimport (
    clockid_t,
    ks_add,
    ks_clock_ns,
    ks_load,
    ks_load_long,
    ks_now_ns,
    ks_own_clock,
    ks_replace_long,
    ks_sleep_until_ns,
    ks_swap,
    ks_swap_long,
    ks_wait,
    pthread_mutex_destroy,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_t,
    pthread_mutex_unlock,
    sched_yield,
    sem_destroy,
    sem_init,
    sem_post,
    sem_t,
)

cdef extern from "<link.h>":
    ctypedef struct LinkMapC "struct link_map":
        char* l_name

cdef extern from "<dlfcn.h>":
    int RTLD_NOW, RTLD_LOCAL, RTLD_DI_LINKMAP
    void* dlopen(const char* path, int flags) nogil
    void* dlsym(void* handle, const char* name) nogil
    char* dlerror() nogil
    int dlinfo(void* handle, int request, void* answer) nogil

cdef enum:
    MAX_NUMBERS = 16  # parameters of one function
    EXTERN_FUNC = 0
    EXTERN_MEMORY = 3
    _NO_CODE = -1
    _OUTSIDE = -2
    _UNUSABLE = -3
    _OVERDUE = -4
    _STALLED = -5
    _ENDING = -6

# --- the library ------------------------------------------------------------------------------------------------------

cdef struct TextC:  # wasm_byte_vec_t
    size_t size
    char* data

cdef struct PointersC:  # any vector of pointers
    size_t size
    void** data

ctypedef union NumberC:
    int32_t i32
    int64_t i64
    float f32
    double f64

cdef struct ValueC:  # wasm_val_t
    uint8_t kind
    NumberC of

cdef struct ValuesC:  # wasm_val_vec_t
    size_t size
    ValueC* data

cdef struct FrameNameC:  # wasmer's own
    char* name

cdef struct LibraryC:
    const char* (*version)() noexcept nogil
    int (*last_error_length)() noexcept nogil
    int (*last_error_message)(char* text, int size) noexcept nogil
    void (*text_delete)(TextC* text) noexcept nogil
    void* (*engine_new)() noexcept nogil
    void (*engine_delete)(void* engine) noexcept nogil
    void* (*store_new)(void* engine) noexcept nogil
    void (*store_delete)(void* store) noexcept nogil
    uint8_t (*module_validate)(void* store, const TextC* wasm) noexcept nogil
    void* (*module_new)(void* store, const TextC* wasm) noexcept nogil
    void (*module_serialize)(const void* module, TextC* code) noexcept nogil
    void* (*module_deserialize)(void* store, const TextC* code) noexcept nogil
    void (*module_delete)(void* module) noexcept nogil
    void* (*valtype_new)(uint8_t kind) noexcept nogil
    void (*valtype_vec_new)(PointersC* types, size_t size, void** data) noexcept nogil
    void* (*functype_new)(PointersC* params, PointersC* results) noexcept nogil
    void (*functype_delete)(void* kind) noexcept nogil
    void* (*func_new_with_env)(
        void* store, const void* kind, void* callback, void* environment, void* finalizer
    ) noexcept nogil
    void (*func_delete)(void* func) noexcept nogil
    void* (*func_as_extern)(void* func) noexcept nogil
    void* (*func_call)(void* func, const ValuesC* args, ValuesC* results) noexcept nogil
    void* (*instance_new)(void* store, const void* module, const PointersC* imports, void** trap) noexcept nogil
    void (*instance_exports)(const void* instance, PointersC* exports) noexcept nogil
    void (*instance_delete)(void* instance) noexcept nogil
    uint8_t (*extern_kind)(const void* item) noexcept nogil
    void (*extern_vec_delete)(PointersC* externs) noexcept nogil
    void* (*extern_as_func)(void* item) noexcept nogil
    void* (*extern_as_memory)(void* item) noexcept nogil
    uint8_t* (*memory_data)(void* memory) noexcept nogil
    size_t (*memory_data_size)(const void* memory) noexcept nogil
    void* (*trap_new)(void* store, const TextC* text) noexcept nogil
    void (*trap_message)(const void* trap, TextC* text) noexcept nogil
    void* (*trap_origin)(const void* trap) noexcept nogil
    void (*trap_delete)(void* trap) noexcept nogil
    FrameNameC (*frame_func_name)(const void* frame) noexcept nogil
    void (*frame_delete)(void* frame) noexcept nogil
    void (*frame_name_delete)(FrameNameC* name) noexcept nogil

cdef LibraryC library

# In the order of LibraryC, whose fields are all pointers.
SYMBOLS = (
    b"wasmer_version", b"wasmer_last_error_length", b"wasmer_last_error_message", b"wasm_byte_vec_delete",
    b"wasm_engine_new", b"wasm_engine_delete", b"wasm_store_new", b"wasm_store_delete",
    b"wasm_module_validate", b"wasm_module_new", b"wasm_module_serialize", b"wasm_module_deserialize",
    b"wasm_module_delete", b"wasm_valtype_new", b"wasm_valtype_vec_new", b"wasm_functype_new",
    b"wasm_functype_delete", b"wasm_func_new_with_env", b"wasm_func_delete", b"wasm_func_as_extern",
    b"wasm_func_call", b"wasm_instance_new", b"wasm_instance_exports", b"wasm_instance_delete",
    b"wasm_extern_kind", b"wasm_extern_vec_delete", b"wasm_extern_as_func", b"wasm_extern_as_memory",
    b"wasm_memory_data", b"wasm_memory_data_size", b"wasm_trap_new", b"wasm_trap_message",
    b"wasm_trap_origin", b"wasm_trap_delete", b"wasm_frame_func_name", b"wasm_frame_delete", b"wasm_name_delete",
)


cdef object _bound = None  # the path of the library that `library` was taken from


class LibraryError(Exception):
    """The library cannot be used, or refuses the bytes of a module; the text is the library's, if it has one."""


def bind(str path not None, int major):
    """Load the library (a path, or a name for the system's loader) and take its functions.

    Returns its version, and the path of its file. Raises LibraryError for a file that is no libwasmer, for another
    major version, and for a second library: its functions would get objects of the first one. A library that was
    loaded stays loaded until the process ends.
    """
    cdef bytes encoded = path.encode()
    cdef const char* file = encoded
    cdef void* handle = dlopen(file, RTLD_NOW | RTLD_LOCAL)
    cdef LibraryC found
    cdef LinkMapC* place = NULL
    cdef int index
    global library, _bound
    if handle == NULL:
        raise LibraryError(dlerror().decode("utf-8", "replace").removeprefix(f"{path}: "))
    for index, name in enumerate(SYMBOLS):
        (<void**>&found)[index] = dlsym(handle, name)
        if (<void**>&found)[index] == NULL:
            raise LibraryError(f"it has no function {name.decode()}")
    cdef const char* answer = found.version()
    version = answer.decode("utf-8", "replace") if answer != NULL else ""
    if version.split(".")[0] != str(major):
        raise LibraryError(f"it is version {version or 'unknown'}, expected {major}.*")
    if _bound is not None and found.version != library.version:
        raise LibraryError(f"it cannot be used beside {_bound}, which this process has loaded")
    if dlinfo(handle, RTLD_DI_LINKMAP, &place) == 0 and place.l_name != NULL:
        path = place.l_name.decode("utf-8", "surrogateescape")
    library, _bound = found, path
    return version, path


cdef str _last_error():
    """Return the message of the library's last error on this thread."""
    cdef int size = library.last_error_length()
    cdef bytearray text
    if size <= 0:
        return ""
    text = bytearray(size)
    library.last_error_message(<char*>text, size)
    return text.rstrip(b"\0").decode("utf-8", "replace")


# Why a guest trapped: wasmtime's text, where wasmer has another one.
_WASMTIMES = {"unreachable": "wasm `unreachable` instruction executed"}


cdef str _trap_text(void* trap):
    """Free a trap; return its reason and function in the form that faults.from_trap parses."""
    cdef TextC text
    cdef FrameNameC name
    cdef void* frame
    text.size = 0
    text.data = NULL
    library.trap_message(trap, &text)
    message = text.data[: text.size].decode("utf-8", "replace").rstrip("\0") if text.data != NULL else ""
    message = _WASMTIMES.get(message, message)
    library.text_delete(&text)
    frame = library.trap_origin(trap)
    if frame != NULL:
        name = library.frame_func_name(frame)
        if name.name != NULL:
            message += f" in {name.name.decode('utf-8', 'replace')}"
            library.frame_name_delete(&name)
        library.frame_delete(frame)
    library.trap_delete(trap)
    return message


@cython.final
cdef class Code:
    """A compiled module; any thread may use it.

    It has its own engine: the library frees native code with its engine, not with its module, and a scheduler that
    reloads plugins would otherwise keep the code of all their versions.
    """

    cdef void* _engine
    cdef void* _module

    def serialized(self) -> bytes:
        cdef TextC text
        text.size = 0
        text.data = NULL
        library.module_serialize(self._module, &text)
        if text.data == NULL:
            raise LibraryError(_last_error())
        code = PyBytes_FromStringAndSize(text.data, text.size)
        library.text_delete(&text)
        return code

    def __dealloc__(self):
        if self._module != NULL:
            library.module_delete(self._module)
        if self._engine != NULL:
            library.engine_delete(self._engine)


def compiled(bytes wasm not None) -> Code:
    """Compile a module. Raises LibraryError if it is not valid."""
    return _made(wasm, False)


def loaded(bytes code not None) -> Code:
    """Load a result of `Code.serialized`: native code, which is not checked. Raises LibraryError."""
    return _made(code, True)


cdef Code _made(bytes data, bint is_code):
    cdef TextC given
    cdef void* store
    cdef Code made = Code.__new__(Code)
    given.size = len(data)
    given.data = <char*>data
    made._engine = library.engine_new()
    if made._engine == NULL:
        raise LibraryError(_last_error())
    with nogil:
        store = library.store_new(made._engine)
        if is_code:
            made._module = library.module_deserialize(store, &given)
        else:
            made._module = library.module_new(store, &given)
        library.store_delete(store)
    if made._module == NULL:
        raise LibraryError(_last_error())
    return made


def check(bytes wasm not None) -> None:
    """Raise LibraryError if the bytes are no valid module."""
    cdef TextC given
    cdef void* engine = library.engine_new()
    cdef void* store
    cdef bint is_valid
    if engine == NULL:
        raise LibraryError(_last_error())
    given.size = len(wasm)
    given.data = <char*>wasm
    with nogil:
        store = library.store_new(engine)
        is_valid = library.module_validate(store, &given)
        library.store_delete(store)
        library.engine_delete(engine)
    if not is_valid:
        raise LibraryError("it is no valid module")


# --- deadlines --------------------------------------------------------------------------------------------------------

cdef struct SpentC:
    SpentC* before  # the watch's list
    SpentC* after
    long long call  # number of the call: odd within it, one more after it; negative if the watch has ended it
    clockid_t clock  # CPU clock of the thread that makes the call
    int* page  # the host's: whether to stop, the memory cap in pages
    long long deadline_ns  # CPU time
    long long patience_ns  # wall time
    int verdict  # _OVERDUE, _STALLED or _ENDING if the watch has ended the call
    # The watch's own: what it saw of the present call, and when it saw it first.
    long long seen
    long long cpu_ns
    long long wall_ns


@cython.final
cdef class Watch:
    """Ends calls whose time is over: a thread without the GIL that checks all guests while calls run, else sleeps."""

    cdef SpentC _first  # of the list; no guest's
    cdef pthread_mutex_t _lock  # guards the list
    cdef sem_t _wake
    cdef int _active  # calls that run now
    cdef int _parked  # the thread sleeps until woken
    cdef int _stopping
    cdef bint _started
    cdef bint _closed
    cdef bint _is_frozen  # for tests: the clocks are stopped at the two times below
    cdef long long _cpu_ns
    cdef long long _wall_ns
    cdef long long _tick_ns
    cdef object _thread
    cdef readonly double tick_s

    def __cinit__(self):
        sem_init(&self._wake, 0, 0)
        pthread_mutex_init(&self._lock, NULL)
        self._first.before = self._first.after = &self._first

    def __init__(self, double tick_s):
        self.tick_s = tick_s
        self._tick_ns = <long long>(tick_s * 1e9)

    def __dealloc__(self):
        sem_destroy(&self._wake)
        pthread_mutex_destroy(&self._lock)

    def freeze(self, double cpu_s, double wall_s) -> None:
        """For tests: stop the clocks at these times, so that only `advance` checks the guests."""
        self.stop()
        self._cpu_ns = <long long>(cpu_s * 1e9)
        self._wall_ns = <long long>(wall_s * 1e9)
        self._is_frozen = True

    def advance(self) -> None:
        """Check all guests once, as at a tick."""
        with nogil:
            self._look()

    cdef int add(self, SpentC* spent) except -1:
        with nogil:
            pthread_mutex_lock(&self._lock)
            spent.before, spent.after = &self._first, self._first.after
            spent.before.after = spent.after.before = spent
            pthread_mutex_unlock(&self._lock)
        return 0

    cdef void remove(self, SpentC* spent) noexcept:
        if spent.after == NULL:
            return
        with nogil:
            pthread_mutex_lock(&self._lock)
            spent.before.after, spent.after.before = spent.after, spent.before
            spent.before = spent.after = NULL
            pthread_mutex_unlock(&self._lock)

    cdef int start(self) except -1:
        """Start the thread if needed. Called before `enter`; other Python threads may run meanwhile."""
        if self._closed:
            raise RuntimeError("the program is ending")
        if not self._started and not self._is_frozen:
            self._start()
        return 0

    cdef int enter(self) except -1:
        ks_add(&self._active, 1)
        if ks_load(&self._parked) and ks_swap(&self._parked, 0):
            sem_post(&self._wake)
        return 0

    cdef int _start(self) except -1:
        self._started = True
        self._thread = threading.Thread(target=self.run, name="wasm-watch", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self.forget()  # no call may run without the thread
            raise
        return 0

    def run(self) -> None:
        with nogil:
            self._run()

    cdef void _run(self) noexcept nogil:
        cdef int idle = 0
        while not ks_load(&self._stopping):
            # Missed ticks are not repeated: while a container is throttled, its guests do not run either.
            ks_sleep_until_ns(ks_now_ns() + self._tick_ns)
            if ks_load(&self._active):
                idle = 0
                self._look()
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

    cdef void _look(self) noexcept nogil:
        cdef long long wall_ns = self._wall_ns if self._is_frozen else ks_now_ns()
        cdef SpentC* spent
        pthread_mutex_lock(&self._lock)
        spent = self._first.after
        while spent != &self._first:
            self._look_at(spent, wall_ns)
            spent = spent.after
        pthread_mutex_unlock(&self._lock)

    cdef void _look_at(self, SpentC* spent, long long wall_ns) noexcept nogil:
        """End this guest's call if its time is over. Time counts from the first tick within a call.

        The reason is that reading the clock takes longer than a short call.
        """
        cdef long long call = ks_load_long(&spent.call)
        cdef long long cpu_ns
        cdef bint is_overdue
        if call < 0 or call % 2 == 0:
            return
        cpu_ns = self._cpu_ns if self._is_frozen else ks_clock_ns(spent.clock)
        if cpu_ns < 0:
            return  # the call ended, and its thread too
        if call != spent.seen:
            spent.seen, spent.cpu_ns, spent.wall_ns = call, cpu_ns, wall_ns
            return
        is_overdue = cpu_ns - spent.cpu_ns >= spent.deadline_ns
        if not is_overdue and wall_ns - spent.wall_ns < spent.patience_ns:
            return
        self._end(spent, call, _OVERDUE if is_overdue else _STALLED)

    cdef void _end(self, SpentC* spent, long long call, int verdict) noexcept nogil:
        """End the call of this number, but not a later one that may have begun since."""
        if ks_replace_long(&spent.call, call, -call):
            spent.verdict = verdict
            ks_swap(&spent.page[0], 1)

    cdef void _end_all(self) noexcept nogil:
        cdef SpentC* spent
        cdef long long call
        pthread_mutex_lock(&self._lock)
        spent = self._first.after
        while spent != &self._first:
            call = ks_load_long(&spent.call)
            if call > 0 and call % 2:
                self._end(spent, call, _ENDING)
            spent = spent.after
        pthread_mutex_unlock(&self._lock)

    def close(self) -> None:
        """End the calls of daemon threads at the end of the program, then the watch.

        Python ends such a thread when it requests the GIL. Within a guest that would abort the whole process, since
        the library's stack cannot be unwound. So this waits up to a second for calls in host functions, too.
        """
        cdef int turn
        self._closed = True
        with nogil:
            for turn in range(1000):
                self._end_all()  # repeated, for calls that have just begun
                if ks_load(&self._active) <= 0:
                    break
                ks_sleep_until_ns(ks_now_ns() + 1_000_000)
        self.stop()

    def stop(self) -> None:
        """End the thread and wait for it; a later call starts it again."""
        if self._started:
            ks_swap(&self._stopping, 1)
            sem_post(&self._wake)
            if self._thread.is_alive():  # it may not be yet, if a daemon thread is just starting it
                self._thread.join()
            self.forget()

    def forget(self) -> None:
        """Reset the state after the thread has ended, or in the child of a fork, where it does not exist."""
        self._started = False
        self._thread = None
        self._active = self._parked = self._stopping = 0
        pthread_mutex_init(&self._lock, NULL)


cdef inline void _begin(SpentC* spent) noexcept nogil:
    spent.page[0] = 0
    spent.verdict = 0
    spent.clock = ks_own_clock()
    ks_swap_long(&spent.call, spent.call + 1)


cdef inline void _end(SpentC* spent) noexcept nogil:
    cdef long long call = ks_load_long(&spent.call)
    if call > 0 and ks_replace_long(&spent.call, call, call + 1):
        return
    # The watch ended the call: wait until it has set the flag, which must not hit the next call.
    while not ks_load(&spent.page[0]):
        sched_yield()
    ks_swap_long(&spent.call, 1 - ks_load_long(&spent.call))


# --- guests -----------------------------------------------------------------------------------------------------------


@cython.final
@cython.no_gc_clear  # the code must be freed after the instance that runs it
cdef class Linked:
    """The library's objects of one instance; freed with the last reference, which may be that of a view."""

    cdef Code code
    cdef void* store
    cdef void* instance
    cdef PointersC exports
    cdef void* memory  # the guest's; NULL for none

    def __dealloc__(self):
        if self.exports.data != NULL:
            library.extern_vec_delete(&self.exports)
        if self.instance != NULL:
            library.instance_delete(self.instance)
        if self.store != NULL:
            library.store_delete(self.store)


@cython.final
@cython.no_gc_clear  # a guest that was never closed needs its watch until the end, to leave the list
cdef class Guest:
    """One instance: its calls, its memory, and the pending exception of its host functions."""

    cdef readonly Watch watch
    cdef object _link  # a linkage.Link: raises faults, and knows the exports
    cdef Linked _linked
    cdef dict _exports  # name -> its index in linked.exports
    cdef dict _functions  # export -> Function
    cdef list _bindings
    cdef object _pending  # the exception of a host function in the current call
    cdef bint _running
    cdef bint _broken
    cdef SpentC _spent
    cdef double _deadline_s
    cdef readonly object limits
    cdef readonly object output
    cdef public object data
    cdef object __weakref__

    def __init__(self, Watch watch not None, Code code not None, link, limits, output):
        self.watch = watch
        self._link = link
        self._linked = Linked.__new__(Linked)
        self._linked.code = code
        self._functions = {}
        self._exports = {}
        self._bindings = []
        self.limits = limits
        self.output = output
        self.deadline_s = limits.deadline_s

    def __dealloc__(self):
        if self.watch is not None:
            self.watch.remove(&self._spent)

    def instantiate(self, functions, exports, str page not None, memory) -> None:
        """Link and instantiate; no code of the guest runs yet. Raises LibraryError with the library's reason.

        `functions`: (callable, parameters, results) in the order of imports. `exports`: all names in the order of
        exports. `page`: the export of the host's page. `memory`: the export of the guest's memory, or None.
        """
        cdef Linked linked = self._linked
        cdef PointersC imports
        cdef void* trap = NULL
        cdef size_t index
        cdef void* found
        linked.store = library.store_new(linked.code._engine)
        imports.size = len(functions)
        imports.data = <void**>calloc(imports.size + 1, 2 * sizeof(void*))
        if imports.data == NULL:
            raise MemoryError
        cdef void** owned = imports.data + imports.size  # the functions to free, to which the imports refer
        try:
            for index, (function, params, results) in enumerate(functions):
                owned[index] = self._host_function(function, params, results)
                imports.data[index] = library.func_as_extern(owned[index])
            with nogil:
                linked.instance = library.instance_new(linked.store, linked.code._module, &imports, &trap)
        finally:
            for index in range(imports.size):
                if owned[index] != NULL:
                    library.func_delete(owned[index])
            free(imports.data)
        if linked.instance == NULL:
            raise LibraryError(_trap_text(trap) if trap != NULL else _last_error())
        library.instance_exports(linked.instance, &linked.exports)
        if linked.exports.size != <size_t>len(exports):
            raise LibraryError(f"{linked.exports.size} exports, expected {len(exports)}")
        self._exports = {name: place for place, name in enumerate(exports)}
        found = self._export(page, EXTERN_MEMORY)
        self._spent.page = <int*>library.memory_data(library.extern_as_memory(found))
        self._spent.page[1] = <int>(self.limits.memory_bytes // _PAGE_BYTES)
        if memory is not None:
            linked.memory = library.extern_as_memory(self._export(memory, EXTERN_MEMORY))
        self.watch.add(&self._spent)

    cdef void* _host_function(self, function, str params, str results) except NULL:
        cdef HostBinding binding = HostBinding.__new__(HostBinding)
        cdef PointersC params_c, results_c
        cdef void* kind
        cdef void* made
        binding.guest = self
        binding.function = function
        binding.params = params.encode()
        binding.result = ord(results) if results else 0
        self._bindings.append(binding)
        _types(&params_c, params)
        _types(&results_c, results)
        kind = library.functype_new(&params_c, &results_c)
        made = library.func_new_with_env(self._linked.store, kind, <void*>&_host_called, <void*>binding, NULL)
        library.functype_delete(kind)
        if made == NULL:
            raise LibraryError(_last_error())
        return made

    cdef void* _export(self, str name, uint8_t kind) except NULL:
        cdef Py_ssize_t place = self._exports[name]
        cdef void* found = self._linked.exports.data[place]
        if library.extern_kind(found) != kind:
            raise LibraryError(f"the export {name!r} is of another kind")
        return found

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
    def is_broken(self):
        return self._broken

    def set_broken(self, bint broken) -> None:
        self._broken = broken

    @property
    def memory_bytes(self):
        return self._size()

    cdef size_t _size(self) noexcept:
        if self._linked is None or self._linked.memory == NULL:
            return 0
        return library.memory_data_size(self._linked.memory)

    def start(self) -> None:
        self._check_usable("start")
        self._link.start(self)

    def call(self, str export not None, *args):
        function = self._functions.get(export)
        if function is None:
            function = self.prepare(export)
        return _call(<Function>function, args)

    def prepare(self, str export not None):
        found = self._functions.get(export)
        if found is None:
            self._check_usable(export)
            params, results = self._link.function_type(export)
            found = self._functions[export] = self._function(export, export, params, results)
        return found

    def call_hidden(self, str export not None, str name not None) -> None:
        """Call an export that the instrumentation added, without arguments. `name`: its name in messages."""
        _call(self._function(export, name, "", ""), ())

    cdef Function _function(self, str export, str name, str params, str results):
        cdef Function function = Function.__new__(Function)
        if len(params) > MAX_NUMBERS or len(results) > 1:
            raise ValueError(f"{name} does not fit: {len(params)} -> {len(results)}")
        function.guest = self
        function.name = name
        function.params = params.encode()
        function.result = ord(results) if results else 0
        function.func = library.extern_as_func(self._export(export, EXTERN_FUNC))
        return function

    def read(self, long long address, long long size) -> bytes:
        return PyBytes_FromStringAndSize(<const char*>self._at(address, size), size)

    def write(self, long long address, data not None) -> None:
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

    def view(self, long long address, long long size) -> memoryview:
        cdef View view = View.__new__(View)
        view.start = self._at(address, size)
        view.size = size
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
            self._link.fail(
                self, "memory", _OUTSIDE, f"{size} bytes at {address} are outside its memory of {present} bytes", None
            )
        return library.memory_data(self._linked.memory) + address if present else NULL

    cdef int _check_usable(self, str where) except -1:
        if self._linked is None:
            raise RuntimeError(f"{where}: the instance is closed")
        if self._running:
            raise RuntimeError(f"{where}: the instance is in a call already")
        if self._broken:
            self._link.fail(self, where, _UNUSABLE, "the instance is broken by an earlier fault", None)
        return 0

    def close(self) -> None:
        if self._running:
            raise RuntimeError("close: the instance is in a call")
        self.watch.remove(&self._spent)
        self._broken = True
        self._functions = {}
        self._linked = None  # frees the store, unless a view holds it
        self._bindings = []
        self._pending = None
        self._link = None
        self.data = None


@cython.final
cdef class Function:
    """An exported function, with the type that the module declares; calling it calls the guest."""

    cdef Guest guest
    cdef void* func
    cdef bytes params
    cdef char result  # 0 for none
    cdef str name

    def __call__(self, *args):
        return _call(self, args)


cdef object _call(Function function, tuple args):
    cdef Guest guest = function.guest
    cdef ValueC given[MAX_NUMBERS]
    cdef ValueC answer
    cdef ValuesC params, results
    cdef void* trap
    params.size, params.data = len(function.params), given
    results.size, results.data = 1 if function.result else 0, &answer
    if <size_t>len(args) != params.size:
        raise TypeError(f"{function.name} takes {params.size} numbers, got {len(args)}")
    _fill(given, function.params, args)
    guest.watch.start()
    # From here on no other Python thread runs before the guest does, so it is used by this thread only.
    if guest._running or guest._broken:
        guest._check_usable(function.name)
    guest._running = True
    guest.watch.enter()
    with nogil:
        _begin(&guest._spent)
        trap = library.func_call(function.func, &params, &results)
        _end(&guest._spent)
    guest._running = False
    ks_add(&guest.watch._active, -1)
    if trap != NULL:
        guest._broken = True
        pending, guest._pending = guest._pending, None
        guest._link.fail(guest, function.name, guest._spent.verdict or _NO_CODE, _trap_text(trap), pending)
        raise RuntimeError("a fault was not raised")
    return _number(answer.of, function.result)


cdef uint8_t _kind(char letter) noexcept:
    """Return the wasm_valkind_t of a type's letter."""
    if letter == b"i":
        return 0
    if letter == b"I":
        return 1
    return 2 if letter == b"f" else 3


cdef int _types(PointersC* types, str letters) except -1:
    """Make a vector of value types, which its receiver frees."""
    cdef void* made[1000]  # sections.MAX_VALUES
    cdef Py_ssize_t index
    if len(letters) > 1000:
        raise ValueError(f"expected at most 1000 parameters, got {len(letters)}")
    for index in range(len(letters)):
        made[index] = library.valtype_new(_kind(<char>ord(letters[index])))
    library.valtype_vec_new(types, len(letters), made)
    return 0


cdef int _fill(ValueC* values, bytes params, tuple args) except -1:
    cdef const char* kinds = params
    cdef Py_ssize_t index
    for index in range(len(params)):
        _set(&values[index], kinds[index], args[index])
    return 0


cdef int _set(ValueC* value, char kind, number) except -1:
    value.kind = _kind(kind)
    if kind == b"i":
        value.of.i32 = <int32_t><uint32_t>PyLong_AsUnsignedLongLongMask(number)
    elif kind == b"I":
        value.of.i64 = <int64_t>PyLong_AsUnsignedLongLongMask(number)
    elif kind == b"f":
        value.of.f32 = number
    else:
        value.of.f64 = number
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


@cython.final
cdef class HostBinding:
    """The data of a host function for its C callback; the guest keeps it alive."""

    cdef Guest guest
    cdef object function
    cdef bytes params
    cdef char result


cdef void* _host_called(void* environment, const ValuesC* args, ValuesC* results) noexcept with gil:
    """Call a host function from a guest (wasm_func_callback_with_env_t). Returns a trap if it raises."""
    cdef TextC text
    binding = <HostBinding>environment
    guest = binding.guest
    try:
        _answer(results, binding.result, _ask(binding, guest, args.data))
        return NULL
    except BaseException as error:
        guest._pending = error
        text.size, text.data = 13, b"host function"
        return library.trap_new(guest._linked.store, &text)


cdef object _ask(HostBinding binding, Guest guest, ValueC* values):
    """Call the host function with the guest's numbers; the usual parameter counts avoid making a tuple."""
    cdef const char* kinds = binding.params
    cdef Py_ssize_t count = len(binding.params)
    if count == 2:
        return binding.function(guest, _number(values[0].of, kinds[0]), _number(values[1].of, kinds[1]))
    if count == 4:
        return binding.function(
            guest,
            _number(values[0].of, kinds[0]),
            _number(values[1].of, kinds[1]),
            _number(values[2].of, kinds[2]),
            _number(values[3].of, kinds[3]),
        )
    return binding.function(guest, *[_number(values[index].of, kinds[index]) for index in range(count)])


cdef int _answer(ValuesC* results, char kind, answer) except -1:
    if kind == 0:
        if answer is not None:
            raise TypeError(f"a host function without a result returned {answer!r}")
        return 0
    if answer is None:
        raise TypeError("a host function with a result returned None")
    return _set(&results.data[0], kind, answer)


@cython.final
cdef class View:
    """A range of a guest's memory as a buffer. It keeps the memory alive, which never moves."""

    cdef uint8_t* start
    cdef Py_ssize_t size
    cdef Linked linked

    def __getbuffer__(self, Py_buffer* buffer, int flags):
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
