/* Two rows at a time, for loops over columns that have to be fast. Build with -msimd128.
 *
 * A pair is two int64_t, two doubles or two masks, as the functions say. The percentages are those of integers, without
 * their division, which is slow and not for pairs: amounts below 2^46 are doubles exactly, also a hundred times over,
 * and the integer part of the correctly rounded quotient of two such numbers is that of the exact one. */
#ifndef KS_PAIR_H
#define KS_PAIR_H

#include <stdint.h>
#include <wasm_simd128.h>

#define KS_PAIR_BITS 46 /* amounts are within +-2^46 */

typedef v128_t ks_pair;

static inline ks_pair ks_load(const int64_t *rows) { return wasm_v128_load(rows); }
static inline void ks_store(int64_t *rows, ks_pair numbers) { wasm_v128_store(rows, numbers); }

/* Integers within +-2^51 as doubles: added to the bits of 2^52 + 2^51 they are its last digits. */
static inline ks_pair ks_doubles(ks_pair integers) {
    const ks_pair shifted = wasm_i64x2_add(integers, wasm_i64x2_const_splat(0x4338000000000000));
    return wasm_f64x2_sub(shifted, wasm_f64x2_const_splat(6755399441055744.0));
}

/* Whole doubles from 0 to 2^52 as integers. */
static inline ks_pair ks_integers(ks_pair doubles) {
    const ks_pair high = wasm_f64x2_const_splat(4503599627370496.0);
    return wasm_v128_xor(wasm_f64x2_add(doubles, high), high);
}

/* A mask: which of the integers are above zero. */
static inline ks_pair ks_above_zero(ks_pair integers) {
    return wasm_i64x2_gt(integers, wasm_i64x2_const_splat(0));
}

/* Whole doubles: how many percent of `whole` the `part` is, rounded down; 0 for a part below zero. Both are integers.
   Where `whole` is not above zero the answer means nothing: mask it. */
static inline ks_pair ks_percent(ks_pair part, ks_pair whole) {
    const ks_pair taken = wasm_f64x2_pmax(wasm_f64x2_const_splat(0.0), ks_doubles(part));
    return wasm_f64x2_floor(wasm_f64x2_div(wasm_f64x2_mul(taken, wasm_f64x2_const_splat(100.0)), ks_doubles(whole)));
}

#endif
