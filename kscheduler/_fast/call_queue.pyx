"""The calls of an event loop in virtual time: those that are ready, and timers."""

cimport cython
from libc.math cimport isnan

from kscheduler._fast.codes cimport MANY_TIMERS, NOTHING_LEFT, STOPPED, TIME_STANDS_STILL


@cython.final
@cython.freelist(64)
cdef class Call:
    """A callback that will run soon or at a set time: the handle that `call_soon` and `call_at` return."""

    cdef object callback  # None once cancelled
    cdef tuple args
    cdef object context
    cdef double when  # of a timer
    cdef long long number  # of a timer, by which those of the same time are ordered

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
    cdef list _timers  # a heap of calls: each comes before the two at twice its index and one or two more
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
        """Have the callback called at a time. Raises ValueError for a time that is not a number."""
        return self._set_timer(when, Call(callback, args, context))

    def call_later(self, double delay, callback, *args, context=None):
        """Have the callback called after so many seconds. Raises ValueError for a delay that is not a number."""
        return self._set_timer(<double>self._now + delay, Call(callback, args, context))

    cdef Call _set_timer(self, double when, Call call):
        if isnan(when):  # it would be neither before nor after other timers
            raise ValueError("expected a timer's time, got nan")
        self._number += 1
        call.when = when
        call.number = self._number
        self._timers.append(call)
        self._rise(len(self._timers) - 1)
        if len(self._timers) > self._many_timers:
            self._drop_cancelled()
        return call

    cdef _drop_cancelled(self):
        cdef Py_ssize_t at
        cdef list kept = [call for call in self._timers if (<Call>call).callback is not None]
        self._timers = []
        for at in range(len(kept)):
            self._timers.append(kept[at])
            self._rise(at)
        self._many_timers = max(MANY_TIMERS, 2 * len(self._timers))

    cdef Call _pop_first(self):
        """Remove and return the first timer; there must be one."""
        cdef Call last = <Call>self._timers.pop(), first
        if not self._timers:
            return last
        first = <Call>self._timers[0]
        self._timers[0] = last
        self._sink()
        return first

    cdef _rise(self, Py_ssize_t at):
        """Move the timer at this index up to its place."""
        cdef list timers = self._timers
        cdef Call call = <Call>timers[at], above
        while at > 0:
            above = <Call>timers[(at - 1) // 2]
            if not comes_before(call, above):
                break
            timers[at] = above
            at = (at - 1) // 2
        timers[at] = call

    cdef _sink(self):
        """Move the timer at index 0 down to its place."""
        cdef list timers = self._timers
        cdef Py_ssize_t at = 0, below = 1, end = len(timers)
        cdef Call call = <Call>timers[0], next
        while below < end:
            next = <Call>timers[below]
            if below + 1 < end and comes_before(<Call>timers[below + 1], next):
                below += 1
                next = <Call>timers[below]
            if not comes_before(next, call):
                break
            timers[at] = next
            at = below
            below = 2 * at + 1
        timers[at] = call

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
                    self._pop_first()
                if not self._timers:
                    return NOTHING_LEFT
                if self._first().when > now:
                    self._now = now = self._first().when
                    rounds = 0
            rounds += 1
            if rounds > max_rounds:
                return TIME_STANDS_STILL
            while self._timers and self._first().when <= now:
                self._ready.append(self._pop_first())
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

    cdef inline Call _first(self):
        return <Call>self._timers[0]


cdef inline bint comes_before(Call one, Call other) noexcept:
    return one.when < other.when or (one.when == other.when and one.number < other.number)
