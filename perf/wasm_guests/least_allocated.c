/* For perf.wasm_columns: the free share of cpu and memory in percent with a pod there, their mean where a node has both.
   Columns lie in the memory one after the other: allocatable cpu, allocatable memory, used cpu, used memory, scores. */
#include <stdint.h>

#ifdef __wasm__
#define EXPORT(name) __attribute__((export_name(name)))
#else
#define EXPORT(name)
#endif

enum { CPU, MEMORY, USED_CPU, USED_MEMORY, SCORES, COLUMNS };

static int64_t score_of(int64_t cpu, int64_t memory, int64_t free_cpu, int64_t free_memory) {
    int64_t sum = 0, parts = 0;
    if (cpu > 0)
        sum += (free_cpu > 0 ? free_cpu : 0) * 100 / cpu, parts++;
    if (memory > 0)
        sum += (free_memory > 0 ? free_memory : 0) * 100 / memory, parts++;
    return parts ? sum / parts : 0;
}

/* As one would write it: integers, row by row. */
EXPORT("by_integers") void by_integers(int64_t *c, int32_t rows, int64_t cpu, int64_t memory) {
    for (int32_t i = 0; i < rows; i++) {
        int64_t has_cpu = c[CPU * rows + i], has_memory = c[MEMORY * rows + i];
        c[SCORES * rows + i] = score_of(has_cpu, has_memory, has_cpu - c[USED_CPU * rows + i] - cpu,
                                        has_memory - c[USED_MEMORY * rows + i] - memory);
    }
}

#ifdef __wasm__
#include "ks_pair.h"

enum { AT_ONCE = 8 }; /* pairs in a turn of the loop */

static __attribute__((aligned(16))) int64_t columns[COLUMNS * 16384];
EXPORT("columns") int64_t *columns_of_rows(int32_t rows) { return rows <= 16384 ? columns : 0; }

static inline ks_pair score_pair(ks_pair cpu, ks_pair memory, ks_pair free_cpu, ks_pair free_memory) {
    const ks_pair has_cpu = ks_above_zero(cpu), has_memory = ks_above_zero(memory);
    const ks_pair of_cpu = wasm_v128_and(ks_percent(free_cpu, cpu), has_cpu);
    const ks_pair of_memory = wasm_v128_and(ks_percent(free_memory, memory), has_memory);
    const ks_pair sum = ks_integers(wasm_f64x2_add(of_cpu, of_memory));
    /* Without both the sum is that of one, and once more: halved it is the mean in any case. */
    return wasm_u64x2_shr(wasm_i64x2_add(sum, wasm_v128_andnot(sum, wasm_v128_and(has_cpu, has_memory))), 1);
}

/* As the library makes it easy: two rows at a time, without a branch. Rows are a multiple of 2 * AT_ONCE. */
EXPORT("by_pairs") void by_pairs(int64_t *c, int32_t rows, int64_t cpu, int64_t memory) {
    const int64_t *has_cpu = c + CPU * rows, *has_memory = c + MEMORY * rows;
    const int64_t *used_cpu = c + USED_CPU * rows, *used_memory = c + USED_MEMORY * rows;
    int64_t *scores = c + SCORES * rows;
    const ks_pair asked_cpu = wasm_i64x2_splat(cpu), asked_memory = wasm_i64x2_splat(memory);
    for (int32_t start = 0; start < rows; start += 2 * AT_ONCE) {
#pragma unroll
        for (int32_t i = start; i < start + 2 * AT_ONCE; i += 2) {
            const ks_pair cpus = ks_load(has_cpu + i), memories = ks_load(has_memory + i);
            ks_store(scores + i, score_pair(cpus, memories,
                                            wasm_i64x2_sub(wasm_i64x2_sub(cpus, ks_load(used_cpu + i)), asked_cpu),
                                            wasm_i64x2_sub(wasm_i64x2_sub(memories, ks_load(used_memory + i)), asked_memory)));
        }
    }
}
#else
/* As kscheduler's kernels are written: doubles, for which the compiler finds vector instructions, of several sets. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(NARROW)
#define CLONED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONED
#endif

static inline double as_double(int64_t value) {
    union { int64_t integer; double real; } both;
    both.integer = value + INT64_C(0x4338000000000000);
    return both.real - 6755399441055744.0;
}

CLONED static void by_doubles_of(const int64_t *restrict has_cpu, const int64_t *restrict has_memory,
                                 const int64_t *restrict used_cpu, const int64_t *restrict used_memory,
                                 int64_t *restrict scores, int32_t rows, double cpu, double memory) {
    for (int32_t i = 0; i < rows; i++) {
        double whole = as_double(has_cpu[i]), other = as_double(has_memory[i]);
        double part = whole - as_double(used_cpu[i]) - cpu, other_part = other - as_double(used_memory[i]) - memory;
        double counts = whole > 0.0 ? 1.0 : 0.0, other_counts = other > 0.0 ? 1.0 : 0.0;
        double parts = counts + other_counts, sum;
        part = part > 0.0 ? part : 0.0, other_part = other_part > 0.0 ? other_part : 0.0;
        whole = whole > 1.0 ? whole : 1.0, other = other > 1.0 ? other : 1.0;
        sum = counts * (double)(int32_t)(part * 100.0 / whole);
        sum += other_counts * (double)(int32_t)(other_part * 100.0 / other);
        scores[i] = (int32_t)(sum / (parts > 1.0 ? parts : 1.0));
    }
}

void by_doubles(int64_t *c, int32_t rows, int64_t cpu, int64_t memory) {
    by_doubles_of(c + CPU * rows, c + MEMORY * rows, c + USED_CPU * rows, c + USED_MEMORY * rows, c + SCORES * rows,
                  rows, (double)cpu, (double)memory);
}
#endif
