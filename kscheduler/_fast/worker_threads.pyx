"""Worker threads that do part of a kernel's work. worker_threads.pxd describes who may use them.

Starting a thread costs some 50 us, waking one that sleeps some 10 us, and handing work to one that is still awake
nearly nothing. So a worker looks for more work for a short time after each part, and then sleeps until it is woken.
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
    #define ks_store(flag, value) __atomic_store_n((flag), (value), __ATOMIC_SEQ_CST)
    #define ks_load(flag) __atomic_load_n((flag), __ATOMIC_SEQ_CST)
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
    void store "ks_store"(int* flag, int value) noexcept nogil
    int load "ks_load"(int* flag) noexcept nogil
    bint exchange "ks_exchange"(int* flag, int before, int after) noexcept nogil
    void pause "ks_pause"() noexcept nogil
    int SIG_SETMASK

cdef enum:
    WORKERS = 63
    PAUSES = 1_000  # some 25 us: longer than a kernel's owner takes from one part to the next

# What a worker is doing. It goes from GIVEN to BUSY to DONE itself; all else is done by the thread that has claimed it.
cdef enum:
    ABSENT  # it has no thread
    IDLE
    CLAIMED  # work is about to be handed over, or the worker to be started
    GIVEN  # not begun yet: may be taken back
    BUSY
    DONE  # its owner has not noticed yet
    ENDING  # its thread is to end


cdef struct WorkerC:
    pthread_t thread
    pthread_mutex_t lock
    pthread_cond_t called  # for the worker: there may be work
    pthread_cond_t done  # for the owner of the work
    work_t work
    void* part
    int state
    int is_asleep  # the worker is, or will be before it looks at `state` again
    int is_awaited  # likewise the owner
    char apart[128]  # what threads write is never in one cache line


cdef WorkerC workers[WORKERS]
cdef int is_over = 0  # no thread is to be started, nor work handed over


# --- for the owners of work ---


cdef bint hand_over(Py_ssize_t number, work_t work, void* part) noexcept nogil:
    """Have worker `number` do `work` on `part`. Returns False if it is not free; else take_back must be called."""
    cdef WorkerC* worker
    cdef bint is_new
    if number >= WORKERS:
        return False
    worker = &workers[number]
    # 1. Claim it. After that look once more whether all is over: _end looks in the other order.
    is_new = not exchange(&worker.state, IDLE, CLAIMED)
    if is_new and not exchange(&worker.state, ABSENT, CLAIMED):
        return False
    if load(&is_over):
        store(&worker.state, ABSENT if is_new else IDLE)
        return False
    # 2. Hand it the work.
    worker.work = work
    worker.part = part
    if is_new and not _start(worker):
        store(&worker.state, ABSENT)
        return False
    store(&worker.state, GIVEN)
    _wake(worker)
    return True


cdef bint take_back(Py_ssize_t number) noexcept nogil:
    """Wait for work that was handed over. Returns False if the worker had not begun it; then it never will."""
    cdef WorkerC* worker = &workers[number]
    cdef Py_ssize_t pauses = 0
    cdef bint is_done = not exchange(&worker.state, GIVEN, CLAIMED)
    if is_done:
        while pauses < PAUSES and load(&worker.state) != DONE:
            pause()
            pauses += 1
        if load(&worker.state) != DONE:
            pthread_mutex_lock(&worker.lock)
            store(&worker.is_awaited, 1)
            while load(&worker.state) != DONE:
                pthread_cond_wait(&worker.done, &worker.lock)
            store(&worker.is_awaited, 0)
            pthread_mutex_unlock(&worker.lock)
    store(&worker.state, IDLE)
    return is_done


cdef bint _start(WorkerC* worker) noexcept nogil:
    """Start a worker's thread with all signals blocked, so that Python's threads handle them."""
    cdef sigset_t all_signals, before
    cdef bint is_started
    pthread_mutex_init(&worker.lock, NULL)
    pthread_cond_init(&worker.called, NULL)
    pthread_cond_init(&worker.done, NULL)
    worker.is_asleep = worker.is_awaited = 0
    sigfillset(&all_signals)
    pthread_sigmask(SIG_SETMASK, &all_signals, &before)
    is_started = pthread_create(&worker.thread, NULL, _run, worker) == 0
    pthread_sigmask(SIG_SETMASK, &before, NULL)
    return is_started


cdef int _wake(WorkerC* worker) noexcept nogil:
    if load(&worker.is_asleep):
        pthread_mutex_lock(&worker.lock)
        pthread_cond_signal(&worker.called)
        pthread_mutex_unlock(&worker.lock)
    return 0


# --- in the threads ---


cdef void* _run(void* argument) noexcept nogil:
    cdef WorkerC* worker = <WorkerC*>argument
    while _await_call(worker) != ENDING:
        if not exchange(&worker.state, GIVEN, BUSY):
            continue  # taken back
        worker.work(worker.part)
        store(&worker.state, DONE)
        if load(&worker.is_awaited):
            pthread_mutex_lock(&worker.lock)
            pthread_cond_signal(&worker.done)
            pthread_mutex_unlock(&worker.lock)
    return NULL


cdef int _await_call(WorkerC* worker) noexcept nogil:
    cdef Py_ssize_t pauses
    for pauses in range(PAUSES):
        if _is_called(worker):
            return load(&worker.state)
        pause()
    pthread_mutex_lock(&worker.lock)
    store(&worker.is_asleep, 1)
    while not _is_called(worker):
        pthread_cond_wait(&worker.called, &worker.lock)
    store(&worker.is_asleep, 0)
    pthread_mutex_unlock(&worker.lock)
    return load(&worker.state)


cdef bint _is_called(WorkerC* worker) noexcept nogil:
    cdef int state = load(&worker.state)
    return state == GIVEN or state == ENDING


# --- their beginning and end ---


def thread_count():
    """Return the number of worker threads."""
    cdef Py_ssize_t i, count = 0
    for i in range(WORKERS):
        count += load(&workers[i].state) != ABSENT
    return count


def _end():
    """End all threads when the interpreter exits, once they have done their current work, and let none start."""
    cdef Py_ssize_t i
    with nogil:
        store(&is_over, 1)
        for i in range(WORKERS):
            while load(&workers[i].state) != ABSENT:
                if exchange(&workers[i].state, IDLE, ENDING):
                    _wake(&workers[i])
                    pthread_join(workers[i].thread, NULL)
                    store(&workers[i].state, ABSENT)
                else:
                    sched_yield()


cdef void _forget() noexcept nogil:
    """Forget the threads after a fork: the child process has none of them, and starts its own."""
    cdef Py_ssize_t i
    for i in range(WORKERS):
        workers[i].state = ABSENT


pthread_atfork(NULL, NULL, _forget)
atexit.register(_end)
