/* How full, or free, each node is in percent with what a pod asks for there: the library's helpers, and nothing else. */
#include "ks.h"

static int is_free;
static ks_numbers *whole, *used;

void ks_on_configure(ks_bytes config) { is_free = ks_equal(config, KS_TEXT("free")); }

void ks_on_describe(void) {
    ks_name("Percents");
    ks_point(KS_SCORE);
    whole = ks_want_allocatable(KS_TEXT("r"));
    used = ks_want_used(KS_TEXT("r"));
}

void ks_on_score(const ks_question *q, int64_t *scores) {
    (is_free ? ks_free_percents : ks_used_percents)(q, whole, used, ks_pod_request(q, "r"), scores);
}
