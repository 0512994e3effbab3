/* Part of ks.c: values of the ABI's messages are read in place and checked against the end of the message; answers are
 * written to `out`. Text has its bytes and its size, and need not end with 0. */

ks_bytes ks_text(const char *text) {
    uint32_t n = 0;
    while (text[n])
        n++;
    return (ks_bytes){(const uint8_t *)text, n};
}

int ks_equal(ks_bytes a, ks_bytes b) {
    if (a.size != b.size || !a.at || !b.at)
        return 0;
    for (uint32_t i = 0; i < a.size; i++)
        if (a.at[i] != b.at[i])
            return 0;
    return 1;
}

int ks_parse_int(ks_bytes text, int64_t *number) {
    uint32_t i = text.size && text.at[0] == '-';
    int64_t sum = 0;
    if (i == text.size || text.size > 18)
        return 0;
    for (uint32_t at = i; at < text.size; at++) {
        if (text.at[at] < '0' || text.at[at] > '9')
            return 0;
        sum = sum * 10 + (text.at[at] - '0');
    }
    *number = i ? -sum : sum;
    return 1;
}

/* --- reading --- */

static uint64_t big(const uint8_t *at, int n) {
    uint64_t value = 0;
    while (n--)
        value = value << 8 | *at++;
    return value;
}

typedef struct {
    char kind;          /* 'i' 's' 'l' 'm' 'o' (other), 0 for what cannot be read */
    int64_t number;     /* an integer, or a truth */
    uint32_t size;      /* bytes of a text, items of a list, pairs of a map */
    const uint8_t *body; /* after the header */
} head;

static head read_head(ks_value v) {
    head none = {0, 0, 0, NULL}, h = none;
    if (!v.at || v.at >= v.end)
        return none;
    uint8_t c = *v.at;
    uint32_t left = (uint32_t)(v.end - v.at), n = 0; /* bytes of the header after the first */
    h.kind = 'o';
    if (c < 0x80 || c >= 0xe0) h.kind = 'i', h.number = (int8_t)c;
    else if (c < 0x90) h.kind = 'm', h.size = c & 15;
    else if (c < 0xa0) h.kind = 'l', h.size = c & 15;
    else if (c < 0xc0) h.kind = 's', h.size = c & 31;
    else if (c == 0xc2 || c == 0xc3) h.number = c & 1;
    else if (c >= 0xc4 && c <= 0xc6) h.kind = 's', n = 1u << (c - 0xc4);
    else if (c >= 0xcc && c <= 0xcf) h.kind = 'i', n = 1u << (c - 0xcc);
    else if (c >= 0xd0 && c <= 0xd3) h.kind = 'i', n = 1u << (c - 0xd0);
    else if (c >= 0xd9 && c <= 0xdb) h.kind = 's', n = 1u << (c - 0xd9);
    else if (c == 0xdc || c == 0xdd) h.kind = 'l', n = c == 0xdc ? 2 : 4;
    else if (c == 0xde || c == 0xdf) h.kind = 'm', n = c == 0xde ? 2 : 4;
    else if (c != 0xc0) return none; /* floats and extensions are not in the ABI */
    if (left < 1 + n)
        return none;
    if (n) {
        uint64_t value = big(v.at + 1, (int)n);
        if (h.kind != 'i') h.size = (uint32_t)value;
        else if (c < 0xd0) h.number = (int64_t)value;
        else h.number = n == 8 ? (int64_t)value : (int64_t)(value << (64 - 8 * n)) >> (64 - 8 * n);
    }
    h.body = v.at + 1 + n;
    if (h.kind == 's' && h.size > left - 1 - n)
        return none;
    return h;
}

static ks_value skip(ks_value v) {
    uint64_t values = 1; /* still to be passed */
    while (values--) {
        head h = read_head(v);
        if (!h.kind)
            return (ks_value){NULL, NULL};
        values += h.kind == 'l' ? h.size : h.kind == 'm' ? 2ull * h.size : 0;
        v.at = h.body + (h.kind == 's' ? h.size : 0);
    }
    return v;
}

ks_value ks_next(ks_value item) { return skip(item); }

uint32_t ks_count(ks_value v) {
    head h = read_head(v);
    return h.kind == 'l' || h.kind == 'm' ? h.size : 0;
}

ks_value ks_first(ks_value v) {
    head h = read_head(v);
    return (h.kind == 'l' || h.kind == 'm') && h.size ? (ks_value){h.body, v.end} : (ks_value){NULL, NULL};
}

ks_value ks_item(ks_value list, uint32_t index) {
    ks_value item = index < ks_count(list) ? ks_first(list) : (ks_value){NULL, NULL};
    while (index--)
        item = skip(item);
    return item;
}

ks_bytes ks_str(ks_value v) {
    head h = read_head(v);
    return h.kind == 's' ? (ks_bytes){h.body, h.size} : (ks_bytes){NULL, 0};
}

int64_t ks_int(ks_value v, int64_t otherwise) {
    head h = read_head(v);
    return h.kind == 'i' || h.kind == 'o' ? h.number : otherwise;
}

static ks_value get(ks_value map, ks_bytes key) {
    head h = read_head(map);
    ks_value at = {h.body, map.end};
    for (uint32_t i = 0; h.kind == 'm' && i < h.size && at.at; i++) {
        ks_value value = skip(at);
        if (ks_equal(ks_str(at), key))
            return value;
        at = skip(value);
    }
    return (ks_value){NULL, NULL};
}

ks_value ks_get(ks_value map, const char *key) { return get(map, ks_text(key)); }

/* --- writing --- */

static buffer out;

static void put(uint8_t first, uint64_t value, int n) {
    uint8_t packed[9] = {first};
    for (int i = n; i; i--, value >>= 8)
        packed[i] = (uint8_t)value;
    add(&out, packed, (uint32_t)n + 1);
}

static void put_map(uint32_t n) { put(0xde, n, 2); }
static void put_list(uint32_t n) { put(0xdc, n, 2); }
static void put_int(int64_t value) { put(0xd3, (uint64_t)value, 8); }
static void put_bin(const void *at, uint32_t size) { put(0xc6, size, 4); add(&out, at, size); }
static void put_str(ks_bytes text) { put(0xdb, text.size, 4); add(&out, text.at, text.size); }
static void put_key(const char *key) { put_str(ks_text(key)); }
static int64_t answer(void) { return out.size ? (int64_t)((uint64_t)(uintptr_t)out.at << 32 | out.size) : 0; }
