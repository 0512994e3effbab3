// What the host offers.

@external("kscheduler", "log")
declare function hostLog(level: i32, at: usize, size: i32): void;

@external("kscheduler", "event")
declare function hostEvent(kind: i32, reason: usize, reasonSize: i32, note: usize, noteSize: i32): void;

@external("kscheduler", "now")
declare function hostNow(): i64;

/** A line for the scheduler's log. Level 0 info, 1 warning, 2 error. */
export function log(level: i32, line: string): void {
  const bytes = String.UTF8.encode(line);
  hostLog(level, changetype<usize>(bytes), bytes.byteLength);
}

/** An Event about the pod. */
export function event(isWarning: bool, reason: string, note: string): void {
  const r = String.UTF8.encode(reason);
  const n = String.UTF8.encode(note);
  hostEvent(isWarning ? 1 : 0, changetype<usize>(r), r.byteLength, changetype<usize>(n), n.byteLength);
}

/** Nanoseconds since 1970. Answers of a guest that asks are not kept. */
export function now(): i64 {
  return hostNow();
}
