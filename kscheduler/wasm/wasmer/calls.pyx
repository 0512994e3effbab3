"""Calls into libwasmer by the C API of WebAssembly (wasm.h) without the GIL, and back from a guest into Python with it.

`bind` finds the library's functions at run time, so that building needs no wasmer. wasmer's additions to the standard
(wasmer.h) are used for texts only: its version, the last error, the function in which a guest trapped.

A deadline is CPU time of the calling thread. A thread without the GIL, the watch, reads that clock at each tick. If a
guest's time is over, it sets a flag in the host's page, which the guest's own code checks (see instrumentation.pyx).
"""

from kscheduler.wasm.engine import PAGE_BYTES as _PAGE_BYTES

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t
from libc.stdlib cimport calloc, free

cimport kscheduler.wasm.calls as calls
from kscheduler.wasm.calls cimport (
    ENDING,
    EXTERN_FUNC,
    EXTERN_MEMORY,
    MAX_NUMBERS,
    OVERDUE,
    STALLED,
    NumberC,
    SpentC,
    Ticker,
    ask_host,
    number_of,
    set_answer,
    set_arguments,
)
from kscheduler.wasm.clocks cimport (
    clockid_t,
    ks_clock_ns,
    ks_load,
    ks_load_long,
    ks_now_ns,
    ks_own_clock,
    ks_replace_long,
    ks_sleep_until_ns,
    ks_swap,
    ks_swap_long,
    pthread_mutex_destroy,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_t,
    pthread_mutex_unlock,
    sched_yield,
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

# --- the library ------------------------------------------------------------------------------------------------------

cdef struct TextC:  # wasm_byte_vec_t
    size_t size
    char* data

cdef struct PointersC:  # any vector of pointers
    size_t size
    void** data

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
    """libwasmer cannot be used, or refuses the bytes of a module; the message is libwasmer's, if it has one."""


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
    """Load what `Code.serialized` returned: native code, which is not checked. Raises LibraryError."""
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
    """Raise LibraryError if the bytes are not a valid module."""
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

cdef struct WatchedC:
    WatchedC* before  # the watch's list
    WatchedC* after
    SpentC* spent
    long long call  # number of the call: odd within it, one more after it; negative if the watch has ended it
    long long seen  # the watch's own: the call that it saw last
    clockid_t clock  # CPU clock of the thread that makes the call
    int* page  # the host's: whether to stop, the memory cap in pages


@cython.final
cdef class Watch(Ticker):
    """Ends calls whose time is over: each tick checks all guests."""

    cdef WatchedC _first  # of the list; no guest's
    cdef pthread_mutex_t _lock  # guards the list
    cdef bint _closed

    def __cinit__(self):
        pthread_mutex_init(&self._lock, NULL)
        self._first.before = self._first.after = &self._first

    def __init__(self, double tick_s):
        Ticker.__init__(self, tick_s, "wasm-watch")

    def __dealloc__(self):
        pthread_mutex_destroy(&self._lock)

    cdef int add(self, WatchedC* watched) except -1:
        with nogil:
            pthread_mutex_lock(&self._lock)
            watched.before, watched.after = &self._first, self._first.after
            watched.before.after = watched.after.before = watched
            pthread_mutex_unlock(&self._lock)
        return 0

    cdef void remove(self, WatchedC* watched) noexcept:
        if watched.after == NULL:
            return
        with nogil:
            pthread_mutex_lock(&self._lock)
            watched.before.after, watched.after.before = watched.after, watched.before
            watched.before = watched.after = NULL
            pthread_mutex_unlock(&self._lock)

    cdef int start(self) except -1:
        if self._closed:
            raise RuntimeError("the program is ending")
        return Ticker.start(self)

    cdef void tick(self) noexcept nogil:
        cdef long long wall_ns = self.times.wall_ns if self.times.is_frozen else ks_now_ns()
        cdef WatchedC* watched
        pthread_mutex_lock(&self._lock)
        watched = self._first.after
        while watched != &self._first:
            self._look_at(watched, wall_ns)
            watched = watched.after
        pthread_mutex_unlock(&self._lock)

    cdef void _look_at(self, WatchedC* watched, long long wall_ns) noexcept nogil:
        """End this guest's call if its time is over. Time counts from the first tick within a call.

        The reason is that reading the clock takes longer than a short call.
        """
        cdef SpentC* spent = watched.spent
        cdef long long call = ks_load_long(&watched.call)
        cdef long long cpu_ns
        cdef bint is_overdue
        if call < 0 or call % 2 == 0:
            return
        cpu_ns = self.times.cpu_ns if self.times.is_frozen else ks_clock_ns(watched.clock)
        if cpu_ns < 0:
            return  # the call ended, and its thread too
        if call != watched.seen:
            watched.seen, spent.cpu_ns, spent.wall_ns = call, cpu_ns, wall_ns
            return
        is_overdue = cpu_ns - spent.cpu_ns >= spent.deadline_ns
        if not is_overdue and wall_ns - spent.wall_ns < spent.patience_ns:
            return
        self._end(watched, call, OVERDUE if is_overdue else STALLED)

    cdef void _end(self, WatchedC* watched, long long call, int verdict) noexcept nogil:
        """End the call with this number, unless it has ended and a later one has begun since."""
        if ks_replace_long(&watched.call, call, -call):
            watched.spent.verdict = verdict
            ks_swap(&watched.page[0], 1)

    cdef void _end_all(self) noexcept nogil:
        cdef WatchedC* watched
        cdef long long call
        pthread_mutex_lock(&self._lock)
        watched = self._first.after
        while watched != &self._first:
            call = ks_load_long(&watched.call)
            if call > 0 and call % 2:
                self._end(watched, call, ENDING)
            watched = watched.after
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
                if ks_load(&self.active) <= 0:
                    break
                ks_sleep_until_ns(ks_now_ns() + 1_000_000)
        self.stop()

    def forget(self) -> None:
        Ticker.forget(self)
        pthread_mutex_init(&self._lock, NULL)


cdef inline void _begin(WatchedC* watched) noexcept nogil:
    watched.page[0] = 0
    watched.spent.verdict = 0
    watched.clock = ks_own_clock()
    ks_swap_long(&watched.call, watched.call + 1)


cdef inline void _end(WatchedC* watched) noexcept nogil:
    cdef long long call = ks_load_long(&watched.call)
    if call > 0 and ks_replace_long(&watched.call, call, call + 1):
        return
    # The watch ended the call: wait until it has set the flag, which must not hit the next call.
    while not ks_load(&watched.page[0]):
        sched_yield()
    ks_swap_long(&watched.call, 1 - ks_load_long(&watched.call))


# --- guests -----------------------------------------------------------------------------------------------------------


@cython.final
@cython.no_gc_clear  # the code must be freed after the instance that runs it
cdef class Linked:
    """The objects of libwasmer for one instance; freed with the last reference, which may be that of a view."""

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
cdef class Guest(calls.Guest):
    """An instance of wasmer."""

    cdef Linked _linked  # None once closed
    cdef dict _exports  # name -> its index in linked.exports
    cdef WatchedC _watched

    def __init__(self, Watch watch not None, Code code not None, link, limits, output):
        calls.Guest.__init__(self, watch, link, limits, output)
        self._watched.spent = &self.spent
        self._linked = Linked.__new__(Linked)
        self._linked.code = code
        self._exports = {}

    def __dealloc__(self):
        if self.ticker is not None:
            (<Watch>self.ticker).remove(&self._watched)

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
        self._watched.page = <int*>library.memory_data(library.extern_as_memory(found))
        self._watched.page[1] = <int>(self.limits.memory_bytes // _PAGE_BYTES)
        if memory is not None:
            linked.memory = library.extern_as_memory(self._export(memory, EXTERN_MEMORY))
        (<Watch>self.ticker).add(&self._watched)

    cdef void* _host_function(self, function, str params, str results) except NULL:
        cdef calls.HostBinding binding = self.bind(function, params, results)
        cdef PointersC params_c, results_c
        cdef void* kind
        cdef void* made
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

    cdef size_t memory_size(self) noexcept:
        if self._linked is None or self._linked.memory == NULL:
            return 0
        return library.memory_data_size(self._linked.memory)

    cdef uint8_t* memory_start(self) noexcept:
        return library.memory_data(self._linked.memory)

    cdef object memory_owner(self):
        return self._linked

    cdef calls.Function find(self, str export):
        params, results = self.link.function_type(export)
        return self._function(export, export, params, results)

    def call_hidden(self, str export not None, str name not None) -> None:
        """Call an export that the instrumentation added, without arguments. `name` is its name in messages."""
        self.invoke(self._function(export, name, "", ""), ())

    cdef Function _function(self, str export, str name, str params, str results):
        cdef Function function = Function.__new__(Function)
        function.describe(self, name, params, results)
        function.func = library.extern_as_func(self._export(export, EXTERN_FUNC))
        return function

    cdef object invoke(self, calls.Function function, tuple args):
        cdef ValueC given[MAX_NUMBERS]
        cdef ValueC answer
        cdef ValuesC params, results
        cdef const char* kinds = function.params
        cdef size_t index
        cdef void* trap
        params.size, params.data = len(function.params), given
        results.size, results.data = 1 if function.result else 0, &answer
        set_arguments(&given[0].of, function, args)
        for index in range(params.size):
            given[index].kind = _kind(kinds[index])
        self.enter(function.name)
        with nogil:
            _begin(&self._watched)
            trap = library.func_call((<Function>function).func, &params, &results)
            _end(&self._watched)
        self.leave()
        if trap != NULL:
            self.fail(function.name, _trap_text(trap))
        return number_of(answer.of, function.result)

    def close(self) -> None:
        calls.Guest.close(self)
        (<Watch>self.ticker).remove(&self._watched)
        self._linked = None  # frees the store, unless a view holds it


@cython.final
cdef class Function(calls.Function):
    """An exported function of an instance of wasmer."""

    cdef void* func


cdef uint8_t _kind(char letter) noexcept:
    """Return the wasm_valkind_t of a type's letter."""
    if letter == b"i":
        return 0
    if letter == b"I":
        return 1
    return 2 if letter == b"f" else 3


cdef int _types(PointersC* types, str letters) except -1:
    """Create a vector of value types, to be freed by the function that it is passed to."""
    cdef void* made[1000]  # sections.MAX_VALUES
    cdef Py_ssize_t index
    if len(letters) > 1000:
        raise ValueError(f"expected at most 1000 parameters, got {len(letters)}")
    for index in range(len(letters)):
        made[index] = library.valtype_new(_kind(<char>ord(letters[index])))
    library.valtype_vec_new(types, len(letters), made)
    return 0


cdef void* _host_called(void* environment, const ValuesC* args, ValuesC* results) noexcept with gil:
    """Call a host function from a guest (wasm_func_callback_with_env_t). Returns a trap if it raises."""
    cdef TextC text
    binding = <calls.HostBinding>environment
    guest = <Guest>binding.guest
    try:
        set_answer(&results.data[0].of, binding.result, ask_host(binding, &args.data[0].of))
        if binding.result:
            results.data[0].kind = _kind(binding.result)
        return NULL
    except BaseException as error:
        guest.pending = error
        text.size, text.data = 13, b"host function"
        return library.trap_new(guest._linked.store, &text)
