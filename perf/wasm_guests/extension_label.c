/* For perf.wasm_policies, a guest of kube-scheduler-wasm-extension's interface: a node's score is the number in its
   label example.com/performance. It asks for each node as protobuf, as guests of that interface have to. */

#define IMPORT(module, name) __attribute__((import_module(module), import_name(name)))

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

IMPORT("k8s.io/scheduler", "currentNodeName") u32 current_node_name(void *buffer, u32 limit);
IMPORT("k8s.io/api", "node") u32 node_of(const void *name, u32 size, void *buffer, u32 limit);

static const u8 key[] = "example.com/performance";
enum { METADATA = 1, LABELS = 11, KEY = 1, VALUE = 2, BYTES = 2, KEY_SIZE = sizeof key - 1 };

typedef struct {
  const u8 *at, *end;
} span;

static u64 varint(span *in) {
  u64 value = 0;
  for (u32 shift = 0; in->at < in->end && shift < 64; shift += 7) {
    u8 byte = *in->at++;
    value |= (u64)(byte & 127) << shift;
    if (byte < 128) break;
  }
  return value;
}

/* The next field's number, and what it holds; 0 at the end, and for what is neither bytes nor a varint. */
static u32 next(span *in, span *field) {
  if (in->at >= in->end) return 0;
  u32 head = (u32)varint(in);
  field->at = field->end = in->at;
  if ((head & 7) == 0) {
    varint(in);
  } else if ((head & 7) == BYTES) {
    u64 size = varint(in);
    if (size > (u64)(in->end - in->at)) return 0;
    field->at = in->at;
    in->at += size;
    field->end = in->at;
  } else {
    return 0;
  }
  return head >> 3;
}

static int is_key(span text) {
  if (text.end - text.at != KEY_SIZE) return 0;
  for (u32 i = 0; i < KEY_SIZE; i++)
    if (text.at[i] != key[i]) return 0;
  return 1;
}

static u32 number_in(span metadata) {
  span entry, field, value = {0, 0};
  for (u32 tag; (tag = next(&metadata, &entry));) {
    if (tag != LABELS) continue;
    int found = 0;
    for (u32 part; (part = next(&entry, &field));) {
      if (part == KEY) found = is_key(field);
      if (part == VALUE) value = field;
    }
    if (!found) continue;
    u32 number = 0;
    for (; value.at < value.end; value.at++) number = number * 10 + (*value.at - '0');
    return number;
  }
  return 0;
}

static u8 node[65536];

__attribute__((export_name("score"))) u64 score(void) {
  char name[256];
  u32 size = current_node_name(name, sizeof name);
  u32 length = size <= sizeof name ? node_of(name, size, node, sizeof node) : 0;
  if (length == 0 || length > sizeof node) return 1; /* an error: its code is the lower half */
  span all = {node, node + length}, field;
  for (u32 tag; (tag = next(&all, &field));)
    if (tag == METADATA) return (u64)number_in(field) << 32;
  return 1;
}
