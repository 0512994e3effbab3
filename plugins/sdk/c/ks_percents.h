/* Part of ks.c: percentages of columns, exact for all amounts. Where vectors are at hand, and no amount is too large for
 * them, two rows at a time (ks_pair.h). */

#ifdef __wasm_simd128__
#include "ks_pair.h"
#endif

enum { PIECE = 64 }; /* rows that are looked at together */

static int64_t sum_of(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (a < 0 ? INT64_MIN : INT64_MAX) : sum;
}

static int64_t less(int64_t a, int64_t b) {
    int64_t left;
    return __builtin_sub_overflow(a, b, &left) ? (a < 0 ? INT64_MIN : INT64_MAX) : left;
}

static int64_t percent_of(int64_t part, int64_t whole) {
    uint64_t left = 0, percent = 0, all = (uint64_t)whole;
    if (whole <= 0 || part <= 0)
        return 0;
    if (part >= whole)
        return 100;
    if (part <= INT64_MAX / 100)
        return part * 100 / whole;
    /* A hundredfold bit by bit: doubled, or doubled and once more, and what fills the whole is a percent. */
    for (uint32_t bit = 64; bit; bit >>= 1) {
        left *= 2, percent *= 2;
        if (left >= all)
            left -= all, percent++;
        left += 100 & bit ? (uint64_t)part : 0;
        if (left >= all)
            left -= all, percent++;
    }
    return (int64_t)percent;
}

/* The leading rows, two at a time; returns how many. None if some amount is too large for that. */
static uint32_t percents_of_pairs(const int64_t *whole, const int64_t *used, int64_t more, int free, int64_t *out, uint32_t n) {
#ifdef __wasm_simd128__
    const int64_t most = (int64_t)1 << KS_PAIR_BITS;
    const ks_pair half = wasm_i64x2_splat(most), added = wasm_i64x2_splat(more), all = wasm_f64x2_splat(100.0);
    ks_pair wide = wasm_i64x2_splat(0);
    if (more < -most || more >= most)
        return 0;
    for (uint32_t i = 0; i + 2 <= n; i += 2) {
        const ks_pair wholes = ks_load(whole + i), before = ks_load(used + i), after = wasm_i64x2_add(before, added);
        const ks_pair percent = ks_percent(free ? wasm_i64x2_sub(wholes, after) : after, wholes);
        ks_store(out + i, ks_integers(wasm_v128_and(wasm_f64x2_pmin(all, percent), ks_above_zero(wholes))));
        wide = wasm_v128_or(wide, wasm_v128_or(wasm_i64x2_add(wholes, half), wasm_i64x2_add(before, half)));
    }
    return wasm_v128_any_true(wasm_u64x2_shr(wide, KS_PAIR_BITS + 1)) ? 0 : n & ~1u;
#else
    (void)whole, (void)used, (void)more, (void)free, (void)out, (void)n;
    return 0;
#endif
}

static void percents(const ks_question *q, const ks_numbers *of, const ks_numbers *in_use, int64_t more, int free, int64_t *out) {
    const int64_t *whole = ks_numbers_of(of), *used = ks_numbers_of(in_use);
    int64_t wholes[PIECE], amounts[PIECE];
    for (uint32_t start = 0; start < q->count; start += PIECE, out += PIECE) {
        uint32_t n = q->count - start < PIECE ? q->count - start : PIECE;
        const int64_t *w = whole + start, *u = used + start;
        if (q->rows) {
            for (uint32_t i = 0; i < n; i++)
                wholes[i] = whole[ks_row(q, start + i)], amounts[i] = used[ks_row(q, start + i)];
            w = wholes, u = amounts;
        }
        for (uint32_t i = percents_of_pairs(w, u, more, free, out, n); i < n; i++) {
            int64_t after = sum_of(u[i], more);
            out[i] = percent_of(free ? less(w[i], after) : after, w[i]);
        }
    }
}

void ks_used_percents(const ks_question *q, const ks_numbers *whole, const ks_numbers *used, int64_t more, int64_t *out) {
    percents(q, whole, used, more, 0, out);
}

void ks_free_percents(const ks_question *q, const ks_numbers *whole, const ks_numbers *used, int64_t more, int64_t *out) {
    percents(q, whole, used, more, 1, out);
}
