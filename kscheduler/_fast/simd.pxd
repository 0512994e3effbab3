# Loops over plain arrays that compilers turn into vector instructions: one body, compiled for several instruction
# sets, of which the loader takes the best that the machine has. Elsewhere than on x86-64 with glibc there is one form.
#
# `in_` and `out_` types promise that what is written overlaps nothing else. A `cloned` function returns nothing.

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t

cdef extern from *:
    """
    #if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && defined(__OPTIMIZE__)
    #define KS_CLONED __attribute__((target_clones("avx512f", "avx2", "default")))
    #else
    #define KS_CLONED
    #endif

    #if defined(__GNUC__)
    #define ks_fetch(address) __builtin_prefetch((address), 1)
    #else
    #define ks_fetch(address) ((void)(address))
    #endif

    /* An integer within +-2^51 as a double: two cheap operations, where only AVX-512DQ converts 64 bits at once. */
    static inline double ks_as_double(int64_t value) {
        union { int64_t integer; double real; } both;
        both.integer = value + INT64_C(0x4338000000000000);
        return both.real - 6755399441055744.0;
    }
    """
    double as_double "ks_as_double"(int64_t value) noexcept nogil
    void fetch "ks_fetch"(const void* address) noexcept nogil  # into the CPU's cache, to be written
    ctypedef void cloned "KS_CLONED void"
    ctypedef const double* in_doubles "const double *restrict"
    ctypedef double* out_doubles "double *restrict"
    ctypedef const int64_t* in_longs "const int64_t *restrict"
    ctypedef int64_t* out_longs "int64_t *restrict"
    ctypedef const uint8_t* in_bytes "const uint8_t *restrict"
    ctypedef uint64_t* out_bits "uint64_t *restrict"
    ctypedef const int32_t* in_ints "const int32_t *restrict"
    ctypedef int32_t* out_ints "int32_t *restrict"
    ctypedef const int16_t* in_shorts "const int16_t *restrict"
    ctypedef int16_t* out_shorts "int16_t *restrict"
