"""Calls instances of guests, and guards their deadlines and memory: the part that is common to all engines.

Every failure ends in `Link.fail`, which raises; this module only passes it a code, a text and a pending exception.
"""

import threading

from kscheduler.wasm.engine import patience_s

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from kscheduler.wasm.clocks cimport (
    ks_add,
    ks_load,
    ks_now_ns,
    ks_sleep_until_ns,
    ks_swap,
    ks_wait,
    sem_destroy,
    sem_init,
    sem_post,
)


cdef class Ticker:
    """A thread without the GIL that checks periodically (ticks) if calls are over their time; else it sleeps."""

    def __cinit__(self):
        sem_init(&self.wake, 0, 0)

    def __init__(self, double tick_s, str name not None):
        self.name = name
        self.tick_s = tick_s
        self.tick_ns = <long long>(tick_s * 1e9)

    def __dealloc__(self):
        sem_destroy(&self.wake)

    def freeze(self, double cpu_s, double wall_s):
        """Stop the clocks at these times, so that only `advance` checks calls; for tests."""
        self.stop()
        self.times.cpu_ns = <long long>(cpu_s * 1e9)
        self.times.wall_ns = <long long>(wall_s * 1e9)
        self.times.is_frozen = True

    def advance(self):
        """Check the running calls once."""
        with nogil:
            self.tick()

    cdef void tick(self) noexcept nogil:
        pass

    cdef int start(self) except -1:
        """Start the thread if needed. Called before `enter`; other Python threads may run meanwhile."""
        if self.started or self.times.is_frozen:
            return 0
        self.started = True
        self.thread = threading.Thread(target=self.run, name=self.name, daemon=True)
        try:
            self.thread.start()
        except BaseException:
            self.forget()  # no call may run without the thread
            raise
        return 0

    cdef int enter(self) except -1:
        ks_add(&self.active, 1)
        if ks_load(&self.parked) and ks_swap(&self.parked, 0):
            sem_post(&self.wake)
        return 0

    def run(self):
        with nogil:
            self.tick_until_stopped()

    cdef void tick_until_stopped(self) noexcept nogil:
        cdef int idle = 0
        while not ks_load(&self.stopping):
            # Missed ticks are not repeated: while a container is throttled, its guests do not run either.
            ks_sleep_until_ns(ks_now_ns() + self.tick_ns)
            if ks_load(&self.active):
                idle = 0
                self.tick()
                continue
            idle += 1
            if idle < 50:
                continue
            # Set before checking again, so that a call that begins now either is seen or wakes this thread.
            ks_swap(&self.parked, 1)
            if not ks_load(&self.active) and not ks_load(&self.stopping):
                ks_wait(&self.wake)
            ks_swap(&self.parked, 0)
            idle = 0

    def stop(self):
        """End the thread and wait for it; a later call starts it again."""
        if self.started:
            ks_swap(&self.stopping, 1)
            sem_post(&self.wake)
            if self.thread.is_alive():  # it may not be yet, if a daemon thread is just starting it
                self.thread.join()
            self.forget()

    def forget(self):
        """Reset the state after the thread has ended, or in the child of a fork, where it does not exist."""
        self.started = False
        self.thread = None
        self.active = self.parked = self.stopping = 0


cdef class Guest:
    """One instance: its calls, its memory, and the pending exception of its host functions."""

    def __init__(self, Ticker ticker not None, link, limits, output):
        self.ticker = ticker
        self.link = link
        self.functions = {}
        self.bindings = []
        self.limits = limits
        self.output = output
        self.deadline_s = limits.deadline_s

    @property
    def deadline_s(self):
        return self.seconds

    @deadline_s.setter
    def deadline_s(self, double seconds):
        if not 0 < seconds <= 1e6:
            raise ValueError(f"a deadline is above 0 and at most 1000000 seconds, not {seconds}")
        self.spent.deadline_ns = <long long>(seconds * 1e9)
        self.spent.patience_ns = <long long>(patience_s(seconds) * 1e9)
        self.seconds = seconds

    @property
    def is_broken(self):
        return self.broken

    def set_broken(self, bint broken):
        self.broken = broken

    # --- the engine's own ---

    @property
    def memory_bytes(self):
        return self.memory_size()

    cdef size_t memory_size(self) noexcept:
        """Return the size of the exported memory in bytes; 0 without one."""
        return 0

    cdef uint8_t* memory_start(self) noexcept:
        return NULL

    cdef object memory_owner(self):
        """Return the object that keeps the memory alive; None if the instance is closed."""
        return self.link

    cdef Function find(self, str export):
        """Return an exported function. Raises GuestFault if the host cannot call it."""
        raise NotImplementedError

    cdef object invoke(self, Function function, tuple args):
        """Call the function. Raises GuestFault."""
        raise NotImplementedError

    # --- calls ---

    def start(self):
        self.check_usable("start")
        self.link.start(self)

    def call(self, str export not None, *args):
        function = self.functions.get(export)
        if function is None:
            function = self.prepare(export)
        return self.invoke(<Function>function, args)

    def prepare(self, str export not None):
        found = self.functions.get(export)
        if found is None:
            self.check_usable(export)
            found = self.functions[export] = self.find(export)
        return found

    cdef HostBinding bind(self, object function, str params, str results):
        """Create the C callback data of a host function, which lives as long as this instance."""
        cdef HostBinding binding = HostBinding.__new__(HostBinding)
        binding.guest = self
        binding.function = function
        binding.params = params.encode()
        binding.result = ord(results) if results else 0
        self.bindings.append(binding)
        return binding

    cdef int enter(self, str where) except -1:
        """Begin a call. Raises if the instance cannot be called."""
        self.ticker.start()
        # From here on no other Python thread runs before the guest does, so it is used by this thread only.
        if self.running or self.broken or self.views:
            self.check_usable(where)
        self.running = True
        self.ticker.enter()
        return 0

    cdef int leave(self) except -1:
        self.running = False
        ks_add(&self.ticker.active, -1)
        return 0

    cdef int fail(self, str where, str text) except -1:
        """Raise the fault of a call; `text` is the message of the engine's library."""
        self.broken = True
        self.link.fail(self, where, self.spent.verdict or NO_CODE, text, self.take_pending())
        raise RuntimeError("a fault was not raised")

    def take_pending(self):
        """Return and clear the exception that a host function raised; None if there is none."""
        pending, self.pending = self.pending, None
        return pending

    cdef int check_usable(self, str where) except -1:
        if self.link is None:
            raise RuntimeError(f"{where}: the instance is closed")
        if self.running:
            raise RuntimeError(f"{where}: the instance is in a call already")
        if self.broken:
            self.link.fail(self, where, UNUSABLE, "the instance is broken by an earlier fault", None)
        if self.views and self.may_move:
            raise RuntimeError(f"{where}: a view of the instance's memory is still held")
        return 0

    # --- memory ---

    def read(self, long long address, long long size):
        return PyBytes_FromStringAndSize(<const char*>self.at(address, size), size)

    def write(self, long long address, data not None):
        if type(data) is bytes:  # the usual case, in which a view would cost more than the copy
            self.copy(address, <const uint8_t*><const char*><bytes>data, len(<bytes>data))
            return
        cdef const uint8_t[::1] view = data
        self.copy(address, &view[0] if view.shape[0] else NULL, view.shape[0])

    cdef int copy(self, long long address, const uint8_t* data, Py_ssize_t size) except -1:
        cdef uint8_t* target = self.at(address, size)
        if size:
            memcpy(target, data, size)
        return 0

    def view(self, long long address, long long size):
        cdef View view = View.__new__(View)
        view.start = self.at(address, size)
        view.size = size
        view.guest = self
        view.owner = self.memory_owner()
        return memoryview(view)

    cdef uint8_t* at(self, long long address, long long size) except? NULL:
        """Return a pointer to `size` bytes of the guest's memory. Raises GuestFault if some are outside of it."""
        cdef long long present
        if self.link is None:
            self.check_usable("memory")
        present = <long long>self.memory_size()
        if address < 0 or size < 0 or size > present or address > present - size:
            self.broken = True
            self.link.fail(
                self, "memory", OUTSIDE, f"{size} byte{'' if size == 1 else 's'} at {address} outside its memory of {present} bytes", None
            )
        return self.memory_start() + address if present else NULL

    def close(self):
        if self.running:
            raise RuntimeError("close: the instance is in a call")
        self.broken = True
        self.functions = {}
        self.bindings = []
        self.pending = None
        self.link = None
        self.data = None


cdef class Function:
    """An exported function, with the type that the module declares; calling it calls the guest."""

    cdef int describe(self, Guest guest, str name, str params, str results) except -1:
        if len(params) > MAX_NUMBERS or len(results) > 1:
            raise ValueError(f"{name} does not fit: {len(params)} -> {len(results)}")
        self.guest = guest
        self.name = name
        self.params = params.encode()
        self.result = ord(results) if results else 0
        return 0

    def __call__(self, *args):
        return self.guest.invoke(self, args)


@cython.final
cdef class HostBinding:
    """The data of a host function for its C callback; the guest keeps it alive."""


@cython.final
@cython.no_gc_clear  # its memoryview may be cleared after it, and then still needs the guest to decrease the count
cdef class View:
    """A range of a guest's memory as a buffer. The guest counts its buffers; the view keeps the memory alive."""

    cdef uint8_t* start
    cdef Py_ssize_t size
    cdef Guest guest
    cdef object owner

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        self.guest.views += 1
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
        self.guest.views -= 1
