"""The calls of an event loop in virtual time: those that are ready, and timers."""

cimport cython

from heapq import heapify, heappop, heappush

from kscheduler._fast.codes cimport MANY_TIMERS, NOTHING_LEFT, STOPPED, TIME_STANDS_STILL


@cython.final
@cython.freelist(64)
cdef class Call:
    """A callback that will run soon or at a set time: the handle that `call_soon` and `call_at` return."""

    cdef object callback  # None once cancelled
    cdef tuple args
    cdef object context

    def __cinit__(self, callback, tuple args not None, context):
        self.callback = callback
        self.args = args
        self.context = context

    def cancel(self):
        """Never run the callback."""
        self.callback = None
        self.args = ()

    def cancelled(self):
        """Return whether `cancel` was called."""
        return self.callback is None


@cython.final
cdef class CallQueue:
    """The calls that are ready, in order, and timers; `run` makes the calls, and moves time when none is ready."""

    cdef object _now
    cdef list _ready
    cdef list _timers  # heap: when, number, call
    cdef long long _number  # of the last timer
    cdef Py_ssize_t _many_timers  # with more than this, cancelled ones are removed from the heap
    cdef Py_ssize_t _left  # calls of this round that come after the one that is being made
    cdef bint _is_stopped

    def __cinit__(self, double start):
        """Build an empty queue whose time is `start`, in seconds."""
        self._now = start
        self._ready = []
        self._timers = []
        self._many_timers = MANY_TIMERS

    def __len__(self):
        return len(self._ready) + len(self._timers)

    def time(self):
        """Return the time in seconds."""
        return self._now

    def call_soon(self, callback, *args, context=None):
        """Have the callback called in the next round, in `context` if there is one."""
        call = Call(callback, args, context)
        self._ready.append(call)
        return call

    def call_at(self, double when, callback, *args, context=None):
        """Have the callback called at a time."""
        return self._set_timer(when, Call(callback, args, context))

    def call_later(self, double delay, callback, *args, context=None):
        """Have the callback called after so many seconds."""
        return self._set_timer(<double>self._now + delay, Call(callback, args, context))

    cdef Call _set_timer(self, double when, Call call):
        self._number += 1
        heappush(self._timers, (when, self._number, call))
        if len(self._timers) > self._many_timers:
            self._drop_cancelled()
        return call

    cdef _drop_cancelled(self):
        self._timers = [timer for timer in self._timers if (<Call>(<tuple>timer)[2]).callback is not None]
        heapify(self._timers)
        self._many_timers = max(MANY_TIMERS, 2 * len(self._timers))

    def is_at_last_call(self):
        """Return whether the call that is being made is the last one of its round, and none is ready for the next."""
        return not self._left and not self._ready

    def stop(self):
        """Let `run` return after the round in which it is."""
        self._is_stopped = True

    def clear(self):
        """Drop all calls."""
        self._ready.clear()
        self._timers.clear()

    def run(self, long long max_rounds, on_error):
        """Run rounds: each makes ready what is due, then calls what was ready by then. Return why it ended.

        STOPPED: `stop` was called; NOTHING_LEFT: nothing is ready, and there is no timer; TIME_STANDS_STILL: there were
        more than `max_rounds` rounds without time moving. `on_error(callback, error)` is called for what a callback
        raises; SystemExit and KeyboardInterrupt end the run.
        """
        cdef long long rounds = 0  # since time last moved
        cdef double now = self._now
        cdef Py_ssize_t done
        cdef list batch
        cdef Call call
        self._is_stopped = False
        while not self._is_stopped:
            if not self._ready:
                while self._timers and self._first().callback is None:
                    heappop(self._timers)
                if not self._timers:
                    return NOTHING_LEFT
                if self._first_s() > now:
                    self._now = now = self._first_s()
                    rounds = 0
            rounds += 1
            if rounds > max_rounds:
                return TIME_STANDS_STILL
            while self._timers and self._first_s() <= now:
                self._ready.append((<tuple>heappop(self._timers))[2])
            batch = self._ready
            self._ready = []
            for done in range(len(batch)):
                call = <Call>batch[done]
                self._left = len(batch) - done - 1
                callback = call.callback
                if callback is None:
                    continue
                try:
                    if call.context is None:
                        callback(*call.args)
                    else:
                        call.context.run(callback, *call.args)
                except (SystemExit, KeyboardInterrupt):
                    self._ready = batch[done + 1:] + self._ready
                    raise
                except BaseException as error:
                    on_error(callback, error)
        return STOPPED

    cdef inline double _first_s(self):
        return <double>(<tuple>self._timers[0])[0]

    cdef inline Call _first(self):
        return <Call>(<tuple>self._timers[0])[2]
