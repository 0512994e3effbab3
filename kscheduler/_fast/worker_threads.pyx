"""Threads that stand by to do part of a kernel's work. See worker_threads.pxd for whose they are.

To start a thread costs some 50 us, to wake one that sleeps some 10 us, and to be noticed by one that is still awake
nearly nothing. So a helper looks for more work for a short time after each part, and then sleeps until it is woken.
"""

import atexit

from posix.signal cimport sigfillset, sigset_t

cdef extern from *:
    """
    #include <pthread.h>
    #include <sched.h>
    #include <signal.h>
    #if defined(__x86_64__) || defined(__i386__)
    #define ks_pause() __builtin_ia32_pause()
    #elif defined(__aarch64__)
    #define ks_pause() __asm__ __volatile__("isb")
    #else
    #define ks_pause() ((void)0)
    #endif

    /* Nobody sleeps on a flag that has just been set only if all see the same order of stores and loads. */
    #define ks_say(flag, value) __atomic_store_n((flag), (value), __ATOMIC_SEQ_CST)
    #define ks_heard(flag) __atomic_load_n((flag), __ATOMIC_SEQ_CST)
    static inline int ks_exchange(int *flag, int from, int to) {
        return __atomic_compare_exchange_n(flag, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    """
    ctypedef struct pthread_t:
        pass
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    int pthread_create(
        pthread_t* thread, const void* attributes, void* (*body)(void*) noexcept nogil, void* argument
    ) nogil
    int pthread_join(pthread_t thread, void** result) nogil
    int pthread_sigmask(int how, const sigset_t* these, sigset_t* before) nogil
    int pthread_mutex_init(pthread_mutex_t* lock, const void* attributes) nogil
    int pthread_mutex_lock(pthread_mutex_t* lock) nogil
    int pthread_mutex_unlock(pthread_mutex_t* lock) nogil
    int pthread_cond_init(pthread_cond_t* condition, const void* attributes) nogil
    int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* lock) nogil
    int pthread_cond_signal(pthread_cond_t* condition) nogil
    int sched_yield() nogil
    int pthread_atfork(void (*before)() noexcept nogil, void (*parent)() noexcept nogil, void (*child)() noexcept nogil)
    void say "ks_say"(int* flag, int value) noexcept nogil
    int heard "ks_heard"(int* flag) noexcept nogil
    bint exchange "ks_exchange"(int* flag, int before, int after) noexcept nogil
    void pause "ks_pause"() noexcept nogil
    int SIG_SETMASK

cdef enum:
    HELPERS = 63
    PAUSES = 1_000  # some 25 us: longer than a kernel's owner takes from one part to the next

# What a helper is doing. It goes from GIVEN to BUSY to DONE itself; all else is done by whoever has claimed it.
cdef enum:
    ABSENT  # it has no thread
    IDLE
    CLAIMED  # somebody is about to hand over work, or to start it
    GIVEN  # not begun yet: may be taken back
    BUSY
    DONE  # its owner has not noticed yet
    ENDING  # its thread is to end


cdef struct HelperC:
    pthread_t thread
    pthread_mutex_t lock
    pthread_cond_t called  # for the helper: there may be work
    pthread_cond_t done  # for the owner of the work
    work_t work
    void* part
    int state
    int is_asleep  # the helper is, or will be before it looks at `state` again
    int is_awaited  # likewise the owner
    char apart[128]  # what threads write is never in one cache line


cdef HelperC helpers[HELPERS]
cdef int is_over = 0  # no thread is to be started, nor work handed over


# --- for the owners of work ---


cdef bint hand_over(Py_ssize_t number, work_t work, void* part) noexcept nogil:
    """Have helper `number` do `work`, from now or soon; False if it is not there for us. Ends with take_back."""
    cdef HelperC* helper
    cdef bint is_new
    if number >= HELPERS:
        return False
    helper = &helpers[number]
    # 1. Claim it. After that look once more whether all is over: whoever ends it looks in the other order.
    is_new = not exchange(&helper.state, IDLE, CLAIMED)
    if is_new and not exchange(&helper.state, ABSENT, CLAIMED):
        return False
    if heard(&is_over):
        say(&helper.state, ABSENT if is_new else IDLE)
        return False
    # 2. Tell it.
    helper.work = work
    helper.part = part
    if is_new and not _start(helper):
        say(&helper.state, ABSENT)
        return False
    say(&helper.state, GIVEN)
    _wake(helper)
    return True


cdef bint take_back(Py_ssize_t number) noexcept nogil:
    """Wait for what was handed over. False: it had not begun, and will not."""
    cdef HelperC* helper = &helpers[number]
    cdef Py_ssize_t pauses = 0
    cdef bint is_done = not exchange(&helper.state, GIVEN, CLAIMED)
    if is_done:
        while pauses < PAUSES and heard(&helper.state) != DONE:
            pause()
            pauses += 1
        if heard(&helper.state) != DONE:
            pthread_mutex_lock(&helper.lock)
            say(&helper.is_awaited, 1)
            while heard(&helper.state) != DONE:
                pthread_cond_wait(&helper.done, &helper.lock)
            say(&helper.is_awaited, 0)
            pthread_mutex_unlock(&helper.lock)
    say(&helper.state, IDLE)
    return is_done


cdef bint _start(HelperC* helper) noexcept nogil:
    """With all signals blocked: they are for threads of Python."""
    cdef sigset_t all_signals, before
    cdef bint is_started
    pthread_mutex_init(&helper.lock, NULL)
    pthread_cond_init(&helper.called, NULL)
    pthread_cond_init(&helper.done, NULL)
    helper.is_asleep = helper.is_awaited = 0
    sigfillset(&all_signals)
    pthread_sigmask(SIG_SETMASK, &all_signals, &before)
    is_started = pthread_create(&helper.thread, NULL, _stand_by, helper) == 0
    pthread_sigmask(SIG_SETMASK, &before, NULL)
    return is_started


cdef int _wake(HelperC* helper) noexcept nogil:
    if heard(&helper.is_asleep):
        pthread_mutex_lock(&helper.lock)
        pthread_cond_signal(&helper.called)
        pthread_mutex_unlock(&helper.lock)
    return 0


# --- in the threads ---


cdef void* _stand_by(void* argument) noexcept nogil:
    cdef HelperC* helper = <HelperC*>argument
    while _await_call(helper) != ENDING:
        if not exchange(&helper.state, GIVEN, BUSY):
            continue  # taken back
        helper.work(helper.part)
        say(&helper.state, DONE)
        if heard(&helper.is_awaited):
            pthread_mutex_lock(&helper.lock)
            pthread_cond_signal(&helper.done)
            pthread_mutex_unlock(&helper.lock)
    return NULL


cdef int _await_call(HelperC* helper) noexcept nogil:
    cdef Py_ssize_t pauses
    for pauses in range(PAUSES):
        if _is_called(helper):
            return heard(&helper.state)
        pause()
    pthread_mutex_lock(&helper.lock)
    say(&helper.is_asleep, 1)
    while not _is_called(helper):
        pthread_cond_wait(&helper.called, &helper.lock)
    say(&helper.is_asleep, 0)
    pthread_mutex_unlock(&helper.lock)
    return heard(&helper.state)


cdef bint _is_called(HelperC* helper) noexcept nogil:
    cdef int state = heard(&helper.state)
    return state == GIVEN or state == ENDING


# --- their beginning and end ---


def thread_count():
    """How many threads there are."""
    cdef Py_ssize_t i, count = 0
    for i in range(HELPERS):
        count += heard(&helpers[i].state) != ABSENT
    return count


def _end():
    """At the interpreter's end: no thread is left, and none comes. Parts that are being done are done first."""
    cdef Py_ssize_t i
    with nogil:
        say(&is_over, 1)
        for i in range(HELPERS):
            while heard(&helpers[i].state) != ABSENT:
                if exchange(&helpers[i].state, IDLE, ENDING):
                    _wake(&helpers[i])
                    pthread_join(helpers[i].thread, NULL)
                    say(&helpers[i].state, ABSENT)
                else:
                    sched_yield()


cdef void _forget() noexcept nogil:
    """In a forked process, which has none of the threads: it starts its own."""
    cdef Py_ssize_t i
    for i in range(HELPERS):
        helpers[i].state = ABSENT


pthread_atfork(NULL, NULL, _forget)
atexit.register(_end)
