/* Prefer the nodes whose name ends with the same digit as the pod's. */
#include "ks.h"

static int reverse;

static int last_digit(ks_bytes name) {
    uint8_t last = name.size ? name.at[name.size - 1] : 0;
    return last >= '0' && last <= '9' ? last - '0' : -1;
}

void ks_on_configure(ks_bytes config) {
    reverse = ks_equal(config, KS_TEXT("{\"reverse\":true}"));
    if (config.size && !reverse && !ks_equal(config, KS_TEXT("{\"reverse\":false}")))
        ks_fail("expected {\"reverse\":true}, {\"reverse\":false} or nothing");
}

void ks_on_describe(void) {
    ks_name("NodeNumber");
    ks_point(KS_PRE_SCORE);
    ks_point(KS_SCORE);
    ks_depends("pod");
    ks_depends("node");
    ks_pod_part("name");
    ks_want_names();
}

/* preScore: the pod's digit is worked out once, and remembered. */
int ks_on_status(const ks_question *q) {
    int digit = last_digit(ks_str(ks_get(q->pod, "name")));
    if (digit < 0)
        return KS_SKIP;
    uint8_t state = (uint8_t)digit;
    ks_remember(&state, 1);
    return KS_SUCCESS;
}

void ks_on_score(const ks_question *q, int64_t *scores) {
    ks_bytes state = ks_str(ks_get(q->pod, "state"));
    int wanted = state.size == 1 ? state.at[0] : -1;
    for (uint32_t i = 0; i < q->count; i++) {
        int matches = wanted >= 0 && last_digit(ks_node_name(ks_row(q, i))) == wanted;
        scores[i] = matches != reverse ? 10 : 0;
    }
}
