/* Let pods of some namespaces pass, named in the configuration with commas between; the others are turned down. */
#include "ks.h"

static ks_bytes allowed;

void ks_on_configure(ks_bytes config) { allowed = config; }

void ks_on_describe(void) {
    ks_name("NamespacePermit");
    ks_point(KS_PERMIT);
    ks_pod_part("namespace");
}

static int is_allowed(ks_bytes name) {
    uint32_t begin = 0;
    for (uint32_t i = 0; i <= allowed.size; i++)
        if (i == allowed.size || allowed.at[i] == ',') {
            if (ks_equal((ks_bytes){allowed.at + begin, i - begin}, name))
                return 1;
            begin = i + 1;
        }
    return 0;
}

int ks_on_status(const ks_question *q) {
    if (is_allowed(ks_str(ks_get(q->pod, "namespace"))))
        return KS_SUCCESS;
    ks_event(1, "NotPermitted", "the pod's namespace may not use this cluster");
    ks_say("the pod's namespace may not use this cluster");
    return KS_UNSCHEDULABLE;
}
