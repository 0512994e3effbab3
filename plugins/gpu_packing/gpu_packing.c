/* Fill up nodes with GPUs before others are begun, and keep pods without GPUs away from them. */
#include "ks.h"

static ks_bytes resource = {(const uint8_t *)"nvidia.com/gpu", 14};
static ks_numbers *allocatable, *used;

void ks_on_configure(ks_bytes config) {
    if (config.size)
        resource = config;
}

void ks_on_describe(void) {
    ks_name("GpuPacking");
    ks_point(KS_SCORE);
    ks_depends("pod");
    ks_depends("node");
    ks_depends("usage");
    ks_pod_part("requests");
    allocatable = ks_want_allocatable(resource);
    used = ks_want_used(resource);
}

static int64_t wanted_by(const ks_question *q) {
    ks_value requests = ks_get(q->pod, "requests"), name = ks_first(requests);
    for (uint32_t i = 0; i < ks_count(requests); i++) {
        ks_value amount = ks_next(name);
        if (ks_equal(ks_str(name), resource))
            return ks_int(amount, 0);
        name = ks_next(amount);
    }
    return 0;
}

void ks_on_score(const ks_question *q, int64_t *scores) {
    int64_t wanted = wanted_by(q);
    if (wanted) {
        ks_used_percents(q, allocatable, used, wanted, scores);
        return;
    }
    const int64_t *has = ks_numbers_of(allocatable);
    for (uint32_t i = 0; i < q->count; i++)
        scores[i] = has[ks_row(q, i)] ? 0 : 100;
}
