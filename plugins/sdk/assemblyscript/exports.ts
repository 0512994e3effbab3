// The exports of the ABI. A plugin's file says `export * from ".../exports"`.

import { Plugin, Point, Question, plugin } from "./ks";
import { Value, Writer } from "./msgpack";
import { Rows, namesIn, parts, tableRows, takeTable } from "./table";

const words = [
  "", "preEnqueue", "preFilter", "filter", "", "preScore", "score", "normalizeScore",
  "reserve", "unreserve", "permit", "preBind", "postBind",
]; // prettier-ignore

let message = new StaticArray<u8>(4096); // the host writes here
const out = new Writer(); // the answer, until the next call

function answer(): i64 {
  return out.size == 0 ? 0 : <i64>((<u64>out.at << 32) | out.size);
}

function putError(why: string): void {
  out.map(1);
  out.text("error");
  out.text(why);
}

function answerError(why: string): i64 {
  out.size = 0;
  if (why != "") putError(why);
  return answer();
}

export function kscheduler_abi_v1(): i32 {
  return 1;
}

export function ks_alloc(size: i32): usize {
  if (size > message.length) message = new StaticArray<u8>(2 * size);
  return changetype<usize>(message);
}

export function ks_configure(at: usize, size: i32): i64 {
  return answerError(plugin().configure(String.UTF8.decodeUnsafe(at, size)));
}

export function ks_describe(): i64 {
  const d = plugin().describe();
  const points: string[] = [];
  for (let i = 0; i < d.points.length; i++) points.push(words[d.points[i]]);
  out.size = 0;
  out.map(11);
  out.text("abi");
  out.int(1);
  out.text("name");
  out.text(d.name);
  out.text("normalize");
  out.text(d.normalize);
  out.texts("points", points);
  out.texts("depends", d.depends);
  out.texts("pod", d.pod);
  out.texts("table", parts);
  out.texts("resources", namesIn(["alloc", "used"]));
  out.texts("labels", namesIn(["labels"]));
  out.texts("annotations", namesIn(["annotations"]));
  out.texts("metrics", namesIn(["metrics"]));
  return answer();
}

export function ks_table(at: usize, size: i32): i64 {
  const message = new Value(at, at + size);
  const wrong = takeTable(message);
  return answerError(wrong != "" ? wrong : handOnPods(message));
}

/** Returns what is wrong, or "". The library does not keep the pods on nodes. */
function handOnPods(message: Value): string {
  const pods = message.get("pods");
  const rows = new Rows(message.get("at"), tableRows());
  if (pods.isThere && pods.length != rows.length) return "a column has the wrong length";
  let onRow = pods.first();
  for (let i = 0; i < pods.length && onRow.isThere; i++, onRow = onRow.next()) {
    const row = rows.at(i);
    if (<u32>row < <u32>tableRows()) plugin().pods(row, onRow);
  }
  return "";
}

export function ks_call(point: i32, at: usize, size: i32): i64 {
  const question = new Value(at, at + size);
  const pods = question.get("pods");
  const rows = new Rows(question.get("rows"), tableRows());
  let pod = pods.first();
  out.size = 0;
  out.map(1);
  out.text("pods");
  out.list(pods.length);
  for (let i = 0; i < pods.length && pod.isThere; i++, pod = pod.next()) {
    const q = new Question(point, pod, question, rows);
    const before = out.size;
    if (point == Point.Filter) putVerdicts(plugin(), q);
    else if (point == Point.Score || point == Point.NormalizeScore) putScores(plugin(), q, question.get("scores").item(i));
    else putStatus(plugin(), q);
    if (q.failure != "") {
      out.size = before;
      putError(q.failure);
    }
  }
  return answer();
}

function putVerdicts(plugin: Plugin, q: Question): void {
  const verdicts = new StaticArray<u8>(q.rows.length);
  plugin.filter(q, verdicts);
  out.map(2);
  out.text("verdicts");
  out.bin(changetype<usize>(verdicts), verdicts.length);
  out.text("reasons");
  out.list(q.reasons.length);
  for (let i = 0; i < q.reasons.length; i++) {
    out.list(2);
    out.int(q.reasons[i].code);
    out.text(q.reasons[i].text);
  }
}

function putScores(plugin: Plugin, q: Question, raw: Value): void {
  const scores = new StaticArray<i64>(q.rows.length);
  const size = 8 * scores.length;
  if (raw.byteCount == size) memory.copy(changetype<usize>(scores), raw.bytes, size);
  plugin.score(q, scores);
  out.map(1);
  out.text("scores");
  out.bin(changetype<usize>(scores), size);
}

function putStatus(plugin: Plugin, q: Question): void {
  const code = plugin.status(q);
  const state = q.remembered;
  out.map(1 + i32(state !== null) + i32(q.waitMs > 0));
  out.text("status");
  out.list(1 + q.said.length);
  out.int(code);
  for (let i = 0; i < q.said.length; i++) out.text(q.said[i]);
  if (state !== null) {
    out.text("state");
    out.bin(state.dataStart, state.length);
  }
  if (q.waitMs > 0) {
    out.text("wait_ms");
    out.int(q.waitMs);
  }
}
