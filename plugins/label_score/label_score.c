/* Prefer nodes by the number in one of their labels, whose key is the configuration. */
#include "ks.h"

static ks_bytes key = {(const uint8_t *)"example.com/performance", 23};
static ks_indexed *label;

void ks_on_configure(ks_bytes config) {
    if (config.size)
        key = config;
}

void ks_on_describe(void) {
    ks_name("LabelScore");
    ks_point(KS_SCORE);
    ks_depends("node");
    ks_normalize("default");
    label = ks_want_label(key);
}

static int64_t number_of(ks_bytes text) {
    int64_t number = 0;
    return ks_parse_int(text, &number) && number > 0 ? number : 0;
}

void ks_on_score(const ks_question *q, int64_t *scores) {
    int32_t known = -1; /* nodes with equal labels often follow each other */
    int64_t number = 0;
    for (uint32_t i = 0; i < q->count; i++) {
        int32_t index = ks_index_of(label, ks_row(q, i));
        if (index != known)
            number = number_of(ks_str(ks_value_at(label, index))), known = index;
        scores[i] = index < 0 ? 0 : number;
    }
}
