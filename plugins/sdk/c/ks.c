/* The ABI's side of ks.h: memory, the node table, questions, and the exports. Messages are ks_msgpack.h's. */
#include "ks.h"

#define EXPORT(name) __attribute__((export_name(name)))
#define IMPORT(name) __attribute__((import_module("kscheduler"), import_name(name)))
#define WEAK __attribute__((weak))

IMPORT("log") void host_log(int32_t level, const void *at, uint32_t size);
IMPORT("event") void host_event(int32_t kind, const void *r, uint32_t rn, const void *n, uint32_t nn);
IMPORT("now") int64_t host_now(void);

/* --- memory: blocks are given out and never taken back, so what grows doubles in size ------------------------------- */

#define memcpy __builtin_memcpy
#define memset __builtin_memset

extern uint8_t __heap_base;
static uintptr_t heap;

static void *take(uint32_t size) {
    if (!heap)
        heap = (uintptr_t)&__heap_base;
    uint64_t begin = ((uint64_t)heap + 15) & ~15ull, end = begin + size;
    uint64_t have = (uint64_t)__builtin_wasm_memory_size(0) << 16;
    if (end > have && __builtin_wasm_memory_grow(0, (size_t)((end - have + 65535) >> 16)) == (size_t)-1)
        return NULL;
    heap = (uintptr_t)end;
    return (void *)(uintptr_t)begin;
}

typedef struct {
    uint8_t *at;
    uint32_t size, room;
} buffer;

static void reserve(buffer *b, uint64_t room) {
    if (room <= b->room)
        return;
    uint64_t wanted = b->room ? b->room : 1024;
    while (wanted < room)
        wanted *= 2;
    uint8_t *fresh = wanted > 0x7fffffff ? NULL : take((uint32_t)wanted);
    if (!fresh)
        __builtin_trap(); /* the host gives the plugin less memory than its table needs */
    memcpy(fresh, b->at, b->size);
    b->at = fresh;
    b->room = (uint32_t)wanted;
}

static void add(buffer *b, const void *from, uint32_t size) {
    reserve(b, (uint64_t)b->size + size);
    memcpy(b->at + b->size, from, size);
    b->size += size;
}

#include "ks_msgpack.h"

/* --- what the plugin wants ------------------------------------------------------------------------------------------------ */

enum { MOST = 64 };
struct ks_numbers { const char *map; ks_bytes name; buffer values; }; /* map NULL: a column by its own name */
struct ks_indexed { const char *map; ks_bytes name; buffer index, starts, values; };

static const char *plugin_name = "plugin", *normalizing = "none";
static const char *points[16], *depends[8], *pod_parts[16], *table_parts[16];
static uint32_t n_points, n_depends, n_pod_parts, n_table_parts, n_numbers, n_indexed;
static ks_numbers numbers[MOST];
static ks_indexed indexed[MOST];
static const char *const point_words[] = {
    "", "preEnqueue", "preFilter", "filter", "", "preScore", "score", "normalizeScore",
    "reserve", "unreserve", "permit", "preBind", "postBind"};

static void want(const char **list, uint32_t *n, uint32_t most, const char *word) {
    for (uint32_t i = 0; i < *n; i++)
        if (ks_equal(ks_text(list[i]), ks_text(word)))
            return;
    if (*n == most)
        __builtin_trap();
    list[(*n)++] = word;
}

void ks_name(const char *name) { plugin_name = name; }
void ks_normalize(const char *how) { normalizing = how; }
void ks_point(int point) { want(points, &n_points, 16, point_words[point]); }
void ks_depends(const char *word) { want(depends, &n_depends, 8, word); }
void ks_pod_part(const char *part) { want(pod_parts, &n_pod_parts, 16, part); }
void ks_want_part(const char *part) { want(table_parts, &n_table_parts, 16, part); }
void ks_want_names(void) { ks_want_part("names"); }

static ks_numbers *want_numbers(const char *map, ks_bytes name) {
    for (uint32_t i = 0; i < n_numbers; i++)
        if (numbers[i].map == map && ks_equal(numbers[i].name, name))
            return &numbers[i];
    if (n_numbers == MOST)
        __builtin_trap();
    numbers[n_numbers].map = map;
    numbers[n_numbers].name = name;
    return &numbers[n_numbers++];
}

static ks_indexed *want_indexed(const char *map, ks_bytes name) {
    if (n_indexed == MOST)
        __builtin_trap();
    indexed[n_indexed].map = map;
    indexed[n_indexed].name = name;
    return &indexed[n_indexed++];
}

static const char IN_ALLOC[] = "alloc", IN_USED[] = "used", IN_METRICS[] = "metrics";
static const char IN_LABELS[] = "labels", IN_ANNOTATIONS[] = "annotations";

ks_numbers *ks_want_allocatable(ks_bytes r) { ks_want_part("allocatable"); return want_numbers(IN_ALLOC, r); }
ks_numbers *ks_want_used(ks_bytes r) { ks_want_part("usage"); return want_numbers(IN_USED, r); }
ks_numbers *ks_want_metric(ks_bytes m) { return want_numbers(IN_METRICS, m); }
ks_numbers *ks_want_number(const char *p, const char *c) { ks_want_part(p); return want_numbers(NULL, ks_text(c)); }
ks_indexed *ks_want_label(ks_bytes key) { return want_indexed(IN_LABELS, key); }
ks_indexed *ks_want_annotation(ks_bytes key) { return want_indexed(IN_ANNOTATIONS, key); }
ks_indexed *ks_want_images(void) { ks_want_part("images"); return want_indexed(NULL, KS_TEXT("images")); }
void ks_want_pods(void) { ks_want_part("pods"); }
ks_indexed *ks_want_taints(void) { ks_want_part("taints"); return want_indexed(NULL, KS_TEXT("taints")); }

static void put_words(const char *key, const char **words, uint32_t n) {
    put_key(key);
    put_list(n);
    for (uint32_t i = 0; i < n; i++)
        put_key(words[i]);
}

/* The names of columns of one or two maps, each once. */
static void put_names(const char *key, const char *map, const char *other) {
    uint32_t n = 0, at;
    put_key(key);
    at = out.size;
    put_list(0);
    for (uint32_t i = 0; i < n_numbers; i++) {
        int again = numbers[i].map != map && numbers[i].map != other;
        for (uint32_t j = 0; j < i && !again; j++)
            again = (numbers[j].map == map || numbers[j].map == other) && ks_equal(numbers[j].name, numbers[i].name);
        if (!again)
            put_str(numbers[i].name), n++;
    }
    for (uint32_t i = 0; i < n_indexed; i++)
        if (indexed[i].map == map)
            put_str(indexed[i].name), n++;
    out.at[at + 1] = (uint8_t)(n >> 8), out.at[at + 2] = (uint8_t)n;
}

/* --- the table ----------------------------------------------------------------------------------------------------------------- */

static uint32_t rows;
static buffer alive, names, name_text; /* u8; offset and size of each row's name; the names */

uint32_t ks_table_rows(void) { return rows; }
int ks_is_alive(uint32_t row) { return row < rows && alive.at[row]; }
const int64_t *ks_numbers_of(const ks_numbers *column) { return (const int64_t *)column->values.at; }
uint32_t ks_values_known(const ks_indexed *c) { return c->starts.size / 4; }

ks_bytes ks_node_name(uint32_t row) {
    if (8 * row >= names.size)
        return (ks_bytes){NULL, 0};
    const uint32_t *place = (const uint32_t *)names.at + 2 * row;
    return (ks_bytes){name_text.at + place[0], place[1]};
}

int32_t ks_index_of(const ks_indexed *c, uint32_t row) {
    return 4 * row < c->index.size ? ((const int32_t *)c->index.at)[row] : -1;
}

ks_value ks_value_at(const ks_indexed *c, int32_t index) {
    if (index < 0 || (uint32_t)index >= ks_values_known(c))
        return (ks_value){NULL, NULL};
    return (ks_value){c->values.at + ((const uint32_t *)c->starts.at)[index], c->values.at + c->values.size};
}

ks_bytes ks_text_at(const ks_indexed *c, uint32_t row) { return ks_str(ks_value_at(c, ks_index_of(c, row))); }

/* Make a column as long as the table, new entries filled with one byte. */
static void lengthen(buffer *column, uint32_t width, int fill) {
    uint32_t size = rows * width;
    if (column->size >= size)
        return;
    reserve(column, size);
    memset(column->at + column->size, fill, size - column->size);
    column->size = size;
}

/* Write entries of a message into a column. `at`: the rows, or NULL for all. */
static void scatter(buffer *column, uint32_t width, ks_bytes entries, ks_bytes at) {
    uint32_t n = at.at ? at.size / 4 : rows;
    if (!entries.at || entries.size != n * width) {
        ks_fail("a column has the wrong length");
        return;
    }
    if (!at.at) {
        memcpy(column->at, entries.at, entries.size);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row;
        memcpy(&row, at.at + 4 * i, 4);
        if (row < rows)
            memcpy(column->at + row * width, entries.at + i * width, width);
    }
}

static void take_names(ks_value list, ks_bytes at) {
    uint32_t n = at.at ? at.size / 4 : rows;
    ks_value name = ks_first(list);
    for (uint32_t i = 0; i < n && i < ks_count(list) && name.at; i++, name = skip(name)) {
        uint32_t row = i, place[2] = {name_text.size, ks_str(name).size};
        if (at.at)
            memcpy(&row, at.at + 4 * i, 4);
        if (row >= rows || ks_equal(ks_node_name(row), ks_str(name)))
            continue; /* most changes are not of names, whose text is kept until the next full table */
        add(&name_text, ks_str(name).at, place[1]);
        memcpy(names.at + 8 * row, place, 8);
    }
}

static void take_indexed(ks_indexed *c, ks_value from, ks_bytes at) {
    if (!from.at)
        return;
    ks_value list = ks_get(from, "v"), value = ks_first(list);
    if (ks_int(ks_get(from, "n"), 0) != ks_values_known(c))
        ks_fail("an indexed column does not go on where it ended");
    for (uint32_t i = 0; i < ks_count(list) && value.at; i++) {
        ks_value after = skip(value);
        add(&c->starts, &c->values.size, 4);
        add(&c->values, value.at, (uint32_t)(after.at - value.at));
        value = after;
    }
    scatter(&c->index, 4, ks_str(ks_get(from, "i")), at);
}

/* Hand the pods of rows on, which the library does not keep. */
static void take_pods(ks_value list, ks_bytes at) {
    uint32_t n = at.at ? at.size / 4 : rows;
    ks_value pods = ks_first(list);
    if (list.at && ks_count(list) != n)
        ks_fail("a column has the wrong length");
    for (uint32_t i = 0; i < n && pods.at; i++, pods = skip(pods)) {
        uint32_t row = i;
        if (at.at)
            memcpy(&row, at.at + 4 * i, 4);
        if (row < rows)
            ks_on_pods(row, pods);
    }
}

static void take_table(ks_value message) {
    ks_bytes at = ks_str(ks_get(message, "at"));
    rows = (uint32_t)ks_int(ks_get(message, "rows"), 0);
    if (ks_int(ks_get(message, "full"), 0)) {
        alive.size = names.size = name_text.size = 0;
        for (uint32_t i = 0; i < n_numbers; i++)
            numbers[i].values.size = 0;
        for (uint32_t i = 0; i < n_indexed; i++)
            indexed[i].index.size = indexed[i].starts.size = indexed[i].values.size = 0;
    }
    lengthen(&alive, 1, 0);
    lengthen(&names, 8, 0);
    if (ks_get(message, "alive").at)
        scatter(&alive, 1, ks_str(ks_get(message, "alive")), at);
    if (ks_get(message, "names").at)
        take_names(ks_get(message, "names"), at);
    for (uint32_t i = 0; i < n_numbers; i++) {
        ks_value from = numbers[i].map ? ks_get(message, numbers[i].map) : message;
        ks_value column = get(from, numbers[i].name);
        lengthen(&numbers[i].values, 8, 0);
        if (column.at)
            scatter(&numbers[i].values, 8, ks_str(column), at);
    }
    for (uint32_t i = 0; i < n_indexed; i++) {
        ks_value from = indexed[i].map ? ks_get(message, indexed[i].map) : message;
        lengthen(&indexed[i].index, 4, 0xff);
        take_indexed(&indexed[i], get(from, indexed[i].name), at);
    }
    take_pods(ks_get(message, "pods"), at);
}

/* --- one question ------------------------------------------------------------------------------------------------------------------ */

static const char *failure, *said;
static buffer column, state; /* verdicts or scores; what to remember */
static struct { int code; const char *text; } reasons[255];
static uint32_t n_reasons, wait;
static int remembers;

void ks_fail(const char *why) { failure = why; }
void ks_say(const char *reason) { said = reason; }
void ks_wait_ms(uint32_t milliseconds) { wait = milliseconds; }
void ks_remember(const void *at, uint32_t size) { remembers = 1; state.size = 0; add(&state, at, size); }

uint8_t ks_reason(int code, const char *reason) {
    if (n_reasons < 255)
        reasons[n_reasons].code = code, reasons[n_reasons++].text = reason;
    return (uint8_t)n_reasons;
}

ks_bytes ks_pod_label(const ks_question *q, const char *key) { return ks_str(ks_get(ks_get(q->pod, "labels"), key)); }

int64_t ks_pod_request(const ks_question *q, const char *resource) {
    return ks_int(ks_get(ks_get(q->pod, "requests"), resource), 0);
}

#include "ks_percents.h"

/* --- what a plugin need not have -------------------------------------------------------------------------------------------------- */

WEAK void ks_on_configure(ks_bytes config) { (void)config; }
WEAK void ks_on_pods(uint32_t row, ks_value pods) { (void)row, (void)pods; }
WEAK void ks_on_filter(const ks_question *q, uint8_t *verdicts) { (void)q, (void)verdicts; }
WEAK void ks_on_score(const ks_question *q, int64_t *scores) { (void)q, (void)scores; }
WEAK int ks_on_status(const ks_question *q) { (void)q; return KS_SUCCESS; }

static void put_error(void) {
    put_map(1);
    put_key("error");
    put_key(failure);
}

static void clear_column(uint32_t size) {
    column.size = 0;
    reserve(&column, size);
    memset(column.at, 0, size);
    column.size = size;
}

static void put_verdicts(void) {
    put_map(2);
    put_key("verdicts"), put_bin(column.at, column.size);
    put_key("reasons"), put_list(n_reasons);
    for (uint32_t i = 0; i < n_reasons; i++) {
        put_list(2);
        put_int(reasons[i].code), put_key(reasons[i].text);
    }
}

static void put_scores(void) {
    put_map(1);
    put_key("scores"), put_bin(column.at, column.size);
}

static void put_status(int code) {
    put_map(1 + (uint32_t)remembers + (wait > 0));
    put_key("status"), put_list(said ? 2 : 1), put_int(code);
    if (said)
        put_key(said);
    if (remembers)
        put_key("state"), put_bin(state.at, state.size);
    if (wait)
        put_key("wait_ms"), put_int(wait);
}

/* About one pod; `raw`: the scores to be normalised. */
static void ask(const ks_question *q, ks_bytes raw) {
    int filters = q->point == KS_FILTER, scores = q->point == KS_SCORE || q->point == KS_NORMALIZE_SCORE, code = 0;
    failure = said = NULL, n_reasons = wait = 0, remembers = 0;
    if (filters || scores)
        clear_column(q->count * (filters ? 1 : 8));
    if (scores && raw.size == column.size)
        memcpy(column.at, raw.at, raw.size);
    /* 1. Ask the plugin. */
    if (filters) ks_on_filter(q, column.at);
    else if (scores) ks_on_score(q, (int64_t *)column.at);
    else code = ks_on_status(q);
    /* 2. Write what it said. */
    if (failure) put_error();
    else if (filters) put_verdicts();
    else if (scores) put_scores();
    else put_status(code);
}

/* --- exports --------------------------------------------------------------------------------------------------------------------------- */

static buffer in;

EXPORT("kscheduler_abi_v1") int32_t abi_version(void) { return 1; }

EXPORT("ks_alloc") void *ks_alloc(uint32_t size) {
    in.size = 0;
    reserve(&in, size);
    return in.at;
}

EXPORT("ks_configure") int64_t ks_configure(const uint8_t *at, uint32_t size) {
    failure = NULL, out.size = 0;
    uint8_t *kept = take(size + 1); /* the plugin may keep pointers into it */
    if (kept) {
        memcpy(kept, at, size);
        ks_on_configure((ks_bytes){kept, size});
    }
    if (failure)
        put_error();
    return answer();
}

EXPORT("ks_describe") int64_t ks_describe(void) {
    ks_on_describe();
    if (!n_depends)
        ks_depends("other");
    out.size = 0;
    put_map(11);
    put_key("abi"), put_int(1);
    put_key("name"), put_key(plugin_name);
    put_words("points", points, n_points);
    put_words("depends", depends, n_depends);
    put_words("pod", pod_parts, n_pod_parts);
    put_words("table", table_parts, n_table_parts);
    put_names("resources", IN_ALLOC, IN_USED);
    put_names("labels", IN_LABELS, IN_LABELS);
    put_names("annotations", IN_ANNOTATIONS, IN_ANNOTATIONS);
    put_names("metrics", IN_METRICS, IN_METRICS);
    put_key("normalize"), put_key(normalizing);
    return answer();
}

EXPORT("ks_table") int64_t ks_table(const uint8_t *at, uint32_t size) {
    failure = NULL, out.size = 0;
    take_table((ks_value){at, at + size});
    if (failure)
        put_error();
    return answer();
}

EXPORT("ks_call") int64_t ks_call(int32_t point, const uint8_t *at, uint32_t size) {
    ks_value question = {at, at + size}, pods = ks_get(question, "pods"), pod = ks_first(pods);
    ks_value scores = ks_get(question, "scores");
    ks_bytes asked = ks_str(ks_get(question, "rows"));
    uint32_t n = ks_count(pods);
    out.size = 0;
    put_map(1);
    put_key("pods");
    put_list(n);
    for (uint32_t i = 0; i < n; i++, pod = skip(pod)) {
        ks_question q = {pod, question, point, asked.at ? asked.size / 4 : rows, asked.at};
        ask(&q, ks_str(ks_item(scores, i)));
    }
    return answer();
}

/* --- the host --------------------------------------------------------------------------------------------------------------------------- */

void ks_log(int level, const char *line) { host_log(level, line, ks_text(line).size); }
void ks_event(int is_warning, const char *reason, const char *note) {
    host_event(is_warning, reason, ks_text(reason).size, note, ks_text(note).size);
}
int64_t ks_now(void) { return host_now(); }
