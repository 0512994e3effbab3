/* A rack has so many licenses: pods that need one go where one is left, and all pods prefer nodes that have their image.
   How many is the configuration. */
#include "ks.h"

enum { MOST_ROWS = 16384 };

static const char LICENSE[] = "example.com/license";
static int64_t licenses = 1;
static ks_indexed *racks, *images;
static int64_t on_row[MOST_ROWS], in_rack[MOST_ROWS]; /* licenses that pods there use; a rack is an index of its label */

void ks_on_configure(ks_bytes config) {
    if (config.size && (!ks_parse_int(config, &licenses) || licenses < 0))
        ks_fail("expected the number of licenses of a rack");
}

void ks_on_describe(void) {
    ks_name("RackLicenses");
    ks_point(KS_FILTER);
    ks_point(KS_SCORE);
    ks_pod_part("labels");
    ks_pod_part("containers");
    racks = ks_want_label(KS_TEXT("example.com/rack"));
    images = ks_want_images();
    ks_want_pods();
}

void ks_on_pods(uint32_t row, ks_value pods) {
    if (row >= MOST_ROWS) {
        ks_fail("the table is too long");
        return;
    }
    on_row[row] = 0;
    ks_value pod = ks_first(pods);
    for (uint32_t i = 0; i < ks_count(pods); i++, pod = ks_next(pod))
        on_row[row] += ks_get(ks_get(pod, "labels"), LICENSE).at != NULL;
}

static void count_racks(void) {
    for (uint32_t i = 0; i < ks_values_known(racks); i++)
        in_rack[i] = 0;
    for (uint32_t row = 0; row < ks_table_rows(); row++) {
        int32_t rack = ks_index_of(racks, row);
        if (rack >= 0)
            in_rack[rack] += on_row[row];
    }
}

void ks_on_filter(const ks_question *q, uint8_t *verdicts) {
    if (!ks_pod_label(q, LICENSE).at)
        return;
    uint8_t none = ks_reason(KS_UNRESOLVABLE, "node(s) were in no rack");
    uint8_t used_up = ks_reason(KS_UNSCHEDULABLE, "node(s) had no license left in their rack");
    count_racks();
    for (uint32_t i = 0; i < q->count; i++) {
        int32_t rack = ks_index_of(racks, ks_row(q, i));
        verdicts[i] = rack < 0 ? none : in_rack[rack] < licenses ? 0 : used_up;
    }
}

static int is_wanted(const ks_question *q, ks_bytes image) {
    ks_value containers = ks_get(q->pod, "containers"), container = ks_first(containers);
    for (uint32_t i = 0; i < ks_count(containers); i++, container = ks_next(container))
        if (ks_equal(ks_str(ks_item(container, 1)), image))
            return 1;
    return 0;
}

void ks_on_score(const ks_question *q, int64_t *scores) {
    for (uint32_t i = 0; i < q->count; i++) {
        ks_value list = ks_value_at(images, ks_index_of(images, ks_row(q, i))), image = ks_first(list);
        for (uint32_t j = 0; j < ks_count(list) && !scores[i]; j++, image = ks_next(image))
            scores[i] = is_wanted(q, ks_str(ks_item(image, 0))) ? 100 : 0;
    }
}
