/* A plugin for kscheduler in C: write the functions ks_on_*, those you need, and build with ks.c. No libc needed.
 *
 *   ks_on_configure   the configuration has come                 ks_on_describe   say what the plugin is
 *   ks_on_filter      judge rows      ks_on_score  score rows    ks_on_status     all other points
 *   ks_on_pods        pods on nodes have changed
 *
 * The library speaks the ABI (../../abi/README.md) and keeps the node table. Pointers into messages are good until your
 * function returns; columns of the table move when a table comes, so ask for them each time. */
#ifndef KS_H
#define KS_H

#include <stddef.h>
#include <stdint.h>

/* --- bytes ---------------------------------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *at;
    uint32_t size;
} ks_bytes; /* texts are UTF-8 and do not end with 0; at is NULL for what is not there */

#define KS_TEXT(literal) ((ks_bytes){(const uint8_t *)(literal), sizeof(literal) - 1})
ks_bytes ks_text(const char *text);
int ks_equal(ks_bytes a, ks_bytes b);
int ks_parse_int(ks_bytes text, int64_t *number); /* 0 if it is no decimal number */

/* --- reading messages: a value is the bytes of one msgpack value ------------------------------------------------ */

typedef struct {
    const uint8_t *at, *end;
} ks_value; /* at is NULL for what is not there, or cannot be read */

ks_value ks_get(ks_value map, const char *key);
int64_t ks_int(ks_value value, int64_t otherwise);
ks_bytes ks_str(ks_value value); /* also of a bin */
uint32_t ks_count(ks_value list_or_map);
ks_value ks_item(ks_value list, uint32_t index);
ks_value ks_first(ks_value list_or_map); /* of a map: its first key */
ks_value ks_next(ks_value item);         /* what follows it: of a key, its value */

/* --- describing ------------------------------------------------------------------------------------------------- */

enum { KS_PRE_ENQUEUE = 1, KS_PRE_FILTER = 2, KS_FILTER = 3, KS_PRE_SCORE = 5, KS_SCORE = 6, KS_NORMALIZE_SCORE = 7,
       KS_RESERVE = 8, KS_UNRESERVE = 9, KS_PERMIT = 10, KS_PRE_BIND = 11, KS_POST_BIND = 12 };
enum { KS_SUCCESS, KS_ERROR, KS_UNSCHEDULABLE, KS_UNRESOLVABLE, KS_WAIT, KS_SKIP, KS_PENDING };

void ks_name(const char *name);
void ks_point(int point);
void ks_depends(const char *word);   /* "pod", "node", "usage", ... once for each */
void ks_pod_part(const char *part);  /* "labels", "requests", ... */
void ks_normalize(const char *how);  /* "default", ... */

/* Wanted columns of the table. Call these from ks_on_describe and keep what they return. Names must stay in memory. */
typedef struct ks_numbers ks_numbers;
typedef struct ks_indexed ks_indexed;
void ks_want_names(void);
void ks_want_part(const char *part);              /* "usage" and so on, for the columns below */
ks_numbers *ks_want_allocatable(ks_bytes resource);
ks_numbers *ks_want_used(ks_bytes resource);
ks_numbers *ks_want_metric(ks_bytes metric); /* thousandths; KS_NO_METRIC where there is no value */
#define KS_NO_METRIC INT64_MIN
ks_numbers *ks_want_number(const char *part, const char *column); /* "usage", "pods_n" and the like */
ks_indexed *ks_want_label(ks_bytes key);
ks_indexed *ks_want_annotation(ks_bytes key);
ks_indexed *ks_want_taints(void);
ks_indexed *ks_want_images(void); /* lists of [name, bytes] */
void ks_want_pods(void);          /* the pods on nodes, which ks_on_pods gets, with the ks_pod_parts */

/* --- the table, by row ------------------------------------------------------------------------------------------- */

uint32_t ks_table_rows(void);
int ks_is_alive(uint32_t row);
ks_bytes ks_node_name(uint32_t row);
const int64_t *ks_numbers_of(const ks_numbers *column);      /* an entry for each row */
int32_t ks_index_of(const ks_indexed *column, uint32_t row); /* -1: the row has no value */
uint32_t ks_values_known(const ks_indexed *column);
ks_value ks_value_at(const ks_indexed *column, int32_t index);
ks_bytes ks_text_at(const ks_indexed *column, uint32_t row); /* the row's text */

/* --- a question ---------------------------------------------------------------------------------------------------- */

typedef struct {
    ks_value pod;      /* a map: ks_get(q->pod, "labels") */
    ks_value question; /* all of it: "node", "row" in the binding cycle */
    int point;
    uint32_t count;      /* rows asked about */
    const uint8_t *rows; /* NULL: all rows */
} ks_question;

static inline uint32_t ks_row(const ks_question *q, uint32_t i) { /* the ith row asked about */
    uint32_t row = i;
    if (q->rows)
        __builtin_memcpy(&row, q->rows + 4 * i, 4);
    return row;
}
ks_bytes ks_pod_label(const ks_question *q, const char *key);
int64_t ks_pod_request(const ks_question *q, const char *resource);

/* For each row asked about: how many percent of the whole are in use with `more` there, or are free then; rounded down,
   0 to 100, and 0 where there is no whole. Exact for all amounts; fast for those below 2^46, if built with -msimd128.
   ks_pair.h has the parts of it, for loops of your own. */
void ks_used_percents(const ks_question *q, const ks_numbers *whole, const ks_numbers *used, int64_t more, int64_t *out);
void ks_free_percents(const ks_question *q, const ks_numbers *whole, const ks_numbers *used, int64_t more, int64_t *out);

/* --- answers --------------------------------------------------------------------------------------------------------- */

void ks_fail(const char *why);                   /* this question failed */
uint8_t ks_reason(int code, const char *reason); /* in ks_on_filter: a verdict; ask for each reason once */
void ks_say(const char *reason);                 /* in ks_on_status: the reason of the code it returns */
void ks_remember(const void *state, uint32_t size); /* handed over as "state" of the pod from now on */
void ks_wait_ms(uint32_t milliseconds);

/* --- yours ----------------------------------------------------------------------------------------------------------- */

void ks_on_configure(ks_bytes config); /* ks_fail refuses it */
void ks_on_describe(void);
void ks_on_pods(uint32_t row, ks_value pods); /* all pods on a row, whenever they have changed: a list of maps */
void ks_on_filter(const ks_question *q, uint8_t *verdicts); /* q->count of them, all 0 */
void ks_on_score(const ks_question *q, int64_t *scores);    /* likewise; also for KS_NORMALIZE_SCORE: raw scores come in */
int ks_on_status(const ks_question *q);                     /* a code */

/* --- the host's ------------------------------------------------------------------------------------------------------ */

void ks_log(int level, const char *line); /* 0 info, 1 warning, 2 error */
void ks_event(int is_warning, const char *reason, const char *note);
int64_t ks_now(void); /* nanoseconds since 1970 */

#endif
