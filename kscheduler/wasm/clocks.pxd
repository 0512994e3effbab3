"""Clocks, a semaphore and atomic integers for the threads that watch the deadlines of calls; usable without the GIL."""

cdef extern from *:
    """
    #ifndef KSCHEDULER_WASM_CLOCKS
    #define KSCHEDULER_WASM_CLOCKS
    #include <errno.h>
    #include <pthread.h>
    #include <sched.h>
    #include <semaphore.h>
    #include <time.h>

    static inline long long ks_clock_ns(clockid_t clock) {  /* -1: there is no such clock any more */
        struct timespec t;
        return clock_gettime(clock, &t) ? -1 : t.tv_sec * 1000000000LL + t.tv_nsec;
    }
    static inline long long ks_now_ns(void) { return ks_clock_ns(CLOCK_MONOTONIC); }
    static inline long long ks_cpu_ns(void) { return ks_clock_ns(CLOCK_THREAD_CPUTIME_ID); }
    static inline clockid_t ks_own_clock(void) {  /* of the CPU time of this thread; any thread may read it */
        clockid_t clock;
        return pthread_getcpuclockid(pthread_self(), &clock) ? CLOCK_THREAD_CPUTIME_ID : clock;
    }
    static inline void ks_sleep_until_ns(long long when) {
        struct timespec t = {when / 1000000000LL, when % 1000000000LL};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {}
    }
    static inline void ks_wait(sem_t *semaphore) {
        while (sem_wait(semaphore) != 0 && errno == EINTR) {}
    }
    static inline int ks_add(int *number, int by) { return __atomic_add_fetch(number, by, __ATOMIC_SEQ_CST); }
    static inline int ks_load(int *number) { return __atomic_load_n(number, __ATOMIC_SEQ_CST); }
    static inline int ks_swap(int *number, int value) { return __atomic_exchange_n(number, value, __ATOMIC_SEQ_CST); }
    static inline long long ks_load_long(long long *number) { return __atomic_load_n(number, __ATOMIC_SEQ_CST); }
    static inline long long ks_swap_long(long long *number, long long value) {
        return __atomic_exchange_n(number, value, __ATOMIC_SEQ_CST);
    }
    static inline int ks_replace_long(long long *number, long long expected, long long value) {
        return __atomic_compare_exchange_n(number, &expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    #endif
    """
    ctypedef struct sem_t:
        pass
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef int clockid_t
    int sem_init(sem_t* semaphore, int shared, unsigned int value) nogil
    int sem_post(sem_t* semaphore) nogil
    int sem_destroy(sem_t* semaphore) nogil
    int pthread_mutex_init(pthread_mutex_t* mutex, void* attributes) nogil
    int pthread_mutex_lock(pthread_mutex_t* mutex) nogil
    int pthread_mutex_unlock(pthread_mutex_t* mutex) nogil
    int pthread_mutex_destroy(pthread_mutex_t* mutex) nogil
    int sched_yield() nogil
    long long ks_clock_ns(clockid_t clock) nogil
    long long ks_now_ns() nogil
    long long ks_cpu_ns() nogil
    clockid_t ks_own_clock() nogil
    void ks_sleep_until_ns(long long when) nogil
    void ks_wait(sem_t* semaphore) nogil
    int ks_add(int* number, int by) nogil
    int ks_load(int* number) nogil
    int ks_swap(int* number, int value) nogil
    long long ks_load_long(long long* number) nogil
    long long ks_swap_long(long long* number, long long value) nogil
    bint ks_replace_long(long long* number, long long expected, long long value) nogil
