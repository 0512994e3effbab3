/* A guest of the extension interface in C, without a run time: it scores nodes by the digit at the end of their names,
   waits for a permit of as many milliseconds as its configuration says, and keeps the sum of scores of the attempt. */

#define EXPORT(name) __attribute__((export_name(name)))
#define IMPORT(module, name) __attribute__((import_module(module), import_name(name)))

typedef unsigned int u32;
typedef unsigned long long u64;

IMPORT("k8s.io/scheduler", "get_config") u32 get_config(void *buffer, u32 limit);
IMPORT("k8s.io/scheduler", "currentNodeName") u32 current_node_name(void *buffer, u32 limit);
IMPORT("k8s.io/scheduler", "result.status_reason") void set_reason(const void *text, u32 size);
IMPORT("k8s.io/scheduler", "result.normalized_score_list") void set_scores(const void *text, u32 size);

enum { SUCCESS = 0, ERROR = 1, WAIT = 4 };

static u32 sum;
static u32 is_begun;

static u64 both(u32 high, u32 low) { return (u64)high << 32 | low; }

static u64 fail(const char *text, u32 size) {
  set_reason(text, size);
  return both(0, ERROR);
}

EXPORT("prefilter") u32 prefilter(void) {
  sum = 0;
  is_begun = 1;
  return SUCCESS;
}

EXPORT("score") u64 score(void) {
  char name[256];
  u32 size = current_node_name(name, sizeof name);
  if (!is_begun) return fail("not begun", 9);
  if (size == 0 || size > sizeof name) return fail("no node name", 12);
  u32 digit = name[size - 1] - '0';
  if (digit > 9) return fail("no digit", 8);
  sum += digit;
  return both(digit, SUCCESS);
}

EXPORT("permit") u64 permit(void) {
  char digits[16];
  u32 size = get_config(digits, sizeof digits), value = 0;
  if (size > sizeof digits) return both(ERROR, 0);
  for (u32 i = 0; i < size; i++) value = value * 10 + (digits[i] - '0');
  return both(sum == 6 ? WAIT : ERROR, value);
}
