/* Nodes with a team take pods of that team only; other pods go where no team is. The label's key is the configuration. */
#include "ks.h"

static char key[254] = "example.com/team";
static ks_indexed *team;

void ks_on_configure(ks_bytes config) {
    if (config.size >= sizeof key) {
        ks_fail("expected the key of a label, of at most 253 bytes");
        return;
    }
    for (uint32_t i = 0; i < config.size; i++)
        key[i] = (char)config.at[i];
    if (config.size)
        key[config.size] = 0;
}

void ks_on_describe(void) {
    ks_name("TeamNodes");
    ks_point(KS_FILTER);
    ks_depends("pod");
    ks_depends("node");
    ks_pod_part("labels");
    team = ks_want_label(ks_text(key));
}

void ks_on_filter(const ks_question *q, uint8_t *verdicts) {
    ks_bytes mine = ks_pod_label(q, key);
    uint8_t other = ks_reason(KS_UNRESOLVABLE, "node(s) belonged to another team");
    uint8_t none = ks_reason(KS_UNRESOLVABLE, "node(s) did not belong to the pod's team");
    for (uint32_t i = 0; i < q->count; i++) {
        ks_bytes theirs = ks_text_at(team, ks_row(q, i));
        if (!theirs.at)
            verdicts[i] = mine.at ? none : 0;
        else
            verdicts[i] = ks_equal(mine, theirs) ? 0 : other;
    }
}
